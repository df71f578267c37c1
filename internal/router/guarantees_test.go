package router_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"layover/budget"
	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
	"layover/turnstile"
)

// request is one caller of Route in a test.
type request struct {
	ride   *router.Ride
	err    error
	took   time.Duration
	ledger budget.Ledger
	cancel context.CancelFunc
	done   chan struct{}
}

// send begins a request of the given band and budget.
func send(r *router.Router, actor string, band int, d time.Duration) *request {
	ctx, cancel := budget.For(context.Background(), d)
	ctx = turnstile.Begin(ctx, band)
	q := &request{cancel: cancel, done: make(chan struct{})}
	start := time.Now()
	go func() {
		defer close(q.done)
		q.ride, q.err = r.Route(ctx, router.Ask{Actor: actor})
		q.took = time.Since(start)
		q.ledger = budget.From(ctx).Ledger()
	}()
	return q
}

// mustServe waits for the request's ride.
func (q *request) mustServe(t *testing.T) *router.Ride {
	t.Helper()
	<-q.done
	if q.err != nil {
		t.Fatalf("Route = %v, want a ride", q.err)
	}
	return q.ride
}

func (q *request) mustRefuse(t *testing.T, reason router.Reason) *router.Error {
	t.Helper()
	<-q.done
	if q.ride != nil {
		q.ride.Done()
	}
	if got := router.ReasonOf(q.err); got != reason {
		t.Fatalf("Route error = %v, want reason %q", q.err, reason)
	}
	e, _ := errors.AsType[*router.Error](q.err)
	return e
}

// taking makes every start of the plane last d.
func taking(plane *planetest.Scripted, d time.Duration) *planetest.Scripted {
	plane.Start = func(ctx context.Context, _ string) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return plane
}

func TestConformanceOfTheScriptedPlane(t *testing.T) {
	planetest.RunInBubbles(t, func(t *testing.T) *planetest.Rig {
		plane := planetest.NewScripted(2, "a", "b", "c", "broken")
		plane.Start = func(_ context.Context, actor string) error {
			if actor == "broken" {
				return errors.New("broken")
			}
			return nil
		}
		return &planetest.Rig{
			Plane: plane, Workers: 2, Actors: []string{"a", "b", "c"}, Broken: "broken", KnowsState: true,
			Wakes: plane.Wakes, Sleep: plane.Sleep,
			Reach: func(target router.Target) error {
				if target.Addr == "" {
					return errors.New("no address")
				}
				return nil
			},
		}
	})
}

func TestG1_RequestsToAwakeActorsTouchNeitherLotNorLine(t *testing.T) {
	for _, spots := range []int{0, 1} {
		t.Run(fmt.Sprintf("lot=%d", spots), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plane := taking(planetest.NewScripted(1, "awake", "asleep"), 0)
				lot := parking.NewLot(parking.Unlimited)
				r := router.New(plane, lot, router.Options{})
				held := send(r, "awake", 0, time.Minute).mustServe(t)
				lot.Resize(spots)
				parked := send(r, "asleep", 0, time.Minute) // fills the lot, or is shed
				synctest.Wait()
				before := plane.Pool().Stats()
				for range 10_000 {
					ride := send(r, "awake", 5, time.Second).mustServe(t)
					if ride.Wake != router.WakeNone || ride.Parked {
						t.Fatalf("ride = %+v, want one without a wake-up", ride)
					}
					ride.Done()
				}
				if after := plane.Pool().Stats(); after != before {
					t.Errorf("the line changed from %+v to %+v", before, after)
				}
				if got := lot.Snapshot(); got.Active != spots || got.Rejected != uint64(1-spots) {
					t.Errorf("lot = %+v, want %d active and %d rejected", got, spots, 1-spots)
				}
				held.Done()
				<-parked.done
				if parked.ride != nil {
					parked.ride.Done()
				}
			})
		})
	}
}

func TestG2_OneWakeUpAtATimeForAnyNumberOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := taking(planetest.NewScripted(1, "a"), time.Second)
		r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})
		var requests []*request
		for range 1000 {
			requests = append(requests, send(r, "a", 0, time.Minute))
		}
		triggered := 0
		for _, q := range requests {
			ride := q.mustServe(t)
			if q.took != time.Second {
				t.Fatalf("a request took %v, want the start's 1s", q.took)
			}
			if ride.Wake == router.WakeTriggered {
				triggered++
			}
			ride.Done()
		}
		if plane.Wakes("a") != 1 || triggered != 1 {
			t.Errorf("%d wake-ups, triggered by %d requests; want one by one", plane.Wakes("a"), triggered)
		}
	})
}

