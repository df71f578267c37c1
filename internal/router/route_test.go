package router_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"layover/budget"
	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
	"layover/turnstile"
)

func TestOfSeveralRoutesThatMatchTheFirstWinsWhateverItsKind(t *testing.T) {
	names, err := router.NewNames([]router.Route{
		route("header", func(r *router.Route) { r.Header, r.Actor = "X-Any", "by-header" }),
		route("exact", func(r *router.Route) { r.Host, r.Actor = "api.example.com", "by-host" }),
		route("all", func(r *router.Route) { r.Path, r.Actor = "/", "by-path" }),
		route("hidden", func(r *router.Route) { r.Host, r.Path, r.Actor = "api.example.com", "/x", "never" }),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ host, header, want string }{
		{"api.example.com", "yes", "by-header"},
		{"api.example.com", "", "by-host"},
		{"elsewhere", "", "by-path"},
	} {
		h := http.Header{}
		h.Set("X-Any", c.header)
		if _, actor, _ := names.Match(c.host, "/x", h.Get); actor != c.want {
			t.Errorf("Match(%s, X-Any: %q) = %s, want %s", c.host, c.header, actor, c.want)
		}
	}
}

func TestEachCallerOfAFailedFlightHasAnErrorOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := planetest.NewScripted(1, "a")
		plane.Start = func(context.Context, string) error {
			time.Sleep(time.Second)
			return errors.New("broken")
		}
		r := router.New(plane, parking.NewLot(1), router.Options{})
		first := send(r, "a", 0, time.Minute)
		synctest.Wait()
		second := send(r, "a", 0, time.Minute)
		shed := second.mustRefuse(t, router.LotFull)
		failed := first.mustRefuse(t, router.StartFailed)
		if shed == failed || !failed.Wait.Parked || failed.Wait.ParkedFor != time.Second || failed.Wait.Wake != router.WakeTriggered {
			t.Errorf("errors %+v and %+v: want the first to have parked 1s for the wake-up that it triggered", failed, shed)
		}
		if shed.Wait.Parked || shed.Wait.Wake != router.WakeJoined {
			t.Errorf("the shed one went through %+v, want no spot and a joined wake-up", shed.Wait)
		}
	})
}

func TestOnWaitIsCalledOnceByWhoWaitsAndStoppedBeforeRouteReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := taking(planetest.NewScripted(1, "a"), time.Second)
		r := router.New(plane, parking.NewLot(0), router.Options{})
		began, stopped := 0, 0
		ask := router.Ask{Actor: "a", OnWait: func(string) func() {
			began++
			return func() { stopped++ }
		}}
		if _, err := r.Route(t.Context(), ask); err == nil || !strings.Contains(err.Error(), "requests do not wait here") {
			t.Errorf("a lot of 0 refuses with %v", err)
		}
		if began != 1 || stopped != 1 {
			t.Errorf("a shed request: begun %d times, stopped %d times, want once each", began, stopped)
		}
		r.Wait(t.Context())
		ride, err := r.Route(t.Context(), ask) // awake
		if err != nil {
			t.Fatal(err)
		}
		ride.Done()
		if began != 1 || stopped != 1 {
			t.Errorf("a request to an awake actor was told to wait")
		}
	})
}

func TestADeadlineWithACauseOfItsOwnIsTheBudgetsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := router.New(planetest.NewScripted(0, "a"), parking.NewLot(1), router.Options{})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("lunch"))
		defer cancel()
		_, err := r.Route(ctx, router.Ask{Actor: "a"})
		if got := router.ReasonOf(err); got != router.NoWorker {
			t.Errorf("Route = %v, want no_worker", err)
		}
		r.Wait(context.Background())
	})
}

// Outside a bubble, which has no monotonic clock: what stands in line was not
// stripped of its reading on the way there.
func TestG7_TheLineIsOrderedByMonotonicAges(t *testing.T) {
	plane := planetest.NewScripted(0, "a")
	r := router.New(plane, parking.NewLot(1), router.Options{})
	ctx, cancel := budget.For(context.Background(), time.Hour)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Route(turnstile.Begin(ctx, 0), router.Ask{Actor: "a"})
	}()
	var line []turnstile.Waiter
	for len(line) == 0 {
		line = plane.Pool().Line(1)
	}
	if since := line[0].Claim.Since; since == since.Round(0) {
		t.Errorf("the age %v in line has no monotonic reading", since)
	}
	if !line[0].Ends || line[0].Remaining > time.Hour || line[0].Remaining < time.Minute {
		t.Errorf("the end in line is %v away, want the budget's hour", line[0].Remaining)
	}
	cancel()
	<-done
}
