// Package router decides, for each request, which actor serves it, whether it
// has to wait for that, and for how long.
//
//	front -> Names -> budget -> awake? -> Ride
//	                      \-> flight -> [parks: lot] -> Plane -> Ride
//
// A front (the built-in proxy, Envoy's ext_proc) finds the actor with Names,
// starts the request's budget and claim, asks Route for a Ride, forwards the
// request to the ride's target and ends the ride:
//
//	ctx, cancel := budget.For(ctx, route.Budget)
//	defer cancel()
//	ride, err := r.Route(turnstile.Begin(ctx, route.Band), router.Ask{Actor: actor})
//	if err != nil { ... answer it; err is an *Error }
//	defer ride.Done()
//
// What makes an actor routable is a Plane. The router itself keeps no
// assignment: each request asks the plane, and all requests that must wait for
// one actor share one flight (package parking).
//
// All methods may be called from any goroutine.
package router

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"layover/budget"
	"layover/parking"
	"layover/turnstile"
)

// Options are the router's settings that may be left out.
type Options struct {
	// Linger is how long a flight that all its callers left keeps its place in
	// line. Default: it does not.
	Linger time.Duration
	// Identity returns the context whose values a wake-up sees, given that of the
	// request that began it: what names a trace, for instance, and nothing that
	// belongs to one request, such as its time. Default: no values.
	Identity func(context.Context) context.Context
	// Observe is called with each Record, on the goroutine that hands it in.
	// It must not block. Default: nobody observes.
	Observe func(Record)
}

// Router is the decision core.
type Router struct {
	plane   Plane
	lot     *parking.Lot
	flights *parking.Flights[string, landing]
	names   atomic.Pointer[Names]
	crowds  crowds
	gates   gates
	wakes   wakeTimes
	history history
	lines   rankings
	observe func(Record)
}

// New returns a router that makes actors routable through plane and parks at
// most as many requests as lot has spots.
func New(plane Plane, lot *parking.Lot, o Options) *Router {
	r := &Router{
		plane:   plane,
		lot:     lot,
		flights: parking.NewFlights[string, landing](lot, parking.Options{Linger: o.Linger, Identity: o.Identity}),
		observe: o.Observe,
	}
	r.wakes.linger = o.Linger
	r.names.Store(&Names{})
	return r
}

// Names returns the routes in force.
func (r *Router) Names() *Names { return r.names.Load() }

// SetNames puts other routes into force, for requests that come from now on.
func (r *Router) SetNames(n *Names) { r.names.Store(n) }

// Ride is one request's right to use an awake actor.
type Ride struct {
	Target Target
	Wait
	use  Use
	turn *turn // nil: the actor has no limit
}

// Wait is what a request went through before its ride or its refusal.
type Wait struct {
	Wake      Wake          // what it had to do with the actor's waking
	Parked    bool          // it held a spot in the lot
	ParkedFor time.Duration // how long it held that
	FellBack  bool          // the ride is to Ask.Fallback
}

// Add adds a later wait of the same request to w.
func (w *Wait) Add(later Wait) {
	if w.Wake == "" || later.Wake != WakeNone && later.Wake != "" {
		w.Wake = later.Wake
	}
	w.Parked = w.Parked || later.Parked
	w.ParkedFor += later.ParkedFor
}

// Done ends the ride: the actor is no longer in use by this request. It is
// called when the response is complete, for streams and tunnels when they are
// closed. Calling it again is a no-op.
func (ride *Ride) Done() {
	ride.use.Done()
	if ride.turn != nil {
		ride.turn.done()
	}
}

// Unreachable says that a connection to the ride's target was refused, so that
// the plane can find out that the actor is gone. It is called before Done.
func (ride *Ride) Unreachable() { ride.use.Unreachable() }

// Wake says what a request had to do with its actor's waking.
type Wake string

// The kinds of Wake.
const (
	WakeNone      Wake = "none"      // the actor was awake
	WakeTriggered Wake = "triggered" // the request began the wake-up
	WakeJoined    Wake = "joined"    // the request joined a wake-up under way
	WakeSpared    Wake = "spared"    // the actor was not awake, and the answer is its state
)

