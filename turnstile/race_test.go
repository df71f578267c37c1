package turnstile

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// lateContext is done from the second time it is asked, and never says so on a channel: what a context looks like that is
// cancelled at the very moment its waiter has been woken by a grant.
type lateContext struct {
	context.Context
	asked atomic.Int32
}

func (c *lateContext) Done() <-chan struct{} { return nil }

func (c *lateContext) Err() error {
	if c.asked.Add(1) > 1 {
		return context.Canceled
	}
	return nil
}

func TestT7_CancelledFirstThenGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(1)
		pass := take(t, ts)
		loser, next := queue(ts, claimAt(0, 0)), queue(ts, claimAt(1, 0))
		// Neither has run when the pass comes: the cancelled one is in line and is the best claim.
		loser.cancel()
		pass.Return()
		if !loser.refused() || !next.served() {
			t.Fatalf("loser refused %v, next served %v, want both", loser.refused(), next.served())
		}
		next.pass.Return()
		wantSnapshot(t, ts, 1, 0)
	})
}

func TestT7_GrantedUnderTheLockThenCancelledBeforeTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(1)
		pass := take(t, ts)
		loser, next := queue(ts, claimAt(0, 0)), queue(ts, claimAt(1, 0))
		// The grant by hand, stopped between its decision and its wake-up.
		ts.mu.Lock()
		ts.word.Store(nextGen0(ts.word.Load()))
		wake := ts.settleLocked(pass.slot)
		ts.mu.Unlock()
		loser.cancel()
		if !loser.waits() || !next.waits() {
			t.Fatal("the loser must wait for its token, and the next for the pass")
		}
		wake.notify()
		if !loser.refused() || !next.served() {
			t.Fatal("want the pass with the next in line")
		}
		next.pass.Return()
		wantSnapshot(t, ts, 1, 0)
		if st := ts.Stats(); st.Cancelled != 1 || st.Queued != 2 || st.Stray != 0 {
			t.Fatalf("Stats() = %+v, want 1 cancelled, 2 queued, no stray", st)
		}
	})
}

func TestT7_WokenByTheGrantThenCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(1)
		pass := take(t, ts)
		loser := callWith(context.Background(), func(context.Context) (Pass, bool) {
			return ts.WaitTurn(&lateContext{Context: context.Background()}, claimAt(0, 0))
		})
		next := queue(ts, claimAt(1, 0))
		pass.Return()
		if !loser.refused() || !next.served() {
			t.Fatal("want cancelled to win and the pass with the next in line")
		}
	})
}

func TestT7_CancelAndGrantHeldUpByTheLock(t *testing.T) {
	// Outside a bubble: a goroutine that waits for a mutex is not at rest for synctest.
	for i := range 200 {
		ts := New(1)
		pass, _ := ts.WaitTurn(t.Context(), Claim{})
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan Pass, 1)
		go func() {
			p, _ := ts.WaitTurn(ctx, Claim{})
			got <- p
		}()
		for _, w := ts.Snapshot(); w == 0; _, w = ts.Snapshot() {
			runtime.Gosched()
		}
		ts.mu.Lock()
		returned := make(chan struct{})
		give := func() { go func() { pass.Return(); close(returned) }() }
		if i%2 == 0 {
			give()
			cancel()
		} else {
			cancel()
			give()
		}
		runtime.Gosched()
		ts.mu.Unlock()
		<-returned
		p := <-got
		p.Return()
		cancel()
		if available, waiting := ts.Snapshot(); available != 1 || waiting != 0 {
			t.Fatalf("round %d: Snapshot() = %d, %d, want 1, 0", i, available, waiting)
		}
	}
}

func TestT7_ACopyReturnedAtOnceGivesBackOnce(t *testing.T) {
	for _, held := range []int{0, 1, fastSlots} { // slot 0, a slot of the word, a slot beyond it
		ts := New(fastSlots + 1)
		for range held {
			take(t, ts)
		}
		for range 200 {
			pass := take(t, ts)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(pass.Return)
			}
			wg.Wait()
		}
		if st := ts.Stats(); st.Available != fastSlots+1-held || st.Stray != 600 {
			t.Errorf("slot %d: Stats() = %+v, want %d available, 600 stray", held, st, fastSlots+1-held)
		}
	}
}

func TestT7_AnOldCopyDoesNotEndAnotherTurn(t *testing.T) {
	for _, held := range []int{0, 1, fastSlots} {
		ts := New(fastSlots + 1)
		for range held {
			take(t, ts)
		}
		old := take(t, ts)
		old.Return()
		current := take(t, ts)
		if current.slot != old.slot {
			t.Fatalf("slot %d: the slot was not used again; the test needs it", held)
		}
		old.Return()
		if st := ts.Stats(); st.Held != held+1 || st.Stray != 1 {
			t.Errorf("slot %d: an old copy ended a live turn: %+v", held, st)
		}
		Pass{}.Return()
	}
}

// TestT7_PassesAreConserved lets everything run at once: holders never exceed the most passes there ever were, and all are back
// at the end.
func TestT7_PassesAreConserved(t *testing.T) {
	for _, o := range []Options{{}, {MinUseful: 50 * time.Microsecond, HeadStart: time.Millisecond}} {
		for _, most := range []int{2, fastSlots + 6} {
			conserve(t, o, most)
		}
	}
}

func conserve(t *testing.T, o Options, most int) {
	ts := NewWith(most, o)
	var holders, peak atomic.Int64
	hold := func(pass Pass) {
		n := holders.Add(1)
		for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
		}
		runtime.Gosched()
		holders.Add(-1)
		pass.Return()
		if n%3 == 0 {
			pass.Return()
		}
	}
	stop := time.Now().Add(150 * time.Millisecond)
	var wg sync.WaitGroup
	for i := range 3 * most {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		wg.Go(func() {
			for time.Now().Before(stop) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(300))*time.Microsecond)
				if r.IntN(3) == 0 {
					place := ts.Enter(NewClaim(r.IntN(3)), stop)
					if r.IntN(3) == 0 {
						go place.Leave()
					}
					place.Set(NewClaim(r.IntN(3)), stop)
					if pass, ok := place.Wait(ctx); ok {
						hold(pass)
					}
				} else if pass, ok := ts.WaitTurn(ctx, NewClaim(r.IntN(3))); ok {
					hold(pass)
				}
				cancel()
			}
		})
	}
	wg.Go(func() {
		for r := rand.New(rand.NewPCG(0, 2)); time.Now().Before(stop); runtime.Gosched() {
			ts.Resize(r.IntN(most + 1))
			ts.Line(3)
			ts.Stats()
		}
		ts.Resize(most)
	})
	wg.Wait()
	if peak.Load() > int64(most) {
		t.Errorf("%d held at once, want at most %d", peak.Load(), most)
	}
	if st := ts.Stats(); st.Available != most || st.Waiting != 0 || st.Granted == 0 {
		t.Errorf("at the end: %+v, want %d available and nobody in line", st, most)
	}
	if w := ts.word.Load(); w&guard != 0 {
		t.Error("the guard is set although nobody waits")
	}
}

func TestA7_ACancelledHeadLeavesTheRestMoving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(1)
		pass := take(t, ts)
		head, next := queue(ts, claimAt(0, 0)), queue(ts, claimAt(1, 0))
		ts.Resize(0) // the head now waits behind a debt
		head.cancel()
		pass.Return()
		ts.Resize(1)
		if synctest.Wait(); !next.served() {
			t.Fatal("a free pass and somebody in line")
		}
	})
}
