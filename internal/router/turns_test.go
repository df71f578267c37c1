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

	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
)

// limited returns a router whose actor "a" is awake and has a limit.
func limited(t *testing.T, plane *planetest.Scripted, spots int, limit router.Limit) *router.Router {
	t.Helper()
	r := router.New(plane, parking.NewLot(1), router.Options{})
	send(r, "a", 0, time.Hour).mustServe(t).Done()
	r.Lot().Resize(spots)
	setLimit(r, limit)
	return r
}

func setLimit(r *router.Router, limit router.Limit) {
	r.SetLimits(func(actor string) router.Limit {
		if actor == "a" {
			return limit
		}
		return router.Limit{}
	})
}

func actorA(r *router.Router) router.ActorSnapshot { return r.Snapshot().Plane.Actors[0] }

func TestALimitedActorHasOneRideAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limited(t, planetest.NewScripted(1, "a"), 0, router.Limit{Concurrent: 2, Waiting: 100})
		start := time.Now()
		var requests []*request
		for range 10 {
			q := send(r, "a", 0, time.Minute)
			requests = append(requests, q)
			synctest.Wait()
			go func() {
				ride := q.mustServe(t)
				if n := actorA(r).InFlight; n > 2 {
					t.Errorf("%d requests are with the actor at once", n)
				}
				time.Sleep(time.Second)
				ride.Done()
				ride.Done() // must not let two in
			}()
		}
		synctest.Wait()
		if a := actorA(r); a.InFlight != 2 || a.InLine != 8 || a.Limit != 2 {
			t.Errorf("%d requests with the actor, %d in line, at most %d; want 2, 8, 2", a.InFlight, a.InLine, a.Limit)
		}
		for i, q := range requests {
			ride := q.mustServe(t)
			if ride.Wake != router.WakeNone || ride.Parked { // and the lot has no spot
				t.Errorf("ride = %+v, want one without a wake-up", ride)
			}
			if want := time.Duration(i/2) * time.Second; q.took != want {
				t.Errorf("request %d waited %v for its turn, want %v", i, q.took, want)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("10 requests of 1s, two at a time, took %v", took)
		}
	})
}

func TestTurnsGoByBandThenAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limited(t, planetest.NewScripted(1, "a"), 0, router.Limit{Concurrent: 1, Waiting: 10})
		holder := send(r, "a", 9, time.Minute).mustServe(t)
		var order []string
		for i, band := range []int{5, 1, 0, 1, 5} {
			q := send(r, "a", band, time.Minute)
			go func() {
				ride := q.mustServe(t)
				order = append(order, fmt.Sprint(band, "-", i))
				ride.Done()
			}()
			time.Sleep(time.Millisecond)
		}
		holder.Done()
		synctest.Wait()
		if want := []string{"0-2", "1-1", "1-3", "5-0", "5-4"}; !slices.Equal(order, want) {
			t.Errorf("served %v, want %v", order, want)
		}
	})
}

func TestR14_WhoFindsTheLineOfAnActorFullIsToldAtOnceAndWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limited(t, planetest.NewScripted(1, "a"), 0, router.Limit{Concurrent: 1, Waiting: 2})
		ride := send(r, "a", 0, time.Minute).mustServe(t)
		time.Sleep(2 * time.Second)
		next := send(r, "a", 0, time.Minute)
		synctest.Wait()
		ride.Done() // a turn has taken 2s
		waits := []*request{send(r, "a", 0, time.Minute), send(r, "a", 1, time.Minute)}
		synctest.Wait()
		refused := send(r, "a", 0, time.Minute)
		if e := refused.mustRefuse(t, router.ActorBusy); refused.took != 0 || e.RetryAfter != 6*time.Second || e.Wait != (router.Wait{}) {
			t.Errorf("refused after %v, retry after %v, %+v; want at once, 6s (three turns)", refused.took, e.RetryAfter, e.Wait)
		}
		waits[1].cancel() // its place is free at once
		waits[1].mustRefuse(t, router.ClientGone)
		late := send(r, "a", 0, 3*time.Second)
		if e := late.mustRefuse(t, router.ActorBusy); late.took != 3*time.Second || !errors.Is(e, context.DeadlineExceeded) || e.RetryAfter == 0 {
			t.Errorf("after %v: %v, retry after %v; want the budget's end", late.took, e, e.RetryAfter)
		}
		if got := late.ledger.String(); got != "turn 3s of 3s" {
			t.Errorf("ledger = %q", got)
		}
		next.mustServe(t).Done()
		waits[0].mustServe(t).Done()
		setLimit(r, router.Limit{Concurrent: 1})
		last := send(r, "a", 0, time.Minute).mustServe(t)
		none := send(r, "a", 0, time.Minute)
		if none.mustRefuse(t, router.ActorBusy); none.took != 0 {
			t.Errorf("with room for none it waited %v", none.took)
		}
		last.Done()
	})
}

func TestR18_WhoWaitsForItsTurnIsInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := taking(planetest.NewScripted(2, "a", "b"), time.Second)
		r := limited(t, plane, 1, router.Limit{Concurrent: 1, Waiting: 100})
		ride := send(r, "a", 0, time.Minute).mustServe(t)
		var waits []*request
		for range 50 {
			waits = append(waits, send(r, "a", 0, time.Minute))
		}
		synctest.Wait()
		other := send(r, "b", 9, time.Minute)
		other.mustServe(t).Done()
		if other.took != time.Second {
			t.Errorf("the request to another actor took %v, want the start's 1s", other.took)
		}
		ride.Done()
		for _, q := range waits {
			q.mustServe(t).Done()
		}
	})
}

