package search

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"layover/budget"
	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
)

// refused lists q and returns the refusal.
func refused(t *testing.T, e *Engine, q Query) *Invalid {
	t.Helper()
	ctx, cancel := budget.For(t.Context(), time.Second)
	defer cancel()
	_, err := e.List(ctx, q, nil)
	var bad *Invalid
	if !errors.As(err, &bad) {
		t.Fatalf("List(%+v): error %v, want an *Invalid", q, err)
	}
	return bad
}

func TestFollowingCursorsGivesEachJobOnce(t *testing.T) {
	for _, limit := range []int{1, 3, 10, 17, 100} {
		bubble(t, func(t *testing.T) {
			a := &stand{name: "alpha", company: true, pages: paged("alpha", "x", 7, 10)}
			b := &stand{name: "beta", pages: paged("beta", "", 1, 40)}
			e := engine(Options{}, a, b)
			seen, answers := follow(t, e, time.Second, Query{Sources: []string{"alpha:x", "beta"}, Limit: limit})
			wantOnce(t, seen, 110)
			for i, r := range answers[:len(answers)-1] {
				if len(r.Items) != limit || r.Complete || r.Stop != Limit {
					t.Fatalf("limit %d, answer %d: %d items, complete %v, stop %q", limit, i, len(r.Items), r.Complete, r.Stop)
				}
			}
			last := answers[len(answers)-1]
			if !last.Complete || last.Stop != Done {
				t.Errorf("limit %d: the last answer is not complete: %q, %+v", limit, last.Stop, last.Reports)
			}
			if got := report(t, last, "alpha:x"); got.Received != 70 || got.Pages != 7 || got.Matched != 70 {
				t.Errorf("limit %d: %+v; want every page counted once: 7 of 70 jobs", limit, got)
			}
		})
	}
}

// The promise of the budget in numbers: 40 pages of 20 jobs at 95 ms each do not
// fit into 2 s; the answer has what fits, and resuming has the rest.
func TestListingOfFortyPagesUnderTwoSeconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		// Four jobs of a page are asked for, so no limit ends an answer early.
		s := &stand{name: "alpha", delay: 95 * time.Millisecond, pages: paged("alpha", "", 40, 20)}
		for _, page := range s.pages {
			for i := range page {
				if i%5 == 0 {
					page[i].Title += " lead"
				}
			}
		}
		e := engine(Options{}, s)
		q := Query{Text: "lead", Limit: 100}
		begun := time.Now()
		r := ask(t, e, 2*time.Second, q)
		// Work ends at 1.8 s: 18 pages are there at 1.71 s, the 19th would be at 1.805 s.
		if took := time.Since(begun); took != 1800*time.Millisecond || len(r.Items) != 72 || r.Stop != Deadline {
			t.Errorf("after %v: %d items, stop %q; want 1.8s, the 72 of 18 pages, deadline", took, len(r.Items), r.Stop)
		}
		seen, answers := follow(t, e, 2*time.Second, q)
		wantOnce(t, seen, 160)
		if got := s.requests(); len(answers) != 3 || len(got) != 19+42 {
			t.Errorf("%d answers, %d requests; want 3, and 42 after the first answer: each page once, two cut off by the end", len(answers), len(got))
		}
	})
}

func TestCursorUsedTwiceGivesTheSameContinuation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &stand{name: "alpha", pages: paged("alpha", "", 3, 10)}
		b := &stand{name: "beta", pages: paged("beta", "", 3, 10)}
		e := engine(Options{}, a, b)
		cursor := ask(t, e, time.Second, Query{Limit: 7}).Cursor
		first := ids(ask(t, e, time.Second, Query{Cursor: cursor, Limit: 7}))
		second := ids(ask(t, e, time.Second, Query{Cursor: cursor, Limit: 7}))
		if len(first) != 7 || !slices.Equal(first, second) {
			t.Errorf("first %v, then %v; want the same 7", first, second)
		}
	})
}

