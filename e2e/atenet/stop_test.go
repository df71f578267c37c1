package atenet

import (
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"layover/e2e/actor"
	"layover/e2e/cluster"
	"layover/internal/substrate/ateapi"
	"layover/internal/substrate/controlplane"
)

// mustEnd waits for the router's end.
func mustEnd(t *testing.T, c *cluster.Cluster, code int) {
	t.Helper()
	select {
	case <-c.Ended():
		if got := c.ExitCode(); got != code {
			t.Errorf("the router ends with %d, want %d", got, code)
		}
	case <-time.After(25 * time.Second):
		t.Fatal("the router does not end")
	}
}

// untilNotReady waits until the router has heard of its stop.
func untilNotReady(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	until(t, "the router is not ready", func() bool {
		status, err := c.Ready(t.Context())
		return err == nil && status == http.StatusServiceUnavailable
	})
}

// Rule G10, through Envoy: parked requests are served, then the router ends,
// while those who come meanwhile are told to go elsewhere.
func TestG10_TermServesTheParkedThenEnds(t *testing.T) {
	c := start(t, 1, 0, "--parked-request-budget=15s")
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
	waiting := []<-chan answer{get(c, "demo/b"), get(c, "demo/b")}
	untilParked(t, c, 2)
	waiting = append(waiting, get(c, "demo/c"))
	untilParked(t, c, 3)
	if err := c.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	untilNotReady(t, c)
	select {
	case <-c.Ended():
		t.Fatal("it ends with requests parked")
	case <-time.After(500 * time.Millisecond):
	}
	c.Plane.Suspend("demo/a")
	mustServe(t, waiting[0], cluster.IP(0))
	mustServe(t, waiting[1], cluster.IP(0))
	c.Plane.Suspend("demo/b")
	mustServe(t, waiting[2], cluster.IP(0))
	mustEnd(t, c, 0)
}

func TestAResponseUnderWayIsFinishedInAStop(t *testing.T) {
	c := start(t, 1, 0)
	began := time.Now()
	got := send(c.Request("GET", "demo/a", "/events?n=10&ms=150", nil))
	until(t, "the actor runs", func() bool { return c.Plane.Resumes("demo/a") == 1 })
	<-time.After(100 * time.Millisecond)
	c.Signal(syscall.SIGTERM)
	mustEnd(t, c, 0)
	if took := time.Since(began); took < 1500*time.Millisecond {
		t.Errorf("it ends after %v, before the response", took)
	}
	a := mustServe(t, got, cluster.IP(0))
	if n := strings.Count(a.body, "data: "); n != 10 {
		t.Errorf("%d events came, want 10", n)
	}
}

// A resume goes on when those who wanted it have left; a stop that cut it off
// would lose its worker.
func TestAStopWaitsForAResumeThatOutlivesItsCallers(t *testing.T) {
	c := start(t, 1, 0, "--parked-request-budget=500ms")
	c.Plane.AddActor(controlplane.Actor{Name: "demo/slow", Resume: 3 * time.Second})
	mustRefuse(t, get(c, "demo/slow"), http.StatusServiceUnavailable, "still_waking")
	c.Signal(syscall.SIGTERM)
	mustEnd(t, c, 0)
	if state := c.Plane.State("demo/slow"); c.Plane.Stranded() != 0 || state != ateapi.ActorState_ACTOR_STATE_RUNNING {
		t.Errorf("%d workers are lost, the actor is %v", c.Plane.Stranded(), state)
	}
}

func TestASecondSignalCutsTheStopShort(t *testing.T) {
	c := start(t, 1, 0, "--parked-request-budget=20s")
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
	waiting := get(c, "demo/b")
	untilParked(t, c, 1)
	c.Signal(syscall.SIGTERM)
	untilNotReady(t, c)
	<-time.After(200 * time.Millisecond) // a second signal within that is part of the first
	c.Signal(syscall.SIGTERM)
	mustEnd(t, c, 1)
	if a := <-waiting; a.err == nil && a.status < 500 {
		t.Errorf("the parked request is answered %d", a.status)
	}
}

// An Envoy keeps what it was told while there is no router, waits for one a
// little, and then refuses with 503; who comes just before the next router does
// is served.
func TestAnotherRouterTakesTheOnesPlace(t *testing.T) {
	c := start(t, 1, 0)
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
	c.Signal(syscall.SIGKILL)
	<-c.Ended()
	if a := <-get(c, "demo/a"); a.status != http.StatusServiceUnavailable {
		t.Errorf("without a router the answer is %d, want 503", a.status)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for {
		began := time.Now()
		early := get(c, "demo/a")
		if err := c.StartRouter(ctx); err != nil {
			t.Fatal(err)
		}
		const surely = 500 * time.Millisecond // Envoy waits between one and three seconds, as chance has it
		took := time.Since(began)
		a := <-early
		if a.status == http.StatusOK && a.header.Get(actor.MarkHeader) == cluster.IP(0) {
			return
		}
		if took < surely {
			t.Fatalf("with a router after %v the answer is %d %q, %v; want 200 of %s", took, a.status, a.body, a.err, cluster.IP(0))
		}
		t.Logf("this machine took %v to start a router: once more", took)
		c.Signal(syscall.SIGKILL)
		<-c.Ended()
	}
}

// What an Envoy that is gone had held leaves the lot; the next one is
// configured by the same router.
func TestAnotherEnvoyTakesTheOnesPlace(t *testing.T) {
	c := start(t, 1, 0, "--parked-request-budget=20s")
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
	held := get(c, "demo/b")
	untilParked(t, c, 1)
	syscall.Kill(c.Envoy.Pid(), syscall.SIGKILL)
	<-held
	c.Envoy.Stop()
	untilParked(t, c, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.StartEnvoy(ctx); err != nil {
		t.Fatal(err)
	}
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
}
