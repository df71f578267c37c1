package atenet

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"layover/e2e/cluster"
	"layover/internal/substrate/controlplane"
)

func TestAColdActorIsResumedAndServes(t *testing.T) {
	c := start(t, 1, 300*time.Millisecond)
	mustTake(t, mustServe(t, get(c, "demo/a"), cluster.IP(0)), 300*time.Millisecond)
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
	if n := c.Plane.Resumes("demo/a"); n != 1 {
		t.Errorf("it was resumed %d times, want 1", n)
	}
	for name, want := range map[string]string{
		`atenet_router_route_duration_seconds_count{outcome="triggered"}`: "1",
		`atenet_router_route_duration_seconds_count{outcome="none"}`:      "1",
	} {
		if got := metric(t, c, name); got != want {
			t.Errorf("%s is %q, want %s", name, got, want)
		}
	}
}

func TestTheTargetHeaderNamesTheActor(t *testing.T) {
	c := start(t, 1, 0)
	req := c.Request("GET", "demo/a", "/", nil)
	req.Host = "elsewhere.example"
	req.Header.Set("ate-target-actor", "demo/b")
	req.Header.Set("x-envoy-original-dst-host", "127.0.0.1:1") // a client has no say in this
	mustServe(t, send(req), cluster.IP(0))
	req = c.Request("GET", "demo/a", "/", nil)
	req.Header["Ate-Target-Actor"] = []string{"demo/a", "demo/b"}
	mustRefuse(t, send(req), http.StatusNotFound, "unknown_actor")
	if c.Plane.Resumes("demo/b") != 1 || c.Plane.Resumes("demo/a") != 0 {
		t.Error("another actor was resumed")
	}
}

// Rule G1, through Envoy: a full lot is nothing to an actor that runs.
func TestG1_ARequestToARunningActorIsServedWithTheLotFull(t *testing.T) {
	c := start(t, 1, 0, "--parked-request-max=2", "--parked-request-budget=20s")
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
	waiting := []<-chan answer{get(c, "demo/b"), get(c, "demo/b")}
	untilParked(t, c, 2)
	for range 20 {
		mustServe(t, get(c, "demo/a"), cluster.IP(0))
	}
	shed := mustRefuse(t, get(c, "demo/c"), http.StatusServiceUnavailable, "lot_full")
	if shed.took > 2*time.Second {
		t.Errorf("the refusal took %v", shed.took)
	}
	c.Plane.Suspend("demo/a")
	for _, got := range waiting {
		mustServe(t, got, cluster.IP(0))
	}
	if got := metric(t, c, "atenet_router_parking_rejected_total"); got != "1" {
		t.Errorf("rejected is %q, want 1", got)
	}
}

func TestTheBudgetsEndIsToldWithTheControlPlanesWords(t *testing.T) {
	c := start(t, 1, 0, "--parked-request-budget=500ms")
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
	a := mustRefuse(t, get(c, "demo/b"), http.StatusServiceUnavailable, "no_worker")
	mustTake(t, a, 500*time.Millisecond)
	if !strings.Contains(a.body, "no free workers") {
		t.Errorf("the body is %s", a.body)
	}
}

func TestAClientsDeadlineEndsItsWait(t *testing.T) {
	c := start(t, 1, 0)
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
	req := c.Request("GET", "demo/b", "/", nil)
	req.Header.Set("Operation-Timeout", "700ms")
	mustTake(t, mustRefuse(t, send(req), http.StatusServiceUnavailable, "no_worker"), 700*time.Millisecond)
	if got := metric(t, c, `atenet_router_parking_wait_duration_seconds_count{outcome="timeout"}`); got != "1" {
		t.Errorf("waits with outcome timeout: %q, want 1", got)
	}
}

func TestEachAnswerOfTheControlPlaneHasItsStatus(t *testing.T) {
	c := start(t, 1, 0)
	for _, test := range []struct {
		code   codes.Code
		status int
		reason string
	}{
		{codes.NotFound, http.StatusNotFound, "unknown_actor"},
		{codes.PermissionDenied, http.StatusForbidden, "forbidden"},
		{codes.Unauthenticated, http.StatusUnauthorized, "unauthenticated"},
		{codes.DeadlineExceeded, http.StatusGatewayTimeout, "wake_timeout"},
		{codes.InvalidArgument, http.StatusBadRequest, "bad_request"},
		{codes.Internal, http.StatusInternalServerError, "plane_failed"},
		{codes.DataLoss, http.StatusInternalServerError, "plane_failed"},
	} {
		c.Plane.Inject(controlplane.Fault{Method: "ResumeActor", Code: test.code, Message: "said " + test.code.String()})
		mustRefuse(t, get(c, "demo/a"), test.status, test.reason)
	}
	for _, code := range []codes.Code{codes.Aborted, codes.FailedPrecondition, codes.Unavailable, codes.ResourceExhausted} {
		c.Plane.Inject(controlplane.Fault{Method: "ResumeActor", Code: code, Times: 3})
		mustServe(t, get(c, "demo/a"), cluster.IP(0))
	}
	req := c.Request("GET", "demo/a", "/", nil)
	req.Host = "Nobody_.example"
	mustRefuse(t, send(req), http.StatusNotFound, "unknown_actor")
}

