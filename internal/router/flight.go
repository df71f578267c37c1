package router

import (
	"layover/parking"
	"layover/turnstile"
)

// Flight is a plane's handle on the wake-up that it is carrying out. It is
// valid until Resume returns.
type Flight struct {
	parked *parking.Flight
	clock  *wakeClock
	crowd  *crowd
	over   <-chan struct{} // closed once everybody has left for good

	// Of the goroutine that runs Resume.
	place *turnstile.Place // the last one entered
	awake bool             // nothing had to be woken
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
	f.stage(name)
	return func() {
		f.stage("")
		endForCallers()
		endForClock()
	}
}

// Enter takes a place in t's line for this flight. The place has the best
// claim and the latest end of the callers who are still present, and follows
// them as they come and go, until Resume returns or another place is entered.
// A flight that lost all its callers and is joined again keeps its age, but not
// their band. Enter is called by the goroutine that runs Resume.
func (f *Flight) Enter(t *turnstile.Turnstile) *turnstile.Place {
	f.place = f.crowd.stand(t, f.over)
	return f.place
}

// Trouble says why the wake-up has not succeeded yet: what a caller is told
// whose budget ends from now on, until the next Trouble; nil: nothing more than
// where it is. The error is shared by all callers and must not be changed any
// more; the text of its cause is asked for when it is told.
func (f *Flight) Trouble(e *Error) {
	select {
	case <-f.over: // the crowd may be with a successor
	default:
		f.crowd.blame(e)
	}
}

// stage notes for Outlook which phase the wake-up is in.
func (f *Flight) stage(name string) {
	select {
	case <-f.over: // the crowd may be with a successor
	default:
		f.crowd.enterPhase(name)
	}
}

// Awake says that the actor was awake before Resume asked: to its callers, no
// wake-up took place. It is called by the goroutine that runs Resume.
func (f *Flight) Awake() { f.awake = true }
