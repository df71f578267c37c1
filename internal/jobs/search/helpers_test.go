package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"layover/budget"
	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
)

// stand is a board that follows a script. Tokens are page numbers; "" is 0.
type stand struct {
	name    string
	company bool // it is one per company
	text    bool // rows have descriptions
	pages   [][]posting.Job
	total   int                        // what it says it has; 0: it does not say
	delay   time.Duration              // of each page
	slow    map[int]time.Duration      // of these pages more
	fail    func(page, call int) error // call counts from 1, of that page
	alter   func(page int, p *board.Page)
	deaf    bool // it does not listen to its context

	mu    sync.Mutex
	asked []asked
	calls map[int]int
}

type asked struct {
	page    int
	company string
	at      time.Time
	in      board.Listing
}

func (s *stand) board() *board.Board {
	b := &board.Board{Name: s.name, Title: s.name, Text: s.text, Page: s.page}
	if s.company {
		b.Parse = func(c string) (board.Company, error) {
			if c == "bad slug" {
				return board.Company{}, errors.New("a slug has letters, digits and dashes")
			}
			return board.Company{Slug: c}, nil
		}
	}
	return b
}

func (s *stand) page(ctx context.Context, _ board.Fetch, in board.Listing, token string) (board.Page, error) {
	n, _ := strconv.Atoi(token)
	s.mu.Lock()
	if s.calls == nil {
		s.calls = make(map[int]int)
	}
	s.calls[n]++
	call := s.calls[n]
	s.asked = append(s.asked, asked{n, in.Company.Slug, time.Now(), in})
	s.mu.Unlock()

	if delay := s.delay + s.slow[n]; delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		if s.deaf {
			<-timer.C
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
			return board.Page{}, ctx.Err()
		}
	}
	if s.fail != nil {
		if err := s.fail(n, call); err != nil {
			return board.Page{}, err
		}
	}
	p := board.Page{Total: -1}
	if s.total > 0 {
		p.Total = s.total
	}
	if n < len(s.pages) {
		for _, job := range s.pages[n] {
			job.Sources = nil
			p.Jobs = append(p.Jobs, job)
		}
	}
	p.Received = len(p.Jobs)
	if n+1 < len(s.pages) {
		p.Next = strconv.Itoa(n + 1)
	}
	if s.alter != nil {
		s.alter(n, &p)
	}
	return p, nil
}

func (s *stand) requests() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pages []int
	for _, a := range s.asked {
		pages = append(pages, a.page)
	}
	return pages
}

var epoch = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// jobs are n jobs of a board's company, from number from on; higher numbers are older.
func jobs(boardName, company string, from, n int) []posting.Job {
	var out []posting.Job
	for i := from; i < from+n; i++ {
		out = append(out, posting.Job{
			ID:        posting.ID(boardName, company, strconv.Itoa(i)),
			Title:     fmt.Sprintf("Engineer %d", i),
			Company:   boardName + " " + company,
			Locations: []string{"Berlin, Germany"},
			Posted:    posting.Date{At: epoch.Add(-time.Duration(i) * time.Hour), Precision: posting.Instant},
			URL:       fmt.Sprintf("https://%s.example/%s/%d", boardName, company, i),
		})
	}
	return out
}

// paged are pages of size jobs each.
func paged(boardName, company string, pages, size int) (out [][]posting.Job) {
	for i := range pages {
		out = append(out, jobs(boardName, company, i*size, size))
	}
	return out
}

func engine(o Options, stands ...*stand) *Engine {
	var boards []*board.Board
	for _, s := range stands {
		boards = append(boards, s.board())
	}
	if o.Now == nil {
		o.Now = func() time.Time { return epoch }
	}
	return New(boards, func(*board.Board) board.Fetch { return nil }, o)
}

// ask lists under a budget of d.
func ask(t testing.TB, e *Engine, d time.Duration, q Query) Result {
	t.Helper()
	ctx, cancel := budget.For(t.Context(), d)
	defer cancel()
	r, err := e.List(ctx, q, nil)
	if err != nil {
		t.Fatalf("List(%+v): %v", q, err)
	}
	return r
}

func ids(r Result) (out []string) {
	for _, it := range r.Items {
		out = append(out, it.ID)
	}
	return out
}

// report is the report on one source.
func report(t testing.TB, r Result, source string) Report {
	t.Helper()
	i := slices.IndexFunc(r.Reports, func(r Report) bool { return r.Source == source })
	if i < 0 {
		t.Fatalf("no report on %s in %+v", source, r.Reports)
	}
	return r.Reports[i]
}

// follow lists to the end of the cursors, each answer under a budget of d, and
// returns how often each id was given.
func follow(t testing.TB, e *Engine, d time.Duration, q Query) (seen map[string]int, answers []Result) {
	t.Helper()
	seen = make(map[string]int)
	for len(answers) < 2000 {
		r := ask(t, e, d, q)
		answers = append(answers, r)
		for _, id := range ids(r) {
			seen[id]++
		}
		if r.Cursor == "" {
			return seen, answers
		}
		q = Query{Cursor: r.Cursor, Limit: q.Limit, Size: q.Size}
	}
	t.Fatalf("the cursors have no end; the last answer: %+v", answers[len(answers)-1])
	return nil, nil
}

func wantOnce(t testing.TB, seen map[string]int, want int) {
	t.Helper()
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was given %d times, want once", id, n)
		}
	}
	if len(seen) != want {
		t.Errorf("%d jobs were given, want %d", len(seen), want)
	}
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func trouble(v board.Verdict) error {
	return &board.Trouble{Verdict: v, Detail: "the script says so"}
}
