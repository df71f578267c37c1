package search

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"layover/budget"
	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
)

// TestRandomListings follows cursors through random boards, faults, budgets,
// cancellations, lost answers and wall clocks, and holds every answer against
// the contract of the package.
func TestRandomListings(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range 60 {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		bubble(t, func(t *testing.T) { randomListing(t, rnd) })
		if t.Failed() {
			t.Fatalf("round %d of seed %d", i, seed)
		}
	}
}

// scene is one random world and what has been seen of it.
type scene struct {
	rnd    *rand.Rand
	faulty bool
	stands []*stand
	wall   time.Time
	engine *Engine
	groups map[string]string // what each id is the same as
	given  map[string]int    // by group
}

func randomListing(t *testing.T, rnd *rand.Rand) {
	w := newScene(rnd)
	q := Query{Limit: 1 + rnd.IntN(40), Sources: w.sources()}
	if rnd.IntN(3) == 0 {
		q.Text = "engineer -nothing"
	}
	cursor, received := "", 0
	for n := 0; ; n++ {
		if n > 1000 {
			t.Fatal("the cursors have no end")
		}
		w.faulty = n < maxTries-1 // more failures in a row than that are given up
		w.wall = w.wall.Add(time.Duration(rnd.Int64N(int64(200*time.Hour))) - 100*time.Hour)
		ask := q
		if ask.Cursor = cursor; cursor != "" && rnd.IntN(2) == 0 {
			ask = Query{Cursor: cursor, Limit: 1 + rnd.IntN(100)}
		}
		r := w.ask(t, ask)
		if w.faulty && rnd.IntN(4) == 0 && cursor != "" {
			continue // the answer was lost: the same cursor is used again
		}
		received += r.Received
		for _, it := range r.Items {
			w.given[w.groups[it.ID]]++
		}
		if r.Complete && (r.Cursor != "" || r.Left != 0 || r.Stop != Done) {
			t.Errorf("complete, with cursor %q, %d left, stop %q", r.Cursor, r.Left, r.Stop)
		}
		if cursor = r.Cursor; cursor == "" {
			if !r.Complete {
				t.Errorf("the end is not complete: %q, %+v", r.Stop, r.Reports)
			}
			w.checkReports(t, r.Reports, received)
			break
		}
	}
	want := make(map[string]bool)
	for _, group := range w.groups {
		want[group] = true
		if w.given[group] != 1 {
			t.Errorf("%s was given %d times", group, w.given[group])
		}
	}
	if len(w.given) != len(want) {
		t.Errorf("%d jobs were given, want %d", len(w.given), len(want))
	}
	w.engine.Wait()
	synctest.Wait()
}

// checkReports checks the counts of a whole listing, which says that it received
// so many jobs: each page counts once, however often it was read.
func (w *scene) checkReports(t *testing.T, reports []Report, received int) {
	t.Helper()
	for _, s := range w.stands {
		i := slices.IndexFunc(reports, func(r Report) bool { return r.Board == s.name })
		rows := len(slices.Concat(s.pages...))
		if got := reports[i]; got.Received != rows || got.Pages != max(len(s.pages), 1) {
			t.Errorf("%s: %d jobs on %d pages, want %d on %d", s.name, got.Received, got.Pages, rows, len(s.pages))
		}
		received -= rows
	}
	if received != 0 {
		t.Errorf("the answers received %d jobs more than there are", received)
	}
}

