package planetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"layover/budget"
	"layover/internal/router"
	"layover/parking"
)

// patience bounds every wait of the suite that should end by itself: a plane
// of real processes on a busy machine is slow, a plane that hangs is wrong.
const patience = 30 * time.Second

// Rig is a plane under test with the levers that the suite needs. A fresh one
// is made for every case.
type Rig struct {
	Plane   router.Plane
	Workers int      // of the one pool that Actors share; at least 1
	Actors  []string // at least Workers+1, all asleep
	Broken  string   // an actor of the same pool whose start always fails; empty: the case is left out

	// KnowsState says that requests to awake actors are answered from the
	// plane's own knowledge, without a flight, and that each wake-up parks at
	// once.
	KnowsState bool
	// WakeTakes is the least time that a wake-up takes. It may be zero if
	// KnowsState is set.
	WakeTakes time.Duration
	// Wakes returns how many times actor was started.
	Wakes func(actor string) uint64
	// Sleep puts an awake actor to sleep and returns when its worker is free.
	Sleep func(actor string)
	// Reach checks that the actor answers at the target.
	Reach func(router.Target) error
}

// Run runs the suite. build makes a fresh rig and registers its cleanup with t.
func Run(t *testing.T, build func(t *testing.T) *Rig) {
	run(t, func(t *testing.T, f func(*testing.T)) { f(t) }, build)
}

// RunInBubbles is Run for a plane without processes and sockets: each case is in
// a synctest bubble, where its times are exact however busy the machine is.
func RunInBubbles(t *testing.T, build func(t *testing.T) *Rig) {
	run(t, synctest.Test, build)
}

func run(t *testing.T, in func(*testing.T, func(*testing.T)), build func(t *testing.T) *Rig) {
	cases := []struct {
		name string
		run  func(t *testing.T, rig *Rig)
	}{
		{"AnUnknownActorIsRefusedAtOnce", unknownActor},
		{"ASleepingActorIsWokenAndAnswers", wakesAndAnswers},
		{"G1_AFullLotDoesNotConcernRequestsToAwakeActors", awakePassesFullLot},
		{"G1_ALotOfZeroStartsTheWakeUpAndRefuses", lotOfZero},
		{"G2_OneWakeUpForAllWhoWant", oneWakeUp},
		{"G2_AnActorThatSleptWakesAgainAsANewTarget", wakesAgain},
		{"G3_EverySpotComesBack", spotsComeBack},
		{"G5_TheWaitEndsWithTheBudget", budgetEnds},
		{"G6_AWakeUpOutlivesItsCallers", wakeOutlivesCallers},
		{"G8_AFreedWorkerGoesToWhoWaits", freedWorker},
		{"G8_AnIdleActorMakesRoomForOneThatComesLater", idleMakesRoom},
		{"AUseEndsOnceAndTakesNoTargetThatIsGone", useContract},
		{"ATargetThatRefusesOnceIsKept", refusesOnce},
		{"R11_R59_AnActorThatGoesOnRefusingConnectionsIsWokenAgain", refuses},
		{"R68_AGlanceWakesNobody", glances},
		{"R21_AFailedStartFailsAllWaitersAtOnce", failedStart},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(t *testing.T) { c.run(t, build(t)) })
		})
	}
}

func (rig *Rig) router(lot int) *router.Router {
	return router.New(rig.Plane, parking.NewLot(lot), router.Options{})
}

func ask(r *router.Router, actor string) (*router.Ride, error) {
	ctx, cancel := budget.For(context.Background(), patience)
	defer cancel()
	return r.Route(ctx, router.Ask{Actor: actor})
}

// mustRide returns a ride that reaches actor.
func mustRide(t *testing.T, rig *Rig, r *router.Router, actor string) *router.Ride {
	t.Helper()
	ride, err := ask(r, actor)
	if err != nil {
		t.Fatalf("Route(%s) = %v, want a ride", actor, err)
	}
	if err := rig.Reach(ride.Target); err != nil {
		t.Fatalf("%s at %v does not answer: %v", actor, ride.Target, err)
	}
	return ride
}

