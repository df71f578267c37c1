package board_test

import (
	"slices"
	"strings"
	"testing"

	"layover/internal/jobs/board"
	"layover/internal/jobs/fakeboards"
	"layover/internal/jobs/posting"
)

const widget = "/api/v1/widget/*"

func TestWorkableAsksTheWidgetOnce(t *testing.T) {
	s := newSite(t, world("workable", 2, 107), "")
	pages := s.list("workable", "acme")
	c, _ := s.Company("workable", "acme")
	sameJobs(t, jobsOf(pages), c.Jobs)
	if n := s.Count("", ""); n != 1 || pages[0].Total != 107 {
		t.Errorf("%d requests, total %d", n, pages[0].Total)
	}
	for i, job := range pages[0].Jobs {
		want := c.Jobs[i]
		if job.HTML != want.HTML || job.Title != posting.Text(want.Title) || job.Company != "Acme" || job.Posted.Precision != posting.Day {
			t.Errorf("job %d is %+v, want %+v", i, job, want)
		}
		if remote := slices.Contains(job.Workplace, posting.Remote); remote != (want.Workplace == posting.Remote) {
			t.Errorf("job %d: workplace %v, want %v", i, job.Workplace, want.Workplace)
		}
	}
}

func TestWorkablePagesWhereTheWidgetIsOff(t *testing.T) {
	for name, script := range map[string]string{
		"404":   `[{path: "` + widget + `", status: 404, text: Not Found}]`,
		"empty": `[{path: "` + widget + `", text: '{"name":"Acme","jobs":[]}'}]`,
		"page":  `[{path: "` + widget + `", text: "<!doctype html><title>Careers</title>"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, world("workable", 1, 34), script)
			pages := s.list("workable", "acme")
			c, _ := s.Company("workable", "acme")
			sameJobs(t, jobsOf(pages), c.Jobs)
			if len(pages) != 4 || s.Count("", widget) != 1 || s.Count("", "/api/v3/*") != 4 {
				t.Errorf("%d pages, %d requests to the widget, %d to the pages", len(pages), s.Count("", widget), s.Count("", "/api/v3/*"))
			}
			for i, p := range pages {
				if p.Total != 34 || len(p.Jobs) != min(10, 34-10*i) {
					t.Errorf("page %d has %d jobs of %d", i+1, len(p.Jobs), p.Total)
				}
			}
			if ways := pages[0].Jobs[0].Workplace; !slices.Equal(ways, []posting.Workplace{c.Jobs[0].Workplace}) {
				t.Errorf("workplace %v, want %v", ways, c.Jobs[0].Workplace)
			}
		})
	}
}

// The third version refuses a body that has more in it than it knows, so that
// a query is tried against the fake, which refuses the same.
func TestWorkableHandsTheQueryToItsPages(t *testing.T) {
	s := newSite(t, world("workable", 1, 40), `[{path: "`+widget+`", status: 404}]`)
	c, _ := s.Company("workable", "acme")
	word := strings.Fields(c.Jobs[5].Title)[0]
	pages, err := s.pages("workable", board.Listing{Company: s.company("workable", "acme"), Query: word})
	if err != nil {
		t.Fatal(err)
	}
	var want []fakeboards.Job
	for _, j := range c.Jobs {
		if strings.Contains(strings.ToLower(j.Title), strings.ToLower(word)) {
			want = append(want, j)
		}
	}
	sameJobs(t, jobsOf(pages), want)
}

func TestWorkableTellsAnUnknownAccountFromAnEmptyOne(t *testing.T) {
	s := newSite(t, world("workable", 1, 3), `[{path: "*/accounts/empty/jobs", text: '{"total":0,"results":[]}'}, {path: "*/accounts/empty*", text: '{"name":"","jobs":[]}'}]`)
	_, err := s.pages("workable", board.Listing{Company: s.company("workable", "nobody")})
	trouble(t, err, board.UnknownBoard)
	if n := s.Count("", ""); n != 2 {
		t.Errorf("%d requests, want one at each door", n)
	}
	if pages := s.list("workable", "empty"); len(pages) != 1 || pages[0].Received != 0 || pages[0].Total != 0 {
		t.Errorf("an empty account: %+v", pages)
	}
}

// An unknown account that the widget answers like an empty one.
func TestWorkableFindsOutThatAnEmptyWidgetIsOfNobody(t *testing.T) {
	s := newSite(t, world("workable", 1, 3), `[{path: "`+widget+`", text: '{"name":"","description":null,"jobs":[]}'}]`)
	_, err := s.pages("workable", board.Listing{Company: s.company("workable", "nobody")})
	trouble(t, err, board.UnknownBoard)
}

func TestJ15_AWorkableBlockIsNotAskedAgain(t *testing.T) {
	for name, script := range map[string]string{
		"429":       `[{status: 429, headers: {Retry-After: "7200"}, text: "<html><title>Error 1015</title></html>"}]`,
		"403":       `[{status: 403, text: "<html>no</html>"}]`,
		"challenge": `[{challenge: true}]`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, world("workable", 1, 3), script)
			_, err := s.pages("workable", board.Listing{Company: s.company("workable", "acme")})
			want := board.Blocked
			if name == "429" {
				want = board.RateLimited
			}
			seen := trouble(t, err, want)
			if name == "429" && seen.RetryAt.Sub(seen.Answer.At).Hours() != 2 {
				t.Errorf("retry at %v, asked at %v", seen.RetryAt, seen.Answer.At)
			}
			if n := s.Count("", ""); n != 1 {
				t.Errorf("%d requests: the other door was tried against a block", n)
			}
		})
	}
}

func TestWorkableGetsAJob(t *testing.T) {
	s := newSite(t, world("workable", 1, 5), "")
	c, _ := s.Company("workable", "acme")
	job, err := s.get("workable", "acme", c.Jobs[2].Local)
	if err != nil || job.Title != posting.Text(c.Jobs[2].Title) || job.HTML != c.Jobs[2].HTML || job.Posted.Precision != posting.Instant {
		t.Errorf("got %+v, %v", job, err)
	}
	listed := s.list("workable", "acme")[0].Jobs[2]
	if job.ID != listed.ID || job.URL != listed.URL || !slices.Equal(job.Locations, listed.Locations) {
		t.Errorf("got %+v, listed as %+v", job, listed)
	}
	_, err = s.get("workable", "acme", "0000000000")
	trouble(t, err, board.NotVisible)
}

func TestWorkableHidesWhatItIsAskedToHide(t *testing.T) {
	s := newSite(t, world("workable", 1, 1), `[{path: "`+widget+`", text: '{"name":"A","jobs":[{"title":"SRE","shortcode":"X1","locations":[
		{"city":"Athens","region":"Attica","country":"Greece","hidden":false},{"city":"Secret","country":"Nowhere","hidden":true}]},
		{"title":"Dev","shortcode":"X2","city":"Porto","state":"Porto","country":"Portugal","locations":[]}]}'}]`)
	jobs := jobsOf(s.list("workable", "acme"))
	if got := jobs[0].Locations; !slices.Equal(got, []string{"Athens, Attica, Greece"}) {
		t.Errorf("locations %q", got)
	}
	if got := jobs[1].Locations; !slices.Equal(got, []string{"Porto, Portugal"}) {
		t.Errorf("locations %q", got)
	}
}

func TestWorkableLeavesATokenThatComesAgain(t *testing.T) {
	s := newSite(t, world("workable", 1, 1), `[{path: "`+widget+`", status: 404},
		{text: '{"total":9,"results":[{"title":"SRE","shortcode":"X1","remote":true}],"nextPage":"same=="}'}]`)
	pages := s.list("workable", "acme")
	if len(pages) != 2 {
		t.Errorf("%d pages, want 2: the second gives its own token again", len(pages))
	}
	if ways := pages[0].Jobs[0].Workplace; !slices.Equal(ways, []posting.Workplace{posting.Remote}) {
		t.Errorf("workplace %v, want what remote says where nothing else does", ways)
	}
}
