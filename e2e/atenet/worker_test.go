package atenet

import (
	"net"
	"net/http"
	"testing"
	"time"

	"layover/e2e/actor"
	"layover/e2e/cluster"
	"layover/internal/substrate/controlplane"
)

// startAt is start with one more actor, demo/own, that takes resume to be
// resumed and then is handler, at ip.
func startAt(t *testing.T, ip string, handler http.Handler, resume time.Duration, args ...string) *cluster.Cluster {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Skipf("NOT TESTED: this machine has no address %s: %v", ip, err)
	}
	w := &http.Server{Handler: handler}
	t.Cleanup(func() { w.Close() })
	go w.Serve(l) // ends with Close
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c := start(t, 1, 0, append(args, "--actor-port="+port)...)
	own := map[string]string{"worker": "own"}
	c.Plane.AddPool(controlplane.Pool{Name: "own", IPs: []string{ip}, Labels: own})
	c.Plane.AddActor(controlplane.Actor{Name: "demo/own", Selector: own, Resume: resume})
	return c
}

// In a cluster with IPv6 alone, workers have such addresses.
func TestAWorkerMayHaveAnIPv6Address(t *testing.T) {
	c := startAt(t, "::1", actor.Handler("::1"), 0)
	mustServe(t, get(c, "demo/own"), "::1")
}

// The deadline is one: what the hold took of it the response cannot have. The
// actor is told what remains.
func TestAClientsDeadlineCoversHoldAndResponse(t *testing.T) {
	told := make(chan string, 1)
	c := startAt(t, "127.0.1.99", http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		told <- req.Header.Get("Operation-Timeout")
		<-req.Context().Done()
	}), 700*time.Millisecond)
	req := c.Request("GET", "demo/own", "/", nil)
	req.Header.Set("Operation-Timeout", "1500ms")
	a := <-send(req)
	if a.status != http.StatusGatewayTimeout || a.header.Get("Layover-Reason") != "" {
		t.Errorf("the answer is %d %q, %v, want Envoy's own 504", a.status, a.body, a.err)
	}
	mustTake(t, a, 1500*time.Millisecond)
	if left, err := time.ParseDuration(<-told); err != nil || left <= 0 || left > 800*time.Millisecond {
		t.Errorf("the actor is told that %v remain, %v; the hold took 700ms of 1.5s", left, err)
	}
}

// Without a deadline the route's time-out begins when the request is let go.
func TestTheRouteTimeoutCoversTheResponseAlone(t *testing.T) {
	c := startAt(t, "127.0.1.99", http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		<-req.Context().Done()
	}), 700*time.Millisecond, "--route-timeout=1s")
	a := <-send(c.Request("GET", "demo/own", "/", nil))
	if a.status != http.StatusGatewayTimeout {
		t.Errorf("the answer is %d %q, %v, want 504", a.status, a.body, a.err)
	}
	mustTake(t, a, 1700*time.Millisecond)
}