func wantReason(t *testing.T, err error, want router.Reason) {
	t.Helper()
	if got := router.ReasonOf(err); got != want {
		t.Fatalf("Route error = %v, of reason %q, want %q", err, got, want)
	}
}

func unknownActor(t *testing.T, rig *Rig) {
	_, err := ask(rig.router(parking.Unlimited), "no-such-actor")
	wantReason(t, err, router.UnknownActor)
}

func wakesAndAnswers(t *testing.T, rig *Rig) {
	r := rig.router(parking.Unlimited)
	ride := mustRide(t, rig, r, rig.Actors[0])
	defer ride.Done()
	if ride.Wake != router.WakeTriggered {
		t.Errorf("Wake = %q, want %q", ride.Wake, router.WakeTriggered)
	}
	if n := rig.Wakes(rig.Actors[0]); n != 1 {
		t.Errorf("the actor was started %d times, want once", n)
	}
}

func awakePassesFullLot(t *testing.T, rig *Rig) {
	mustRide(t, rig, rig.router(parking.Unlimited), rig.Actors[0]).Done()
	r := rig.router(0)
	for range 100 {
		ride, err := ask(r, rig.Actors[0])
		if err != nil {
			t.Fatalf("Route to an awake actor with a lot of 0 = %v", err)
		}
		if rig.KnowsState && ride.Wake != router.WakeNone {
			t.Fatalf("Wake = %q, want %q", ride.Wake, router.WakeNone)
		}
		ride.Done()
	}
	if lot := r.Lot().Snapshot(); lot.Rejected != 0 {
		t.Errorf("the lot rejected %d requests to an awake actor", lot.Rejected)
	}
}

func lotOfZero(t *testing.T, rig *Rig) {
	r := rig.router(0)
	if !rig.KnowsState { // such a plane parks only a wake-up for which there is no worker
		for _, actor := range rig.Actors[:rig.Workers] {
			defer mustRide(t, rig, r, actor).Done()
		}
		_, err := ask(r, rig.Actors[rig.Workers])
		wantReason(t, err, router.LotFull)
		return
	}
	_, err := ask(r, rig.Actors[0])
	wantReason(t, err, router.LotFull)
	// The refused request has begun the wake-up: with room to park, the next
	// one is served by it.
	ride := mustRide(t, rig, rig.withRoom(r), rig.Actors[0])
	ride.Done()
	if n := rig.Wakes(rig.Actors[0]); n != 1 {
		t.Errorf("the actor was started %d times, want once", n)
	}
}

func (rig *Rig) withRoom(r *router.Router) *router.Router {
	r.Lot().Resize(parking.Unlimited)
	return r
}

func oneWakeUp(t *testing.T, rig *Rig) {
	r := rig.router(parking.Unlimited)
	actor := rig.Actors[0]
	const callers = 50
	errs := make(chan error, callers)
	for range callers {
		go func() {
			ride, err := ask(r, actor)
			if err == nil {
				err = rig.Reach(ride.Target)
				ride.Done()
			}
			errs <- err
		}()
	}
	for range callers {
		if err := <-errs; err != nil {
			t.Errorf("a caller was not served: %v", err)
		}
	}
	if n := rig.Wakes(actor); n != 1 {
		t.Errorf("the actor was started %d times for %d callers, want once", n, callers)
	}
}

func wakesAgain(t *testing.T, rig *Rig) {
	r := rig.router(parking.Unlimited)
	first := mustRide(t, rig, r, rig.Actors[0])
	first.Done()
	rig.Sleep(rig.Actors[0])
	second := mustRide(t, rig, r, rig.Actors[0])
	defer second.Done()
	if second.Target.Wake <= first.Target.Wake {
		t.Errorf("the wake-ups have the targets %v and %v: connections of the first would be used for the second", first.Target, second.Target)
	}
}

func spotsComeBack(t *testing.T, rig *Rig) {
	r := rig.router(5)
	ctx, cancel := budget.For(context.Background(), patience)
	defer cancel()
	var done sync.WaitGroup
	for i := range 30 {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		done.Go(func() {
			if ride, err := r.Route(ctx, router.Ask{Actor: rig.Actors[i%2]}); err == nil {
				ride.Done()
			}
		})
		if i%3 == 0 {
			cancel()
		}
	}
	done.Wait()
	if active := r.Lot().Snapshot().Active; active != 0 {
		t.Errorf("%d spots are taken with nobody waiting", active)
	}
}

