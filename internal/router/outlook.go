package router

import (
	"context"
	"math"
	"sync"
	"time"

	"layover/turnstile"
)

// Outlook is how far a waiting request has come.
type Outlook struct {
	Phase string // PhaseTurn, PhaseLine, PhaseSleep or PhaseWake; empty: none of them
	Place int    // in the line of the phase, from 1; 0: in none
}

// Outlook says what the request of ctx waits for, which is in Route for actor.
// It may be as old as rankingAge. It is cheap enough to be asked by each waiting
// request once a second: nothing but who waits for the actor is looked at, and
// lines are looked at for everybody in them at once.
func (r *Router) Outlook(ctx context.Context, actor string) Outlook {
	return r.outlook(claimOf(ctx), actor)
}

// OutlookOf is Outlook for a request that Waiting returned.
func (r *Router) OutlookOf(w Waiting) Outlook { return r.outlook(w.Claim, w.Actor) }

func (r *Router) outlook(claim turnstile.Claim, actor string) Outlook {
	if turns := r.gates.line(actor); turns != nil {
		if place := r.lines.place(turns, claim); place > 0 {
			return Outlook{Phase: PhaseTurn, Place: place}
		}
	}
	phase, line, shown := r.crowds.outlook(actor)
	o := Outlook{Phase: phase}
	if phase == PhaseLine && line != nil {
		o.Place = r.lines.place(line, shown)
	}
	return o
}

// line returns where requests to actor take turns; nil: nobody does.
func (gs *gates) line(actor string) *turnstile.Turnstile {
	if gs.limits.Load() == nil {
		return nil
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g := gs.of[actor]; g != nil {
		return g.turns
	}
	return nil
}

// outlook returns the phase of actor's flight, and in which line it stands, with
// which claim. It takes crowds.mu before crowd.mu.
func (cs *crowds) outlook(actor string) (phase string, line *turnstile.Turnstile, shown turnstile.Claim) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.of[actor]
	if c == nil {
		return "", nil, turnstile.Claim{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.place != nil {
		line = c.line
	}
	return c.phaseLocked(), line, c.shown
}

// rankingAge is how old a look at a line may be that somebody is told their
// place from.
const rankingAge = 250 * time.Millisecond

// rankings are the lines that were looked at lately: a look copies and sorts the
// whole line, and everybody in it may ask each second.
type rankings struct {
	mu sync.Mutex // before a turnstile's lock, so that one look serves all who ask at once
	of map[*turnstile.Turnstile]ranking
}

type ranking struct {
	at    time.Time
	place map[turnstile.Claim]int
}

// place returns where claim stands in t's line, from 1; 0: nowhere.
func (rs *rankings) place(t *turnstile.Turnstile, claim turnstile.Claim) int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	now := time.Now()
	seen, ok := rs.of[t]
	if !ok || now.Sub(seen.at) >= rankingAge {
		seen = ranking{at: now, place: make(map[turnstile.Claim]int)}
		for i, w := range t.Line(math.MaxInt) {
			if _, twice := seen.place[w.Claim]; !twice { // a job's requests for several actors
				seen.place[w.Claim] = i + 1
			}
		}
		for other, old := range rs.of { // lines of actors come and go
			if now.Sub(old.at) >= rankingAge {
				delete(rs.of, other)
			}
		}
		if rs.of == nil {
			rs.of = make(map[*turnstile.Turnstile]ranking)
		}
		rs.of[t] = seen
	}
	return seen.place[claim]
}