func TestWithParkingOffARequestFailsAtOnceButForAborted(t *testing.T) {
	c := start(t, 1, 0, "--parked-request-max=0")
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
	a := mustRefuse(t, get(c, "demo/b"), http.StatusServiceUnavailable, "no_worker")
	if a.took > 2*time.Second {
		t.Errorf("it took %v", a.took)
	}
	c.Plane.Inject(controlplane.Fault{Method: "ResumeActor", Code: codes.Aborted, Times: 4})
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
}

// A late joiner waits its own budget, not what is left of the first one's.
func TestALateJoinerHasItsOwnBudget(t *testing.T) {
	c := start(t, 1, 0, "--parked-request-budget=1500ms")
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
	first := get(c, "demo/b")
	untilParked(t, c, 1)
	<-time.After(900 * time.Millisecond)
	late := get(c, "demo/b")
	mustTake(t, mustRefuse(t, first, http.StatusServiceUnavailable, "no_worker"), 1500*time.Millisecond)
	c.Plane.Suspend("demo/a")
	a := mustServe(t, late, cluster.IP(0))
	if a.took < 500*time.Millisecond {
		t.Errorf("the late joiner was served after %v, before the first one's end", a.took)
	}
}

// Rule G3, through Envoy: who leaves frees the spot.
func TestG3_AClientThatLeavesFreesItsSpot(t *testing.T) {
	c := start(t, 1, 0, "--parked-request-max=1", "--parked-request-budget=20s")
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
	ctx, leave := context.WithCancel(t.Context())
	gone := send(c.Request("GET", "demo/b", "/", nil).WithContext(ctx))
	untilParked(t, c, 1)
	leave()
	<-gone
	untilParked(t, c, 0)
	stays := get(c, "demo/b")
	untilParked(t, c, 1)
	c.Plane.Suspend("demo/a")
	mustServe(t, stays, cluster.IP(0))
	if got := metric(t, c, `atenet_router_parking_wait_duration_seconds_count{outcome="canceled"}`); got != "1" {
		t.Errorf("waits with outcome canceled: %q, want 1", got)
	}
}

func TestTheControlPlaneRestartsWhileRequestsWait(t *testing.T) {
	c := start(t, 1, time.Second, "--parked-request-budget=15s")
	got := get(c, "demo/a")
	until(t, "the resume has begun", func() bool { return c.Plane.Count("ResumeActor") == 1 })
	c.Plane.Stop()
	untilParked(t, c, 1)
	if err := c.RestartPlane(); err != nil {
		t.Fatal(err)
	}
	mustServe(t, got, cluster.IP(0))
	if n := c.Plane.Stranded(); n != 0 {
		t.Errorf("%d workers are lost", n)
	}
}

// Rule G6: a resume that was asked for is not cut off, and who comes later has
// its success.
func TestG6_AResumeThatOutlivesItsRequestServesTheNext(t *testing.T) {
	c := start(t, 1, 1500*time.Millisecond, "--parked-request-budget=500ms")
	mustTake(t, mustRefuse(t, get(c, "demo/a"), http.StatusServiceUnavailable, "still_waking"), 500*time.Millisecond)
	until(t, "the resume has come to its end", func() bool { return c.Plane.Resumes("demo/a") == 1 })
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
	if n := c.Plane.Stranded(); n != 0 {
		t.Errorf("%d workers are lost", n)
	}
}

func TestAHungControlPlaneIsGivenUpAfterTheAttemptTimeout(t *testing.T) {
	c := start(t, 1, 0, "--resume-attempt-timeout=1s", "--parked-request-budget=10s")
	c.Plane.Inject(controlplane.Fault{Method: "ResumeActor", Hang: true})
	mustTake(t, mustRefuse(t, get(c, "demo/a"), http.StatusGatewayTimeout, "wake_timeout"), time.Second)
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
}