// Ask is what a front asks of Route.
type Ask struct {
	Actor string

	// ID is the request's, for Waiting. Default: none.
	ID string

	// Fallback is the actor to use when Actor cannot serve in time: its start
	// failed or is not due, there is no worker, spot or turn for it, or the wait
	// has lasted FallbackAfter. Both share the request's budget. It has no
	// fallback itself. Default: none.
	Fallback string
	// FallbackAfter is the most of the budget that may be waited for Actor if
	// there is a Fallback. Default: all of it.
	FallbackAfter time.Duration

	// OnWait is called on the caller's goroutine just before the request joins
	// its first flight, and the function it returns before Route returns. A
	// request to an actor that the plane knows to be awake never gets there, so
	// what only a waiting request needs costs the others nothing. Default: not
	// called. It is told whom the request waits for: Actor, or the Fallback.
	OnWait func(actor string) (stop func())
}

// Route returns a ride to ask.Actor, waking it if it must. It waits at most
// until ctx ends; ctx carries the request's budget, into whose ledger the
// phases of the wait go, and its claim (band 0 from now if it has none). The
// error is an *Error.
func (r *Router) Route(ctx context.Context, ask Ask) (*Ride, error) {
	ride, boarded, err := r.look(ctx, ask.Actor)
	if boarded {
		return ride, nil
	}
	if err == nil {
		ride, err = r.await(ctx, ask, ride)
	}
	if err != nil && ask.Fallback != "" {
		return r.fallBack(ctx, ask, err)
	}
	return ride, err
}

// fallBack returns a ride to the fallback if the refusal of the actor allows
// that, and else the refusal.
//
//go:noinline
func (r *Router) fallBack(ctx context.Context, ask Ask, err error) (*Ride, error) {
	refusal, _ := errors.AsType[*Error](err)
	switch refusal.Reason {
	case LotFull, ActorBusy, NoWorker, StillWaking, StartFailed, BackingOff:
	default:
		return nil, err
	}
	if over(ctx) != nil || ask.Fallback == ask.Actor {
		return nil, err
	}
	ride, err := r.Route(ctx, Ask{Actor: ask.Fallback, ID: ask.ID, OnWait: ask.OnWait})
	if ReasonOf(err) == ClientGone {
		return nil, err
	}
	if err != nil { // what is wrong with the actor that was asked for is what to mend
		return nil, refusal
	}
	wait := refusal.Wait
	wait.Add(ride.Wait)
	wait.FellBack = true
	ride.Wait = wait
	return ride, nil
}

// look returns what can be had without waiting: a ride that was boarded, or an
// error, or a ride that needs a turn or a wake-up first.
func (r *Router) look(ctx context.Context, actor string) (ride *Ride, boarded bool, err error) {
	if over(ctx) != nil {
		return nil, false, r.ended(ctx, actor, DeadlinePast)
	}
	use, err := r.plane.Want(actor)
	if err != nil {
		return nil, false, explained(err, actor)
	}
	var turn *turn
	if r.gates.limits.Load() != nil { // else there is nothing to be paid for
		var busy *Error
		if turn, busy = r.gates.enter(ctx, actor); busy != nil {
			use.Done()
			return nil, false, busy
		}
	}
	if !turn.waits() {
		if target, ok := use.Awake(); ok {
			return &Ride{Target: target, Wait: Wait{Wake: WakeNone}, use: use, turn: turn}, true, nil
		}
	}
	return &Ride{use: use, turn: turn}, false, nil
}

// await waits for the ride's turn, then joins flights until one brings a target
// that is still good when this caller takes it. So a request that waits for its
// turn is in nobody's way, and who has a turn when the actor falls asleep wakes
// it again, for those behind it too: they are in the crowd from the begin.
//
// Its frame and those above and below it decide whether the stack of a waiting
// request doubles, and there can be ten thousand of them; so what comes before
// and after the wait is in functions of its own (seen: 4 KiB a request).
func (r *Router) await(ctx context.Context, ask Ask, ride *Ride) (*Ride, error) {
	w := r.arrive(ctx, ask, ride)
	defer w.depart()
	if over, err := w.takeTurn(); over {
		return w.result(err)
	}
	for {
		landed, outcome, err := r.flights.Join(w.ctx, w.actor, w.fly)
		if over, err := w.landed(landed, outcome, err); over {
			return w.result(err)
		}
	}
}

