package board_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"layover/internal/jobs/board"
	"layover/internal/jobs/fakeboards"
	"layover/internal/jobs/posting"
)

// The fakes count back from the real time; no test here waits.
var now = time.Now().UTC().Truncate(time.Second)

// fetchOf asks the fake boards, and refuses addresses that b has no business with.
func fetchOf(t *testing.T, b *board.Board, s *fakeboards.Server) board.Fetch {
	return func(ctx context.Context, r board.Request) (board.Answer, error) {
		t.Helper()
		u, err := url.Parse(r.URL)
		if err != nil || u.Scheme != "https" || !slices.ContainsFunc(b.Hosts, func(pattern string) bool { return within(pattern, u.Host) }) {
			t.Fatalf("%s asks for %q, which is none of its hosts %v", b.Name, r.URL, b.Hosts)
		}
		a, err := answerOf(ctx, s, r)
		a.At = now
		if trouble := board.Classify(a); trouble != nil {
			return board.Answer{}, trouble
		}
		return a, err
	}
}

// within reports whether host is pattern, in which "*" stands for one label.
func within(pattern, host string) bool {
	rest, ok := strings.CutPrefix(pattern, "*.")
	if !ok {
		return host == pattern
	}
	label, after, _ := strings.Cut(host, ".")
	return label != "" && within(rest, after)
}

// source is one listing of a board, and what the fake has for it.
type source struct {
	in   board.Listing
	jobs map[string]fakeboards.Job // by the board's id
	odd  int
}

func sources(t *testing.T, b *board.Board, w fakeboards.World) []source {
	t.Helper()
	var all []source
	for _, c := range w.Boards[b.Name] {
		s := source{jobs: make(map[string]fakeboards.Job), odd: c.Odd}
		if b.Parse != nil {
			company, err := b.Parse(c.Slug)
			if err != nil {
				t.Fatalf("Parse(%q): %v", c.Slug, err)
			}
			s.in.Company = company
		}
		for _, j := range c.Jobs {
			if !j.Unlisted {
				s.jobs[j.Local] = j
			}
		}
		if b.Parse == nil && len(all) > 0 { // such a board has one listing of all
			for local, j := range s.jobs {
				all[0].jobs[local] = j
			}
			all[0].odd += s.odd
			continue
		}
		all = append(all, s)
	}
	return all
}

// read reads all pages of a listing.
func read(t *testing.T, b *board.Board, ask board.Fetch, in board.Listing) (jobs []posting.Job, pages []board.Page) {
	t.Helper()
	token := ""
	for range 200 {
		p, err := b.Page(t.Context(), ask, in, token)
		if err != nil {
			t.Fatalf("page %q of %v: %v", token, in.Company, err)
		}
		jobs, pages = append(jobs, p.Jobs...), append(pages, p)
		if p.Next == "" {
			return jobs, pages
		}
		token = p.Next
	}
	t.Fatalf("%v has pages without end", in.Company)
	return nil, nil
}

// lacks says what a board's listing does not tell, and what it cannot tell
// apart. Everything else has to be there, and right.
var lacks = map[string]string{
	"greenhouse":      "pay level type on_site",
	"lever":           "level company updated language",
	"ashby":           "level company updated language",
	"smartrecruiters": "pay html level updated on_site",
	"recruitee":       "",
	"personio":        "pay language on_site hybrid updated country",
	"workable":        "type pay language level on_site hybrid updated",
	"workday":         "pay html language level workplace type team company updated",
	"arbeitnow":       "pay language level on_site hybrid type team updated country places",
	"himalayas":       "places workplace language level updated city",
	"remotive":        "workplace language level pay team updated city places type",
	"hn":              "team language level pay type updated places",
}

