package board_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"layover/internal/jobs/board"
	"layover/internal/jobs/fakeboards"
	"layover/internal/jobs/posting"
)

// site is the boards of a made-up world, read without a network.
type site struct {
	*fakeboards.Server
	t *testing.T
}

func newSite(t *testing.T, plan fakeboards.Plan, script string) site {
	t.Helper()
	rules, err := fakeboards.ReadScript(strings.NewReader(script))
	if err != nil {
		t.Fatal(err)
	}
	s := fakeboards.New(fakeboards.Generate(plan))
	s.Play(rules)
	return site{s, t}
}

// fetch is a board.Fetch without any politeness.
func (s site) fetch(ctx context.Context, r board.Request) (board.Answer, error) {
	return answerOf(ctx, s.Server, r)
}

// answerOf asks the fake boards in memory, as a Fetch has to: what is not 2xx
// is a Trouble.
func answerOf(ctx context.Context, s *fakeboards.Server, r board.Request) (board.Answer, error) {
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	request := httptest.NewRequestWithContext(ctx, method, r.URL, bytes.NewReader(r.Body))
	for name, values := range r.Header {
		request.Header[name] = values
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, request)
	a := board.Answer{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes(), At: time.Now()}
	if t := board.Classify(a); t != nil {
		return a, t
	}
	return a, nil
}

// company is a company of a board, as its Parse reads the slug.
func (s site) company(name, slug string) board.Company {
	s.t.Helper()
	b := board.Find(name)
	if b == nil {
		s.t.Fatalf("there is no board %s", name)
	}
	if b.Parse == nil {
		return board.Company{}
	}
	c, err := b.Parse(slug)
	if err != nil {
		s.t.Fatalf("Parse(%q) of %s: %v", slug, name, err)
	}
	return c
}

// pages reads a board until it has no next page, or gives trouble.
func (s site) pages(name string, in board.Listing) (all []board.Page, err error) {
	s.t.Helper()
	for token := ""; ; {
		p, err := board.Find(name).Page(s.t.Context(), s.fetch, in, token)
		if err != nil {
			return all, err
		}
		all = append(all, p)
		if p.Next == "" {
			return all, nil
		}
		if token = p.Next; len(all) > 1000 {
			s.t.Fatalf("%s does not end", name)
		}
	}
}

// list is pages for a listing that goes well.
func (s site) list(name, slug string) []board.Page {
	s.t.Helper()
	pages, err := s.pages(name, board.Listing{Company: s.company(name, slug)})
	if err != nil {
		s.t.Fatalf("page %d of %s: %v", len(pages)+1, name, err)
	}
	return pages
}

func (s site) get(name, slug, local string) (posting.Job, error) {
	s.t.Helper()
	return board.Find(name).Get(s.t.Context(), s.fetch, s.company(name, slug), local)
}

func jobsOf(pages []board.Page) (all []posting.Job) {
	for _, p := range pages {
		all = append(all, p.Jobs...)
	}
	return all
}

// locals are the boards' own ids, in order.
func locals(jobs []posting.Job) (all []string) {
	for _, j := range jobs {
		_, _, local, _ := posting.SplitID(j.ID)
		all = append(all, local)
	}
	return all
}

func localsOf(jobs []fakeboards.Job) (all []string) {
	for _, j := range jobs {
		all = append(all, j.Local)
	}
	return all
}

// sameJobs fails unless got are the jobs of want, each once, in any order.
func sameJobs(t *testing.T, got []posting.Job, want []fakeboards.Job) {
	t.Helper()
	g, w := locals(got), localsOf(want)
	slices.Sort(g)
	slices.Sort(w)
	if !slices.Equal(g, w) {
		t.Errorf("got %d jobs, want %d: %.200v, want %.200v", len(g), len(w), g, w)
	}
}

// trouble fails unless err is a Trouble with that verdict.
func trouble(t *testing.T, err error, want board.Verdict) *board.Trouble {
	t.Helper()
	var got *board.Trouble
	if !errors.As(err, &got) {
		t.Fatalf("error %v, want a Trouble with verdict %s", err, want)
	}
	if got.Verdict != want {
		t.Errorf("verdict %s (%s), want %s", got.Verdict, got.Detail, want)
	}
	return got
}

// rule is short for what the tests write most.
type rule = fakeboards.Rule

// world is a plan for one board with so many companies of so many jobs each.
func world(name string, companies, jobs int) fakeboards.Plan {
	return fakeboards.Plan{Seed: 1, Boards: []string{name}, Companies: companies, Jobs: jobs}
}