func TestG2_ARequestDuringGoingToSleepWaitsForItThenWakesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := taking(planetest.NewScripted(1, "a"), time.Second)
		r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})
		send(r, "a", 0, time.Minute).mustServe(t).Done()
		asleep := plane.BeginSleep("a")
		q := send(r, "a", 0, time.Minute)
		synctest.Wait()
		if plane.Wakes("a") != 1 {
			t.Fatal("it woke before it slept")
		}
		time.Sleep(3 * time.Second)
		asleep()
		q.mustServe(t).Done()
		if q.took != 4*time.Second || plane.Wakes("a") != 2 {
			t.Errorf("took %v with %d wake-ups, want 3s of going to sleep, 1s of waking, 2 wake-ups", q.took, plane.Wakes("a"))
		}
		if got := q.ledger.String(); got != "sleep 3s, wake 1s of 4s" {
			t.Errorf("ledger = %q", got)
		}
	})
}

func TestG3_ASpotIsFreeAtOnceHoweverTheWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := taking(planetest.NewScripted(1, "a"), 10*time.Second)
		lot := parking.NewLot(3)
		r := router.New(plane, lot, router.Options{})
		served := send(r, "a", 0, time.Minute)
		synctest.Wait()
		cancelled := send(r, "a", 0, time.Minute)
		late := send(r, "a", 0, 2*time.Second)
		synctest.Wait()
		shed := send(r, "a", 0, time.Minute)
		shed.mustRefuse(t, router.LotFull)
		expect := func(active int) {
			t.Helper()
			synctest.Wait()
			if got := lot.Snapshot().Active; got != active {
				t.Fatalf("%d spots are taken, want %d", got, active)
			}
		}
		expect(3)
		cancelled.cancel()
		cancelled.mustRefuse(t, router.ClientGone)
		expect(2)
		late.mustRefuse(t, router.StillWaking)
		if late.took != 2*time.Second {
			t.Errorf("the late one waited %v, want its budget of 2s", late.took)
		}
		expect(1)
		served.mustServe(t).Done()
		expect(0)
	})
}

// inversions counts pairs of grants of which the later one had the better
// claim although both stood in line.
func inversions(granted []string, rank map[string]int) (n int) {
	for i := range granted {
		for j := i + 1; j < len(granted); j++ {
			if rank[granted[j]] < rank[granted[i]] {
				n++
			}
		}
	}
	return n
}

func TestG4_AFreedWorkerGoesToTheBestClaimInTheSameInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const flights = 100
		names := []string{"holder"}
		for i := range flights {
			names = append(names, fmt.Sprintf("actor-%02d", i))
		}
		plane := taking(planetest.NewScripted(1, names...), 0)
		plane.KeepIdle = true
		r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})
		send(r, "holder", 0, time.Hour).mustServe(t).Done()

		// The later a request comes the better its band, except that two
		// requests share each band: there the earlier one goes first.
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		arrival := rand.New(rand.NewPCG(seed, 0)).Perm(flights)
		rank := make(map[string]int)
		var line []string
		band := make(map[string]int)
		for n, i := range arrival {
			actor := names[1+i]
			band[actor] = (flights - n) / 2
			line = append(line, actor)
			send(r, actor, band[actor], time.Hour)
			time.Sleep(time.Millisecond)
		}
		slices.SortStableFunc(line, func(a, b string) int { return band[a] - band[b] })
		for i, actor := range line {
			rank[actor] = i
		}

		awake := "holder"
		for n := range flights {
			time.Sleep(time.Second)
			freed := time.Now()
			plane.Sleep(awake)
			synctest.Wait()
			grants := plane.Grants()
			last := grants[len(grants)-1]
			if len(grants) != n+2 || !last.At.Equal(freed) {
				t.Fatalf("after %d workers were freed there were %d hand-overs, the last %v late", n+1, len(grants)-1, last.At.Sub(freed))
			}
			awake = last.Actor
		}
		var granted []string
		for _, grant := range plane.Grants()[1:] {
			granted = append(granted, grant.Actor)
		}
		if n := inversions(granted, rank); n != 0 {
			t.Errorf("%d inversions in the order %v, want %v", n, granted, line)
		}
	})
}

