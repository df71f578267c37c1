package board_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"layover/internal/jobs/board"
	"layover/internal/jobs/fakeboards"
	"layover/internal/jobs/posting"
)

// Its link to the next page leads into somebody's search.
func TestArbeitnowBuildsItsPagesItself(t *testing.T) {
	s := newSite(t, world("arbeitnow", 3, 100), "")
	pages := s.list("arbeitnow", "")
	sameJobs(t, jobsOf(pages), s.Jobs("arbeitnow"))
	if len(pages) != 3 {
		t.Errorf("%d pages", len(pages))
	}
	for i, seen := range s.Requests() {
		if want := fmt.Sprintf("page=%d", i+1); seen.Query != want {
			t.Errorf("request %d asked %q, want %q", i+1, seen.Query, want)
		}
	}
	for i, p := range pages {
		if p.Total != -1 {
			t.Errorf("page %d tells a total of %d: the board tells none", i+1, p.Total)
		}
	}
}

func TestArbeitnowJobs(t *testing.T) {
	s := newSite(t, world("arbeitnow", 1, 50), "")
	jobs := jobsOf(s.list("arbeitnow", ""))
	for i, want := range s.Jobs("arbeitnow") {
		job := jobs[i]
		if job.ID != "arbeitnow//"+want.Local || job.Title != posting.Text(want.Title) || job.Company != want.Company || job.HTML != want.HTML ||
			!slices.Equal(job.Locations, []string{want.Places[0].City}) || len(job.Pay) != 0 {
			t.Errorf("got %+v, want %+v", job, want)
		}
		if job.Posted != (posting.Date{At: want.Posted, Precision: posting.Instant}) {
			t.Errorf("posted %+v, want %v", job.Posted, want.Posted)
		}
		if (len(job.Workplace) > 0) != (want.Workplace == posting.Remote) {
			t.Errorf("workplace %v for %s: only remote is stated", job.Workplace, want.Workplace)
		}
		if kind := want.Type; (kind == posting.FullTime || kind == posting.PartTime || kind == posting.Internship) && job.Type != kind {
			t.Errorf("type %q (%q), want %q", job.Type, job.TypeRaw, kind)
		}
	}
}

func TestArbeitnowEndsWithAnEmptyPage(t *testing.T) {
	s := newSite(t, world("arbeitnow", 1, 1), `[{text: '{"data":[],"links":{"next":"https://www.arbeitnow.com/api/job-board-api?page=2"}}'}]`)
	if pages := s.list("arbeitnow", ""); len(pages) != 1 {
		t.Errorf("%d pages", len(pages))
	}
}

// It cannot be asked for one job: its pages are searched, and not all of them.
func TestArbeitnowLooksForAJobOnItsPages(t *testing.T) {
	s := newSite(t, world("arbeitnow", 1, 1100), "")
	all := s.Jobs("arbeitnow")
	job, err := s.get("arbeitnow", "", all[250].Local)
	if err != nil || job.Title != posting.Text(all[250].Title) || s.Count("", "") != 3 {
		t.Errorf("got %+v, %v after %d requests", job, err, s.Count("", ""))
	}
	_, err = s.get("arbeitnow", "", all[1050].Local)
	trouble(t, err, board.NotVisible)
	if n := s.Count("", ""); n != 3+10 {
		t.Errorf("%d requests for a job far down, want 10", n-3)
	}
}

func TestHimalayasFollowsItsCursor(t *testing.T) {
	s := newSite(t, world("himalayas", 3, 31), "")
	pages := s.list("himalayas", "")
	sameJobs(t, jobsOf(pages), s.Jobs("himalayas"))
	if len(pages) != 5 || pages[4].Total != 93 || len(pages[4].Jobs) != 13 {
		t.Errorf("%d pages", len(pages))
	}
	for i, seen := range s.Requests() {
		if strings.Contains(seen.Query, "cursor=") != (i > 0) || strings.Contains(seen.Query, "offset=") {
			t.Errorf("request %d asked %q", i+1, seen.Query)
		}
	}
}

func himalayasPage(offset, total int, names ...string) string {
	var rows []string
	for _, n := range names {
		rows = append(rows, fmt.Sprintf(`{"title":"Job %s","companyName":"A","guid":"https://himalayas.app/companies/a/jobs/%s"}`, n, n))
	}
	return fmt.Sprintf(`{"offset":%d,"limit":20,"totalCount":%d,"jobs":[%s]}`, offset, total, strings.Join(rows, ","))
}

