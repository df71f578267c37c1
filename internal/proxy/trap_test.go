package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"layover/internal/lateness"
	"layover/internal/router"
)

// rawActor makes an actor whose connections are handed to talk.
func rawActor(t *testing.T, f *fixture, name string, talk func(c net.Conn, r *bufio.Reader)) {
	t.Helper()
	l := listen(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				talk(c, bufio.NewReader(c))
			}()
		}
	}()
	f.add(name, router.ProtocolH1, l.Addr().String(), true)
}

func TestR43_AnActorThatKnowsNothingOfExpectGetsTheBodyAllTheSame(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{budget: 20 * time.Second})
	rawActor(t, f, "a", func(c net.Conn, r *bufio.Reader) {
		for line := ""; line != "\r\n"; {
			var err error
			if line, err = r.ReadString('\n'); err != nil {
				return
			}
		}
		body := make([]byte, 5)
		if _, err := io.ReadFull(r, body); err == nil {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n%s", body)
		}
	})
	c := f.dial()
	c.send("POST / HTTP/1.1\nHost: a.test\nContent-Length: 5\nExpect: 100-continue\n\n")
	if resp := c.response("POST"); resp.StatusCode != 100 {
		t.Fatalf("status %d, want 100 after a second", resp.StatusCode)
	}
	c.send("hello")
	resp := c.response("POST")
	if body, err := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(body) != "hello" {
		t.Errorf("status %d, body %q, %v; want 200 hello", resp.StatusCode, body, err)
	}
}

func TestAResponseWithoutATypeGetsNone(t *testing.T) {
	f := newFixture(t, setup{})
	rawActor(t, f, "a", func(c net.Conn, r *bufio.Reader) {
		http.ReadRequest(r)
		const body = "<html><script>alert(1)</script>"
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	})
	r := get(t, do(f.client(1), f.request("GET", "a", "/", nil)))
	if made, ok := r.resp.Header["Content-Type"]; ok {
		t.Errorf("Content-Type %q was made up", made)
	}
}

func TestR55_HeadersWithUnderscoresDoNotPassForOurs(t *testing.T) {
	f := newFixture(t, setup{})
	got := make(chan http.Header, 1)
	f.actorH1("a", true, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
	c := f.dial()
	c.send("GET / HTTP/1.1\nHost: a.test\nX_Forwarded_For: 10.0.0.1\nX-Forwarded_Proto: https\nX_Request_Id: x\nLayover_Reason: x\nProxy: http://x\nMy_Own: kept\n\n")
	c.response("GET")
	h := <-got
	for name := range h {
		if strings.Contains(name, "_") && name != "My_own" || name == "Proxy" {
			t.Errorf("the actor got %s: %v", name, h[name])
		}
	}
	if h["My_own"] == nil {
		t.Error("a header of the client's own was dropped")
	}
}

func TestAnUpgradeToNothingIsTheClientsFault(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", true, hello)
	c := f.dial()
	c.send("GET / HTTP/1.1\nHost: a.test\nConnection: upgrade\nUpgrade: \x80\n\n")
	if got := c.response("GET").StatusCode; got != http.StatusBadRequest {
		t.Errorf("status %d, want 400", got)
	}
	if rec := f.record(); rec.Reason != router.BadRequest {
		t.Errorf("recorded as %q, want bad_request", rec.Reason)
	}
}

func TestR54_PrivateNamesPassNeitherInTrailersNorInEarlyHints(t *testing.T) {
	f := newFixture(t, setup{})
	rawActor(t, f, "a", func(c net.Conn, r *bufio.Reader) {
		http.ReadRequest(r)
		io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLayover-Reason: early\r\nLink: x\r\n\r\n"+
			"HTTP/1.1 200 OK\r\nTrailer: Layover-Reason, Sum\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nLayover-Reason: lot_full\r\nSum: 7\r\n\r\n")
	})
	c := f.dial()
	c.send("GET / HTTP/1.1\nHost: a.test\nConnection: close\n\n")
	all, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, leak := range []string{"early", "lot_full"} {
		if strings.Contains(string(all), leak) {
			t.Errorf("%q reached the client:\n%s", leak, all)
		}
	}
	for _, kept := range []string{"103", "Link: x", "Sum: 7"} {
		if !strings.Contains(string(all), kept) {
			t.Errorf("%q did not reach the client:\n%s", kept, all)
		}
	}
}