func TestCursorIsShort(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var stands []*stand
		for i := range 30 {
			name := fmt.Sprintf("board-with-a-long-name-%d", i)
			stands = append(stands, &stand{name: name, pages: paged(name, "", 5, 50)})
		}
		e := engine(Options{}, stands...)
		r := ask(t, e, time.Second, Query{Limit: 100})
		r = ask(t, e, time.Second, Query{Limit: 100, Cursor: r.Cursor})
		if !strings.HasPrefix(r.Cursor, "j1.") || len(r.Cursor) >= 80 {
			t.Errorf("cursor %q has %d characters, want fewer than 80", r.Cursor, len(r.Cursor))
		}
	})
}

func TestCursorAloneIsEnoughAndItsQueryMayBeRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "alpha", company: true, pages: paged("alpha", "x", 3, 10)}
		e := engine(Options{}, s)
		q := Query{Sources: []string{"alpha:x", "alpha:y"}, Text: "engineer", Limit: 5}
		cursor := ask(t, e, time.Second, q).Cursor
		bare := ids(ask(t, e, time.Second, Query{Cursor: cursor, Limit: 5}))
		q.Cursor, q.Sources, q.Text = cursor, []string{"alpha:y", "alpha:x", "alpha:x"}, "  engineer "
		if repeated := ids(ask(t, e, time.Second, q)); !slices.Equal(bare, repeated) {
			t.Errorf("with the query %v, without %v; want the same", repeated, bare)
		}
	})
}

func TestCursorOfAnotherQueryIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engine(Options{}, &stand{name: "alpha", pages: paged("alpha", "", 3, 10)})
		cursor := ask(t, e, time.Second, Query{Text: "engineer", Limit: 5}).Cursor
		bad := refused(t, e, Query{Text: "designer", Cursor: cursor})
		if bad.Field != "cursor" || !strings.Contains(bad.Want, "another query") {
			t.Errorf("refused with %v, want: of another query", bad)
		}
	})
}

func TestCursorThatWasAlteredIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "alpha", pages: paged("alpha", "", 3, 10)}
		e := engine(Options{}, s)
		cursor := ask(t, e, time.Second, Query{Limit: 5}).Cursor
		before := len(s.requests())
		for i := range cursor {
			altered := []byte(cursor)
			if altered[i]++; altered[i] == cursor[i] {
				continue
			}
			if bad := refused(t, e, Query{Cursor: string(altered)}); bad.Field != "cursor" || strings.Contains(bad.Want, "expired") {
				t.Errorf("%q refused with %v, want it told from one that has expired", altered, bad)
			}
		}
		for _, cursor := range []string{cursor[:len(cursor)-1], cursor + "A", " " + cursor, "j1.", "null", strings.Repeat("x", 5000)} {
			if bad := refused(t, e, Query{Cursor: cursor}); len(bad.Error()) > 400 {
				t.Errorf("a refusal of %d bytes", len(bad.Error()))
			}
		}
		if len(s.requests()) != before {
			t.Error("a refused cursor made requests")
		}
	})
}

func TestCursorExpiresAfterADay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engine(Options{}, &stand{name: "alpha", pages: paged("alpha", "", 3, 10)})
		cursor := ask(t, e, time.Second, Query{Limit: 5}).Cursor
		time.Sleep(24*time.Hour - time.Second)
		if r := ask(t, e, time.Second, Query{Cursor: cursor}); len(r.Items) != 20 {
			t.Errorf("a second before its end: %d items, want 20", len(r.Items))
		}
		time.Sleep(2 * time.Second)
		if bad := refused(t, e, Query{Cursor: cursor}); !strings.Contains(bad.Want, "expired") {
			t.Errorf("refused with %v, want: expired", bad)
		}
	})
}

func TestCursorOutlivesARestartWithItsStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := NewMemory(100)
		s := &stand{name: "alpha", pages: paged("alpha", "", 3, 10)}
		cursor := ask(t, engine(Options{Store: store}, s), time.Second, Query{Limit: 10}).Cursor
		r := ask(t, engine(Options{Store: store}, s), time.Second, Query{Limit: 10, Cursor: cursor})
		if len(r.Items) != 10 || r.Items[0].ID != "alpha//10" {
			t.Errorf("items %v, want the ten after the first ten", ids(r))
		}
		other := &stand{name: "beta", pages: paged("beta", "", 1, 1)}
		if bad := refused(t, engine(Options{Store: store}, s, other), Query{Cursor: cursor}); !strings.Contains(bad.Want, "other boards") {
			t.Errorf("refused with %v, want: other boards", bad)
		}
		if bad := refused(t, engine(Options{}, s), Query{Cursor: cursor}); !strings.Contains(bad.Want, "another server") {
			t.Errorf("refused with %v, want: of another server", bad)
		}
	})
}

