package router

import (
	"sync"
	"time"

	"layover/parking"
	"layover/turnstile"
)

// Flight is a plane's handle on the wake-up that it is carrying out. It is
// valid until Resume returns.
type Flight struct {
	parked *parking.Flight
	clock  *wakeClock

	mu    sync.Mutex // held across place.Set, so that the last change wins; before the locks of parking and turnstile
	place *turnstile.Place
	last  turnstile.Claim // what the flight stood in line with before everybody left
	alone bool            // nobody was present at the last look
}

// Park makes the park transition: from now on each caller needs a spot in the
// lot. Only the first call counts.
func (f *Flight) Park(reason string) { f.parked.Park(reason) }

// Commit begins an attempt that must not be cut off. False: everybody has
// left; stop.
func (f *Flight) Commit() bool { return f.parked.Commit() }

// Uncommit ends that attempt; the flight waits again. False: nobody is left;
// stop.
func (f *Flight) Uncommit() bool { return f.parked.Uncommit() }

// Phase begins a phase of the wake-up in the ledger of every caller, and
// returns the function that ends it.
func (f *Flight) Phase(name string) (end func()) {
	endForCallers := f.parked.Phase(name)
	endForClock := f.clock.begin(name)
	return func() {
		endForCallers()
		endForClock()
	}
}

// Enter takes a place in t's line for this flight. The place has the best
// claim and the latest end of the callers who are still present, and follows
// them as they come and go until it is granted or left. A flight that lost all
// its callers and is joined again keeps its age, but not their band: clients
// with short time-outs that try again do not begin at the end of the line. A
// flight has one place at a time.
func (f *Flight) Enter(t *turnstile.Turnstile) *turnstile.Place {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.parked.OnChange(f.follow)
	claim, until, _ := f.bestLocked()
	f.place = t.Enter(claim, until)
	return f.place
}

func (f *Flight) follow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if claim, until, ok := f.bestLocked(); ok {
		f.place.Set(claim, until)
	}
}

// bestLocked returns the claim that the flight stands in line with and the
// latest end of its callers, zero if one of them has no end; ok is false when
// nobody is present.
func (f *Flight) bestLocked() (best turnstile.Claim, until time.Time, ok bool) {
	callers := f.parked.Callers()
	if len(callers) == 0 {
		f.alone = true
		return f.last, time.Time{}, false
	}
	endless := false
	for i, ctx := range callers {
		claim, _ := turnstile.ClaimFrom(ctx)
		if i == 0 || before(claim, best) {
			best = claim
		}
		switch end, has := ctx.Deadline(); {
		case !has:
			endless = true
		case end.After(until):
			until = end
		}
	}
	if endless {
		until = time.Time{}
	}
	if f.alone && f.last.Since.Before(best.Since) {
		best.Since, best.Seq = f.last.Since, f.last.Seq
	} else {
		f.alone = false
	}
	f.last = best
	return best, until, true
}

func before(a, b turnstile.Claim) bool {
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	if !a.Since.Equal(b.Since) {
		return a.Since.Before(b.Since)
	}
	return a.Seq < b.Seq
}
