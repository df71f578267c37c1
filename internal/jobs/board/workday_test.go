package board_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
)

const acmeWorkday = "acme.wd1.External"

func TestWorkdayCompanies(t *testing.T) {
	parse := board.Find("workday").Parse
	for _, company := range []struct{ is, slug, host, path, home string }{
		{"acme.wd3.External", "acme.wd3.External", "acme.wd3.myworkdayjobs.com", "/wday/cxs/acme/External", "https://acme.wd3.myworkdayjobs.com/External"},
		{" ACME.WD3.External_Careers ", "acme.wd3.External_Careers", "acme.wd3.myworkdayjobs.com", "/wday/cxs/acme/External_Careers", "https://acme.wd3.myworkdayjobs.com/External_Careers"},
		{"https://acme.wd103.myworkdayjobs.com/en-US/Jobs-EU/job/Lisbon/Dev_R1?source=x", "acme.wd103.Jobs-EU", "acme.wd103.myworkdayjobs.com", "/wday/cxs/acme/Jobs-EU", "https://acme.wd103.myworkdayjobs.com/Jobs-EU"},
		{"acme.wd3.myworkdayjobs.com/External", "acme.wd3.External", "acme.wd3.myworkdayjobs.com", "/wday/cxs/acme/External", "https://acme.wd3.myworkdayjobs.com/External"},
		{"https://wd5.myworkdaysite.com/en-US/recruiting/acme/Careers", "acme.site-wd5.Careers", "wd5.myworkdaysite.com", "/wday/cxs/acme/Careers", "https://wd5.myworkdaysite.com/recruiting/acme/Careers"},
		{"acme.site-wd5.Careers", "acme.site-wd5.Careers", "wd5.myworkdaysite.com", "/wday/cxs/acme/Careers", "https://wd5.myworkdaysite.com/recruiting/acme/Careers"},
	} {
		c, err := parse(company.is)
		if err != nil || c.Slug != company.slug || c.Host != company.host || c.Path != company.path {
			t.Errorf("Parse(%q) = %+v, %v", company.is, c, err)
			continue
		}
		if home := board.Find("workday").Home(c); home != company.home {
			t.Errorf("the home of %q is %s, want %s", company.is, home, company.home)
		}
		if again, err := parse(c.Slug); err != nil || again != c {
			t.Errorf("Parse(%q) = %+v, %v: the slug of %q", c.Slug, again, err, company.is)
		}
	}
	for _, bad := range []string{
		"", "acme", "acme.External", "acme.wd3", "acme.wd3.", "acme.xx3.External", "acme.wd3.Ex/../ternal", "a b.wd3.External",
		"https://evil.example/External", "https://acme.wd3.myworkdayjobs.com.evil.example/External", "https://acme.wd3.myworkdayjobs.com/",
		"https://a.acme.wd3.myworkdayjobs.com/External", "acme.wd3@evil.example.External", "acme.wd3.External#x", strings.Repeat("a", 400),
		"https://evil.wd3.myworkdayjobs.com:x/External",
	} {
		if c, err := parse(bad); err == nil {
			t.Errorf("Parse(%q) = %+v", bad, c)
		} else if !strings.Contains(err.Error(), "acme.wd3.External") {
			t.Errorf("Parse(%q): %v: it does not say what is expected", bad, err)
		}
	}
}

func TestEveryWorkdayCompanyLivesAtAHostOfTheBoard(t *testing.T) {
	hosts := board.Find("workday").Hosts
	for _, slug := range []string{"a.wd1.X", "a.wd12.X", "a.wd103.X", "a.wd9999.X", "a.site-wd5.X", "a_b.site-wd5.X"} {
		c, err := board.Find("workday").Parse(slug)
		if err != nil || !slices.ContainsFunc(hosts, func(pattern string) bool { return within(pattern, c.Host) }) {
			t.Errorf("%s: host %q, %v, want one of %v", slug, c.Host, err, hosts)
		}
	}
	for _, slug := range []string{"a_b.wd1.X", "a-.wd1.X", "a.wd12345.X"} {
		if c, err := board.Find("workday").Parse(slug); err == nil {
			t.Errorf("%s: host %q, which cannot be one", slug, c.Host)
		}
	}
}