// waiting is a request on its way to a ride. It lives no longer than the call
// of await that made it, so it may hold a context.
type waiting struct {
	router  *Router
	ctx     context.Context
	actor   string
	ride    *Ride
	boarded bool
	crowd   *crowd
	member  member
	stop    func()             // Ask.OnWait's
	spend   context.CancelFunc // of the part of the budget that is for this wait; nil: all is
}

//go:noinline
func (r *Router) arrive(ctx context.Context, ask Ask, ride *Ride) *waiting {
	w := &waiting{router: r, ctx: ctx, actor: ask.Actor, ride: ride}
	if ask.Fallback != "" && ask.FallbackAfter > 0 {
		w.ctx, w.spend = budget.For(ctx, ask.FallbackAfter)
	}
	w.member.claim = claimOf(ctx)
	w.member.end, _ = w.ctx.Deadline()
	w.member.id, w.member.budget = ask.ID, budget.From(ctx)
	w.crowd = r.crowds.enter(ask.Actor)
	w.crowd.join(&w.member)
	if ask.OnWait != nil {
		w.stop = ask.OnWait(ask.Actor)
	}
	return w
}

// depart runs also when the flight panicked.
//
//go:noinline
func (w *waiting) depart() {
	if w.stop != nil {
		w.stop()
	}
	if w.spend != nil {
		w.spend()
	}
	w.crowd.remove(&w.member)
	w.router.crowds.leave(w.actor, w.crowd)
	if !w.boarded {
		w.ride.Done()
	}
}

// takeTurn waits for the ride's turn and boards it if the actor is awake then.
// It reports whether the wait is over.
//
//go:noinline
func (w *waiting) takeTurn() (bool, error) {
	if !w.ride.turn.waits() {
		return false, nil
	}
	if err := w.router.takeTurn(w.ctx, w.actor, w.ride.turn); err != nil {
		return true, err
	}
	ride := w.ride
	if ride.Target, w.boarded = ride.use.Awake(); w.boarded {
		ride.Wake = WakeNone
	}
	return w.boarded, nil
}

// landing is what a flight brings.
type landing struct {
	target Target
	awake  bool // nothing had to be woken
}

// landed takes the end of one flight in. It reports whether the wait is over.
//
//go:noinline
func (w *waiting) landed(landed landing, outcome *parking.Outcome, err error) (bool, error) {
	for _, span := range outcome.Phases {
		budget.From(w.ctx).Record(span.Name, span.From, span.To)
	}
	ride := w.ride
	ride.Parked = ride.Parked || outcome.Parked
	ride.ParkedFor += outcome.ParkedFor
	switch {
	case landed.awake:
		if ride.Wake == "" {
			ride.Wake = WakeNone
		}
	case outcome.Leader:
		ride.Wake = WakeTriggered
	case ride.Wake == "":
		ride.Wake = WakeJoined
	}
	switch {
	case err != nil:
		return true, w.refused(w.router.refused(w.ctx, w.actor, outcome, err, w.crowd))
	case over(w.ctx) != nil: // it landed just before the end: too late to forward anything
		return true, w.refused(w.router.ended(w.ctx, w.actor, StillWaking))
	case ride.use.Take(landed.target):
		ride.Target, w.boarded = landed.target, true
	}
	return w.boarded, nil
}

// result is what the caller gets.
func (w *waiting) result(err error) (*Ride, error) {
	if err != nil {
		return nil, err
	}
	return w.ride, nil
}

func (w *waiting) refused(e *Error) error {
	e.Wait = w.ride.Wait
	return e
}

func (w *waiting) fly(ctx context.Context, f *parking.Flight) (landing, error) {
	return w.router.fly(ctx, w.actor, f)
}