// An age such as "7d" means what it meant when the listing began.
func TestAgeIsCountedFromTheFirstAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		now := epoch
		s := &stand{name: "alpha", pages: paged("alpha", "", 1, 30)} // an hour apart
		e := engine(Options{Now: func() time.Time { return now }}, s)
		q := Query{Since: "20h", Limit: 5}
		r := ask(t, e, time.Second, q)
		given := len(r.Items)
		for _, step := range []time.Duration{10 * time.Hour, -1000 * time.Hour, 3000 * time.Hour} { // whatever the clock does
			now = now.Add(step)
			q.Cursor = r.Cursor
			r = ask(t, e, time.Second, q)
			given += len(r.Items)
		}
		if given != 20 || s.asked[3].in.Since != epoch.Add(-20*time.Hour) {
			t.Errorf("%d items in 4 answers of 5, since %v; want 20, since %v", given, s.asked[3].in.Since, epoch.Add(-20*time.Hour))
		}
	})
}

// A board's list moves on between two answers: what moved to a later page is
// not given twice.
func TestJobsThatShiftToALaterPageAreNotGivenTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		all := jobs("alpha", "", 100, 40)
		page := func(from int) [][]posting.Job {
			list := slices.Concat(jobs("alpha", "", 100-from, from), all)
			return [][]posting.Job{list[:10], list[10:20], list[20:30], list[30:]}
		}
		s := &stand{name: "alpha", pages: page(0)}
		e := engine(Options{}, s)
		seen := make(map[string]int)
		r := ask(t, e, time.Second, Query{Limit: 10})
		for shift := 2; ; shift += 2 {
			for _, id := range ids(r) {
				seen[id]++
			}
			if r.Cursor == "" {
				break
			}
			s.pages = page(shift)
			r = ask(t, e, time.Second, Query{Limit: 10, Cursor: r.Cursor})
		}
		for i := 100; i < 140; i++ {
			if id := fmt.Sprintf("alpha//%d", i); seen[id] != 1 {
				t.Errorf("%s was given %d times", id, seen[id])
			}
		}
	})
}

func TestMemoryForgetsTheOldest(t *testing.T) {
	m := NewMemory(2)
	for _, key := range []string{"a", "b", "a", "c"} {
		m.Put(key, []byte(key), time.Hour)
	}
	_, a := m.Get("a")
	_, b := m.Get("b")
	_, c := m.Get("c")
	if !a || b || !c {
		t.Errorf("a %v, b %v, c %v; want only b forgotten", a, b, c)
	}
}

func TestGivenSurvivesItsEncoding(t *testing.T) {
	log := []given{{source: 63, id: 1<<64 - 1, keys: []digest{2, 3}}, {id: 5}, {source: 7, id: 6, keys: []digest{9}}}
	got := decodeGiven(encodeGiven(log))
	if fmt.Sprint(got) != fmt.Sprint(log) {
		t.Errorf("got %v, want %v", got, log)
	}
	for cut := range encodeGiven(log) {
		decodeGiven(encodeGiven(log)[:cut]) // must not panic
	}
	long := make([]given, maxHandedID+5)
	if got := len(decodeGiven(encodeGiven(long))); got != maxHandedID {
		t.Errorf("%d are kept of a log of %d, want %d", got, len(long), maxHandedID)
	}
}

func TestReportsOfEarlierAnswersAreKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &stand{name: "alpha", pages: paged("alpha", "", 1, 10), alter: func(_ int, p *board.Page) { p.Capped = true }}
		b := &stand{name: "beta", pages: paged("beta", "", 1, 30)}
		_, answers := follow(t, engine(Options{}, a, b), time.Second, Query{Limit: 20})
		last := answers[len(answers)-1]
		if got := report(t, last, "alpha"); !got.Capped || got.Matched != 10 || last.Complete || got.Elapsed != 0 {
			t.Errorf("%+v, complete %v; want capped and incomplete also when the source is long done", got, last.Complete)
		}
	})
}