// The total is on the first page only, and each page has a null among its rows.
func TestWorkdayPagesByTwenties(t *testing.T) {
	s := newSite(t, world("workday", 1, 47), "")
	pages := s.list("workday", acmeWorkday)
	c, _ := s.Company("workday", acmeWorkday)
	sameJobs(t, jobsOf(pages), c.Jobs)
	if len(pages) != 3 || s.Count("", "") != 3 {
		t.Fatalf("%d pages by %d requests", len(pages), s.Count("", ""))
	}
	for i, p := range pages {
		if p.Total != 47 || p.Capped || p.Broken != 1 && i < 2 {
			t.Errorf("page %d: total %d, capped %v, broken %d", i+1, p.Total, p.Capped, p.Broken)
		}
	}
	if language := s.Requests()[0].Header.Get("Accept-Language"); !strings.HasPrefix(language, "en") {
		t.Errorf("asked in the language %q: its words for dates would be in another", language)
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(s.Requests()[1].Body), &body); err != nil || len(body) != 4 || body["offset"] != 20.0 || body["limit"] != 20.0 {
		t.Errorf("second request %v, %v", body, err)
	}
}

func TestWorkdayEndsExactlyAtItsTotal(t *testing.T) {
	for jobs, requests := range map[int]int{1: 1, 19: 1, 20: 1, 21: 2, 40: 2} {
		s := newSite(t, world("workday", 1, jobs), "")
		c, _ := s.Company("workday", acmeWorkday)
		sameJobs(t, jobsOf(s.list("workday", acmeWorkday)), c.Jobs)
		if n := s.Count("", ""); n != requests {
			t.Errorf("%d jobs took %d requests, want %d", jobs, n, requests)
		}
	}
}

func TestJ31_WorkdayBehindItsCapBeginsAnewAndIsLeft(t *testing.T) {
	s := newSite(t, world("workday", 1, 2040), "")
	pages := s.list("workday", acmeWorkday)
	c, _ := s.Company("workday", acmeWorkday)
	sameJobs(t, jobsOf(pages), c.Jobs[:2000])
	last := pages[len(pages)-1]
	if len(pages) != 101 || !last.Capped || len(last.Jobs) != 0 {
		t.Errorf("%d pages, the last with %d jobs, capped %v", len(pages), len(last.Jobs), last.Capped)
	}
}

