package proxy

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"layover/internal/router"
)

// oneAtATime limits every actor to one request and to one more in line.
func (f *fixture) oneAtATime() {
	f.router.SetLimits(func(string) router.Limit { return router.Limit{Concurrent: 1, Waiting: 1} })
}

// inLine waits until n requests wait for their turn with the only actor.
func (f *fixture) inLine(n int) {
	f.t.Helper()
	until(f.t, fmt.Sprintf("%d requests wait for their turn", n), func() bool { return f.router.Snapshot().Plane.Actors[0].InLine == n })
}

func TestAStreamHoldsItsTurnUntilItEnds(t *testing.T) {
	f := newFixture(t, setup{})
	f.oneAtATime()
	end := make(chan struct{})
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "begun")
		w.(http.Flusher).Flush()
		if r.URL.Path == "/stream" {
			<-end
		}
	})
	first := f.dial()
	first.send("GET /stream HTTP/1.1\nHost: a.test\n\n")
	resp := first.response("GET")
	f.record()
	second := do(f.client(2), f.request("POST", "a", "/", nil))
	f.inLine(1)
	refused := get(t, do(f.client(1), f.request("GET", "a", "/", nil)))
	if h := refused.resp.Header; refused.resp.StatusCode != 503 || h.Get("Layover-Reason") != "actor_busy" || h.Get("Retry-After") == "" {
		t.Errorf("the third: %d %v, want 503 actor_busy with a Retry-After", refused.resp.StatusCode, h)
	}
	if rec := f.record(); rec.Reason != router.ActorBusy || rec.Actor != "a" {
		t.Errorf("record = %+v", rec)
	}
	close(end)
	if body, err := io.ReadAll(resp.Body); string(body) != "begun" || err != nil {
		t.Errorf("the stream: %q, %v", body, err)
	}
	if r := get(t, second); r.resp.StatusCode != 200 {
		t.Errorf("the second: %d", r.resp.StatusCode)
	}
	rec := f.record()
	if phases := rec.Budget.Ledger().Phases; len(phases) == 0 || phases[0].Name != router.PhaseTurn || rec.Wake != router.WakeNone || rec.Parked {
		t.Errorf("record = %+v with phases %v, want a turn first and neither wake-up nor spot", rec, phases)
	}
}

func TestAClientThatLeavesTheLineOfAnActorMakesRoomAtOnce(t *testing.T) {
	f := newFixture(t, setup{})
	f.oneAtATime()
	end := make(chan struct{})
	f.actorH1("a", true, func(http.ResponseWriter, *http.Request) { <-end })
	first := do(f.client(1), f.request("GET", "a", "/", nil))
	until(t, "the first is with the actor", func() bool { return f.rides() == 1 })
	second := f.dial()
	second.send("POST / HTTP/1.1\nHost: a.test\nContent-Length: 1000\n\nsome")
	f.inLine(1)
	second.reset()
	f.inLine(0)
	if rec := f.record(); rec.Reason != router.ClientGone {
		t.Errorf("record = %+v, want %s", rec, router.ClientGone)
	}
	close(end)
	get(t, first)
}