func TestEveryBoardIsRead(t *testing.T) {
	w := fakeboards.Generate(fakeboards.Plan{Seed: 3, Now: now, Companies: 3, Jobs: 105, Odd: 3})
	for _, b := range board.All {
		t.Run(b.Name, func(t *testing.T) {
			if len(w.Boards[b.Name]) == 0 {
				t.Fatalf("no fake for %s", b.Name)
			}
			ask := fetchOf(t, b, fakeboards.New(w))
			for _, s := range sources(t, b, w) {
				jobs, pages := read(t, b, ask, s.in)
				broken, received := 0, 0
				for i, p := range pages {
					broken, received = broken+p.Broken, received+p.Received
					if p.Received < len(p.Jobs)+p.Broken || p.Total >= 0 && i == 0 && p.Total < len(p.Jobs) {
						t.Errorf("page %d received %d rows of %d, with %d jobs and %d broken ones", i+1, p.Received, p.Total, len(p.Jobs), p.Broken)
					}
				}
				if b.Name == "workday" && broken > s.odd { // it has null among its rows
					broken = s.odd
				}
				if broken != s.odd {
					t.Errorf("%v: %d broken rows, want %d", s.in.Company, broken, s.odd)
				}
				if b.Whole && len(pages) != 1 {
					t.Errorf("%v: %d pages of a board that has one", s.in.Company, len(pages))
				}
				seen := make(map[string]bool)
				for _, job := range jobs {
					name, company, local, ok := posting.SplitID(job.ID)
					want, known := s.jobs[local]
					if !ok || name != b.Name || company != s.in.Company.Slug || !known || seen[local] {
						t.Errorf("%v: unexpected job %q (%q)", s.in.Company, job.ID, job.Title)
						continue
					}
					seen[local] = true
					check(t, b, s.in.Company, job, want)
				}
				if len(seen) != len(s.jobs) {
					t.Errorf("%v: %d jobs, want %d", s.in.Company, len(seen), len(s.jobs))
				}
			}
		})
	}
}

// check compares a listing's job with what the board has.
func check(t *testing.T, b *board.Board, c board.Company, job posting.Job, want fakeboards.Job) {
	t.Helper()
	lacking := strings.Fields(lacks[b.Name])
	without := func(what string) bool { return slices.Contains(lacking, what) }
	wrong := func(what string, got, want any) {
		t.Helper()
		t.Errorf("%s: %s %v, want %v", job.ID, what, got, want)
	}
	if job.Title != posting.Text(want.Title) {
		wrong("title", job.Title, want.Title)
	}
	if job.Company == "" || !without("company") && job.Company != want.Company {
		wrong("company", job.Company, want.Company)
	}
	switch job.Posted.Precision {
	case posting.Instant:
		if !job.Posted.At.Equal(want.Posted) && !job.Posted.At.Equal(want.Posted.Truncate(time.Second)) {
			wrong("posted", job.Posted, want.Posted)
		}
	case posting.Relative: // in whole days, so that it may be the day before
		if ago := want.Posted.Sub(job.Posted.At); ago < -24*time.Hour || ago > 24*time.Hour {
			wrong("posted", job.Posted, want.Posted)
		}
	case posting.Day:
		if y, m, d := want.Posted.Date(); !job.Posted.At.Equal(time.Date(y, m, d, 0, 0, 0, 0, time.UTC)) {
			wrong("posted", job.Posted, want.Posted)
		}
	case posting.AtLeast:
		if job.Posted.At.Before(want.Posted.Add(-24 * time.Hour)) {
			wrong("posted", job.Posted, want.Posted)
		}
	default:
		wrong("posted", job.Posted, want.Posted)
	}
	if !without("updated") && !job.Updated.At.Equal(want.Updated) {
		wrong("updated", job.Updated, want.Updated)
	}
	ways := []posting.Workplace{want.Workplace}
	if without(string(want.Workplace)) {
		ways = nil
	}
	if b.Name == "recruitee" && want.Workplace == posting.Hybrid { // says both
		ways = append(ways, posting.OnSite)
	}
	if !without("workplace") && !slices.Equal(job.Workplace, ways) {
		wrong("workplace", job.Workplace, ways)
	}
	if !without("type") && job.Type != want.Type {
		wrong("type", job.Type, want.Type)
	}
	if !without("level") && job.Seniority != want.Level {
		wrong("level", job.Seniority, want.Level)
	}
	if !without("team") && job.Team != want.Team {
		wrong("team", job.Team, want.Team)
	}
	if !without("language") && job.Language != want.Language {
		wrong("language", job.Language, want.Language)
	}
	if !without("places") && b.Name != "workday" && b.Name != "smartrecruiters" && len(job.Locations) != len(want.Places) {
		wrong("places", job.Locations, want.Places)
	}
	for i, place := range want.Places[:min(len(job.Locations), len(want.Places))] {
		if !without("city") && !strings.Contains(job.Locations[i], place.City) || !without("country") && !strings.Contains(job.Locations[i], place.Country) && b.Name != "workday" {
			wrong("place", job.Locations, want.Places)
		}
	}
	if !without("pay") {
		checkPay(t, job, want.Pay)
	}
	if u, err := url.Parse(job.URL); err != nil || u.Scheme != "https" || u.RawQuery != "" && !strings.HasPrefix(u.RawQuery, "gh_jid=") && !strings.HasPrefix(u.RawQuery, "id=") {
		wrong("address", job.URL, "one for people")
	}
	if !without("html") && !strings.Contains(posting.Plain(job.HTML), posting.Plain(want.HTML)) {
		wrong("description", posting.Plain(job.HTML), posting.Plain(want.HTML))
	}
}

