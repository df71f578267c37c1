package router_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"layover/budget"
	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
)

// fallBack asks for a with b as its fallback.
func fallBack(r *router.Router, d, after time.Duration) (ride *router.Ride, took time.Duration, ledger string, err error) {
	ctx, cancel := budget.For(context.Background(), d)
	defer cancel()
	start := time.Now()
	ride, err = r.Route(ctx, router.Ask{Actor: "a", Fallback: "b", FallbackAfter: after})
	return ride, time.Since(start), budget.From(ctx).Ledger().String(), err
}

// brokenA is a plane whose a does not start, and whose b takes a second.
func brokenA(workers int) *planetest.Scripted {
	plane := planetest.NewScripted(workers, "a", "b", "c")
	plane.Start = func(_ context.Context, actor string) error {
		time.Sleep(time.Second)
		if actor == "a" {
			return errors.New("broken")
		}
		return nil
	}
	return plane
}

func TestAFallbackServesWithinTheSameBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := router.New(brokenA(2), parking.NewLot(1), router.Options{})
		if _, took, _, err := fallBack(r, 1500*time.Millisecond, 0); router.ReasonOf(err) != router.StartFailed || took != 1500*time.Millisecond {
			t.Errorf("with too little left: %v after %v, want what is wrong with the actor at the budget's end", err, took)
		}
		r.Wait(context.Background())
		ride, took, ledger, err := fallBack(r, time.Minute, 0)
		if err != nil || took != time.Second || !ride.FellBack || ride.Target.Addr != "b" || ride.Wake != router.WakeTriggered || !ride.Parked {
			t.Fatalf("ride = %+v, %v after %v, %s; want one to b, which was awake, after the failed start", ride, err, took, ledger)
		}
		ride.Done()
		if ride, _, _, err := fallBack(r, time.Minute, 0); err != nil {
			t.Error(err)
		} else {
			ride.Done()
		}
	})
}

func TestAFallbackIsUsedAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := taking(planetest.NewScripted(2, "a", "b"), 10*time.Second)
		r := router.New(plane, parking.NewLot(10), router.Options{})
		send(r, "b", 0, time.Minute).mustServe(t).Done()
		ride, took, ledger, err := fallBack(r, time.Minute, 3*time.Second)
		if err != nil || took != 3*time.Second || !ride.FellBack || ledger != "wake 3s of 3s" {
			t.Fatalf("ride = %+v, %v after %v, %s; want one to b after 3s", ride, err, took, ledger)
		}
		ride.Done()
		time.Sleep(7 * time.Second) // the start went on
		ride, took, _, err = fallBack(r, time.Minute, 3*time.Second)
		if err != nil || took != 0 || ride.FellBack || plane.Wakes("a") != 1 {
			t.Errorf("ride = %+v, %v after %v, want one to a at once", ride, err, took)
		}
		ride.Done()
	})
}

func TestAFallbackIsUsedWithoutSpotTurnOrWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := planetest.NewScripted(2, "a", "b", "c")
		r := router.New(plane, parking.NewLot(10), router.Options{})
		send(r, "b", 0, time.Minute).mustServe(t).Done()
		held := send(r, "c", 0, time.Minute).mustServe(t)
		use, err := plane.Want("b") // so that it is not put to sleep for a
		if err != nil {
			t.Fatal(err)
		}
		expect := func(why string, want time.Duration, after time.Duration) {
			t.Helper()
			ride, took, _, err := fallBack(r, time.Minute, after)
			if err != nil || took != want || !ride.FellBack {
				t.Fatalf("%s: ride = %+v, %v after %v, want one to b after %v", why, ride, err, took, want)
			}
			ride.Done()
		}
		expect("no worker", time.Second, time.Second)
		r.Lot().Resize(0)
		expect("lot full", 0, 0)
		r.Lot().Resize(10)
		held.Done()
		a := send(r, "a", 0, time.Minute).mustServe(t)
		a.Done()
		setLimit(r, router.Limit{Concurrent: 1})
		a = send(r, "a", 0, time.Minute).mustServe(t)
		expect("no turn", 0, 0)
		setLimit(r, router.Limit{Concurrent: 1, Waiting: 9})
		expect("no turn in time", time.Second, time.Second)
		a.Done()
		use.Done()
	})
}

func TestAFallbackDoesNotHideTheCallersFaultsAndNeverLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := brokenA(2)
		r := router.New(plane, parking.NewLot(10), router.Options{})
		ctx, cancel := budget.For(context.Background(), time.Minute)
		defer cancel()
		for _, c := range []struct {
			actor, fallback string
			want            router.Reason
		}{{"nobody", "b", router.UnknownActor}, {"a", "a", router.StartFailed}, {"a", "nobody", router.StartFailed}} {
			_, err := r.Route(ctx, router.Ask{Actor: c.actor, Fallback: c.fallback})
			if router.ReasonOf(err) != c.want {
				t.Errorf("%s with fallback %s: %v, want %s", c.actor, c.fallback, err, c.want)
			}
		}
		if n := plane.Wakes("a"); n != 2 {
			t.Errorf("a was started %d times, want once per request", n)
		}
		gone, leave := context.WithCancel(ctx)
		time.AfterFunc(500*time.Millisecond, leave)
		if _, err := r.Route(gone, router.Ask{Actor: "a", Fallback: "b"}); router.ReasonOf(err) != router.ClientGone {
			t.Errorf("a client that left: %v", err)
		}
		r.Wait(context.Background())
	})
}
