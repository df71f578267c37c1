package board_test

import (
	"fmt"
	"strings"
	"testing"

	"layover/internal/jobs/board"
)

func TestSmartRecruiters_PagesGoOnUntilTheTotalIsReached(t *testing.T) {
	page := func(from, n, total int) string {
		return fmt.Sprintf(`{"offset":%d,"limit":100,"totalFound":%d,"content":%s}`, from, total, many(from, n, `{"id":"%d","name":"t"}`))
	}
	b, in, s := on(t, "smartrecruiters", "Acme1", page(0, 100, 150), page(100, 40, 150), page(140, 10, 150))
	token, received := "", 0
	for token != "" || received == 0 {
		p := mustPage(t, b, in, s, token)
		if p.Total != 150 {
			t.Errorf("total %d, want 150", p.Total)
		}
		received, token = received+p.Received, p.Next
	}
	if received != 150 || len(s.asked) != 3 || !strings.HasSuffix(s.asked[2].URL, "?limit=100&offset=140") {
		t.Errorf("%d rows by %d requests, the last %q", received, len(s.asked), s.asked[len(s.asked)-1].URL)
	}
	// A total that is never reached ends with the rows.
	b, in, s = on(t, "smartrecruiters", "Acme1", page(0, 100, 150), page(100, 0, 150))
	mustPage(t, b, in, s, "")
	if p := mustPage(t, b, in, s, "100"); p.Next != "" {
		t.Errorf("an empty page leads to %q", p.Next)
	}
}

func TestSmartRecruiters_J23_J45_UnknownIsSaidAndLinksAreForPeople(t *testing.T) {
	b, in, s := on(t, "smartrecruiters", "Acme1", `{"offset":0,"limit":100,"totalFound":0,"content":[]}`)
	if _, err := b.Page(t.Context(), s.fetch, in, ""); verdict(err) != board.EmptyOrUnknown {
		t.Errorf("nothing found: %v, want %s", err, board.EmptyOrUnknown)
	}
	b, in, s = on(t, "smartrecruiters", "acme1", `{"totalFound":1,"content":[{"id":"744","name":"t","company":{"identifier":"Acme1"},"ref":"https://api.smartrecruiters.com/v1/companies/Acme1/postings/744"}]}`)
	if got := mustPage(t, b, in, s, "").Jobs[0].URL; got != "https://jobs.smartrecruiters.com/Acme1/744" {
		t.Errorf("the link is %q", got)
	}
	b, in, s = on(t, "smartrecruiters", "Acme1", `{"id":"744","name":"t","active":false}`)
	if _, err := b.Get(t.Context(), s.fetch, in.Company, "744"); verdict(err) != board.Gone {
		t.Errorf("an inactive posting: %v, want %s", err, board.Gone)
	}
}
