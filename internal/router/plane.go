package router

import (
	"context"
	"time"

	"layover/turnstile"
)

// Target is where an awake actor is reached. It is comparable: two equal
// targets of one actor are the same process behind the same address, so a front
// may keep an actor's connections as long as its target stays. Targets of
// different actors say nothing of each other.
type Target struct {
	Addr     string // host:port
	Protocol string // ProtocolH1 or ProtocolH2C
	Wake     uint64 // grows with each wake-up of the actor, so that a reused port is a new target
}

// The protocols that a front speaks to an actor.
const (
	ProtocolH1  = "h1"
	ProtocolH2C = "h2c" // HTTP/2 in the clear, with prior knowledge
)

// Phases of a request's wait, as the ledger and the status page name them.
const (
	PhaseTurn    = "turn"    // waits for its turn with an actor that has as many requests as it may
	PhaseLine    = "line"    // waits for a worker of the pool
	PhaseWake    = "wake"    // the actor starts
	PhaseSleep   = "sleep"   // waits for the end of the actor's going to sleep
	PhaseAttempt = "attempt" // the request is with the actor, until its final response header
	PhaseRetry   = "retry"   // waits before another attempt
)

// Plane makes actors routable. Every plane passes the suite in planetest.
// All methods may be called from any goroutine.
type Plane interface {
	// Want announces a request for actor, before anything else is asked about
	// it, so that an actor which somebody wants is not put to sleep in between.
	// The Use must be ended by Done. The error is an *Error, usually of reason
	// UnknownActor.
	Want(actor string) (Use, error)

	// Resume makes actor routable and returns its target. It runs once per
	// flight, never twice at a time for one actor with a commitment in force,
	// and calls f as it goes: f.Park at the park transition, f.Commit before
	// an attempt that must not be cut off, f.Uncommit when such an attempt
	// ended without success. ctx ends when the flight has no caller left and is
	// not committed; it has no deadline, so Resume sets its own ceilings.
	// Errors are *Error; anything else counts as Internal.
	Resume(ctx context.Context, actor string, f *Flight) (Target, error)

	// Glance asks for actor without wanting it: nothing is woken, and how long
	// it has been idle goes on counting. If it is awake, the Use is with it and
	// keeps it there until Done, and only then there is a Use. The error is an
	// *Error, of reason BackingOff for an actor in state Failed.
	Glance(actor string) (Target, Use, State, error)

	// Snapshot says what the plane knows, for the status page.
	Snapshot() PlaneSnapshot
}

// Use is one request's interest in one actor. A plane that does not know
// its actors' state returns false from Awake and true from Take.
type Use interface {
	// Awake returns the target if the plane knows the actor to be awake, and
	// from then on counts the request as being with the actor.
	Awake() (Target, bool)
	// Take accepts the target that a flight returned, and counts the request as
	// being with the actor. False: that target is gone again; ask for another.
	Take(Target) bool
	// Unreachable says that a connection to the target was refused: nobody
	// listens there, for now at least. A plane that hears it often enough may
	// take the actor for gone, whatever its process does. A Use that ends without
	// it counts as having reached the actor. It is a no-op unless the request is
	// with the actor.
	Unreachable()
	// Done ends the interest: call it when the response is complete. Calling it
	// again is a no-op.
	Done()
}

// State is what an actor is doing.
type State string

// The states of an actor.
const (
	Asleep       State = "asleep"
	Waking       State = "waking"
	Awake        State = "awake"
	GoingToSleep State = "going to sleep"
	Failed       State = "failed" // asleep after a failed start, with a back-off before the next one
)

// PlaneSnapshot is a plane's actors and pools at one moment, each sorted by
// name.
type PlaneSnapshot struct {
	Actors []ActorSnapshot `json:"actors"`
	Pools  []PoolSnapshot  `json:"pools"`
}

// ActorSnapshot is one actor at one moment.
type ActorSnapshot struct {
	Name      string        `json:"name"`
	Pool      string        `json:"pool"`
	State     State         `json:"state"`
	Since     time.Time     `json:"since,omitzero"`       // when the state began
	Kept      bool          `json:"kept_awake,omitempty"` // by the plane, now
	InFlight  int           `json:"in_flight"`
	Wanted    int           `json:"wanted"`                   // requests that want it and are not with it yet
	Limit     int           `json:"max_concurrent,omitempty"` // most requests at once; 0: no bound. Set by the router
	InLine    int           `json:"in_line,omitempty"`        // requests that wait for their turn. Set by the router
	LastUsed  time.Time     `json:"last_used,omitzero"`
	Wakes     uint64        `json:"wakes"`
	LastWake  time.Duration `json:"last_wake_ns,omitempty"` // zero: never awake
	Addr      string        `json:"addr,omitempty"`
	PID       int           `json:"pid,omitempty"`
	Failing   bool          `json:"failing,omitempty"` // its last start that came to an end failed; also while the next one is under way
	RetryAt   time.Time     `json:"retry_at,omitzero"` // zero unless failed
	Lacks     string        `json:"lacks,omitempty"`   // what was last seen missing to a waking actor's being awake
	LastError string        `json:"last_error,omitempty"`
	Output    []string      `json:"output,omitempty"` // last lines it printed
}

// PoolSnapshot is one pool at one moment.
type PoolSnapshot struct {
	Name    string   `json:"name"`
	Workers int      `json:"workers"`
	Used    int      `json:"used"` // above Workers after a shrink, until surplus actors sleep
	Waiting int      `json:"waiting"`
	Line    []Waiter `json:"line"` // from Line
}

// Waiter is one wake-up in a pool's line.
type Waiter struct {
	turnstile.Waiter
	Actor string // Router.Snapshot fills it in; empty if the wake-up left the line meanwhile
}

// shownWaiters bounds how much of a line a snapshot has.
const shownWaiters = 100

// Line returns the first 100 of t's line in their order, for a PoolSnapshot.
func Line(t *turnstile.Turnstile) []Waiter {
	line := t.Line(shownWaiters)
	out := make([]Waiter, len(line))
	for i, w := range line {
		out[i].Waiter = w
	}
	return out
}

// Position is a place in what an actor's programs printed, for a plane that can
// tell. The zero value is its begin.
type Position struct {
	Wake uint64 `json:"wake"` // number of the wake-up
	Line uint64 `json:"line"` // lines printed in it before
}
