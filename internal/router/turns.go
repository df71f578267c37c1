package router

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"layover/budget"
	"layover/turnstile"
)

// Limit bounds the requests that are with one actor at once. The zero Limit is
// no bound.
type Limit struct {
	Concurrent int // rides at once; 0: no bound
	Waiting    int // requests that may wait for their turn beyond those; 0: none waits
}

// gates are where requests to actors that have a Limit take turns. An actor has
// one only while a request is with it or waits for that, so that asking for
// many names leaves nothing behind.
type gates struct {
	limits atomic.Pointer[func(actor string) Limit]

	mu sync.Mutex // before a turnstile's lock
	of map[string]*gate
}

// gate is one actor's. All but turns is guarded by gates.mu.
type gate struct {
	actor string
	limit Limit
	turns *turnstile.Turnstile
	users int    // requests that have a turn or wait for one
	took  recent // the turns that ended last
}

// turn is one request's turn with an actor, or its place in line for one. A nil
// *turn is that of an actor without a Limit.
type turn struct {
	gates *gates
	gate  *gate
	place *turnstile.Place
	pass  turnstile.Pass
	since time.Time // when the turn began; zero: it waits
	over  bool      // guarded by gates.mu
}

// SetLimits puts the limits of actors into force, also for the requests that
// wait now; rides that began before their actor had a limit are not counted.
// limits is called with a lock held, so it only looks the actor up. Nil: no
// actor has a limit, which is so at first.
func (r *Router) SetLimits(limits func(actor string) Limit) {
	gs := &r.gates
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if limits == nil {
		gs.limits.Store(nil)
		limits = func(string) Limit { return Limit{} }
	} else {
		gs.limits.Store(&limits)
	}
	for actor, g := range gs.of {
		g.limit = limits(actor)
		g.turns.Resize(g.limit.passes())
	}
}

// limit returns the limit of actor that is in force.
func (gs *gates) limit(actor string) Limit {
	if limits := gs.limits.Load(); limits != nil {
		return (*limits)(actor)
	}
	return Limit{}
}

const unlimited = 1<<31 - 1

func (l Limit) passes() int {
	if l.Concurrent == 0 {
		return unlimited
	}
	return l.Concurrent
}

// enter takes a turn with actor, or a place in its line if there is none. The
// turn is nil if the actor has no limit.
func (gs *gates) enter(ctx context.Context, actor string) (*turn, *Error) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	limit := gs.limit(actor)
	if limit.Concurrent == 0 {
		return nil, nil
	}
	g := gs.of[actor]
	if g == nil {
		g = &gate{actor: actor, limit: limit, turns: turnstile.New(limit.passes())}
		if gs.of == nil {
			gs.of = make(map[string]*gate)
		}
		gs.of[actor] = g
	}
	until, _ := ctx.Deadline()
	t := &turn{gates: gs, gate: g, place: g.turns.Enter(claimOf(ctx), until)}
	if t.place.Granted() {
		t.wait(context.Background()) // collects it
	} else if _, waiting := g.turns.Snapshot(); waiting > limit.Waiting {
		t.place.Leave()
		return nil, &Error{Reason: ActorBusy, Actor: actor, RetryAfter: g.expectLocked(),
			Detail: fmt.Sprintf("the actor has the %d requests that it may have at once, and %d wait for their turn", limit.Concurrent, waiting-1)}
	}
	g.users++
	return t, nil
}

// expectLocked returns how long it will probably take until everybody in line
// has had a turn and there is one for somebody else. Zero when nothing is known.
func (g *gate) expectLocked() time.Duration {
	took, _ := g.took.median()
	_, waiting := g.turns.Snapshot()
	return min(took, time.Hour) * time.Duration(waiting+1) / time.Duration(g.limit.passes())
}

// waits reports whether the turn is still to come.
func (t *turn) waits() bool { return t != nil && t.since.IsZero() }

// takeTurn waits for a turn with actor.
func (r *Router) takeTurn(ctx context.Context, actor string, t *turn) error {
	end := budget.From(ctx).Phase(PhaseTurn)
	ok := t.wait(ctx)
	end()
	if !ok || over(ctx) != nil {
		return t.late(r.ended(ctx, actor, ActorBusy))
	}
	return nil
}

// wait waits for the turn. False: ctx has ended.
func (t *turn) wait(ctx context.Context) (ok bool) {
	if t.pass, ok = t.place.Wait(ctx); ok {
		t.since = time.Now()
	}
	return ok
}

// late is the error of a request whose budget ended in line.
func (t *turn) late(e *Error) *Error {
	if e.Reason == ActorBusy {
		t.gates.mu.Lock()
		defer t.gates.mu.Unlock()
		e.RetryAfter = t.gate.expectLocked()
	}
	return e
}

// done gives the turn up: the best claim in line has it before done returns.
func (t *turn) done() {
	gs, g := t.gates, t.gate
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if t.over {
		return
	}
	t.over = true
	if !t.since.IsZero() {
		g.took.add(time.Since(t.since))
	}
	t.place.Leave()
	t.pass.Return()
	if g.users--; g.users == 0 {
		delete(gs.of, g.actor)
	}
}

// show adds to actors what is known of their turns.
func (gs *gates) show(actors []ActorSnapshot) {
	if gs.limits.Load() == nil {
		return
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	for i := range actors {
		a := &actors[i]
		a.Limit = gs.limit(a.Name).Concurrent
		if g := gs.of[a.Name]; g != nil {
			_, a.InLine = g.turns.Snapshot()
		}
	}
}