func TestAnActorThatSleepsWhileRequestsWaitForTheirTurnIsWokenForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := taking(planetest.NewScripted(1, "a", "b"), time.Second)
		r := limited(t, plane, 1, router.Limit{Concurrent: 1, Waiting: 100})
		ride := send(r, "a", 0, time.Minute).mustServe(t)
		second := send(r, "a", 5, time.Minute)
		synctest.Wait()
		plane.Sleep("a") // as if it had crashed
		first := send(r, "b", 1, time.Minute).mustServe(t)
		ride.Done() // the turn goes to the second, which must wake the actor
		synctest.Wait()
		third := send(r, "a", 0, time.Minute)
		synctest.Wait()
		if line := plane.Pool().Line(1); len(line) != 1 || line[0].Claim.Priority != 0 {
			t.Errorf("the wake-up stands in line as %+v, want with the best band of all who want the actor", line)
		}
		time.Sleep(time.Second)
		first.Done()
		second.mustServe(t).Done()
		third.mustServe(t).Done()
		if second.ledger.String() != "turn 1s, line 1s, wake 1s of 3s" || second.ride.Wake != router.WakeTriggered {
			t.Errorf("the second: %s, wake %q", second.ledger, second.ride.Wake)
		}
		if third.ledger.String() != "turn 2s of 2s" || third.ride.Wake != router.WakeNone {
			t.Errorf("the third: %s, wake %q", third.ledger, third.ride.Wake)
		}
	})
}

func TestR21_AStartThatFailsFailsThoseWhoWaitForTheirTurnToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := planetest.NewScripted(1, "a")
		plane.Start = func(context.Context, string) error { return errors.New("broken") }
		r := router.New(plane, parking.NewLot(1), router.Options{})
		setLimit(r, router.Limit{Concurrent: 1, Waiting: 100})
		var all []*request
		for range 10 {
			all = append(all, send(r, "a", 0, time.Minute))
		}
		for _, q := range all {
			if q.mustRefuse(t, router.StartFailed); q.took != 0 {
				t.Errorf("refused after %v, want at once", q.took)
			}
		}
	})
}

func TestALimitThatChangesCountsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limited(t, planetest.NewScripted(1, "a"), 0, router.Limit{Concurrent: 1, Waiting: 100})
		var all []*request
		for range 10 {
			all = append(all, send(r, "a", 0, time.Minute))
			time.Sleep(time.Millisecond)
		}
		expect := func(inFlight, inLine int) {
			t.Helper()
			synctest.Wait()
			if a := actorA(r); a.InFlight != inFlight || a.InLine != inLine {
				t.Fatalf("%d with the actor, %d in line, want %d and %d", a.InFlight, a.InLine, inFlight, inLine)
			}
		}
		expect(1, 9)
		setLimit(r, router.Limit{Concurrent: 4, Waiting: 1})
		expect(4, 6) // those who wait stay
		send(r, "a", 0, time.Minute).mustRefuse(t, router.ActorBusy)
		setLimit(r, router.Limit{Concurrent: 2, Waiting: 100})
		for i, q := range all[:2] {
			q.mustServe(t).Done()
			expect(3-i, 6)
		}
		all[2].mustServe(t).Done()
		expect(2, 5)
		r.SetLimits(nil)
		expect(7, 0)
		for _, q := range all[3:] {
			q.mustServe(t).Done()
		}
	})
}

func TestTurnsAreConservedUnderAnyMixOfRequestsAndLimits(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		plane := taking(planetest.NewScripted(1, "a", "b"), 3*time.Millisecond)
		r := router.New(plane, parking.NewLot(20), router.Options{})
		limit := router.Limit{Concurrent: 3, Waiting: 10}
		setLimit(r, limit)
		var all []*request
		for range 2000 {
			actor := "a"
			if random.IntN(10) == 0 {
				actor = "b" // which a makes room for
			}
			hold := time.Duration(random.IntN(10)) * time.Millisecond
			q := send(r, actor, random.IntN(3), time.Duration(1+random.IntN(50))*time.Millisecond)
			all = append(all, q)
			go func() {
				if <-q.done; q.ride != nil {
					time.Sleep(hold)
					q.ride.Done()
				}
			}()
			if random.IntN(4) == 0 {
				time.AfterFunc(time.Duration(random.IntN(20))*time.Millisecond, q.cancel)
			}
			if random.IntN(100) == 0 { // only up, so that the bound holds at every moment
				limit.Concurrent++
				setLimit(r, limit)
			}
			time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
			synctest.Wait()
			if a := actorA(r); a.InFlight > limit.Concurrent || a.InLine > limit.Waiting || a.InLine > 0 && a.InFlight == 0 && a.State == router.Awake {
				t.Fatalf("%d with the actor, %d in line, %+v", a.InFlight, a.InLine, limit)
			}
		}
		time.Sleep(time.Second)
		for _, q := range all {
			<-q.done
		}
		if a := actorA(r); a.InFlight != 0 || a.InLine != 0 || a.Wanted != 0 {
			t.Errorf("afterwards: %+v", a)
		}
		setLimit(r, router.Limit{Concurrent: 1})
		send(r, "a", 0, time.Minute).mustServe(t).Done()
	})
}
