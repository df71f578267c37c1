package board_test

import (
	"testing"
)

func TestRecruitee_OnlyWhatIsPublishedIsListed(t *testing.T) {
	b, in, s := on(t, "recruitee", "acme", `{"offers":[{"id":1,"title":"a","status":"published"},{"id":2,"title":"b","status":"draft"},{"id":3,"title":"c"}]}`)
	p := mustPage(t, b, in, s, "")
	if len(p.Jobs) != 2 || p.Received != 3 || p.Broken != 0 {
		t.Errorf("%d jobs of %d rows, %d broken, want 2 of 3", len(p.Jobs), p.Received, p.Broken)
	}
}
