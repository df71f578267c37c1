package search

import (
	"math/rand/v2"
	"testing"
	"time"

	"layover/internal/jobs/board"
	"layover/internal/jobs/courtesy"
	"layover/internal/jobs/fakeboards"
	"layover/internal/jobs/posting"
)

// street is all boards, played over connections in memory, and an engine that
// asks them politely.
type street struct {
	server *fakeboards.Server
	engine *Engine
	world  fakeboards.World
	names  []string // of all sources
	begun  time.Time
}

func newStreet(t *testing.T, plan fakeboards.Plan) *street {
	t.Helper()
	s := &street{world: fakeboards.Generate(plan), begun: time.Now()}
	s.server = fakeboards.New(s.world)
	pipe := fakeboards.NewPipe(s.server)
	t.Cleanup(pipe.Close)
	polite, err := courtesy.New(courtesy.Options{Dial: pipe.Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { polite.Close() })
	s.engine = New(board.All, polite.Fetch, Options{Store: polite.Keep("cursors")})
	for _, b := range board.All {
		if b.Parse == nil {
			s.names = append(s.names, b.Name)
			continue
		}
		for _, c := range s.world.Boards[b.Name] {
			s.names = append(s.names, b.Name+":"+c.Slug)
		}
	}
	return s
}

// want is the jobs that the boards list, each by its local.
func (s *street) want() map[string]int {
	want := make(map[string]int)
	for name, companies := range s.world.Boards {
		for _, c := range companies {
			for _, j := range c.Jobs {
				if !j.Unlisted {
					want[name+"/"+j.Local]++
				}
			}
		}
	}
	return want
}

// local is the board and the board's own id of a job.
func local(id string) string {
	name, _, local, _ := posting.SplitID(id)
	return name + "/" + local
}

func TestAllBoardsTogetherGiveEachJobOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStreet(t, fakeboards.Plan{Seed: 5, Companies: 2, Jobs: 20, Odd: 1})
		q := Query{Sources: s.names, Limit: 100}
		seen := make(map[string]int)
		keys := make(map[string]bool)
		var r Result
		for n := 0; ; n++ {
			r = ask(t, s.engine, time.Minute, q)
			for _, it := range r.Items {
				for _, src := range it.Sources {
					seen[local(src.ID)]++
				}
				keys[it.ID] = true
			}
			if q.Cursor = r.Cursor; q.Cursor == "" {
				break
			}
		}
		want := s.want()
		missing := 0
		for id := range want {
			switch seen[id] {
			case 0:
				missing++ // it may have been another board's job, given in an earlier answer
			case 1:
			default:
				t.Errorf("%s was given %d times", id, seen[id])
			}
		}
		for id := range seen {
			if want[id] == 0 {
				t.Errorf("%s is none of the world's jobs", id)
			}
		}
		if missing > len(want)/5 { // a fifth is shared between the boards
			t.Errorf("%d of %d jobs were not given", missing, len(want))
		}
		for _, rep := range r.Reports {
			if rep.Status != board.OK || rep.Capped && rep.Board != "remotive" {
				t.Errorf("%+v, want ok", rep)
			}
			if rep.Broken == 0 {
				t.Errorf("%s: no broken row, want at least the one that the world has", rep.Source)
			}
		}
		t.Logf("%d items of %d jobs on %d boards", len(keys), len(want), len(board.All))
	})
}

func TestCursorOutlivesARestartOfTheProgram(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := fakeboards.New(fakeboards.Generate(fakeboards.Plan{Seed: 8, Companies: 1, Jobs: 30}))
		pipe := fakeboards.NewPipe(server)
		defer pipe.Close()
		folder, q, seen := t.TempDir(), Query{Sources: []string{"arbeitnow"}, Limit: 10}, make(map[string]int)
		for range 3 {
			polite, err := courtesy.New(courtesy.Options{Dial: pipe.Dial, Folder: folder})
			if err != nil {
				t.Fatal(err)
			}
			r := ask(t, New(board.All, polite.Fetch, Options{Store: polite.Keep("cursors")}), time.Minute, q)
			for _, id := range ids(r) {
				seen[id]++
			}
			q.Cursor = r.Cursor
			if err := polite.Close(); err != nil {
				t.Fatal(err)
			}
		}
		wantOnce(t, seen, 30)
		if got := len(server.Requests()); q.Cursor != "" || got != 1 {
			t.Errorf("cursor %q after %d requests; want the end after one: the page is kept too", q.Cursor, got)
		}
	})
}

// J5 and J40 once more, with what the boards really send.
func TestItemsOfAllBoardsCanBeGot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStreet(t, fakeboards.Plan{Seed: 6, Companies: 1, Jobs: 6})
		r := ask(t, s.engine, time.Minute, Query{Sources: s.names, Limit: 100})
		boards := make(map[string]bool)
		for _, it := range r.Items {
			for _, src := range it.Sources {
				if boards[src.Board] {
					continue
				}
				boards[src.Board] = true
				p := get(t, s.engine, time.Minute, src.ID)
				if p.Status != board.OK || local(p.Job.ID) != local(src.ID) || !p.HasText || p.Text == "" {
					t.Errorf("Get(%q): %s %s, text %q", src.ID, p.Status, p.Detail, p.Text)
				}
			}
		}
		if len(boards) != len(board.All) {
			t.Errorf("got jobs of %d boards, want %d", len(boards), len(board.All))
		}
	})
}