// fly runs one wake-up for everybody who waits for actor.
func (r *Router) fly(ctx context.Context, actor string, f *parking.Flight) (landing, error) {
	crowd := r.crowds.enter(actor) // kept for who joins later, also if everybody has left already
	defer r.crowds.leave(actor, crowd)
	flight := &Flight{parked: f, clock: r.wakes.begin(actor), crowd: crowd, over: ctx.Done()}
	crowd.startOver()
	served := false
	defer func() { // also when the plane panics
		crowd.step(flight.place)
		r.wakes.end(actor, flight.clock, served)
	}()
	target, err := r.plane.Resume(ctx, actor, flight)
	served = err == nil && !flight.awake
	return landing{target, flight.awake}, err
}

// refused turns the end of a wait without a target into what the caller is
// told.
func (r *Router) refused(ctx context.Context, actor string, outcome *parking.Outcome, err error, crowd *crowd) *Error {
	switch outcome.Result {
	case parking.Shed:
		e := &Error{Reason: LotFull, Actor: actor, Err: err, RetryAfter: r.wakes.expect(actor),
			Detail: "the actor is asleep and every parking spot is taken"}
		if r.lot.Snapshot().Capacity == 0 {
			e.Detail = "the actor is asleep and its wake-up was asked for, but requests do not wait here"
		}
		return e
	case parking.BudgetExhausted, parking.Canceled:
		late := StillWaking
		if outcome.Stage == PhaseLine {
			late = NoWorker
		}
		e := r.ended(ctx, actor, late)
		trouble := crowd.blamed()
		if trouble == nil {
			return e
		}
		if e.Reason == late {
			e.Reason, e.Detail = trouble.Reason, trouble.Detail
		}
		if trouble.Err != nil { // also of who left: that may be why
			e.Err = fmt.Errorf("%w; %w", trouble.Err, e.Err)
		}
		return e
	}
	refusal := explained(err, actor)
	if refusal.RetryAfter == 0 {
		refusal.RetryAfter = r.wakes.expect(actor)
	}
	return refusal
}

// over returns why ctx has ended, nil if it has not. The clock decides, not the
// timer of the budget's end, which may be late.
func over(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return budget.From(ctx).Afford(0)
}

// ended is the error of a request whose context is over: the client left, or
// the budget ended with what late says.
func (r *Router) ended(ctx context.Context, actor string, late Reason) *Error {
	cause := over(ctx)
	// A deadline of the standard library may carry any cause of its own.
	if !errors.Is(cause, context.DeadlineExceeded) && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Error{Reason: ClientGone, Actor: actor, Err: cause}
	}
	e := &Error{Reason: late, Actor: actor, Err: cause, RetryAfter: r.wakes.expect(actor)}
	switch late {
	case NoWorker:
		e.Detail = "no worker became free within the request's budget"
	case StillWaking:
		e.Detail = "the actor was still starting when the request's budget ended"
	case ActorBusy:
		e.Detail = "the request's budget ended while it waited for its turn with the actor"
	case DeadlinePast:
		e.Detail = "the request's deadline had passed before it was looked at"
	}
	return e
}

// claimOf returns the claim of ctx's request: band 0 from now if it has none.
func claimOf(ctx context.Context) turnstile.Claim {
	if claim, ok := turnstile.ClaimFrom(ctx); ok {
		return claim
	}
	return turnstile.NewClaim(0)
}

// explained returns err as an *Error of its own that names actor: a flight's
// error is shared by all its callers.
func explained(err error, actor string) *Error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return &Error{Reason: Internal, Actor: actor, Detail: "the wake-up failed", Err: err}
	}
	own := *e
	if own.Actor == "" {
		own.Actor = actor
	}
	return &own
}

// Wait returns when no wake-up runs any more, or with ctx's cause. It is for
// shutdown, after the fronts have stopped.
func (r *Router) Wait(ctx context.Context) error { return r.flights.Wait(ctx) }

// Plane returns the plane that the router was made with.
func (r *Router) Plane() Plane { return r.plane }

// Lot returns the lot that the router was made with.
func (r *Router) Lot() *parking.Lot { return r.lot }
