package extproc_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/extproc"
	"layover/internal/router"
)

// Envoy's timers begin after the hold: what it is told is what remains.
func TestWhatRemainsOfTheCallersDeadlineIsPassedOn(t *testing.T) {
	const envoyMs = "x-envoy-upstream-rq-timeout-ms"
	for _, tc := range []struct {
		name    string
		request headers
		set     map[string]string
		removed []string
	}{
		{"none", nil, map[string]string{}, nil},
		{"Envoy's", headers{envoyMs, "3000"},
			map[string]string{envoyMs: "2000", "operation-timeout": "2000ms"}, nil},
		{"gRPC's", headers{"grpc-timeout", "3S", "content-type", "application/grpc"},
			map[string]string{envoyMs: "2000", "grpc-timeout": "2000m", "operation-timeout": "2000ms"}, nil},
		{"an absolute one", headers{"operation-deadline", "2000-01-01T00:00:03.5Z"},
			map[string]string{envoyMs: "2500", "operation-timeout": "2500ms"}, []string{"operation-deadline"}},
		{"the shortest of several", headers{"operation-timeout", "30s", "operation-timeout", "2s", "grpc-timeout", "4S"},
			map[string]string{envoyMs: "1000", "grpc-timeout": "1000m", "operation-timeout": "1000ms"}, nil},
		{"one beyond what a response may take", headers{"operation-timeout", "1h"},
			map[string]string{envoyMs: "20000", "operation-timeout": "20000ms"}, nil},
		{"R27: a tunnel's", headers{"upgrade", "websocket", envoyMs, "3000"},
			map[string]string{"operation-timeout": "2000ms"}, []string{envoyMs}},
		{"R27: a CONNECT's", headers{":method", "CONNECT", "operation-timeout", "3s"},
			map[string]string{"operation-timeout": "2000ms"}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			x := newRig(t, setup{o: extproc.Options{ResponseLimit: 20 * time.Second}})
			got := x.hold(t, get(actorA, tc.request...)).mustRoute(time.Second)
			delete(got.set, "x-envoy-original-dst-host")
			if !maps.Equal(got.set, tc.set) || !slices.Equal(got.removed, tc.removed) {
				t.Errorf("%s: set %v, removed %v, want set %v, removed %v", tc.name, got.set, got.removed, tc.set, tc.removed)
			}
		})
	}
}

func TestACallersDeadlineBoundsTheHold(t *testing.T) {
	for _, tc := range []struct {
		name    string
		request headers
		held    time.Duration
	}{
		{"none: the route's budget", nil, 5 * time.Second},
		{"a shorter one", headers{"operation-timeout", "2s"}, 2 * time.Second},
		{"a longer one", headers{"grpc-timeout", "8S"}, 8 * time.Second},
		{"one beyond the route's maximum", headers{"operation-timeout", "1h"}, 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			x := newRig(t, setup{route: router.Route{Budget: 5 * time.Second, MaxBudget: 10 * time.Second}})
			x.wake(t, actorA)
			x.hold(t, get(actorB, tc.request...)).mustRefuse(tc.held, router.NoWorker)
		})
	}
}

func TestADeadlineThatCannotBeKeptIsRefusedAtOnce(t *testing.T) {
	for _, tc := range []struct {
		name    string
		request headers
		reason  router.Reason
		status  int
	}{
		{"malformed", headers{"operation-timeout", "soon"}, router.BadDeadline, 400},
		{"zero", headers{"grpc-timeout", "0S"}, router.BadDeadline, 400},
		{"one good, one bad", headers{"operation-timeout", "3s", "x-envoy-upstream-rq-timeout-ms", "-1"}, router.BadDeadline, 400},
		{"past", headers{"operation-deadline", "1999-12-31T23:59:59Z"}, router.DeadlinePast, 504},
	} {
		synctest.Test(t, func(t *testing.T) {
			x := newRig(t, setup{})
			response := x.hold(t, get(actorA, tc.request...)).mustRefuse(0, tc.reason)
			if got := int(response.GetStatus().GetCode()); got != tc.status {
				t.Errorf("%s: status %d, want %d", tc.name, got, tc.status)
			}
		})
	}
}

// Less than what can be written in a header is too little to send a request.
func TestG5_NothingIsPassedOnAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, setup{})
		response := x.hold(t, get(actorA, "operation-timeout", "1000.5ms")).mustRefuse(time.Second, router.AttemptTimeout)
		if got := response.GetStatus().GetCode(); got != 504 {
			t.Errorf("status %v, want 504", got)
		}
		synctest.Wait()
		if with, want := x.inFlight(actorA); with+want != 0 {
			t.Errorf("%d requests are with the actor", with+want)
		}
	})
}
