package router

import (
	"cmp"
	"context"
	"slices"
	"time"

	"layover/budget"
	"layover/parking"
	"layover/turnstile"
)

// Wake wakes actor as a request of band 0 would, and waits for that at most
// within: it needs a spot while it is parked, and a turn with an actor that has
// a limit. No request is recorded. The error is an *Error.
func (r *Router) Wake(ctx context.Context, actor string, within time.Duration) error {
	ctx, cancel := budget.For(ctx, within)
	defer cancel()
	ride, err := r.Route(turnstile.Begin(ctx, 0), Ask{Actor: actor})
	if err != nil {
		return err
	}
	ride.Done()
	return nil
}

// Waiting is one request that waits for an actor, or for its turn with it.
type Waiting struct {
	ID     string // of Ask
	Actor  string
	Claim  turnstile.Claim
	End    time.Time      // of its budget; zero: it has none
	Budget budget.Budget  // its ledger has what is over: its turn, and flights before this one
	Flight []parking.Span // of the flight under way, also from before the request joined it; To of one that goes on is zero. Shared by all who wait for the actor
}

// Waiting returns all requests that wait now: lower bands first, and in a band
// those that began earliest.
func (r *Router) Waiting() []Waiting {
	var all []Waiting
	cs := &r.crowds
	cs.mu.Lock()
	for actor, c := range cs.of {
		c.mu.Lock()
		flight := slices.Clone(c.phases)
		for _, m := range c.byClaim.list {
			all = append(all, Waiting{ID: m.id, Actor: actor, Claim: m.claim, End: m.end, Budget: m.budget, Flight: flight})
		}
		c.mu.Unlock()
	}
	cs.mu.Unlock()
	slices.SortFunc(all, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(a.Claim.Priority, b.Claim.Priority), a.Claim.Since.Compare(b.Claim.Since), cmp.Compare(a.Actor, b.Actor))
	})
	return all
}

// WakeTimes returns the median and the 99th percentile of what actor's last
// wake-ups took, and how many were looked at: at most 16, so that the latter is
// the longest. All zero if none is remembered.
func (r *Router) WakeTimes(actor string) (p50, p99 time.Duration, n int) {
	t := &r.wakes
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.byActor[actor]
	if of == nil {
		return 0, 0, 0
	}
	p50, _ = of.median()
	n = min(of.n, len(of.d))
	return p50, slices.Max(of.d[:n]), n
}