func checkPay(t *testing.T, job posting.Job, want *fakeboards.Pay) {
	t.Helper()
	var salary *posting.Pay
	for _, pay := range job.Pay {
		if pay.Kind == "salary" {
			salary = &pay
		}
	}
	amount := func(n *float64) int {
		if n == nil {
			return 0
		}
		return int(*n)
	}
	switch {
	case want == nil && salary == nil:
	case want == nil || salary == nil:
		t.Errorf("%s: pay %+v, want %+v", job.ID, job.Pay, want)
	case amount(salary.Min) != want.Min || amount(salary.Max) != want.Max || salary.Currency != want.Currency || salary.Period != want.Period || salary.Source != "stated":
		t.Errorf("%s: pay %d..%d %+v, want %+v", job.ID, amount(salary.Min), amount(salary.Max), salary, want)
	}
}

func TestEveryBoard_J5_J40_AnIDOfAListLeadsToItsJobWithItsText(t *testing.T) {
	w := fakeboards.Generate(fakeboards.Plan{Seed: 5, Now: now, Companies: 2, Jobs: 12, Odd: 1})
	for _, b := range board.All {
		t.Run(b.Name, func(t *testing.T) {
			ask := fetchOf(t, b, fakeboards.New(w))
			for _, s := range sources(t, b, w) {
				jobs, _ := read(t, b, ask, s.in)
				for _, listed := range jobs {
					name, slug, local, _ := posting.SplitID(listed.ID)
					found := board.Find(name)
					if found != b {
						t.Fatalf("Find(%q) is not %s", name, b.Name)
					}
					var company board.Company
					if b.Parse != nil {
						parsed, err := b.Parse(slug)
						if err != nil || parsed != s.in.Company {
							t.Fatalf("Parse(%q) = %v, %v, want %v", slug, parsed, err, s.in.Company)
						}
						company = parsed
					}
					job, err := b.Get(t.Context(), ask, company, local)
					if err != nil {
						t.Fatalf("Get(%q): %v", listed.ID, err)
					}
					want := s.jobs[local]
					if job.ID != listed.ID || job.Title != listed.Title || !strings.Contains(posting.Plain(job.HTML), posting.Plain(want.HTML)) {
						t.Errorf("Get(%q) = %q %q with %q, want %q", listed.ID, job.ID, job.Title, posting.Plain(job.HTML), posting.Plain(want.HTML))
					}
					if b.Name == "greenhouse" || b.Name == "smartrecruiters" { // pay comes with single jobs
						checkPay(t, job, want.Pay)
					}
				}
			}
		})
	}
}

// verdict of an error, or what else it is.
func verdict(err error) board.Verdict {
	var t *board.Trouble
	switch {
	case err == nil:
		return board.OK
	case errors.As(err, &t):
		return t.Verdict
	}
	return board.Verdict(err.Error())
}

func TestEveryBoard_J22_J23_J28_UnknownCompaniesAreNotEmptyOnes(t *testing.T) {
	w := fakeboards.Generate(fakeboards.Plan{Now: now, Companies: 1, Jobs: 1})
	for _, b := range board.All {
		if b.Parse == nil {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			name, want := "nobody-at-all", board.UnknownBoard
			switch b.Name {
			case "workday":
				name = "nobody.wd1.External"
			case "smartrecruiters", "ashby", "personio":
				want = board.EmptyOrUnknown
			}
			company, err := b.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			ask := fetchOf(t, b, fakeboards.New(w))
			_, err = b.Page(t.Context(), ask, board.Listing{Company: company}, "")
			var trouble *board.Trouble
			if !errors.As(err, &trouble) || trouble.Verdict != want {
				t.Fatalf("the list of an unknown company: %v, want %s", err, want)
			}
			if !strings.Contains(trouble.Detail, company.Slug) || !strings.Contains(trouble.Detail, b.Where) || !strings.HasPrefix(trouble.Page, "https://") {
				t.Errorf("%q, page %q: does not name the company, what to do and where to look", trouble.Detail, trouble.Page)
			}
		})
	}
}