// Two thousand is a cap only if there is more.
func TestJ32_WorkdayIsCappedIfItHasMoreAndOnlyThen(t *testing.T) {
	for jobs, capped := range map[int]bool{1999: false, 2000: false, 2001: true} {
		s := newSite(t, world("workday", 1, jobs), "")
		in := board.Listing{Company: s.company("workday", acmeWorkday)}
		read := func(token string) board.Page {
			p, err := board.Find("workday").Page(t.Context(), s.fetch, in, token)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		first := read("")
		got, n := first.Capped, 0
		// The pages between are like all others.
		for token := strings.Replace(first.Next, "20.", "1960.", 1); token != ""; {
			p := read(token)
			got, n, token = got || p.Capped, n+len(p.Jobs), p.Next
		}
		if got != capped || n != min(jobs, 2000)-1960 {
			t.Errorf("%d jobs: capped %v, %d read at the end", jobs, got, n)
		}
	}
}

// The sum over the facets says more than the total that is told.
func TestJ33_WorkdaysTotalIsWhatItHasWhereThatCanBeKnown(t *testing.T) {
	s := newSite(t, world("workday", 1, 2345), "")
	p, err := board.Find("workday").Page(t.Context(), s.fetch, board.Listing{Company: s.company("workday", acmeWorkday)}, "")
	if err != nil || p.Total != 2345 || !p.Capped {
		t.Errorf("total %d, capped %v, %v", p.Total, p.Capped, err)
	}
}

// A site that tells no total is read until a page is short, and one that counts
// a job twice in its facets is not taken for a large one.
func TestWorkdayWithoutATotalEndsWithAShortPage(t *testing.T) {
	rows := func(from, n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"title":"Job","externalPath":"/job/X/Job_R-%d"}`, from+i))
		}
		return strings.Join(all, ",")
	}
	s := newSite(t, world("workday", 1, 1), "")
	s.Play([]rule{{Body: `"offset":0`, Text: `{"jobPostings":[` + rows(0, 20) + `]}`}, {Text: `{"jobPostings":[` + rows(20, 3) + `]}`}})
	if pages := s.list("workday", acmeWorkday); len(pages) != 2 || len(jobsOf(pages)) != 23 {
		t.Errorf("%d pages with %d jobs", len(pages), len(jobsOf(pages)))
	}
	s.Play([]rule{{Text: `{"total":3,"jobPostings":[` + rows(0, 3) + `],"facets":[{"facetParameter":"timeType","values":[{"count":3},{"count":2}]}]}`}})
	if p := s.list("workday", acmeWorkday)[0]; p.Total != 3 || p.Capped {
		t.Errorf("total %d, capped %v", p.Total, p.Capped)
	}
}

func TestJ13_WorkdayRefusedMidwayKeepsItsPagesAndSaysWhen(t *testing.T) {
	s := newSite(t, world("workday", 1, 100), `[{from: 3, status: 429, headers: {Retry-After: "86400"}}]`)
	pages, err := s.pages("workday", board.Listing{Company: s.company("workday", acmeWorkday)})
	seen := trouble(t, err, board.RateLimited)
	if len(pages) != 2 || len(jobsOf(pages)) != 40 || seen.RetryAt.Sub(seen.Answer.At) != 24*time.Hour {
		t.Errorf("%d pages, retry at %v", len(pages), seen.RetryAt)
	}
	// What comes next is where it was.
	s.Play(nil)
	p, err := board.Find("workday").Page(t.Context(), s.fetch, board.Listing{Company: s.company("workday", acmeWorkday)}, pages[1].Next)
	c, _ := s.Company("workday", acmeWorkday)
	if err != nil || !slices.Equal(locals(p.Jobs), localsOf(c.Jobs[40:60])) {
		t.Errorf("then %v, %v", locals(p.Jobs), err)
	}
}

func TestWorkdayTellsAWrongSite(t *testing.T) {
	s := newSite(t, world("workday", 1, 5), "")
	_, err := s.pages("workday", board.Listing{Company: s.company("workday", "acme.wd1.Internal")})
	if seen := trouble(t, err, board.UnknownBoard); !strings.Contains(seen.Detail, "myworkdayjobs.com") {
		t.Errorf("it does not say where the name is found: %s", seen.Detail)
	}
}

func TestWorkdayDatesCountBackFromTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, world("workday", 1, 20), "")
		c, _ := s.Company("workday", acmeWorkday)
		for _, days := range []int{0, 1, 2, 29, 31, 60} {
			time.Sleep(time.Until(c.Jobs[0].Posted.AddDate(0, 0, days).Add(time.Hour)))
			date := jobsOf(s.list("workday", acmeWorkday))[0].Posted
			want := posting.Date{At: time.Now().UTC().AddDate(0, 0, -min(days, 30)).Truncate(24 * time.Hour), Precision: posting.Relative}
			if days > 30 {
				want.Precision = posting.AtLeast
			}
			if date != want {
				t.Errorf("posted %d days ago: %+v, want %+v", days, date, want)
			}
		}
	})
}

func TestWorkdayGetsAJob(t *testing.T) {
	s := newSite(t, world("workday", 1, 60), "")
	c, _ := s.Company("workday", acmeWorkday)
	listed := jobsOf(s.list("workday", acmeWorkday))
	for i, want := range c.Jobs {
		job, err := s.get("workday", acmeWorkday, want.Local)
		if err != nil || job.ID != listed[i].ID || job.HTML != want.HTML || job.Company != "Acme" || job.Title != posting.Text(want.Title) {
			t.Fatalf("got %+v, %v, want %+v", job, err, want)
		}
		if job.Posted.Precision != posting.Relative || !job.Posted.At.Equal(listed[i].Posted.At) {
			t.Errorf("posted %+v, listed as %+v", job.Posted, listed[i].Posted)
		}
		if job.URL != listed[i].URL || !strings.HasPrefix(job.URL, "https://acme.wd1.myworkdayjobs.com/External/job/") {
			t.Errorf("URL %s, listed as %s", job.URL, listed[i].URL)
		}
	}
	_, err := s.get("workday", acmeWorkday, "job/Lisbon/None_R-1")
	trouble(t, err, board.NotVisible)
}

func TestJ39_WorkdayHasAllPlacesAndTheWayToWork(t *testing.T) {
	s := newSite(t, world("workday", 1, 60), "")
	c, _ := s.Company("workday", acmeWorkday)
	several := 0
	for i, job := range jobsOf(s.list("workday", acmeWorkday)) {
		want := c.Jobs[i]
		if len(want.Places) > 1 {
			several++
			if len(job.Locations) != 0 { // "2 Locations" is no place
				t.Errorf("listed at %q", job.Locations)
			}
		}
		got, err := s.get("workday", acmeWorkday, want.Local)
		places := []string{want.Places[0].String()}
		for _, p := range want.Places[1:] {
			places = append(places, p.City)
		}
		if err != nil || !slices.Equal(got.Locations, places) {
			t.Errorf("locations %q, %v, want %q", got.Locations, err, places)
		}
		if want.Workplace != posting.OnSite && !slices.Equal(got.Workplace, []posting.Workplace{want.Workplace}) {
			t.Errorf("workplace %v, want %v", got.Workplace, want.Workplace)
		}
	}
	if several == 0 {
		t.Error("no job with several places was seen")
	}
}

func TestWorkdayPostingsThatAreOverAreGone(t *testing.T) {
	s := newSite(t, world("workday", 1, 1), `[{text: '{"jobPostingInfo":{"title":"Analyst","posted":false,"canApply":false}}'}]`)
	_, err := s.get("workday", acmeWorkday, "job/Lisbon/Analyst_R-1")
	trouble(t, err, board.Gone)
	s.Play([]rule{{Text: `{"jobPostingInfo":{"title":"Analyst","canApply":false}}`}})
	_, err = s.get("workday", acmeWorkday, "job/Lisbon/Analyst_R-1")
	trouble(t, err, board.Gone)
	s.Play([]rule{{Text: `{"jobPostingInfo":{"title":"Analyst","posted":true,"canApply":false}}`}}) // one applies elsewhere
	if _, err = s.get("workday", acmeWorkday, "job/Lisbon/Analyst_R-1"); err != nil {
		t.Error(err)
	}
}

func TestWorkdayAsksForNothingButPostings(t *testing.T) {
	s := newSite(t, world("workday", 1, 1), "")
	for _, local := range []string{"jobs", "../../x", "job/../../../x", "job/%2e%2e/%2e%2e/x", "", "wday"} {
		_, err := s.get("workday", acmeWorkday, local)
		trouble(t, err, board.NotVisible)
	}
	if n := s.Count("", ""); n != 0 {
		t.Errorf("%d requests were sent: %+v", n, s.Requests())
	}
}

func TestWorkdayPathsAreEscapedOnce(t *testing.T) {
	for local, want := range map[string]string{
		"job/São Paulo/Dev_R-1":         "/External/job/S%C3%A3o%20Paulo/Dev_R-1",
		"job/S%C3%A3o-Paulo/Dev_R-1":    "/External/job/S%C3%A3o-Paulo/Dev_R-1",
		"job/Lisbon/What--_R-1?x=1#top": "/External/job/Lisbon/What--_R-1%3Fx=1%23top",
		"job/100%-remote/Dev_R-1":       "/External/job/100%25-remote/Dev_R-1",
	} {
		s := newSite(t, world("workday", 1, 1), `[{text: '{"jobPostingInfo":{"title":"Dev"}}'}]`)
		if _, err := s.get("workday", acmeWorkday, local); err != nil {
			t.Errorf("%s: %v", local, err)
			continue
		}
		if got := s.Requests()[0].Path; got != "/wday/cxs/acme"+want {
			t.Errorf("%s was asked for as %s", local, got)
		}
	}
}

func TestWorkdayNamesThePageItDoesNotKnow(t *testing.T) {
	s := newSite(t, world("workday", 1, 1), "")
	for _, token := range []string{"x", "1.2", "-20.5.a", "0.5.a", "20.x.a"} {
		_, err := board.Find("workday").Page(context.Background(), s.fetch, board.Listing{Company: s.company("workday", acmeWorkday)}, token)
		if seen := trouble(t, err, board.Malformed); !strings.Contains(seen.Detail, fmt.Sprintf("%q", token)) {
			t.Errorf("%q: %s", token, seen.Detail)
		}
	}
}