// Without a cursor the offset counts what came, and a short or even an empty
// page in the middle is not the end.
func TestHimalayasShortPagesAreNotTheEnd(t *testing.T) {
	s := newSite(t, world("himalayas", 1, 1), "")
	s.Play(fakeboards.Script{
		{Query: "limit=20", Text: himalayasPage(0, 45, "1", "2")},
		{Query: "*offset=2", Text: himalayasPage(2, 45)},
		{Query: "*offset=22", Text: himalayasPage(22, 45, "3")},
		{Query: "*offset=23", Text: himalayasPage(23, 24, "4")},
	})
	pages := s.list("himalayas", "")
	if got := locals(jobsOf(pages)); !slices.Equal(got, []string{"a/1", "a/2", "a/3", "a/4"}) || len(pages) != 4 {
		t.Errorf("%d pages: %v", len(pages), got)
	}
}

func TestHimalayasEndsWhereItSaysNoMore(t *testing.T) {
	s := newSite(t, world("himalayas", 1, 1), "")
	page := func(token, query, text string) board.Page {
		s.Play(fakeboards.Script{{Text: text}})
		p, err := board.Find("himalayas").Page(t.Context(), s.fetch, board.Listing{Query: query}, token)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := page("cursor:x", "", himalayasPage(0, 45, "1")); p.Next != "" { // its offset means nothing
		t.Errorf("behind the last cursor comes %q", p.Next)
	}
	if p := page("page:2", "go", himalayasPage(20, 95)); p.Next != "" {
		t.Errorf("behind an empty page of a search comes %q", p.Next)
	}
	if p := page("page:2", "go", himalayasPage(20, 95, "1")); p.Next != "page:3" {
		t.Errorf("behind a short page of a search comes %q", p.Next)
	}
}

func TestHimalayasSearchesForWords(t *testing.T) {
	s := newSite(t, world("himalayas", 3, 100), "")
	pages, err := s.pages("himalayas", board.Listing{Query: "data"})
	if err != nil {
		t.Fatal(err)
	}
	var want []fakeboards.Job
	for _, j := range s.Jobs("himalayas") {
		if strings.Contains(strings.ToLower(j.Title+j.HTML), "data") {
			want = append(want, j)
		}
	}
	sameJobs(t, jobsOf(pages), want)
	if s.Count("", "/jobs/api/search") != len(pages) || s.Count("", "/jobs/api") != 0 {
		t.Errorf("%d searches for %d pages", s.Count("", "/jobs/api/search"), len(pages))
	}
}

func TestHimalayasJobs(t *testing.T) {
	s := newSite(t, world("himalayas", 1, 60), "")
	paid := 0
	for i, job := range jobsOf(s.list("himalayas", "")) {
		want := s.Jobs("himalayas")[i]
		var countries []string
		for _, p := range want.Places {
			if !slices.Contains(countries, p.Country) {
				countries = append(countries, p.Country)
			}
		}
		if job.ID != "himalayas//"+want.Local || !slices.Equal(job.Locations, countries) || job.HTML != want.HTML ||
			job.Type != want.Type || job.Seniority != want.Level || !slices.Equal(job.Workplace, []posting.Workplace{posting.Remote}) {
			t.Errorf("got %+v, want %+v", job, want)
		}
		if (len(job.Pay) > 0) != (want.Pay != nil) {
			t.Fatalf("pay %+v, want %+v", job.Pay, want.Pay)
		}
		if want.Pay == nil {
			continue
		}
		paid++
		pay := job.Pay[0]
		if *pay.Min != float64(want.Pay.Min) || pay.Currency != want.Pay.Currency || pay.Period != want.Pay.Period || (pay.Max == nil) != (want.Pay.Max == 0) {
			t.Errorf("pay %+v, want %+v", pay, want.Pay)
		}
	}
	if paid == 0 {
		t.Error("no job with pay was seen")
	}
}

func TestHimalayasGetsAJobFromItsCompany(t *testing.T) {
	s := newSite(t, world("himalayas", 2, 50), "")
	c, _ := s.Company("himalayas", "acme")
	job, err := s.get("himalayas", "", c.Jobs[45].Local)
	if err != nil || job.Title != posting.Text(c.Jobs[45].Title) || s.Count("", "/jobs/api/search") != 3 {
		t.Errorf("got %+v, %v after %d requests", job, err, s.Count("", ""))
	}
	_, err = s.get("himalayas", "", "acme/none")
	trouble(t, err, board.NotVisible)
}

func TestHimalayasNamesThePageItDoesNotKnow(t *testing.T) {
	s := newSite(t, world("himalayas", 1, 1), "")
	for _, token := range []string{"cursor:", "offset:x", "page:2", "x", "offset:-1"} {
		_, err := board.Find("himalayas").Page(t.Context(), s.fetch, board.Listing{}, token)
		trouble(t, err, board.Malformed)
	}
}

func TestRemotiveIsAskedOnceAndForEverything(t *testing.T) {
	s := newSite(t, world("remotive", 2, 30), "")
	pages, err := s.pages("remotive", board.Listing{Query: "data", Location: "berlin"})
	if err != nil {
		t.Fatal(err)
	}
	sameJobs(t, jobsOf(pages), s.Jobs("remotive"))
	if seen := s.Requests(); len(seen) != 1 || seen[0].Query != "" {
		t.Errorf("requests %+v: its filters are not to be used", seen)
	}
	if p := pages[0]; p.Total != 60 || p.Capped {
		t.Errorf("total %d, capped %v", p.Total, p.Capped)
	}
}

func TestRemotivesTermsAreKept(t *testing.T) {
	b := board.Find("remotive")
	if b.Least < 6*time.Hour || b.Every < 30*time.Second || b.AtOnce != 1 || !strings.Contains(b.Terms, "link back") {
		t.Errorf("%+v: the terms are two requests a minute, four a day, and a link back", b)
	}
}

func TestJ34_RemotiveSaysThatItKeepsSomethingBack(t *testing.T) {
	s := newSite(t, world("remotive", 1, 600), "")
	p := s.list("remotive", "")[0]
	if !p.Capped || p.Total != 600 || len(p.Jobs) != 500 || p.Next != "" {
		t.Errorf("capped %v, total %d, %d jobs, next %q", p.Capped, p.Total, len(p.Jobs), p.Next)
	}
}

func TestRemotiveCountsWhatItSendsIfItTellsNothingElse(t *testing.T) {
	s := newSite(t, world("remotive", 1, 1), `[{text: '{"job-count":1,"jobs":[{"id":1,"title":"Dev"}]}'}]`)
	if p := s.list("remotive", "")[0]; p.Total != 1 || p.Capped {
		t.Errorf("total %d, capped %v", p.Total, p.Capped)
	}
}

func TestRemotiveJobs(t *testing.T) {
	s := newSite(t, world("remotive", 1, 60), "")
	paid := 0
	for i, job := range jobsOf(s.list("remotive", "")) {
		want := s.Jobs("remotive")[i]
		day := want.Posted.Truncate(24 * time.Hour) // its times have no zone
		if job.ID != "remotive//"+want.Local || job.Title != posting.Text(want.Title) || job.Posted != (posting.Date{At: day, Precision: posting.Day}) ||
			!slices.Equal(job.Locations, []string{want.Places[0].Country}) || !slices.Equal(job.Workplace, []posting.Workplace{posting.Remote}) {
			t.Errorf("got %+v, want %+v", job, want)
		}
		if want.Pay == nil {
			continue
		}
		paid++
		if len(job.Pay) != 1 || *job.Pay[0].Min != float64(want.Pay.Min) || job.Pay[0].Currency != want.Pay.Currency || job.Pay[0].Source != "text" {
			t.Errorf("pay %+v, want %+v", job.Pay, want.Pay)
		}
	}
	if paid == 0 {
		t.Error("no job with pay was seen")
	}
}

func TestRemotiveFindsAJobInItsList(t *testing.T) {
	s := newSite(t, world("remotive", 1, 30), "")
	want := s.Jobs("remotive")[17]
	job, err := s.get("remotive", "", want.Local)
	if err != nil || job.Title != posting.Text(want.Title) || job.HTML != want.HTML {
		t.Errorf("got %+v, %v", job, err)
	}
	_, err = s.get("remotive", "", "1")
	trouble(t, err, board.NotVisible)
}

// A 404 of a board that has no companies is no company's fault.
func TestAggregatorsThatAreNotThereAreGone(t *testing.T) {
	for _, name := range []string{"arbeitnow", "himalayas", "remotive", "hn"} {
		s := newSite(t, world(name, 1, 1), `[{status: 404, text: Not Found}]`)
		_, err := s.pages(name, board.Listing{})
		trouble(t, err, board.Gone)
	}
}
