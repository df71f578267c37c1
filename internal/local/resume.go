package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"layover/internal/router"
	"layover/turnstile"
)

// use is one request's interest in one actor.
type use struct {
	plane *Plane
	actor *actor

	// Guarded by plane.mu.
	with   *life // the life that the request is with; nil: it only wants the actor
	glance bool  // it does not count as use
	late   bool  // it is with a life that had refused connections before
	failed bool  // a connection of its own was refused
	done   bool
}

// Want implements [router.Plane].
func (p *Plane) Want(name string) (router.Use, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, err := p.actorLocked(name)
	if err != nil {
		return nil, err
	}
	if a.template && a.life == nil && !a.queued && p.queued >= p.mostQueuedLocked() {
		p.forgetLocked(a)
		return nil, tooMany()
	}
	a.wanted++
	p.tallyLocked(a)
	return &use{plane: p, actor: a}, nil
}

// Glance implements [router.Plane].
func (p *Plane) Glance(name string) (router.Target, router.Use, router.State, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, err := p.actorLocked(name)
	if err == nil {
		defer p.forgetLocked(a)
		err = a.refusedLocked()
	}
	if err != nil {
		return router.Target{}, nil, "", err
	}
	if a.state != router.Awake {
		return router.Target{}, nil, a.state, nil
	}
	a.life.inFlight++
	return a.life.target, &use{plane: p, actor: a, with: a.life, glance: true, late: a.life.refusals > 0}, a.state, nil
}

// actorLocked returns the actor called name, which a template may make.
func (p *Plane) actorLocked(name string) (*actor, error) {
	if p.closed {
		return nil, router.Fail(router.PlaneUnavailable, "the router is shutting down", nil)
	}
	a := p.actors[name]
	if a != nil && !a.removed {
		return a, nil
	}
	def, ok := p.defs.of(name)
	if !ok {
		return nil, router.Fail(router.UnknownActor, "there is no actor of this name", nil)
	}
	// A removed actor that is still there would have been taken back by Apply.
	a = &actor{name: name, def: def, template: true, state: router.Asleep, since: time.Now()}
	p.actors[name] = a
	return a, nil
}

// tooMany is the refusal of one instance of a template more.
func tooMany() *router.Error {
	err := router.Fail(router.LotFull, "too many actors are asked for at once", nil)
	err.RetryAfter = 10 * time.Second // nobody can tell: who is in line may not even wait any more
	return err
}

// Awake implements [router.Use].
func (u *use) Awake() (router.Target, bool) {
	u.plane.mu.Lock()
	defer u.plane.mu.Unlock()
	return u.takeLocked()
}

// Take implements [router.Use].
func (u *use) Take(t router.Target) bool {
	u.plane.mu.Lock()
	defer u.plane.mu.Unlock()
	if u.actor.life == nil || u.actor.life.target != t {
		return false
	}
	_, ok := u.takeLocked()
	return ok
}

func (u *use) takeLocked() (router.Target, bool) {
	a := u.actor
	if a.state != router.Awake || u.done || u.with != nil {
		return router.Target{}, false
	}
	u.with = a.life
	u.late = u.with.refusals > 0
	u.with.inFlight++
	u.with.served = true
	a.wanted--
	return u.with.target, true // no need to tally: it is awake
}

// How often and for how long connections to an awake actor must be refused,
// with none taken in between, before it counts as gone. A program may close its
// socket for a moment, to open it again.
const (
	refusedDials = 3
	refusedFor   = 3 * time.Second
)

// Unreachable implements [router.Use]. An actor whose socket is gone although
// its process lives goes to sleep, so that the next request wakes it again.
// What other requests still get from it, they have max_drain for.
func (u *use) Unreachable() {
	p, a := u.plane, u.actor
	p.mu.Lock()
	defer p.mu.Unlock()
	l := u.with
	if u.done || l == nil {
		return
	}
	u.failed = true
	if l.refusals == 0 {
		l.refusedSince = time.Now()
	}
	l.refusals++
	if l.refusals < refusedDials || time.Since(l.refusedSince) < refusedFor || a.life != l || a.state != router.Awake {
		return
	}
	a.lastError = errRefuses.Error()
	p.dismissLocked(a, errRefuses)
}

// Done implements [router.Use].
func (u *use) Done() {
	p, a := u.plane, u.actor
	p.mu.Lock()
	defer p.mu.Unlock()
	if u.done {
		return
	}
	u.done = true
	if u.with == nil {
		a.wanted--
		p.tallyLocked(a)
	} else {
		u.with.inFlight--
		if u.late && !u.failed {
			u.with.refusals = 0
		}
		if !u.glance {
			a.lastUsed = time.Now()
		}
		p.drainedLocked(a, u.with)
	}
	if a.wanted > 0 || u.with != nil && u.with.inFlight > 0 {
		return
	}
	p.settleLocked(a)
	p.forgetLocked(a)
}