func budgetEnds(t *testing.T, rig *Rig) {
	r := rig.router(parking.Unlimited)
	for _, actor := range rig.Actors[:rig.Workers] {
		defer mustRide(t, rig, r, actor).Done()
	}
	ctx, cancel := budget.For(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := r.Route(ctx, router.Ask{Actor: rig.Actors[rig.Workers]})
	wantReason(t, err, router.NoWorker)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("errors.Is(%v, context.DeadlineExceeded) = false", err)
	}
}

func wakeOutlivesCallers(t *testing.T, rig *Rig) {
	r := rig.router(0)
	if rig.KnowsState {
		_, err := ask(r, rig.Actors[0]) // shed: its wake-up goes on without a caller
		wantReason(t, err, router.LotFull)
	} else {
		short, cancel := budget.For(context.Background(), rig.WakeTakes/2)
		defer cancel()
		_, err := r.Route(short, router.Ask{Actor: rig.Actors[0]})
		wantReason(t, err, router.StillWaking)
	}
	ctx, cancel := budget.For(context.Background(), patience)
	defer cancel()
	if err := r.Wait(ctx); err != nil {
		t.Fatalf("the wake-up did not end: %v", err)
	}
	ride := mustRide(t, rig, r, rig.Actors[0])
	defer ride.Done()
	if n := rig.Wakes(rig.Actors[0]); n != 1 {
		t.Errorf("the actor was started %d times, want once", n)
	}
}

func freedWorker(t *testing.T, rig *Rig) {
	r := rig.router(parking.Unlimited)
	var rides []*router.Ride
	for _, actor := range rig.Actors[:rig.Workers] {
		rides = append(rides, mustRide(t, rig, r, actor))
	}
	waiting := make(chan struct{})
	served := make(chan error, 1)
	go func() {
		ctx, cancel := budget.For(context.Background(), patience)
		defer cancel()
		ride, err := r.Route(ctx, router.Ask{
			Actor:  rig.Actors[rig.Workers],
			OnWait: func(string) func() { close(waiting); return func() {} },
		})
		if err == nil {
			err = rig.Reach(ride.Target)
			ride.Done()
		}
		served <- err
	}()
	if rig.KnowsState {
		<-waiting
	}
	rides[0].Done()
	if !rig.KnowsState { // such a plane does not put actors to sleep by itself
		rig.Sleep(rig.Actors[0])
	}
	if err := <-served; err != nil {
		t.Errorf("the flight in line did not get the freed worker: %v", err)
	}
	for _, ride := range rides[1:] {
		ride.Done()
	}
}

func failedStart(t *testing.T, rig *Rig) {
	if rig.Broken == "" {
		t.Log("left out: this plane has no actor whose start fails")
		return
	}
	r := rig.router(parking.Unlimited)
	const callers = 10
	errs := make(chan error, callers)
	for range callers {
		go func() {
			_, err := ask(r, rig.Broken)
			errs <- err
		}()
	}
	for range callers {
		switch err := <-errs; router.ReasonOf(err) {
		case router.StartFailed, router.PlaneFailed, router.BackingOff: // the latter for who came after the failure
		default:
			t.Errorf("Route(%s) = %v, want reason start_failed or plane_failed", rig.Broken, err)
		}
	}
	if active := r.Lot().Snapshot().Active; active != 0 {
		t.Errorf("%d spots are taken after the failure", active)
	}
}

func idleMakesRoom(t *testing.T, rig *Rig) {
	if !rig.KnowsState {
		t.Log("left out: this plane does not put actors to sleep by itself")
		return
	}
	r := rig.router(parking.Unlimited)
	for _, actor := range rig.Actors[:rig.Workers] {
		mustRide(t, rig, r, actor).Done()
	}
	late := rig.Actors[rig.Workers]
	r.Lot().Resize(0)
	_, err := ask(r, late) // refused, but it stood in line, and that makes room
	wantReason(t, err, router.LotFull)
	mustRide(t, rig, rig.withRoom(r), late).Done()
}

