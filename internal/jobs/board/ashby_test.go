package board_test

import (
	"slices"
	"strings"
	"testing"

	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
)

func TestAshby_J30_AnUnknownBoardMayBeAnEmptyListOrA404(t *testing.T) {
	for answer, want := range map[string]board.Verdict{
		"404 Not Found":                 board.EmptyOrUnknown,
		`{"apiVersion":"1","jobs":[]}`:  board.EmptyOrUnknown,
		`{"apiVersion":"1"}`:            board.EmptyOrUnknown,
		`{"jobs":[{"isListed":false}]}`: board.OK, // it exists, and shows nothing
	} {
		b, in, s := on(t, "ashby", "acme", answer)
		if _, err := b.Page(t.Context(), s.fetch, in, ""); verdict(err) != want {
			t.Errorf("%s: %v, want %s", answer, err, want)
		}
	}
}

func TestAshby_J29_AListingThatIsOffNamesThePageThatMayBeLive(t *testing.T) {
	for answer, want := range map[string]board.Verdict{"404 Not Found": board.EmptyOrUnknown, "503 ": board.Unavailable, "403 ": board.Blocked} {
		b, in, s := on(t, "ashby", "Quay Side", answer)
		_, err := b.Page(t.Context(), s.fetch, in, "")
		got := trouble(t, err, want)
		if got.Page != "https://jobs.ashbyhq.com/Quay%20Side" {
			t.Errorf("%s: the page for people is %q", answer, got.Page)
		}
		if want == board.EmptyOrUnknown && !strings.Contains(got.Detail, "switched that off while its page for people is live") {
			t.Errorf("%s: %q leaves out that the listing may be off", answer, got.Detail)
		}
	}
}

func TestAshby_J25_ThePostingIsLookedForInTheList(t *testing.T) {
	const list = `{"jobs":[{"id":"a","title":"x"},{"id":"b","title":"by link","isListed":false},null]}`
	for local, want := range map[string]board.Verdict{"a": board.OK, "b": board.OK, "c": board.NotVisible} {
		b, in, s := on(t, "ashby", "acme", list)
		job, err := b.Get(t.Context(), s.fetch, in.Company, local)
		if verdict(err) != want || want == board.OK && job.ID != "ashby/acme/"+local {
			t.Errorf("Get(%q) = %q, %v, want %s", local, job.ID, err, want)
		}
	}
	b, in, s := on(t, "ashby", "acme", list)
	if p := mustPage(t, b, in, s, ""); len(p.Jobs) != 1 || p.Received != 3 || p.Broken != 1 {
		t.Errorf("the list has %d jobs of %d rows, %d broken, want the listed one", len(p.Jobs), p.Received, p.Broken)
	}
}

func TestAshby_J39_RemoteBesideAPlaceKeepsBoth(t *testing.T) {
	for _, c := range []struct {
		fields string
		places []string
		ways   []posting.Workplace
	}{
		{`"location":"Berlin","isRemote":true`, []string{"Berlin"}, []posting.Workplace{posting.Remote}},
		{`"location":"Remote","isRemote":true,"address":{"postalAddress":{"addressLocality":"Cork","addressCountry":"IE"}}`, []string{"Cork, IE"}, []posting.Workplace{posting.Remote}},
		{`"location":"Remote","isRemote":null,"address":{}`, nil, []posting.Workplace{posting.Remote}},
		{`"location":"Oslo","workplaceType":"Hybrid","isRemote":true,"secondaryLocations":[{"location":"Remote - Norway","address":null}]`, []string{"Oslo", "Norway"}, []posting.Workplace{posting.Hybrid, posting.Remote}},
	} {
		b, in, s := on(t, "ashby", "acme", `{"jobs":[{"id":"1","title":"t",`+c.fields+`}]}`)
		job := mustPage(t, b, in, s, "").Jobs[0]
		if !slices.Equal(job.Locations, c.places) || !slices.Equal(job.Workplace, c.ways) {
			t.Errorf("%s: %q %v, want %q %v", c.fields, job.Locations, job.Workplace, c.places, c.ways)
		}
	}
}