// Two seconds do not buy forty pages of a board that wants a pause between
// them: the answer has what they buy.
func TestTwoSecondsOfAllBoards(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStreet(t, fakeboards.Plan{Seed: 7, Companies: 1, Jobs: 800, Shared: 1})
		name := "workday:" + s.world.Boards["workday"][0].Slug // 20 a page: 40 pages
		q := Query{Sources: []string{name}, Text: "engineer OR developer OR engenheira", Limit: 100}
		begun := time.Now()
		r := ask(t, s.engine, 2*time.Second, q)
		if took := time.Since(begun); took > 1800*time.Millisecond {
			t.Errorf("took %v, want at most 1.8s", took)
		}
		rep := report(t, r, name)
		every := board.Find("workday").Every
		if want := int((1800*time.Millisecond-1)/every) + 1; rep.Pages != want || r.Stop != Deadline || r.Complete || r.Cursor == "" {
			t.Errorf("%d pages, stop %q, complete %v; want the %d that begin in 1.8s at one each %v", rep.Pages, r.Stop, r.Complete, want, every)
		}
		t.Logf("2 s: %d pages, %d of %d jobs, %d match, stop %s", rep.Pages, rep.Received, rep.Total, rep.Matched, r.Stop)
		for _, a := range s.server.Requests() {
			if a.At.Sub(begun) >= 1800*time.Millisecond {
				t.Errorf("a request %v after the begin", a.At.Sub(begun))
			}
		}
		q.Text = ""
		seen, answers := follow(t, s.engine, 2*time.Second, q)
		wantOnce(t, seen, 800)
		if last := answers[len(answers)-1]; !last.Complete {
			t.Errorf("the last answer is not complete: %+v", last.Reports)
		}
		t.Logf("all: %d answers", len(answers))
	})
}

// The same as TestRandomListings, with everything that is between a listing and
// the boards.
func TestRandomFaultsOfAllBoards(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range 2 {
		rnd := rand.New(rand.NewPCG(seed, uint64(round)))
		bubble(t, func(t *testing.T) { randomStreet(t, rnd) })
		if t.Failed() {
			t.Fatalf("round %d of seed %d", round, seed)
		}
	}
}

func randomStreet(t *testing.T, rnd *rand.Rand) {
	s := newStreet(t, fakeboards.Plan{Seed: rnd.Uint64(), Companies: 1, Jobs: 10 + rnd.IntN(50), Shared: -1})
	s.server.SetLimits(rnd.IntN(2) == 0)
	faults := []fakeboards.Rule{
		{Status: 500}, {Status: 503, Headers: map[string]string{"Retry-After": "1"}}, {Status: 429, Headers: map[string]string{"Retry-After": "5"}},
		{Challenge: true}, {Reset: true}, {Cut: 60}, {Stall: 100}, {Truncate: 300}, {Delay: fakeboards.Duration(700 * time.Millisecond)},
		{Drip: 1000, Pace: fakeboards.Duration(10 * time.Millisecond)}, {Redirect: "https://elsewhere.example/"},
	}
	var script fakeboards.Script
	for range 15 {
		rule := faults[rnd.IntN(len(faults))]
		rule.Board, rule.Every = board.All[rnd.IntN(len(board.All))].Name, 1+rnd.IntN(3)
		script = append(script, rule)
	}
	s.server.Play(script)
	seen := make(map[string]int)
	q := Query{Sources: s.names, Limit: 50 + rnd.IntN(50)}
	for n := 0; ; n++ {
		limit := time.Duration(rnd.Int64N(int64(4 * time.Second)))
		if n == maxTries-1 {
			s.server.Play(nil)
		}
		if n >= maxTries-1 {
			limit = 2 * time.Minute
		}
		begun := time.Now()
		r := ask(t, s.engine, limit, q)
		end := begun.Add(limit - min(limit/10, maxReserve))
		if over := time.Since(end); over > 0 {
			t.Errorf("answered %v after the end of work", over)
		}
		for _, seen := range s.server.Requests() {
			if !seen.At.Before(end) {
				t.Errorf("%s was asked for %s %v after the end of work", seen.Host, seen.Path, seen.At.Sub(end))
			}
		}
		for _, it := range r.Items {
			for _, src := range it.Sources {
				seen[local(src.ID)]++
			}
		}
		if q.Cursor = r.Cursor; q.Cursor == "" {
			for _, rep := range r.Reports {
				if rep.Status != board.OK {
					t.Errorf("at the end: %+v", rep)
				}
			}
			break
		}
		time.Sleep(time.Duration(rnd.Int64N(int64(time.Minute))))
	}
	for id := range s.want() {
		if seen[id] != 1 {
			t.Errorf("%s was given %d times", id, seen[id])
		}
	}
}
