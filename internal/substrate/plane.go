// Package substrate is the plane over agent-substrate's control plane: it
// resumes actors through ateapi and knows nothing about them in between.
//
//	conn, err := substrate.Dial("ateapi:443", substrate.Access{CAFile: ca, TokenFile: token})
//	plane := substrate.New(ateapi.NewControlClient(conn), substrate.Options{})
//	r := router.New(plane, lot, router.Options{})
//	ride, err := r.Route(ctx, router.Ask{Actor: ref.String()}) // from Locate
//
// # Which answers park
//
// A flight's first attempt is made at once: a request to a running actor waits
// for nobody. The first answer that a retry can mend (no free worker, another
// operation under way, the control plane away) is the park transition. Any other
// one ends the flight. While an attempt runs, the flight is committed: the
// control plane has claimed a worker by then, and cutting the call off would
// strand it. A caller whose budget ends is told what the last answer was.
//
// # Order
//
// Flights that wait for a worker stand in lines, one for each set of workers
// that an actor can have as far as its selector and template tell. In a line one
// flight at a time asks again, each interval, and it is always the one with the
// best claim: so a worker that became free goes to the best claim, and the
// control plane is asked once per line, not once per flight. Once an attempt
// lasts longer than the interval, the next one asks: that is no refusal, but an
// actor that wakes. A flight that is held up by something else leaves the line,
// so that it holds up nobody, and comes back with the same claim.
//
// A flight that has just begun may take a worker before the line does: that it
// has to wait is what its first attempt finds out.
//
// # Concurrency
//
// All methods may be called from any goroutine. The plane starts none; a timer
// runs with each attempt. The plane has a lock over its lines, and each flight
// one that it shares with that timer; neither is held while the control plane is
// asked.
package substrate

import (
	"context"
	"fmt"
	"time"

	"layover/internal/router"
	"layover/internal/substrate/ateapi"
)

// Options are the plane's settings that may be left out.
type Options struct {
	// FailFast turns parking off: only Aborted is tried again, as long as the
	// callers' budgets last and without a park transition; every other answer ends
	// the flight.
	FailFast bool
	// Interval is between two attempts of a line, and the first of a flight's own
	// pauses. Default: 100 ms.
	Interval time.Duration
	// Factor is how much longer each of a flight's own pauses is than the one
	// before, up to a second, or Interval if that is more. At least 1.
	// Default: 1.1.
	Factor float64
	// Jitter is the part of each wait by which it may be shorter or longer, in
	// [0,1). Zero: none.
	Jitter float64
	// AttemptTimeout bounds each ResumeActor call. Default: 60 s.
	AttemptTimeout time.Duration
	// Port is the port at which actors listen. Default: 80.
	Port uint16
}

const (
	lookTimeout  = 5 * time.Second // of GetActor for a Glance
	keyTimeout   = time.Second     // of GetActor for a line
	longestPause = time.Second
)

// Plane implements [router.Plane].
type Plane struct {
	client ateapi.ControlClient
	o      Options
	lines  lines
}

// New returns a plane that resumes actors through client. It fails if an option
// is out of its range.
func New(client ateapi.ControlClient, o Options) (*Plane, error) {
	switch {
	case o.Interval < 0:
		return nil, fmt.Errorf("substrate: the retry interval is %v, but cannot be negative", o.Interval)
	case o.Factor != 0 && !(o.Factor >= 1): // also if it is not a number
		return nil, fmt.Errorf("substrate: the retry factor is %v, but must be at least 1", o.Factor)
	case !(o.Jitter >= 0 && o.Jitter < 1):
		return nil, fmt.Errorf("substrate: the retry jitter is %v, but must be at least 0 and less than 1", o.Jitter)
	case o.AttemptTimeout < 0:
		return nil, fmt.Errorf("substrate: the time of an attempt is %v, but cannot be negative", o.AttemptTimeout)
	}
	if o.Interval == 0 {
		o.Interval = 100 * time.Millisecond
	}
	if o.Factor == 0 {
		o.Factor = 1.1
	}
	if o.AttemptTimeout == 0 {
		o.AttemptTimeout = time.Minute
	}
	if o.Port == 0 {
		o.Port = 80
	}
	return &Plane{client: client, o: o}, nil
}

// use is any request's interest in an actor: there is nothing to be kept of it.
type use struct{}

func (use) Awake() (router.Target, bool) { return router.Target{}, false }
func (use) Take(router.Target) bool      { return true }
func (use) Unreachable()                 {} // the next flight asks the control plane anyway
func (use) Done()                        {}

// Want implements [router.Plane]. It only reads the name: who does not exist is
// the control plane's to say.
func (p *Plane) Want(actor string) (router.Use, error) {
	if _, err := ParseRef(actor); err != nil {
		return nil, err
	}
	return use{}, nil
}

// Glance implements [router.Plane], with one GetActor call of at most 5 s.
func (p *Plane) Glance(actor string) (router.Target, router.Use, router.State, error) {
	ref, err := ParseRef(actor)
	if err != nil {
		return router.Target{}, nil, "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout) // the interface has no context to derive from
	defer cancel()
	a, err := p.client.GetActor(ctx, &ateapi.GetActorRequest{Actor: ref.wire()})
	if err != nil {
		return router.Target{}, nil, "", refusal(ref, err)
	}
	state := stateOf(a)
	if state != router.Awake {
		return router.Target{}, nil, state, nil
	}
	target, err := p.target(ref, a)
	if err != nil {
		return router.Target{}, nil, "", err
	}
	return target, use{}, state, nil
}

func stateOf(a *ateapi.Actor) router.State {
	switch a.GetStatus().GetState() {
	case ateapi.ActorState_ACTOR_STATE_RESUMING:
		return router.Waking
	case ateapi.ActorState_ACTOR_STATE_RUNNING:
		return router.Awake
	case ateapi.ActorState_ACTOR_STATE_SUSPENDING, ateapi.ActorState_ACTOR_STATE_PAUSING, ateapi.ActorState_ACTOR_STATE_DELETING:
		return router.GoingToSleep
	}
	return router.Asleep // a crashed one is resumed like any other, if at all
}

// Snapshot implements [router.Plane]. It knows no actors, and of the workers
// only who waits for them.
func (p *Plane) Snapshot() router.PlaneSnapshot { return p.lines.snapshot() }