// Resume implements [router.Plane]. It goes round until the actor is awake: a
// configuration that changes under a flight sends it back to the start.
func (p *Plane) Resume(ctx context.Context, name string, f *router.Flight) (router.Target, error) {
	for ctx.Err() == nil {
		p.mu.Lock()
		a, err := p.actorLocked(name)
		if err == nil {
			err = a.refusedLocked()
		}
		if err != nil {
			p.mu.Unlock()
			return router.Target{}, err
		}
		state, l, pl := a.state, a.life, p.pools[a.def.Pool]
		var target router.Target
		if state == router.Awake {
			target = l.target
		}
		p.mu.Unlock()

		switch state {
		case router.Awake: // since the caller looked
			return target, nil
		case router.GoingToSleep:
			f.Park("going to sleep")
			waitFor(ctx, f, l.gone)
			continue
		case router.Asleep:
			if l, err = p.take(ctx, name, pl, f); err != nil {
				return router.Target{}, err
			}
			if l == nil {
				continue
			}
		case router.Waking: // for a flight that ended before it
			if !f.Commit() {
				return router.Target{}, errAbandoned
			}
		}
		f.Park("starting")
		target, err = p.decision(l, f)
		if err != nil || target != (router.Target{}) {
			return target, err
		}
		if !f.Uncommit() {
			break
		}
	}
	return router.Target{}, errAbandoned
}

// errAbandoned ends a flight that all its callers left: nobody sees it.
var errAbandoned = router.Fail(router.ClientGone, "nobody waits for this wake-up any more", nil)

// refusedLocked returns the error of a wake-up that comes too soon after a
// failed one.
func (a *actor) refusedLocked() error {
	now := time.Now()
	if !a.retryAt.After(now) || a.state == router.Awake {
		return nil
	}
	left := a.retryAt.Sub(now)
	failed := "the last start failed"
	if a.failures > 1 {
		failed = fmt.Sprintf("the last %d starts failed", a.failures)
	}
	detail := fmt.Sprintf("%s; the next one is possible in %v", failed, left.Round(time.Millisecond))
	err := router.Fail(router.BackingOff, detail, errors.New(a.lastError))
	err.RetryAfter, err.Output = left, shown(a.lastWords)
	return err
}

func waitFor(ctx context.Context, f *router.Flight, gone <-chan struct{}) {
	defer f.Phase(router.PhaseSleep)()
	select {
	case <-gone:
	case <-ctx.Done():
	}
}

// decision waits until l is awake or never will be, for which it has its own
// ceiling: a target, an error, or neither if it was dismissed before that.
func (p *Plane) decision(l *life, f *router.Flight) (router.Target, error) {
	end := f.Phase(router.PhaseWake)
	f.Trouble(router.Fail(router.StillWaking, "the actor was still starting when the request's budget ended", lacking{p, l}))
	<-l.decided
	f.Trouble(nil)
	end()
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.err != nil {
		return router.Target{}, l.err
	}
	return l.target, nil
}

// lacking is what a life lacks to be awake, by when it is said.
type lacking struct {
	plane *Plane
	life  *life
}

func (e lacking) Error() string {
	e.plane.mu.Lock()
	program := e.life.program
	e.plane.mu.Unlock()
	if program == nil {
		return "its program is not started yet"
	}
	if lacks := program.lacks(); lacks != nil {
		return lacks.Error()
	}
	return "it is not ready yet"
}

// take takes a worker of pl, commits f and begins a life of the actor called
// name with it. No life and no error: the actor is not what it was; look again.
func (p *Plane) take(ctx context.Context, name string, pl *pool, f *router.Flight) (*life, error) {
	place := f.Enter(pl.gate)
	free := place.Granted()
	pass, ok := turnstile.Pass{}, false
	if free {
		pass, ok = place.Wait(ctx)
	} else {
		pass, ok = p.standInLine(ctx, name, pl, place, f)
	}
	if !ok {
		if pass.Doomed() {
			return nil, router.Fail(router.NoWorker, "not enough time left for a worker to be of use", nil)
		}
		return nil, nil
	}
	committed := f.Commit()
	p.mu.Lock()
	if !committed {
		p.returnLocked(pl, pass)
		p.mu.Unlock()
		return nil, errAbandoned
	}
	a, err := p.actorLocked(name)
	if err == nil && a.state == router.Asleep && p.pools[a.def.Pool] == pl && a.refusedLocked() == nil {
		defer p.mu.Unlock()
		return p.beginLocked(a, pl, pass), nil
	}
	p.returnLocked(pl, pass)
	p.mu.Unlock()
	if err == nil && !f.Uncommit() {
		err = errAbandoned
	}
	return nil, err
}

// standInLine waits at place, which Apply makes it leave when it is no longer
// the right one.
func (p *Plane) standInLine(ctx context.Context, name string, pl *pool, place *turnstile.Place, f *router.Flight) (turnstile.Pass, bool) {
	p.mu.Lock()
	a, err := p.actorLocked(name)
	if err != nil || p.pools[a.def.Pool] != pl {
		p.mu.Unlock()
		place.Leave()
		return turnstile.Pass{}, false
	}
	if a.places == nil {
		a.places = make(map[*turnstile.Place]struct{})
	}
	a.places[place] = struct{}{}
	p.tallyLocked(a)
	p.evictLocked(pl)
	p.mu.Unlock()

	f.Park("no free worker")
	end := f.Phase(router.PhaseLine)
	pass, ok := place.Wait(ctx)
	end()

	p.mu.Lock()
	defer p.mu.Unlock()
	delete(a.places, place)
	p.forgetLocked(a)
	return pass, ok
}
