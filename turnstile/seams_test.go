package turnstile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// asked is a context that does something when it is asked for its deadline:
// between a turn's first attempt and its announcement.
type asked struct {
	context.Context
	deadline func()
}

func (c *asked) Deadline() (time.Time, bool) {
	c.deadline()
	return c.Context.Deadline()
}

func TestT17_APassThatComesBackBeforeTheAnnouncementIsSeen(t *testing.T) {
	for _, held := range []int{1, 2, fastSlots + 1} {
		synctest.Test(t, func(t *testing.T) {
			ts := New(held)
			var last Pass
			for range held {
				last = take(t, ts)
			}
			got, ok := ts.WaitTurn(&asked{t.Context(), last.Return}, Claim{})
			if !ok || got.Waited() != 0 {
				t.Errorf("of %d held: WaitTurn = %v, %v, want the pass that came back", held, got, ok)
			}
		})
	}
}

// A grow that serves the last in line opens the word again on the way; a pass
// that is given back at that moment must not be overwritten.
func TestT4_AGrowKeepsAPassThatComesBackMeanwhile(t *testing.T) {
	for range 20_000 {
		ts := New(1)
		held := take(t, ts)
		place := ts.Enter(Claim{}, time.Time{})
		returned := make(chan struct{})
		go func() {
			held.Return()
			close(returned)
		}()
		ts.Resize(3)
		<-returned
		held.Return() // a second one: it must not count
		if s := ts.Stats(); s.Available != 2 || s.Held != 1 {
			t.Fatalf("%+v, want two passes free and the place's held", s)
		}
		place.Leave()
		if s := ts.Stats(); s.Available != 3 {
			t.Fatalf("%+v, want three passes free", s)
		}
	}
}

func TestT17_AFloodLeavesLittleBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(0)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 4 * maxKept {
			go ts.WaitTurn(ctx, Claim{Priority: i % 7, Since: time.Now()})
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if ts.pooled > maxPooled || len(ts.line.run.ring) > maxKept || cap(ts.line.heap) > maxKept {
			t.Errorf("%d waiters, a ring of %d, a heap of %d are kept", ts.pooled, len(ts.line.run.ring), cap(ts.line.heap))
		}
	})
}

func TestT18_TheZeroTurnstileSaysSo(t *testing.T) {
	var zero Turnstile
	for name, call := range map[string]func(){
		"Size": func() { zero.Size() }, "Snapshot": func() { zero.Snapshot() }, "Line": func() { zero.Line(1) }, "Stats": func() { zero.Stats() },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of the zero Turnstile does not panic", name)
				}
			}()
			call()
		}()
	}
}

func TestBeginInAJobsContextKeepsItsTurnstile(t *testing.T) {
	set := NewSet()
	set.Resize(1, 1)
	job := set.ContextWithPriority(t.Context(), 1, 5)
	pass := WaitTurn(Begin(job, 1))
	if available, _ := set.Turnstile(1).Snapshot(); available != 0 {
		t.Error("the turn was unordered")
	}
	pass.Return()
}
