package turnstile

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// claimAt is the claim of a job of that band that began at second s.
func claimAt(band, s int) Claim {
	return Claim{Priority: band, Since: time.Unix(1_000_000+int64(s), 0)}
}

// caller is a goroutine that takes a turn, as a script sees it.
type caller struct {
	pass   Pass
	ok     bool
	done   atomic.Bool
	ctx    context.Context
	cancel context.CancelFunc
}

// call starts f in a goroutine and waits until it has its answer or is in line.
func call(f func(ctx context.Context) (Pass, bool)) *caller {
	return callWith(context.Background(), f)
}

func callWith(ctx context.Context, f func(ctx context.Context) (Pass, bool)) *caller {
	c := &caller{}
	c.ctx, c.cancel = context.WithCancel(ctx)
	go func() {
		c.pass, c.ok = f(c.ctx)
		c.done.Store(true)
	}()
	synctest.Wait()
	return c
}

func queue(ts *Turnstile, claim Claim) *caller {
	return call(func(ctx context.Context) (Pass, bool) { return ts.WaitTurn(ctx, claim) })
}

// served reports whether c has a pass by now, and refused whether it has been sent away without one.
func (c *caller) served() bool  { synctest.Wait(); return c.done.Load() && c.ok }
func (c *caller) refused() bool { synctest.Wait(); return c.done.Load() && !c.ok }
func (c *caller) waits() bool   { synctest.Wait(); return !c.done.Load() }

// take takes a pass that must be free.
func take(t *testing.T, ts *Turnstile) Pass {
	t.Helper()
	pass, ok := ts.WaitTurn(t.Context(), Claim{})
	if !ok {
		t.Fatal("WaitTurn refused, want a free pass")
	}
	return pass
}

func wantSnapshot(t *testing.T, ts *Turnstile, available, waiting int) {
	t.Helper()
	synctest.Wait()
	if a, w := ts.Snapshot(); a != available || w != waiting {
		t.Fatalf("Snapshot() = %d available, %d waiting; want %d, %d", a, w, available, waiting)
	}
}

// wantOrder serves the callers one at a time by returning the pass of the one before, beginning with first, and checks that they
// are served in the order given.
func wantOrder(t *testing.T, first Pass, callers ...*caller) {
	t.Helper()
	pass := first
	for i, c := range callers {
		pass.Return()
		if !c.served() {
			t.Fatalf("caller %d is not served when its turn comes", i)
		}
		for j, later := range callers[i+1:] {
			if !later.waits() {
				t.Fatalf("caller %d is served while it is the turn of %d", i+1+j, i)
			}
		}
		pass = c.pass
	}
	pass.Return()
}
