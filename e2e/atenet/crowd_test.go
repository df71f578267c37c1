package atenet

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"layover/e2e/actor"
	"layover/e2e/cluster"
)

// Envoy's own limits of 1024, for the streams of a connection and for the
// requests of a cluster, are in nobody's way: one client parks more on one
// connection, and all are served when their actor runs.
func TestOneConnectionParksMoreThanEnvoyAllowsByItself(t *testing.T) {
	const crowd = 1300
	c := start(t, 1, 0, "--parked-request-max=1500", "--parked-request-budget=60s", "--route-timeout=60s")
	mustServe(t, get(c, "demo/a"), cluster.IP(0))
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}, Timeout: 90 * time.Second}
	defer client.CloseIdleConnections()
	ask := func() (int, string, error) {
		resp, err := client.Do(c.Request("GET", "demo/b", "/", nil))
		if err != nil {
			return 0, "", err
		}
		resp.Body.Close()
		return resp.StatusCode, resp.Header.Get(actor.MarkHeader), nil
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	wrong := 0
	first := make(chan struct{}) // closed when the connection is there, so that the others share it
	for i := range crowd {
		all.Go(func() {
			if i > 0 {
				<-first
			}
			status, by, err := ask()
			if err != nil || status != http.StatusOK || by != cluster.IP(0) {
				mu.Lock()
				defer mu.Unlock()
				if wrong++; wrong <= 3 {
					t.Errorf("an answer is %d of %q, %v", status, by, err)
				}
			}
		})
	}
	untilParked(t, c, 1)
	close(first)
	untilParked(t, c, crowd)
	stats, err := c.Envoy.Get(t.Context(), "/stats?filter=http.http.downstream_cx_http2_active")
	if err != nil || !strings.Contains(stats, "downstream_cx_http2_active: 1\n") {
		t.Errorf("Envoy has %q, %v, want one connection", stats, err)
	}
	c.Plane.Suspend("demo/a")
	all.Wait()
	if wrong > 0 {
		t.Errorf("%d of %d were not served", wrong, crowd)
	}
	if n := c.Plane.Resumes("demo/b"); n != 1 {
		t.Errorf("the actor was resumed %d times, want 1", n)
	}
}