func TestShutdownEndsRequestsThatCameByAnotherServer(t *testing.T) {
	f := newFixture(t, setup{})
	started := make(chan struct{})
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		close(started)
		<-r.Context().Done()
	})
	s := httptest.NewServer(f.proxy.Handler())
	defer s.Close()
	req, err := http.NewRequest("GET", s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "a.test"
	ended := do(http.DefaultClient, req)
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := f.proxy.Shutdown(ctx); err == nil {
		t.Error("Shutdown says that nothing was cut off")
	}
	<-ended
}

func TestG9_AClientThatResetsAnUploadThatTheActorDoesNotReadIsNoticed(t *testing.T) {
	f := newFixture(t, setup{budget: time.Minute})
	started := make(chan struct{})
	release := make(chan struct{})
	f.actorH1("a", true, func(http.ResponseWriter, *http.Request) {
		close(started)
		<-release
	})
	defer close(release)
	c := f.dial()
	c.send("POST / HTTP/1.1\nHost: a.test\nContent-Length: 500000000\n\n")
	go func() {
		for buf := make([]byte, 1<<20); ; {
			if _, err := c.Write(buf); err != nil {
				return
			}
		}
	}()
	<-started
	late, began := lateness.Watch(), time.Now()
	c.reset()
	rec := f.record()
	soon(t, time.Since(began), late())
	if rec.Reason != router.ClientGone {
		t.Errorf("recorded as %q, want client_gone", rec.Reason)
	}
}

// An actor that goes away after it has read a request may have acted upon it.
func TestR40_AfterAGoawayARequestThatMayHaveBeenActedUponIsNotSentAgain(t *testing.T) {
	f := newFixture(t, setup{budget: 20 * time.Second})
	l := listen(t)
	defer l.Close()
	seen := make(chan struct{}, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go goAwayAfterRequest(c, seen)
		}
	}()
	f.add("a", router.ProtocolH2C, l.Addr().String(), true)
	for _, body := range []string{"", "body"} {
		r := get(t, do(f.client(1), f.request("POST", "a", "/", strings.NewReader(body))))
		if r.resp.StatusCode != http.StatusBadGateway || len(seen) != 1 {
			t.Errorf("POST of %q: status %d, sent %d times; want 502 and once", body, r.resp.StatusCode, len(seen))
		}
		for len(seen) > 0 {
			<-seen
		}
		f.record()
	}
}

// goAwayAfterRequest reads one request over HTTP/2 and goes away.
func goAwayAfterRequest(c net.Conn, seen chan<- struct{}) {
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(c, c)
	framer.WriteSettings()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		ended := false
		switch frame := frame.(type) {
		case *http2.HeadersFrame:
			seen <- struct{}{}
			ended = frame.StreamEnded()
		case *http2.DataFrame:
			ended = frame.StreamEnded()
		}
		if ended {
			framer.WriteGoAway(frame.Header().StreamID, http2.ErrCodeNo, nil)
			return
		}
	}
}

func TestR26_ALateAnswerNeverReachesTheNextCaller(t *testing.T) {
	f := newFixture(t, setup{})
	first := make(chan struct{})
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			<-first // long after its caller was told 504
		}
		io.WriteString(w, r.URL.Path)
	})
	late := f.request("GET", "a", "/late", nil)
	late.Header.Set("Operation-Timeout", "50ms")
	if r := get(t, do(f.client(1), late)); r.resp.StatusCode != http.StatusGatewayTimeout {
		t.Fatalf("status %d, want 504", r.resp.StatusCode)
	}
	close(first)
	for range 20 {
		if r := get(t, do(f.client(1), f.request("GET", "a", "/next", nil))); r.body != "/next" {
			t.Fatalf("the next caller got %q", r.body)
		}
	}
}

func TestR38_ThereIsNoHiddenLimit(t *testing.T) {
	p := New(nil, Options{})
	if s := p.server; s.ReadTimeout != 0 || s.WriteTimeout != 0 {
		t.Errorf("the server cuts requests off after %v, responses after %v", s.ReadTimeout, s.WriteTimeout)
	}
	for _, protocol := range []string{router.ProtocolH1, router.ProtocolH2C} {
		transport := newTransport(new(net.Dialer).DialContext, protocol)
		if transport.ResponseHeaderTimeout != 0 || transport.MaxConnsPerHost != 0 || transport.MaxResponseHeaderBytes != 0 {
			t.Errorf("%s: the transport has a limit that no option names: %+v", protocol, transport)
		}
	}
}
