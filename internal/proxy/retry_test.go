package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"layover/internal/router"
)

func TestR29_R41_RefusedConnectionsAreTriedAgainWithTheBodyWhole(t *testing.T) {
	for _, version := range []int{1, 2} {
		f := newFixture(t, setup{})
		l := listen(t)
		addr := l.Addr().String()
		l.Close()
		f.add("a", router.ProtocolH1, addr, true)
		done := do(f.client(version), f.request("POST", "a", "/", struct{ io.Reader }{strings.NewReader("the whole body")}))
		until(t, "attempts were made", func() bool { return f.asked() > 2 })
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Skipf("the port was taken meanwhile: %v", err)
		}
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
		s.Listener.Close()
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
		if r := get(t, done); r.body != "the whole body" {
			t.Errorf("HTTP/%d: answer %d %q, want the whole body", version, r.resp.StatusCode, r.body)
		}
		if ledger := f.record().Budget.Ledger().String(); !strings.Contains(ledger, router.PhaseRetry) {
			t.Errorf("ledger %q names no retry", ledger)
		}
	}
}

func TestR11_AnActorThatWentAwayIsAskedForAgain(t *testing.T) {
	f := newFixture(t, setup{})
	l := listen(t)
	f.add("a", router.ProtocolH1, l.Addr().String(), true)
	l.Close()
	done := do(f.client(1), f.request("POST", "a", "/", strings.NewReader("body")))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	t.Cleanup(s.Close)
	f.sleep("a", s.Listener.Addr().String())
	f.parked()
	f.wake("a")
	if r := get(t, done); r.body != "body" {
		t.Errorf("answer %d %q, want the body from the new place", r.resp.StatusCode, r.body)
	}
}

func TestAnActorThatTakesNoConnectionsIsUnreachableAtTheEndOfTheBudget(t *testing.T) {
	f := newFixture(t, setup{})
	l := listen(t)
	f.add("a", router.ProtocolH1, l.Addr().String(), true)
	l.Close()
	req := f.request("GET", "a", "/", nil)
	req.Header.Set("Operation-Timeout", "300ms")
	r := get(t, do(f.client(1), req))
	if rec := f.record(); rec.Reason != router.ActorUnreachable || r.resp.StatusCode != rec.Status {
		t.Errorf("answer %d, record %+v, want %s", r.resp.StatusCode, rec, router.ActorUnreachable)
	}
	if n := f.refusals(); n < 3 {
		t.Errorf("the plane was told %d times in 300 ms that connections are refused", n)
	}
}

// fickle is an actor that closes a connection instead of answering the
// connection's nth request. It counts the requests by path.
func (f *fixture) fickle(name string, nth int) (seen func(path string) int) {
	l := listen(f.t)
	f.t.Cleanup(func() { l.Close() })
	paths := make(chan string, 100)
	counts := make(map[string]int)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for i := 1; ; i++ {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					io.Copy(io.Discard, req.Body)
					paths <- req.URL.Path
					if i == nth {
						return
					}
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			}()
		}
	}()
	f.add(name, router.ProtocolH1, l.Addr().String(), true)
	return func(path string) int {
		for {
			select {
			case p := <-paths:
				counts[p]++
			default:
				return counts[path]
			}
		}
	}
}