func TestEveryBoard_J24_J25_AMissingPostingIsNotVisible(t *testing.T) {
	w := fakeboards.Generate(fakeboards.Plan{Now: now, Companies: 1, Jobs: 3})
	for _, b := range board.All {
		t.Run(b.Name, func(t *testing.T) {
			s := sources(t, b, w)[0]
			for _, local := range []string{"999", "job/Nowhere/Nothing_R-0", "../../x"} {
				_, err := b.Get(t.Context(), fetchOf(t, b, fakeboards.New(w)), s.in.Company, local)
				if got := verdict(err); got != board.NotVisible {
					t.Errorf("Get(%q): %v, want %s", local, err, board.NotVisible)
				}
			}
		})
	}
}

func TestEveryBoard_J26_J27_TroubleIsNeverAnEmptyPage(t *testing.T) {
	w := fakeboards.Generate(fakeboards.Plan{Now: now, Companies: 1, Jobs: 130})
	for _, b := range board.All {
		t.Run(b.Name, func(t *testing.T) {
			s := sources(t, b, w)[0]
			server := fakeboards.New(w)
			ask := fetchOf(t, b, server)
			first, err := b.Page(t.Context(), ask, s.in, "")
			if err != nil {
				t.Fatal(err)
			}
			tokens := []string{""}
			if first.Next != "" {
				tokens = append(tokens, first.Next)
			}
			for _, c := range []struct {
				rule fakeboards.Rule
				want board.Verdict
			}{
				{fakeboards.Rule{Status: 500}, board.Unavailable},
				{fakeboards.Rule{Status: 503, Headers: map[string]string{"Retry-After": "5"}}, board.Unavailable},
				{fakeboards.Rule{Status: 401}, board.Blocked},
				{fakeboards.Rule{Status: 403}, board.Blocked},
				{fakeboards.Rule{Status: 410}, board.Gone},
				{fakeboards.Rule{Status: 429, Headers: map[string]string{"Retry-After": "120"}}, board.RateLimited},
				{fakeboards.Rule{Challenge: true}, board.Blocked},
				{fakeboards.Rule{Truncate: 60}, board.Malformed},
				{fakeboards.Rule{Text: "<!doctype html><title>Welcome</title>"}, board.Malformed},
				{fakeboards.Rule{Text: " "}, board.Malformed},
			} {
				for _, token := range tokens {
					server.Play(fakeboards.Script{c.rule})
					p, err := b.Page(t.Context(), ask, s.in, token)
					var trouble *board.Trouble
					if !errors.As(err, &trouble) || trouble.Verdict != c.want || len(p.Jobs) > 0 {
						t.Errorf("%+v on page %q: %d jobs, %v, want %s", c.rule, token, len(p.Jobs), err, c.want)
						continue
					}
					if c.want == board.RateLimited && !trouble.RetryAt.Equal(trouble.Answer.At.Add(2*time.Minute)) {
						t.Errorf("%+v: retry at %v, want two minutes from now", c.rule, trouble.RetryAt)
					}
					if trouble.Page == "" {
						t.Errorf("%+v: no page for people", c.rule)
					}
				}
			}
			server.Play(fakeboards.Script{{BOM: true, Type: "text/plain"}})
			if p, err := b.Page(t.Context(), ask, s.in, ""); err != nil || len(p.Jobs) != len(first.Jobs) {
				t.Errorf("with a byte order mark and as plain text: %d jobs, %v, want %d", len(p.Jobs), err, len(first.Jobs))
			}
			for _, token := range []string{"x", "-1", "0", "1e3", "99999999999999999999", "a.b.c", "cursor:"} {
				if b.Whole {
					break
				}
				if _, err := b.Page(t.Context(), ask, s.in, token); verdict(err) != board.Malformed {
					t.Errorf("page %q: %v, want a refusal", token, err)
				}
			}
		})
	}
}

