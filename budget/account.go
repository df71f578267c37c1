package budget

import (
	"context"
	"sync"
	"time"
)

// account is what one budget owns: its end and its ledger. It knows no context, so that neither a Budget nor an error
// keeps a request alive. Accounts of nested budgets share the outermost one's start, from which all instants count, and
// its lock.
type account struct {
	root  *account
	outer scope // where this budget was begun, if inside another
	ender *account
	begin time.Duration
	end   time.Duration
	spent Exhausted // the cause of the context of ender

	start time.Time // of the root only

	mu     sync.Mutex // of the root only; guards what follows, in every account of the family
	phases *node
	last   error
}

func (a *account) instant(at time.Duration) time.Time   { return a.root.start.Add(at) }
func (a *account) left(now time.Duration) time.Duration { return a.end - now }
func (a *account) offset(t time.Time) time.Duration     { return t.Sub(a.root.start) }
func (a *account) contains(at time.Duration) bool       { return a.begin <= at && at < a.end }

// overlaps reports whether some of [from, to] is a's; an instant is if it is not past the end.
func (a *account) overlaps(from, to time.Duration) bool {
	return a.contains(from) || from < a.begin && to > a.begin
}

func (a *account) clip(at time.Duration) time.Duration { return min(max(at, a.begin), a.end) }

// nodeLocked finds or makes the phase name under parent, and its mirror in every budget around a.
func (a *account) nodeLocked(parent *node, name string) *node {
	link := &a.phases
	if parent != nil {
		link = &parent.kids
	}
	for ; *link != nil; link = &(*link).next {
		if (*link).name == name {
			return *link
		}
	}
	n := &node{name: name}
	*link = n
	if out := a.outer; out.acct != nil {
		under := out.node
		if parent != nil {
			under = parent.outer
		}
		n.outer = out.acct.nodeLocked(under, name)
	}
	return n
}

// running is one phase in progress.
type running struct {
	acct *account
	node *node
	from time.Duration
	done bool // guarded by acct.root.mu
}

func begin(s scope, name string) running {
	a := s.acct
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	// Read under the lock: edges enter the ledger in the order of their times.
	r := running{acct: a, node: a.nodeLocked(s.node, name), from: since(a.root.start)}
	for n := r.node; a != nil; a, n = a.outer.acct, n.outer {
		if a.contains(r.from) {
			n.open(r.from)
		}
	}
	return r
}

func (r *running) stop() {
	a := r.acct
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	if r.done {
		return
	}
	r.done = true
	now := since(a.root.start)
	for n := r.node; a != nil; a, n = a.outer.acct, n.outer {
		if a.contains(r.from) {
			n.close(r.from, min(now, a.end), now >= a.end)
		}
	}
}

// Phase begins a phase, inside the phase of the context that b was taken from, and returns the function that ends it.
// Calling that again does nothing. Phases of the same name may overlap: their ledger entry has both the sum and the union.
// Time after the end of the budget is not booked.
func (b Budget) Phase(name string) (end func()) {
	if b.scope.acct == nil {
		return func() {}
	}
	r := begin(b.scope, name)
	return r.stop
}

// Phase is [Budget.Phase] on the budget of ctx, and returns a context whose phases are inner to this one.
func Phase(ctx context.Context, name string) (context.Context, func()) {
	s := scopeOf(ctx)
	if s.acct == nil {
		return ctx, func() {}
	}
	c := &phaseCtx{Context: ctx, running: begin(s, name)}
	c.scope = scope{s.acct, c.running.node}
	return c, c.running.stop
}

// Record books a phase that was timed elsewhere, as by a wake-up that several operations share, as if it had been a Phase
// from one time to the other. What lies outside the budget or in the future is cut off, and if nothing is left, nothing is
// booked. The times should have monotonic readings. It may be called after the end, until somebody asks for the [Exhausted].
func (b Budget) Record(name string, from, to time.Time) {
	a := b.scope.acct
	if a == nil {
		return
	}
	f, t := a.offset(from), a.offset(to)
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	t = min(t, since(a.root.start))
	if t < f || !a.overlaps(f, t) {
		return
	}
	for n := a.nodeLocked(b.scope.node, name); a != nil; a, n = a.outer.acct, n.outer {
		if a.overlaps(f, t) {
			n.record(a.clip(f), a.clip(t), t >= a.end)
		}
	}
}