func useContract(t *testing.T, rig *Rig) {
	r := rig.router(parking.Unlimited)
	actor := rig.Actors[0]
	ride := mustRide(t, rig, r, actor)
	old := ride.Target
	other := mustRide(t, rig, r, actor)
	ride.Done()
	ride.Done() // must not end the other's ride
	if got := inFlight(rig, actor); rig.KnowsState && got != 1 {
		t.Errorf("%d requests are with the actor, want the other one", got)
	}
	other.Done()
	rig.Sleep(actor)
	mustRide(t, rig, r, actor).Done()
	use, err := rig.Plane.Want(actor)
	if err != nil {
		t.Fatal(err)
	}
	defer use.Done()
	if rig.KnowsState && use.Take(old) {
		t.Errorf("Take(%v) = true: that target is gone", old)
	}
}

func refusesOnce(t *testing.T, rig *Rig) {
	r := rig.router(parking.Unlimited)
	actor := rig.Actors[0]
	use, err := rig.Plane.Want(actor)
	if err != nil {
		t.Fatal(err)
	}
	use.Unreachable() // with no target yet
	ride := mustRide(t, rig, r, actor)
	ride.Unreachable()
	ride.Done()
	for range 10 {
		ride.Unreachable() // the ride is over
		use.Unreachable()
	}
	use.Done()
	again := mustRide(t, rig, r, actor)
	defer again.Done()
	if again.Target != ride.Target {
		t.Errorf("the target is %v after one refused connection to %v", again.Target, ride.Target)
	}
	if got := inFlight(rig, actor); rig.KnowsState && got != 1 {
		t.Errorf("%d requests are with the actor, want one", got)
	}
}

func refuses(t *testing.T, rig *Rig) {
	if !rig.KnowsState {
		t.Log("left out: whether the actor is awake is not this plane's to say")
		return
	}
	r := rig.router(parking.Unlimited)
	actor := rig.Actors[0]
	gone := mustRide(t, rig, r, actor)
	gone.Done()
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		ride := mustRide(t, rig, r, actor)
		if ride.Target != gone.Target {
			ride.Done()
			if n := rig.Wakes(actor); n != 2 {
				t.Errorf("the actor was started %d times, want twice", n)
			}
			return
		}
		ride.Unreachable()
		ride.Done()
	}
	t.Errorf("%v is still the target after connections were refused for %v", gone.Target, patience)
}

func inFlight(rig *Rig, actor string) int {
	for _, a := range rig.Plane.Snapshot().Actors {
		if a.Name == actor {
			return a.InFlight
		}
	}
	return 0
}

func glances(t *testing.T, rig *Rig) {
	r := rig.router(0)
	glance := func(actor string) (*router.Ride, router.State, error) {
		ctx, cancel := budget.For(context.Background(), patience)
		defer cancel()
		return r.Glance(ctx, router.Ask{Actor: actor})
	}
	if _, _, err := glance("no-such-actor"); router.ReasonOf(err) != router.UnknownActor {
		t.Errorf("Glance at an unknown actor = %v", err)
	}
	actor := rig.Actors[0]
	if ride, state, err := glance(actor); ride != nil || state != router.Asleep || err != nil {
		t.Errorf("Glance at a sleeping actor = %v, %q, %v", ride, state, err)
	}
	if n := rig.Wakes(actor); n != 0 {
		t.Errorf("a glance started the actor %d times", n)
	}
	mustRide(t, rig, rig.router(parking.Unlimited), actor).Done()
	ride, state, err := glance(actor)
	if ride == nil || state != router.Awake || err != nil {
		t.Fatalf("Glance at an awake actor = %v, %q, %v", ride, state, err)
	}
	if err := rig.Reach(ride.Target); err != nil {
		t.Errorf("%s at %v does not answer: %v", actor, ride.Target, err)
	}
	if got := inFlight(rig, actor); rig.KnowsState && got != 1 {
		t.Errorf("%d requests are with the actor, want the glance", got)
	}
	ride.Done()
	ride.Done()
	if got := inFlight(rig, actor); got != 0 {
		t.Errorf("%d requests are with the actor, want none", got)
	}
}
