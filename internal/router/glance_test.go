package router_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"layover/budget"
	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
)

func glance(r *router.Router, d time.Duration) (*router.Ride, router.State, error) {
	ctx, cancel := budget.For(context.Background(), d)
	defer cancel()
	return r.Glance(ctx, router.Ask{Actor: "a"})
}

func TestR68_AGlanceMakesNoUseOfAnActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := planetest.NewScripted(1, "a", "b")
		r := limited(t, plane, 1, router.Limit{})
		time.Sleep(time.Hour)
		used := actorA(r).LastUsed
		ride, _, err := glance(r, time.Second)
		if err != nil || ride.Wake != router.WakeNone {
			t.Fatalf("Glance = %+v, %v", ride, err)
		}
		other := send(r, "b", 0, time.Minute) // wants the worker
		time.Sleep(time.Second)
		if a := actorA(r); a.State != router.Awake || !a.LastUsed.Equal(used) {
			t.Errorf("with a glance it is %s and was used at %v, want awake and %v", a.State, a.LastUsed, used)
		}
		ride.Done()
		if other.mustServe(t).Done(); other.took != time.Second {
			t.Errorf("the worker came after %v, want the end of the glance at 1s", other.took)
		}
		if ride, state, err := glance(r, time.Second); ride != nil || state != router.Asleep || err != nil {
			t.Errorf("Glance = %v, %q, %v", ride, state, err)
		}
	})
}

func TestAGlanceWaitsForATurnOnlyWithAnActorThatIsAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := taking(planetest.NewScripted(1, "a"), time.Second)
		r := router.New(plane, parking.NewLot(1), router.Options{})
		setLimit(r, router.Limit{Concurrent: 1, Waiting: 1})
		q := send(r, "a", 0, time.Minute)
		synctest.Wait()
		start := time.Now()
		if ride, state, err := glance(r, time.Minute); ride != nil || state != router.Waking || err != nil || time.Since(start) != 0 {
			t.Errorf("Glance = %v, %q, %v after %v; want waking at once", ride, state, err, time.Since(start))
		}
		held := q.mustServe(t)
		start = time.Now()
		if _, _, err := glance(r, 2*time.Second); router.ReasonOf(err) != router.ActorBusy || time.Since(start) != 2*time.Second {
			t.Errorf("Glance = %v after %v, want %s at the end of its 2s", err, time.Since(start), router.ActorBusy)
		}
		time.AfterFunc(time.Second, held.Done)
		ride, _, err := glance(r, time.Minute)
		if err != nil || time.Since(start) != 3*time.Second {
			t.Fatalf("Glance = %v after %v, want a ride when the turn is free", err, time.Since(start))
		}
		time.AfterFunc(time.Second, func() { plane.Sleep("a"); ride.Done() })
		if ride, state, err := glance(r, time.Minute); ride != nil || state != router.Asleep || err != nil {
			t.Errorf("Glance = %v, %q, %v; want what became of it while it waited", ride, state, err)
		}
		if a := actorA(r); a.InFlight != 0 || a.InLine != 0 || a.Wanted != 0 {
			t.Errorf("afterwards: %+v", a)
		}
	})
}
