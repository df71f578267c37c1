package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"layover/internal/router"
)

func TestAColdRequestWaitsAndIsServed(t *testing.T) {
	for _, version := range []int{1, 2} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("h%d,tls=%v", version, secure), func(t *testing.T) {
				f := newFixture(t, setup{tls: secure})
				f.actorH1("a", false, hello)
				done := do(f.client(version), f.request("GET", "a", "/", nil))
				f.parked()
				f.wake("a")
				r := get(t, done)
				if r.resp.StatusCode != 200 || r.body != "hello" || r.resp.ProtoMajor != version {
					t.Errorf("GET = %d %q over HTTP/%d, want 200 hello over HTTP/%d", r.resp.StatusCode, r.body, r.resp.ProtoMajor, version)
				}
				rec := f.record()
				if rec.Actor != "a" || rec.Route != "all" || rec.Status != 200 || rec.Reason != "" || !rec.Parked ||
					rec.Wake != router.WakeTriggered || rec.Waited <= 0 || rec.Took < rec.Waited || rec.ID == "" {
					t.Errorf("record = %+v", rec)
				}
			})
		}
	}
}

func TestG1_AWarmRequestIsServedWithALotOfNone(t *testing.T) {
	f := newFixture(t, setup{})
	f.lot.Resize(0)
	f.actorH1("a", true, hello)
	r := get(t, do(f.client(1), f.request("GET", "a", "/", nil)))
	if r.resp.StatusCode != 200 {
		t.Errorf("GET = %d, want 200", r.resp.StatusCode)
	}
	if rec := f.record(); rec.Wake != router.WakeNone || rec.Parked {
		t.Errorf("record = %+v, want a request that did not park", rec)
	}
}

// gone checks that a parked request of a client that left ends at once.
func gone(t *testing.T, f *fixture, leave func()) {
	t.Helper()
	f.parked()
	left := time.Now()
	leave()
	rec := f.record()
	if rec.Reason != router.ClientGone {
		t.Errorf("record = %+v, want reason %s", rec, router.ClientGone)
	}
	if took := time.Since(left); took > 100*time.Millisecond {
		t.Errorf("noticed after %v, want at most 100ms", took)
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

func TestShedAtOnceWhileTheClientIsStillSending(t *testing.T) {
	for _, head := range []string{"Content-Length: 1000000000", "Transfer-Encoding: chunked"} {
		f := newFixture(t, setup{})
		f.lot.Resize(0)
		f.actorH1("a", false, hello)
		c := f.dial()
		c.send("POST / HTTP/1.1\nHost: a.test\n%s\n\n", head)
		resp := c.response("POST") // though the body has not even begun
		f.wake("a")
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !resp.Close {
			t.Errorf("%s: status %d, Retry-After %q, close %v, want 503 with a time and a close",
				head, resp.StatusCode, resp.Header.Get("Retry-After"), resp.Close)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Errorf("%s: body: %v", head, err)
		}
		if rec := f.record(); rec.Reason != router.LotFull || rec.Status != 503 {
			t.Errorf("record = %+v, want reason %s", rec, router.LotFull)
		}
		f.sleep("a", "")
	}
}

func TestARefusalWithASmallBodyKeepsTheConnection(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", true, hello)
	c := f.dial()
	c.send("POST / HTTP/1.1\nHost: nobody.test\nContent-Length: 4\n\nsome")
	if resp := c.response("POST"); resp.StatusCode != 404 || resp.Close {
		t.Errorf("status %d, close %v, want 404 on a connection that stays", resp.StatusCode, resp.Close)
	} else {
		io.Copy(io.Discard, resp.Body)
	}
	c.send("GET / HTTP/1.1\nHost: a.test\n\n")
	if resp := c.response("GET"); resp.StatusCode != 200 {
		t.Errorf("status %d, want 200", resp.StatusCode)
	}
}

func TestAHeadIsRefusedWithoutABody(t *testing.T) {
	f := newFixture(t, setup{})
	c := f.dial()
	c.send("HEAD / HTTP/1.1\nHost: nobody.test\n\nGET / HTTP/1.1\nHost: nobody.test\n\n")
	if resp := c.response("HEAD"); resp.StatusCode != 404 || resp.ContentLength <= 0 {
		t.Errorf("HEAD: status %d, length %d, want 404 and the length of the body", resp.StatusCode, resp.ContentLength)
	}
	if resp := c.response("GET"); resp.StatusCode != 404 {
		t.Errorf("the next answer is %d, want 404", resp.StatusCode)
	}
}

func TestEachRefusalIsRecordedOnce(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", false, hello)
	client := f.client(1)
	for _, c := range []struct {
		host, header, value string
		status              int
		reason              router.Reason
	}{
		{"other.example", "", "", 404, router.NoRoute},
		{"b.test", "", "", 404, router.UnknownActor},
		{"a.test", "Operation-Timeout", "soon", 400, router.BadDeadline},
		{"a.test", "Operation-Timeout", "0s", 400, router.BadDeadline},
		{"a.test", "Operation-Deadline", "2001-01-01T00:00:00Z", 504, router.DeadlinePast},
		{"a.test", "Operation-Timeout", "30ms", 503, router.StillWaking},
		{"a.test", "X-Envoy-Upstream-Rq-Timeout-Ms", "30", 503, router.StillWaking},
	} {
		req := f.request("GET", "", "/", nil)
		req.Host = c.host
		if c.header != "" {
			req.Header.Set(c.header, c.value)
		}
		r := get(t, do(client, req))
		if r.resp.StatusCode != c.status || r.resp.Header.Get("Layover-Reason") != string(c.reason) {
			t.Errorf("%+v: status %d, reason %q", c, r.resp.StatusCode, r.resp.Header.Get("Layover-Reason"))
		}
		if rec := f.record(); rec.Reason != c.reason || rec.Status != c.status || !strings.Contains(r.body, rec.ID) {
			t.Errorf("%+v: record %+v", c, rec)
		}
	}
	select {
	case rec := <-f.records:
		t.Errorf("one more record: %+v", rec)
	default:
	}
}

func TestAFailedStartIsAnswered(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", false, hello)
	done := do(f.client(1), f.request("POST", "a", "/", bytes.NewReader([]byte("body"))))
	f.parked()
	f.fail("a", router.Fail(router.StartFailed, "exit status 1", nil))
	if r := get(t, done); r.resp.StatusCode != 502 {
		t.Errorf("status %d, want 502", r.resp.StatusCode)
	}
}

func TestAPanicWhileRoutingIsAnsweredAndRecorded(t *testing.T) {
	f := newFixture(t, setup{})
	f.add("a", router.ProtocolH1, "", false)
	closed := make(chan string)
	close(closed)
	f.plane.parks = closed // Resume panics as it sends
	if r := get(t, do(f.client(1), f.request("GET", "a", "/", nil))); r.resp.StatusCode != 500 {
		t.Errorf("status %d, want 500", r.resp.StatusCode)
	}
	if rec := f.record(); rec.Reason != router.Internal {
		t.Errorf("record = %+v, want reason %s", rec, router.Internal)
	}
}