func TestR42_WhatIsSentAgainAfterTheConnectionBroke(t *testing.T) {
	for _, c := range []struct {
		what, method, header, body string
		reused                     bool
		again                      bool
	}{
		{"GET on a reused connection", "GET", "", "", true, true},
		{"HEAD on a reused connection", "HEAD", "", "", true, true},
		{"PUT without a body on a reused connection", "PUT", "", "", true, true},
		{"DELETE on a reused connection", "DELETE", "", "", true, true},
		{"PUT with a body on a reused connection", "PUT", "", "body", true, false},
		{"POST on a reused connection", "POST", "", "", true, false},
		{"POST with a key on a reused connection", "POST", "Idempotency-Key", "", true, false},
		{"POST with a body on a reused connection", "POST", "", "body", true, false},
		{"GET on a new connection", "GET", "", "", false, false},
		{"PUT on a new connection", "PUT", "", "", false, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := newFixture(t, setup{})
			nth := 1
			if c.reused {
				nth = 2
			}
			seen := f.fickle("a", nth)
			if c.reused {
				get(t, do(f.client(1), f.request("GET", "a", "/first", nil)))
				until(t, "the connection is idle", func() bool { return f.rides() == 0 })
			}
			req := f.request(c.method, "a", "/second", strings.NewReader(c.body))
			if c.header != "" {
				req.Header.Set(c.header, "1")
			}
			r := get(t, do(f.client(1), req))
			wantStatus, wantSeen := 502, 1
			if c.again {
				wantStatus, wantSeen = 200, 2
			}
			if n := seen("/second"); r.resp.StatusCode != wantStatus || n != wantSeen {
				t.Errorf("status %d, the actor saw it %d times; want %d and %d", r.resp.StatusCode, n, wantStatus, wantSeen)
			}
		})
	}
}

func TestR52_ConnectionsOfAnEarlierWakeAreNotUsedAgain(t *testing.T) {
	for _, protocol := range []string{router.ProtocolH1, router.ProtocolH2C} {
		f := newFixture(t, setup{})
		var opened, closed atomic.Int32
		s := httptest.NewUnstartedServer(http.HandlerFunc(hello))
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetHTTP1(true)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				opened.Add(1)
			case http.StateClosed:
				closed.Add(1)
			}
		}
		s.Start()
		t.Cleanup(s.Close)
		addr := s.Listener.Addr().String()
		f.add("a", protocol, addr, true)
		client := f.client(1)
		for range 3 {
			get(t, do(client, f.request("GET", "a", "/", nil)))
			until(t, "the ride is done", func() bool { return f.rides() == 0 })
		}
		if n := opened.Load(); n != 1 {
			t.Errorf("%s: %d connections for 3 requests, want 1", protocol, n)
		}
		f.sleep("a", addr) // the same address, as it may happen
		f.wake("a")
		get(t, do(client, f.request("GET", "a", "/", nil)))
		if n := opened.Load(); n != 2 {
			t.Errorf("%s: %d connections after another wake-up, want 2", protocol, n)
		}
		until(t, "the old connection is closed", func() bool { return closed.Load() == 1 })
	}
}

func TestConnectionsOfManyActorsAreBounded(t *testing.T) {
	var a actors
	a.init(new(net.Dialer).DialContext)
	target := router.Target{Addr: "127.0.0.1:1", Protocol: router.ProtocolH1, Wake: 1}
	held := a.take("held", target)
	for i := range 3 * maxIdleActors {
		a.give(a.take(fmt.Sprint(i), target))
		if n := len(a.current); n > maxIdleActors {
			t.Fatalf("%d actors are remembered, want at most %d", n, maxIdleActors)
		}
	}
	if a.take("held", target) != held {
		t.Error("an actor in use was forgotten")
	}
	late := a.take("held", router.Target{Addr: "127.0.0.1:1", Protocol: router.ProtocolH1})
	if late == held || a.current["held"] != held {
		t.Error("a request with an older target took the place of the newer one")
	}
	a.give(late)
	a.give(held)
	a.give(held)
	a.close()
	if n := len(a.current); n != 0 {
		t.Errorf("%d actors are remembered after close, want 0", n)
	}
}

func TestAnActorThatDoesNotSpeakH2CIsSaidSo(t *testing.T) {
	f := newFixture(t, setup{})
	h1 := f.actorH1("h1", true, func(http.ResponseWriter, *http.Request) {})
	f.add("a", router.ProtocolH2C, h1.Listener.Addr().String(), true)
	resp, err := f.client(1).Do(f.request("GET", "a", "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if want := "does not seem to speak h2c"; resp.StatusCode != http.StatusBadGateway || !strings.Contains(string(body), want) {
		t.Errorf("%d %s, want 502 and %q", resp.StatusCode, body, want)
	}
}
