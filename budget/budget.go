package budget

import (
	"context"
	"errors"
	"time"
)

// Start begins a budget that ends at deadline, or at ctx's own deadline if that is earlier. Both are converted to the
// monotonic clock now and never again, and bounded to 100 years from now. A deadline that has passed gives a context that
// is already done. Call cancel as soon as the operation is over.
//
// If ctx has a deadline that is no budget's and that comes first, a cancel of ctx reaches the returned context through
// [context.AfterFunc], a moment after ctx itself: only so can the end be reported as this budget's.
func Start(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	wall, mono := readClocks()
	return start(ctx, wall, mono, until(deadline, wall, mono))
}

// For begins a budget of d from now. Like Start otherwise; d of zero or less is spent from the beginning.
func For(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	wall, mono := readClocks()
	return start(ctx, wall, mono, d)
}

func start(ctx context.Context, wall, mono time.Time, limit time.Duration) (context.Context, context.CancelFunc) {
	a := &account{outer: scopeOf(ctx)}
	a.ender = a
	if out := a.outer.acct; out != nil {
		a.root, a.begin = out.root, mono.Sub(out.root.start)
	} else {
		a.root, a.start = a, mono
	}
	a.end = a.begin + min(max(limit, 0), century)
	a.spent.acct = a

	inherited, foreign := a.narrow(ctx, wall, mono)
	switch {
	case inherited:
		a.ender = a.outer.acct.ender
		std, cancel := context.WithCancel(ctx)
		return &budgetCtx{std, scope{acct: a}}, cancel
	case foreign:
		std, cancel := bridge(ctx, a)
		return &budgetCtx{std, scope{acct: a}}, cancel
	}
	// Counted from the reading of now: package context may compare it with a wall-only deadline of ctx, and the wall part of
	// the outermost start, from which instant counts, is stale after a step of the clock.
	std, cancel := context.WithDeadlineCause(ctx, mono.Add(a.end-a.begin), &a.spent)
	return &budgetCtx{std, scope{acct: a}}, cancel
}

// narrow moves a's end forward to the ends that ctx already has. It reports where the end came from if it is not a's own:
// inherited from the outer budget, whose timer ends ctx too, or a foreign deadline of ctx.
func (a *account) narrow(ctx context.Context, wall, mono time.Time) (inherited, foreign bool) {
	deadline, ok := ctx.Deadline()
	if out := a.outer.acct; out != nil {
		// A context made by context.WithoutCancel has the budget but not its timer.
		reported := ok && deadline.Equal(out.instant(out.end))
		if out.end <= a.end {
			a.end, inherited = max(out.end, a.begin), reported
		}
		if reported {
			return inherited, false
		}
	}
	if !ok {
		return inherited, false
	}
	if end := a.begin + max(until(deadline, wall, mono), 0); end <= a.end {
		a.end, inherited, foreign = end, false, true
	}
	return inherited, foreign
}

// bridge derives a context that ends at a's end with a's own cause, although ctx has a timer for the same instant: the two
// would race for the cause. So ctx's cancellation is taken off and put back by hand, all but the end of its time.
func bridge(ctx context.Context, a *account) (context.Context, context.CancelFunc) {
	mid, cancelMid := context.WithCancelCause(context.WithoutCancel(ctx))
	std, cancel := context.WithDeadlineCause(mid, a.instant(a.end), &a.spent)
	forward := func() {
		if ctx.Err() == context.DeadlineExceeded && a.left(since(a.root.start)) < time.Millisecond {
			return // our own timer says so too, with our cause
		}
		cancelMid(context.Cause(ctx))
	}
	if ctx.Err() != nil {
		forward()
	}
	stop := context.AfterFunc(ctx, forward)
	return std, func() { stop(); cancel(); cancelMid(nil) }
}

// Detach returns a context with ctx's values but without its budget, ledger, cancellation and deadline, for work that
// several operations share and that must not run on the time of one of them.
func Detach(ctx context.Context) context.Context {
	return detachedCtx{context.WithoutCancel(ctx)}
}