func TestG4_AFlightStandsInLineWithTheBestOfItsCallersWhoAreStillThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := taking(planetest.NewScripted(1, "holder", "x", "y"), 0)
		plane.KeepIdle = true
		r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})
		send(r, "holder", 0, time.Hour).mustServe(t).Done()
		first := func() string {
			t.Helper()
			synctest.Wait()
			line := plane.Pool().Line(2)
			if len(line) != 2 {
				t.Fatalf("line = %+v, want two", line)
			}
			return fmt.Sprint(line[0].Claim.Priority)
		}
		send(r, "x", 5, time.Hour)
		synctest.Wait()
		send(r, "y", 4, time.Hour)
		if got := first(); got != "4" {
			t.Fatalf("the head of the line has band %s, want 4", got)
		}
		urgent := send(r, "x", 1, time.Hour)
		if got := first(); got != "1" {
			t.Fatalf("after an urgent joiner the head has band %s, want 1", got)
		}
		urgent.cancel()
		urgent.mustRefuse(t, router.ClientGone)
		if got := first(); got != "4" {
			t.Fatalf("after the urgent one left the head has band %s, want 4", got)
		}
		plane.Sleep("holder")
		synctest.Wait()
		plane.Sleep("y") // panics if x was given the worker
	})
}

func TestAFlightThatIsJoinedAgainKeepsItsAgeButNotItsBand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := planetest.NewScripted(0, "a", "b")
		r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{Linger: 2 * time.Second})
		start := time.Now()
		send(r, "a", 1, time.Second).mustRefuse(t, router.NoWorker)
		time.Sleep(time.Second) // within the linger
		send(r, "b", 3, time.Minute)
		again := send(r, "a", 3, time.Minute)
		synctest.Wait()
		line := plane.Pool().Line(2)
		if len(line) != 2 || !line[0].Claim.Since.Equal(start) || line[0].Claim.Priority != 3 {
			t.Errorf("line = %+v, want at its head the age of the first try in the band of the second", line)
		}
		again.cancel()
		again.mustRefuse(t, router.ClientGone)
		r.Wait(context.Background())
	})
}

func TestG5_NothingWaitsPastItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := taking(planetest.NewScripted(1, "slow", "other"), time.Hour)
		r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})
		waking := send(r, "slow", 0, 7*time.Second)
		synctest.Wait()
		inLine := send(r, "other", 0, 5*time.Second)
		e := inLine.mustRefuse(t, router.NoWorker)
		if inLine.took != 5*time.Second || !errors.Is(e, context.DeadlineExceeded) {
			t.Errorf("in line: took %v with %v, want exactly 5s and DeadlineExceeded", inLine.took, e)
		}
		waking.mustRefuse(t, router.StillWaking)
		if waking.took != 7*time.Second {
			t.Errorf("waking: took %v, want exactly 7s", waking.took)
		}
		over := send(r, "slow", 0, 0)
		over.mustRefuse(t, router.DeadlinePast)
		if over.took != 0 {
			t.Errorf("a request without time waited %v", over.took)
		}
		r.Wait(context.Background()) // nobody waits any more, but the start goes on: G6
	})
}

func TestG5_AWakeUpThatLandsAtTheEndIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := taking(planetest.NewScripted(1, "a"), 5*time.Second)
		r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})
		q := send(r, "a", 0, 5*time.Second)
		<-q.done
		if q.ride != nil {
			t.Error("a request got a ride at the very end of its budget")
		}
		if got := router.ReasonOf(q.err); got != router.StillWaking {
			t.Errorf("Route = %v, want still_waking", q.err)
		}
		if got := plane.Snapshot().Actors[0]; got.InFlight != 0 || got.Wanted != 0 {
			t.Errorf("the actor is still in use: %+v", got)
		}
	})
}

func TestG5_ALateJoinerHasItsOwnFullBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := taking(planetest.NewScripted(1, "a"), 20*time.Second)
		r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})
		leader := send(r, "a", 0, 10*time.Second)
		time.Sleep(9 * time.Second)
		joiner := send(r, "a", 0, 10*time.Second)
		leader.mustRefuse(t, router.StillWaking)
		joiner.mustRefuse(t, router.StillWaking)
		if joiner.took != 10*time.Second {
			t.Errorf("the joiner waited %v, want its own 10s", joiner.took)
		}
		r.Wait(context.Background())
	})
}

func TestG6_AWakeUpThatBeganIsNotCancelledForACallersSake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := taking(planetest.NewScripted(1, "a"), 10*time.Second)
		r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})
		impatient := send(r, "a", 0, time.Second)
		impatient.mustRefuse(t, router.StillWaking)
		time.Sleep(4 * time.Second)
		second := send(r, "a", 0, 10*time.Second)
		second.mustServe(t).Done()
		if second.took != 5*time.Second || plane.Wakes("a") != 1 {
			t.Errorf("took %v with %d wake-ups, want the last 5s of the only one", second.took, plane.Wakes("a"))
		}
	})
}

