package atenet

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"layover/e2e/cluster"
)

// Private names pass neither to actors nor from them, also in the forms that
// some programs read as the same.
func TestR54_R55_EnvoyStripsPrivateHeadersBothWays(t *testing.T) {
	c := start(t, 1, 0)
	req := c.Request("GET", "demo/a", "/headers", nil)
	for name, value := range map[string]string{"Layover-Reason": "forged", "layover_reason": "forged", "X_Forwarded_For": "forged", "X_Request-Id": "forged",
		"x-envoy-original-dst-host": "forged", "X-Mine": "passes"} {
		req.Header[name] = []string{value}
	}
	a := mustServe(t, send(req), cluster.IP(0))
	if strings.Contains(a.body, "forged") || !strings.Contains(a.body, "X-Mine: passes") {
		t.Errorf("the actor got\n%s", a.body)
	}
	for name := range a.header {
		if strings.HasPrefix(strings.ToLower(name), "layover") {
			t.Errorf("the client got %s: %s", name, a.header.Get(name))
		}
	}
	resp, err := http.DefaultClient.Do(c.Request("GET", "demo/a", "/headers", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if resp.Trailer.Get("X-Late") != "yes" || resp.Trailer.Get("Layover-Late") != "" {
		t.Errorf("the trailer is %v, want X-Late alone", resp.Trailer)
	}
	// Those of the router's own answers are not an actor's.
	mustRefuse(t, get(c, "demo/nobody"), http.StatusNotFound, "unknown_actor")
}

// As with the built-in proxy: the id of a request is in the answer, whoever gave
// it, and in what the actor got; a client's own is not taken.
func TestEachAnswerHasTheRequestsID(t *testing.T) {
	c := start(t, 1, 0)
	ask := func(name string) *http.Request {
		req := c.Request("GET", name, "/headers", nil)
		req.Header.Set("X-Request-Id", "forged")
		return req
	}
	served := mustServe(t, send(ask("demo/a")), cluster.IP(0))
	if ids := served.header.Values("X-Request-Id"); len(ids) != 1 || len(ids[0]) < 16 || !strings.Contains(served.body, "X-Request-Id: "+ids[0]+"\r\n") {
		t.Errorf("the answer has the ids %q, the actor got\n%s", ids, served.body)
	}
	refused := mustRefuse(t, send(ask("demo/nobody")), http.StatusNotFound, "unknown_actor")
	if ids := refused.header.Values("X-Request-Id"); len(ids) != 1 || !strings.Contains(refused.body, `"request_id":"`+ids[0]+`"`) {
		t.Errorf("the refusal has the ids %q and the body %s", ids, refused.body)
	}
}

func TestTheActorIsToldTheRoutersSpan(t *testing.T) {
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	ask := func(c *cluster.Cluster) string {
		req := c.Request("GET", "demo/a", "/headers", nil)
		req.Header.Set("Traceparent", "00-"+trace+"-"+span+"-01")
		req.Header.Set("Tracestate", "vendor=1")
		return mustServe(t, send(req), cluster.IP(0)).body
	}
	if got := ask(start(t, 1, 0)); !strings.Contains(got, "Traceparent: 00-"+trace+"-"+span+"-01\r\n") || !strings.Contains(got, "Tracestate: vendor=1\r\n") {
		t.Errorf("without a collector the actor is told\n%s", got)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // nobody is there, which is nothing to requests
	got := ask(start(t, 1, 0))
	if !strings.Contains(got, "Traceparent: 00-"+trace+"-") || strings.Contains(got, span) || !strings.Contains(got, "Tracestate: vendor=1\r\n") {
		t.Errorf("with a collector the actor is told\n%s\nwant another span of the same trace", got)
	}
}

// The limits that docs/envoy.md names are Envoy's in fact, on both sides of them.
func TestR51_EnvoyRefusesHeadersAboveTheLimits(t *testing.T) {
	c := start(t, 1, 0)
	for _, test := range []struct {
		size, count, want int
	}{{50 << 10, 1, 200}, {61 << 10, 1, 431}, {1, 80, 200}, {1, 101, 431}} {
		req := c.Request("GET", "demo/a", "/", nil)
		for i := range test.count {
			req.Header.Set("X-Filler-"+strconv.Itoa(i), strings.Repeat("x", test.size))
		}
		if a := <-send(req); a.err != nil || a.status != test.want {
			t.Errorf("%d headers of %d bytes: %d %v, want %d", test.count, test.size, a.status, a.err, test.want)
		}
	}
}