// scopeKey is the context key of a *scope.
type scopeKey struct{}

// scope is where in a ledger a context stands.
type scope struct {
	acct *account
	node *node // the phase that encloses; nil: none
}

func scopeOf(ctx context.Context) scope {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok {
		return *s
	}
	return scope{}
}

// budgetCtx keeps Done and Err of the standard context: as long as Done returns its channel, package context recognises the
// cancelCtx inside and attaches children without a goroutine.
type budgetCtx struct {
	context.Context
	scope scope
}

func (c *budgetCtx) Deadline() (time.Time, bool) {
	a := c.scope.acct
	return a.instant(a.end), true
}

func (c *budgetCtx) Value(key any) any {
	if key == (scopeKey{}) {
		return &c.scope
	}
	return c.Context.Value(key)
}

// phaseCtx leaves Deadline alone: between it and the budget there may be an earlier deadline.
type phaseCtx struct {
	context.Context
	scope   scope
	running running
}

func (c *phaseCtx) Value(key any) any {
	if key == (scopeKey{}) {
		return &c.scope
	}
	return c.Context.Value(key)
}

type detachedCtx struct{ context.Context }

func (c detachedCtx) Value(key any) any {
	if key == (scopeKey{}) {
		return nil
	}
	return c.Context.Value(key)
}

// Budget is a view of the budget that a context carries. The zero Budget is unlimited: it affords everything and books
// nothing. A Budget may be copied, kept after the context, and used by several goroutines at once.
type Budget struct{ scope scope }

// From returns the budget of ctx, or an unlimited one if it has none. A deadline that was put on ctx by other means than
// this package is not a budget.
func From(ctx context.Context) Budget { return Budget{scopeOf(ctx)} }

// End returns the instant at which the budget ends, with a monotonic reading. ok is false when it is unlimited.
func (b Budget) End() (end time.Time, ok bool) {
	a := b.scope.acct
	if a == nil {
		return time.Time{}, false
	}
	return a.instant(a.end), true
}

// Remaining returns the time up to the end, by the clock: 0 when it has passed, 100 years when the budget is unlimited.
func (b Budget) Remaining() time.Duration {
	a := b.scope.acct
	if a == nil {
		return century
	}
	return max(a.left(since(a.root.start)), 0)
}

// Spent returns the time since the start of the budget, also past its end; 0 when it is unlimited. It is elapsed time, not
// the sum of what phases took side by side.
func (b Budget) Spent() time.Duration {
	a := b.scope.acct
	if a == nil {
		return 0
	}
	return since(a.root.start) - a.begin
}

// Afford returns an error when less than d remains: an [*Exhausted] that says what was asked and what was left. Use it to
// refuse to begin what cannot finish. Once the end has passed it refuses every d.
func (b Budget) Afford(d time.Duration) error {
	a := b.scope.acct
	if a == nil {
		return nil
	}
	left := a.left(since(a.root.start))
	if left <= 0 {
		return &a.ender.spent
	}
	if left < d {
		return b.refuse(d, left)
	}
	return nil
}

// Note remembers err as what last went wrong, for the [Exhausted] of this budget and of those around it. nil and a cancel
// are ignored, and a time-out, such as an inner budget's Exhausted, is kept only while there is nothing else: what only
// says that time is up never replaces a better error.
func (b Budget) Note(err error) {
	a := b.scope.acct
	// Asked before the lock is taken, because this asks every Exhausted inside err, which locks. It freezes them too: what
	// is noted is frozen before what it is noted in, so errors never contain each other in a ring.
	if a == nil || err == nil || errors.Is(err, context.Canceled) {
		return
	}
	timeout := errors.Is(err, context.DeadlineExceeded)
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	for ; a != nil; a = a.outer.acct {
		if a.last == nil || !timeout {
			a.last = err
		}
	}
}
