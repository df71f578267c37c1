package admin_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"layover/budget"
	"layover/internal/admin"
	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
)

func TestTheAtenetMeterHasTheNamesThatDashboardsKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmin(t, admin.Options{Public: true, ParkBudget: 5 * time.Second})
		a.SetRouter(router.New(planetest.NewScripted(1), parking.NewLot(3), router.Options{}))
		observe := func(wake router.Wake, parked bool, own time.Duration, reason router.Reason, after time.Duration) {
			ctx, cancel := budget.For(context.Background(), own)
			defer cancel()
			at := time.Now()
			time.Sleep(after)
			a.Observe(router.Record{At: at, Took: after, Wait: router.Wait{Wake: wake, Parked: parked, ParkedFor: after}, Reason: reason, Budget: budget.From(ctx)})
		}
		observe(router.WakeNone, false, 5*time.Second, "", 0)
		observe(router.WakeTriggered, false, 5*time.Second, "", time.Second)
		observe(router.WakeTriggered, true, 5*time.Second, "", 2*time.Second)
		observe(router.WakeTriggered, true, 5*time.Second, router.NoWorker, 5*time.Second)
		observe(router.WakeJoined, true, 3*time.Second, router.NoWorker, 3*time.Second)
		observe(router.WakeJoined, true, 5*time.Second, router.ClientGone, time.Second)
		observe(router.WakeJoined, true, 5*time.Second, router.PlaneFailed, time.Second)
		observe("", false, 5*time.Second, router.UnknownActor, 0) // nothing was asked for

		text := ask(a, "GET", "http://router:9090/metrics").Body.String()
		for _, want := range []string{
			`atenet_router_parking_active 0`,
			`atenet_router_parking_rejected_total 0`,
			`atenet_router_parking_wait_duration_seconds_sum{outcome="served"} 2`,
			`atenet_router_parking_wait_duration_seconds_sum{outcome="budget_exhausted"} 5`,
			`atenet_router_parking_wait_duration_seconds_sum{outcome="timeout"} 3`,
			`atenet_router_parking_wait_duration_seconds_sum{outcome="canceled"} 1`,
			`atenet_router_parking_wait_duration_seconds_sum{outcome="error"} 1`,
			`atenet_router_route_duration_seconds_count{outcome="none"} 1`,
			`atenet_router_route_duration_seconds_count{outcome="triggered"} 3`,
			`atenet_router_route_duration_seconds_count{outcome="joined"} 3`,
		} {
			if !strings.Contains(text, "\n"+want+"\n") {
				t.Errorf("/metrics has no line %q", want)
			}
		}
		if t.Failed() {
			t.Log(text)
		}
	})
}

func TestAProgramWithoutAtenetHasNoneOfItsMetrics(t *testing.T) {
	if text := ask(newAdmin(t, admin.Options{}), "GET", "http://localhost/metrics").Body.String(); strings.Contains(text, "atenet") {
		t.Errorf("/metrics has\n%s", text)
	}
}

func TestThePageShowsTheProgramsNameAndSettings(t *testing.T) {
	a := newAdmin(t, admin.Options{Name: "atenet-router", Settings: []admin.Setting{{Name: "--host-suffix", Value: "<example>"}}})
	page := ask(a, "GET", "http://localhost/statusz").Body.String()
	for _, want := range []string{"<title>atenet-router: starting</title>", "--host-suffix", "&lt;example&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if text := ask(a, "GET", "http://localhost/statusz.json").Body.String(); !strings.Contains(text, `"name": "atenet-router"`) || !strings.Contains(text, `"--host-suffix"`) {
		t.Errorf("statusz.json is %s", text)
	}
}
