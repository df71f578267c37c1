package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"layover/internal/lateness"
	"layover/internal/router"
)

// gone checks that a parked request of a client that left ends at once.
func gone(t *testing.T, f *fixture, leave func()) {
	t.Helper()
	f.parked()
	late, left := lateness.Watch(), time.Now()
	leave()
	rec := f.record()
	soon(t, time.Since(left), late())
	if rec.Reason != router.ClientGone {
		t.Errorf("record = %+v, want reason %s", rec, router.ClientGone)
	}
	until(t, "the spot is free", func() bool { return f.lot.Snapshot().Active == 0 })
}

func TestG9_R39_AClientThatLeavesWhileParkedIsNoticed(t *testing.T) {
	requests := map[string]string{
		"no body":        "GET / HTTP/1.1\nHost: a.test\n\n",
		"unread body":    "POST / HTTP/1.1\nHost: a.test\nContent-Length: 1000\n\nsome",
		"whole body":     "POST / HTTP/1.1\nHost: a.test\nContent-Length: 4\n\nsome",
		"chunked body":   "POST / HTTP/1.1\nHost: a.test\nTransfer-Encoding: chunked\n\n4\nsome\n",
		"expects 100":    "POST / HTTP/1.1\nHost: a.test\nContent-Length: 4\nExpect: 100-continue\n\n",
		"pipelined":      "GET / HTTP/1.1\nHost: a.test\n\nGET /second HTTP/1.1\nHost: a.test\n\n",
		"pipelined post": "POST / HTTP/1.1\nHost: a.test\nContent-Length: 4\n\nsomeGET /second HTTP/1.1\nHost: a.test\n\n",
		"large unread":   "POST / HTTP/1.1\nHost: a.test\nContent-Length: 100000\n\n" + strings.Repeat("x", 50_000),
	}
	leaves := map[string]func(*raw){
		"FIN":   func(c *raw) { c.finish() },
		"RST":   func(c *raw) { c.reset() },
		"close": func(c *raw) { c.Close() },
	}
	for _, secure := range []bool{false, true} {
		f := newFixture(t, setup{tls: secure})
		f.actorH1("a", false, hello)
		for what, request := range requests {
			for how, leave := range leaves {
				t.Run(fmt.Sprintf("tls=%v/%s/%s", secure, what, how), func(t *testing.T) {
					c := f.dial()
					c.send("%s", strings.ReplaceAll(request, "\n", "\r\n"))
					gone(t, f, func() { leave(c) })
				})
			}
		}
	}
}

func TestG9_AClientThatLeftBeforeTheRequestParkedIsNoticed(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", false, hello)
	c := f.dial()
	c.send("POST / HTTP/1.1\nHost: a.test\nContent-Length: 10\n\nsome")
	c.Close()
	if rec := f.record(); rec.Reason != router.ClientGone {
		t.Errorf("record = %+v, want reason %s", rec, router.ClientGone)
	}
}

func TestG9_AResetStreamIsNoticed(t *testing.T) {
	for _, secure := range []bool{false, true} {
		f := newFixture(t, setup{tls: secure})
		f.actorH1("a", false, hello)
		f.actorH1("b", true, hello)
		client := f.client(2)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		body, _ := io.Pipe() // nothing comes
		done := do(client, f.request("POST", "a", "/", body).WithContext(ctx))
		gone(t, f, cancel)
		<-done
		if r := get(t, do(client, f.request("GET", "b", "/", nil))); r.body != "hello" { // the connection lives
			t.Errorf("GET = %q, want hello", r.body)
		}
	}
}

func TestG9_WatchedConnectionsAreForgotten(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", false, hello)
	c := f.dial()
	for range 3 { // the same connection, again and again
		c.send("GET / HTTP/1.1\nHost: a.test\n\n")
		f.parked()
		f.wake("a")
		resp := c.response("GET")
		io.Copy(io.Discard, resp.Body)
		f.sleep("a", f.actor("a").target.Addr)
	}
	f.proxy.watch.mu.Lock()
	defer f.proxy.watch.mu.Unlock()
	if n := len(f.proxy.watch.watched); n != 0 {
		t.Errorf("%d connections are watched after the last wait, want 0", n)
	}
}

// TestG9_AClientThatLeavesDuringTheAttemptIsNoticed: after a wait the watch
// stays until the final response header.
func TestG9_AClientThatLeavesDuringTheAttemptIsNoticed(t *testing.T) {
	f := newFixture(t, setup{})
	started, ended := make(chan struct{}), make(chan struct{})
	f.actorH1("a", false, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(started)
		<-r.Context().Done()
		close(ended)
	})
	c := f.dial()
	c.send("GET / HTTP/1.1\nHost: a.test\n\nGET /second HTTP/1.1\nHost: a.test\n\n")
	f.parked()
	f.wake("a")
	receive(t, started, "the actor has the request")
	c.Close()
	receive(t, ended, "the actor is told")
	if rec := f.record(); rec.Reason != router.ClientGone {
		t.Errorf("record = %+v, want reason %s", rec, router.ClientGone)
	}
}

func TestG9_AClientThatLeavesDuringTheResponseIsNoticed(t *testing.T) {
	f := newFixture(t, setup{})
	ended := make(chan struct{})
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(ended)
	})
	c := f.dial()
	c.send("GET / HTTP/1.1\nHost: a.test\n\n")
	c.response("GET")
	c.Close()
	receive(t, ended, "the actor is told")
}

func TestAClientThatLeavesWhileItsRequestIsTriedAgainIsNoticed(t *testing.T) {
	f := newFixture(t, setup{})
	l := listen(t)
	f.add("a", router.ProtocolH1, l.Addr().String(), true)
	l.Close()
	c := f.dial()
	c.send("POST / HTTP/1.1\nHost: a.test\nContent-Length: 10\n\nsome")
	until(t, "it is watched", func() bool {
		f.proxy.watch.mu.Lock()
		defer f.proxy.watch.mu.Unlock()
		return len(f.proxy.watch.watched) == 1
	})
	c.Close()
	if rec := f.record(); rec.Reason != router.ClientGone {
		t.Errorf("record = %+v, want %s", rec, router.ClientGone)
	}
}