func TestG6_AHungWakeUpEndsAtItsOwnCeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := taking(planetest.NewScripted(1, "a"), 1000*time.Hour)
		plane.Ceiling = 30 * time.Second
		r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})
		q := send(r, "a", 0, time.Hour)
		q.mustRefuse(t, router.StartFailed)
		if q.took != 30*time.Second {
			t.Errorf("took %v, want the ceiling of 30s", q.took)
		}
		if available, _ := plane.Pool().Snapshot(); available != 1 {
			t.Error("the worker was not given back")
		}
	})
}

// A bubble has no monotonic clock, so this one runs outside: whatever the
// system clock does, the ends that the router compares are monotonic.
func TestG7_EndsAndClaimsAreMonotonic(t *testing.T) {
	plane := planetest.NewScripted(0, "a")
	r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})
	wall := time.Now().Add(time.Hour).Round(0) // as parsed from a header
	ctx, cancel := budget.Start(context.Background(), wall)
	defer cancel()
	ctx, leave := context.WithCancel(turnstile.Begin(ctx, 0))
	waits := make(chan struct{})
	left := make(chan error)
	go func() {
		_, err := r.Route(ctx, router.Ask{Actor: "a", OnWait: func(string) func() { close(waits); return func() {} }})
		left <- err
	}()
	<-waits
	if end, _ := ctx.Deadline(); end == end.Round(0) {
		t.Errorf("the end %v has no monotonic reading: a step of the system clock would move it", end)
	}
	if claim, _ := turnstile.ClaimFrom(ctx); claim.Since == claim.Since.Round(0) {
		t.Errorf("the claim's age %v has no monotonic reading", claim.Since)
	}
	leave()
	if err := <-left; router.ReasonOf(err) != router.ClientGone {
		t.Errorf("Route = %v, want client_gone", err)
	}
}

func TestG8_CapacityFreeAndSomebodyWaitingNeverCoexist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		var names []string
		for i := range 8 {
			names = append(names, fmt.Sprint("actor-", i))
		}
		plane := planetest.NewScripted(3, names...)
		plane.Start = func(ctx context.Context, actor string) error {
			select {
			case <-time.After(time.Duration(actor[6]) * time.Millisecond):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		r := router.New(plane, parking.NewLot(20), router.Options{})
		var requests []*request
		for step := range 3000 {
			switch rng.IntN(5) {
			case 0, 1:
				requests = append(requests, send(r, names[rng.IntN(len(names))], rng.IntN(3), time.Duration(1+rng.IntN(400))*time.Millisecond))
			case 2:
				time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
			case 3:
				if len(requests) > 0 {
					requests[rng.IntN(len(requests))].cancel()
				}
			case 4:
				for i, q := range requests {
					select {
					case <-q.done:
						if q.ride != nil {
							q.ride.Done()
						}
						requests = slices.Delete(requests, i, i+1)
					default:
						continue
					}
					break
				}
			}
			synctest.Wait()
			stats := plane.Pool().Stats()
			if stats.Available > 0 && stats.Waiting > 0 {
				t.Fatalf("step %d: %d workers are free and %d flights wait", step, stats.Available, stats.Waiting)
			}
			if stats.Held > 3 {
				t.Fatalf("step %d: %d workers are held, of 3", step, stats.Held)
			}
		}
		for _, q := range requests {
			<-q.done
			if q.ride != nil {
				q.ride.Done()
			}
		}
		r.Wait(context.Background())
		if active := r.Lot().Snapshot().Active; active != 0 {
			t.Errorf("%d spots are taken with nobody waiting", active)
		}
	})
}

func TestG9_AClientThatLeavesWhileParkedIsGoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := planetest.NewScripted(0, "a")
		lot := parking.NewLot(10)
		r := router.New(plane, lot, router.Options{})
		q := send(r, "a", 0, time.Hour)
		synctest.Wait()
		if got := lot.Snapshot().Active; got != 1 {
			t.Fatalf("%d parked, want 1", got)
		}
		q.cancel()
		synctest.Wait()
		if got := lot.Snapshot().Active; got != 0 {
			t.Errorf("%d parked after the client left, want 0", got)
		}
		if _, waiting := plane.Pool().Snapshot(); waiting != 0 {
			t.Errorf("%d flights in line after the client left, want 0", waiting)
		}
		q.mustRefuse(t, router.ClientGone)
	})
}

func TestG10_WaitReturnsWhenTheLastWakeUpHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := taking(planetest.NewScripted(1, "a"), 5*time.Second)
		r := router.New(plane, parking.NewLot(10), router.Options{})
		q := send(r, "a", 0, time.Second)
		q.mustRefuse(t, router.StillWaking)
		start := time.Now()
		if err := r.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("Wait took %v, want the 4s that the wake-up had left", took)
		}
	})
}
