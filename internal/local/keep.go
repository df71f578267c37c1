package local

import (
	"context"
	"fmt"
	"math"
	"time"

	"layover/internal/router"
	"layover/turnstile"
)

// clockStep is how long the plane goes without a look at the wall clock while
// an actor has windows: the clock may have been set, or stood still while the
// machine slept, and no timer tells.
const clockStep = time.Minute

// scheduleLocked finds out whether a is kept awake now, and has it looked at
// again when that changes. It must be called when a's definition changes and
// then by the alarm; settleLocked and keepLocked must follow.
func (p *Plane) scheduleLocked(a *actor) {
	a.keeping = false
	if !a.removed {
		now := time.Now()
		var edge time.Time
		a.keeping, edge = a.def.KeepAwake.At(now)
		if !edge.IsZero() { // the alarm's own time is monotonic
			p.alarmLocked(a, now.Add(min(edge.Sub(now.Round(0)), clockStep)))
		}
	}
	if !a.keeping && a.kept != nil {
		a.kept.Leave()
	}
}

// relieveLocked has all actors whose windows begin now stand in line, before
// those whose windows end now give their workers to whoever is there.
func (p *Plane) relieveLocked() {
	for _, a := range p.actors {
		if len(a.def.KeepAwake.Windows) > 0 {
			p.scheduleLocked(a)
			p.keepLocked(a)
		}
	}
}

// keepLocked sees to an actor that is kept awake and is asleep: it takes a
// worker and starts, or does so when its back-off is over. It must be called
// whenever such an actor falls asleep or its back-off may be over. Requests for
// the actor wake it in their own way; who has a worker first begins.
func (p *Plane) keepLocked(a *actor) {
	if !a.keeping || p.closed || a.state != router.Asleep || a.kept != nil {
		return
	}
	if a.retryAt.After(time.Now()) {
		p.alarmLocked(a, a.retryAt)
		return
	}
	pl := p.pools[a.def.Pool]
	place := pl.gate.Enter(turnstile.NewClaim(math.MinInt), time.Time{}) // its worker is its own
	if place.Granted() {
		pass, _ := place.Wait(context.Background())
		p.beginLocked(a, pl, pass)
		return
	}
	a.kept = place
	if a.places == nil {
		a.places = make(map[*turnstile.Place]struct{})
	}
	a.places[place] = struct{}{} // Apply may make it leave
	p.evictLocked(pl)
	p.lives.Add(1)
	go p.keep(a, pl, place) // Stop waits for it, and closes the gate
}

// keep waits in line for a worker for a, as a flight without callers.
func (p *Plane) keep(a *actor, pl *pool, place *turnstile.Place) {
	defer p.lives.Done()
	pass, ok := place.Wait(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(a.places, place)
	a.kept = nil
	switch {
	case ok && a.keeping && !p.closed && a.state == router.Asleep && p.pools[a.def.Pool] == pl && !a.retryAt.After(time.Now()):
		p.beginLocked(a, pl, pass)
		return
	case ok:
		p.returnLocked(pl, pass)
	}
	p.keepLocked(a)
	p.forgetLocked(a)
}

// keptProblems says which pools cannot keep their actors awake. Those with
// windows are left out: windows need not overlap, and where they do, who comes
// later stands at the head of the line.
func (c Config) keptProblems() (errs []error) {
	kept := make(map[string]int)
	for _, a := range c.Actors {
		if a.KeepAwake.Always {
			kept[a.Pool]++
		}
	}
	for _, pool := range c.Pools {
		if n := kept[pool.Name]; n > pool.Workers {
			errs = append(errs, fmt.Errorf("local: pool %q: has %d workers for %d actors that are kept awake: give it more, or keep fewer", pool.Name, pool.Workers, n))
		}
	}
	return errs
}