// ask asks once, and checks what holds for every answer.
func (w *scene) ask(t *testing.T, q Query) Result {
	t.Helper()
	limit := 2*time.Second + time.Duration(w.rnd.Int64N(int64(3*time.Second)))
	if w.faulty {
		limit = time.Duration(w.rnd.Int64N(int64(3 * time.Second)))
	}
	ctx, cancel := budget.For(t.Context(), limit)
	defer cancel()
	if w.faulty && w.rnd.IntN(4) == 0 {
		stop := time.AfterFunc(time.Duration(w.rnd.Int64N(int64(2*time.Second))), cancel)
		defer stop.Stop()
	}
	begun := time.Now()
	workEnd := begun.Add(limit - min(limit/10, maxReserve))
	before := make([]int, len(w.stands))
	for i, s := range w.stands {
		before[i] = len(s.requests())
	}
	r, err := w.engine.List(ctx, q, nil)
	if err != nil {
		t.Fatalf("List(%+v): %v", q, err)
	}
	if now := time.Now(); now.After(workEnd) {
		t.Errorf("answered %v after the end of work", now.Sub(workEnd))
	}
	if len(r.Items) > q.Limit {
		t.Errorf("%d items, limit %d", len(r.Items), q.Limit)
	}
	if r.Stop == Cancelled != (ctx.Err() == context.Canceled) {
		t.Errorf("stop %q, context %v", r.Stop, ctx.Err())
	}
	for i, s := range w.stands {
		s.mu.Lock()
		for _, a := range s.asked[before[i]:] {
			if !a.at.Before(workEnd) || a.at.Before(begun) {
				t.Errorf("%s was asked for page %d %v after the end of work", s.name, a.page, a.at.Sub(workEnd))
			}
		}
		s.mu.Unlock()
	}
	for _, rep := range r.Reports {
		if rep.Status == "" || rep.Matched > rep.Received || rep.Status == Some && rep.Reason == "" {
			t.Errorf("report %+v", rep)
		}
	}
	synctest.Wait()
	return r
}

func (w *scene) sources() (names []string) {
	for _, s := range w.stands {
		if s.company {
			names = append(names, s.name+":x")
		} else {
			names = append(names, s.name)
		}
	}
	return names
}

func newScene(rnd *rand.Rand) *scene {
	w := &scene{rnd: rnd, wall: epoch, groups: make(map[string]string), given: make(map[string]int)}
	shared := jobs("shared", "x", 0, rnd.IntN(30))
	for i := range 1 + rnd.IntN(5) {
		s := &stand{name: fmt.Sprintf("board%d", i), company: rnd.IntN(2) == 0, delay: time.Duration(rnd.IntN(150)) * time.Millisecond}
		company := ""
		if s.company {
			company = "x"
		}
		all := jobs(s.name, company, 1000, rnd.IntN(80))
		for j, job := range all {
			w.groups[job.ID] = job.ID
			if rnd.IntN(5) == 0 {
				all[j].Posted = posting.Date{}
			}
		}
		for j, job := range shared {
			if rnd.IntN(2) == 0 {
				continue
			}
			group := job.ID
			job.ID = posting.ID(s.name, company, fmt.Sprintf("shared%d", j))
			if rnd.IntN(2) == 0 {
				job.URL += "?utm_source=" + s.name
				job.Locations = append(slices.Clone(job.Locations), "elsewhere "+s.name) // the address alone tells
			} else {
				job.Company += "!"
			}
			w.groups[job.ID] = group
			all = slices.Insert(all, rnd.IntN(len(all)+1), job)
		}
		for len(all) > 0 {
			size := min(len(all), 1+rnd.IntN(25))
			s.pages, all = append(s.pages, all[:size]), all[size:]
			if rnd.IntN(6) == 0 {
				s.pages = append(s.pages, nil) // an empty one in between
			}
		}
		own := rand.New(rand.NewPCG(rnd.Uint64(), 0))
		s.fail = func(page, call int) error { return w.fault(s, own) }
		w.stands = append(w.stands, s)
	}
	w.engine = engine(Options{Now: func() time.Time { return w.wall }, MaxPages: 3 + rnd.IntN(10)}, w.stands...)
	return w
}

// fault is what goes wrong with an answer. Boards are asked side by side, so
// each has a rnd of its own.
func (w *scene) fault(s *stand, rnd *rand.Rand) error {
	if !w.faulty || rnd.IntN(3) > 0 {
		return nil
	}
	switch rnd.IntN(4) {
	case 0:
		panic("the script says so")
	case 1:
		return fmt.Errorf("reading %s: connection reset", s.name)
	}
	verdicts := []board.Verdict{board.Unavailable, board.RateLimited, board.Blocked, board.Malformed, board.NotVisible}
	return trouble(verdicts[rnd.IntN(len(verdicts))])
}