func TestNamesThatNoCompanyCanHaveAreRefused(t *testing.T) {
	for _, b := range board.All {
		if b.Parse == nil {
			continue
		}
		for _, name := range []string{"", " ", "..", "a/../b", "a b\x00", "https://evil.example/acme", "acme.evil.example/", "acme?x=1", "acme#x", "acme@evil.example",
			"-acme", "https://user@boards.greenhouse.io:99/%2e%2e", "a\r\nHost: x", "%2e%2e", strings.Repeat("a", 101), strings.Repeat("a", 2000)} {
			if c, err := b.Parse(name); err == nil {
				t.Errorf("%s: Parse(%q) = %v, want a refusal", b.Name, name, c)
			} else if text := err.Error(); len(text) > 400 || !strings.Contains(text, b.Title) {
				t.Errorf("%s: Parse(%.20q): %q does not say where", b.Name, name, text)
			}
		}
	}
	for _, c := range []struct{ board, name, slug, host string }{
		{"greenhouse", " acme ", "acme", "boards-api.greenhouse.io"},
		{"greenhouse", "https://job-boards.eu.greenhouse.io/acme/jobs/12?gh_src=1", "acme", "boards-api.greenhouse.io"},
		{"greenhouse", "https://boards.greenhouse.io/embed/job_board?for=acme&b=x", "acme", "boards-api.greenhouse.io"},
		{"greenhouse", "boards.greenhouse.io/acme", "acme", "boards-api.greenhouse.io"},
		{"lever", "acme", "acme", "api.lever.co"},
		{"lever", "eu:acme", "eu:acme", "api.eu.lever.co"},
		{"lever", "https://jobs.eu.lever.co/acme/0b5c", "eu:acme", "api.eu.lever.co"},
		{"ashby", "https://jobs.ashbyhq.com/Acme%20Labs", "Acme Labs", "api.ashbyhq.com"},
		{"smartrecruiters", "https://careers.smartrecruiters.com/Acme1", "Acme1", "api.smartrecruiters.com"},
		{"recruitee", "Acme", "acme", "acme.recruitee.com"},
		{"recruitee", "https://acme.recruitee.com/o/analyst", "acme", "acme.recruitee.com"},
		{"personio", "acme", "acme", "acme.jobs.personio.de"},
		{"personio", "acme.jobs.personio.com", "com:acme", "acme.jobs.personio.com"},
		{"personio", "com:acme", "com:acme", "acme.jobs.personio.com"},
	} {
		got, err := board.Find(c.board).Parse(c.name)
		if err != nil || got.Slug != c.slug || got.Host != c.host {
			t.Errorf("%s: Parse(%q) = %+v, %v, want %q on %q", c.board, c.name, got, err, c.slug, c.host)
			continue
		}
		if again, err := board.Find(c.board).Parse(got.Slug); err != nil || again != got {
			t.Errorf("%s: Parse(%q) = %+v, %v, want %+v", c.board, got.Slug, again, err, got)
		}
	}
}

func TestTheTableKeepsItsPromises(t *testing.T) {
	seen := make(map[string]bool)
	for _, b := range board.All {
		if seen[b.Name] || b.Title == "" || len(b.Hosts) == 0 || b.Every <= 0 || b.AtOnce <= 0 || b.Fresh <= 0 || b.Terms == "" || b.Page == nil || b.Get == nil || b.Home == nil {
			t.Errorf("%s: the row is not complete, or there twice", b.Name)
		}
		seen[b.Name] = true
		if large := int64(2500 * 15_000); (b.MaxBody >= large) != (b.Whole || b.Name == "workable") {
			t.Errorf("%s: answers of %d bytes; a whole board may have %d, a page has not", b.Name, b.MaxBody, large)
		}
		if (b.Parse == nil) != (b.Where == "") {
			t.Errorf("%s: Parse and Where go together", b.Name)
		}
		if !slices.Contains(fakeboards.Boards(), b.Name) {
			t.Errorf("%s has no fake", b.Name)
		}
	}
	if board.Find("no such board") != nil || board.Find(" Greenhouse ") != board.All[0] {
		t.Error("Find does not find by name")
	}
}
