package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"layover/internal/lateness"
)

// TestR72_NoStreamIsLostAtShutdown: a request over HTTP/2 is served or, if it
// met the end of the connection, known not to have been: the client sends it
// again by itself and finds that connections are refused.
func TestR72_NoStreamIsLostAtShutdown(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for range 5 {
			f := newFixture(t, setup{tls: secure, silent: true})
			f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
			client := f.client(2)
			sent := make(chan struct{}, 1000)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for {
						established := false
						req := f.request("POST", "a", "/", strings.NewReader("body"))
						req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
							GotConn: func(info httptrace.GotConnInfo) { established = info.Reused },
						}))
						resp, err := client.Do(req)
						if err != nil {
							// A connection that the kernel had made, and nobody accepted, is reset.
							unaccepted := !established && errors.Is(err, syscall.ECONNRESET)
							if !errors.Is(err, syscall.ECONNREFUSED) && !unaccepted {
								t.Errorf("tls=%v: a request was lost: %v", secure, err)
							}
							return
						}
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
						select {
						case sent <- struct{}{}:
						default:
						}
					}
				})
			}
			for range 50 {
				receive(t, sent, "requests are served")
			}
			if err := f.proxy.Shutdown(context.Background()); err != nil {
				t.Errorf("Shutdown = %v", err)
			}
			wg.Wait()
		}
	}
}

func TestServeAfterShutdownIsRefused(t *testing.T) {
	f := newFixture(t, setup{})
	if err := f.proxy.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := f.proxy.Serve(listen(t)); err != http.ErrServerClosed {
		t.Errorf("Serve = %v, want %v", err, http.ErrServerClosed)
	}
}

func TestAnyNumberOfListenersAreServed(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", true, hello)
	l := listen(t)
	served := make(chan error, 1)
	server, client := certificate(t)
	go func() { served <- f.proxy.ServeTLS(l, server) }()
	get(t, do(f.client(1), f.request("GET", "a", "/", nil)))
	f.base, f.tls = "https://"+l.Addr().String(), client
	for _, version := range []int{1, 2} {
		if r := get(t, do(f.client(version), f.request("GET", "a", "/", nil))); r.resp.ProtoMajor != version {
			t.Errorf("the TLS listener speaks HTTP/%d, want %d", r.resp.ProtoMajor, version)
		}
	}
	f.proxy.Shutdown(context.Background())
	if err := receive(t, served, "ServeTLS returns"); err != http.ErrServerClosed {
		t.Errorf("ServeTLS = %v, want %v", err, http.ErrServerClosed)
	}
}

func TestG10_ShutdownServesTheParkedAndWaitsForTunnels(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", false, hello)
	f.actorH1("b", true, switcher)
	var parked []<-chan result
	for _, version := range []int{1, 2} {
		parked = append(parked, do(f.client(version), f.request("GET", "a", "/", nil)))
	}
	parked = append(parked, do(f.client(1), f.request("POST", "a", "/", strings.NewReader("body"))))
	f.parked()
	until(t, "all are parked", func() bool { return f.lot.Snapshot().Active == 3 })

	tunnel := f.dial()
	tunnel.send("GET / HTTP/1.1\nHost: b.test\nConnection: Upgrade\nUpgrade: x\n\n")
	tunnel.response("GET")

	late := f.request("GET", "c", "/", nil)
	late.Header.Set("Operation-Timeout", "200ms")
	f.actorH1("c", false, hello)
	ends := do(f.client(1), late)
	f.parked()

	down := make(chan error, 1)
	go func() { down <- f.proxy.Shutdown(context.Background()) }()
	until(t, "connections are refused", func() bool {
		c, err := http.NewRequest("GET", f.base, nil)
		if err != nil {
			return false
		}
		_, err = (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(c)
		return err != nil
	})
	if r := get(t, ends); r.resp.StatusCode != 503 { // ended by its budget
		t.Errorf("a parked request whose budget ends: %d, want 503", r.resp.StatusCode)
	}
	if len(down) != 0 {
		t.Fatal("Shutdown returned although requests are parked")
	}
	f.wake("a")
	for _, done := range parked {
		if r := get(t, done); r.body != "hello" {
			t.Errorf("a parked request: %d %q, want hello", r.resp.StatusCode, r.body)
		}
	}
	tunnel.send("ping")
	got := make([]byte, 4)
	if _, err := io.ReadFull(tunnel.r, got); err != nil {
		t.Fatalf("the tunnel: %v", err)
	}
	if len(down) != 0 {
		t.Fatal("Shutdown returned although a tunnel is open")
	}
	tunnel.Close()
	if err := receive(t, down, "Shutdown returns"); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
}

func TestG10_ShutdownCutsOffWhatItCannotWaitFor(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", false, hello)
	f.actorH1("b", true, switcher)
	f.actorH1("c", true, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	tunnel := f.dial()
	tunnel.send("GET / HTTP/1.1\nHost: b.test\nConnection: Upgrade\nUpgrade: x\n\n")
	tunnel.response("GET")
	f.record()
	var cut []<-chan result
	for _, actor := range []string{"a", "c"} {
		for _, version := range []int{1, 2} {
			cut = append(cut, do(f.client(version), f.request("GET", actor, "/", nil)))
		}
	}
	f.parked()
	until(t, "all are in", func() bool { return f.lot.Snapshot().Active == 2 && f.rides() == 3 })
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	if err := f.proxy.Shutdown(ctx); err != stop {
		t.Errorf("Shutdown = %v, want %v", err, stop)
	}
	for range cut {
		f.record()
	}
	if n := f.rides(); n != 0 {
		t.Errorf("%d rides after Shutdown, want 0", n)
	}
	if _, err := io.ReadAll(tunnel.r); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the tunnel ends with %v, want the end of file", err)
	}
	for _, done := range cut {
		receive(t, done, "the client has its answer")
	}
}

func TestG10_ShutdownDoesNotWaitForAConnectionWithoutARequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	f.actorH1("a", true, hello)
	c := f.dial()
	c.send("GET / HTTP/1.1\nHost: a.t") // and no more: net/http gives it 5 s and more
	<-time.After(50 * time.Millisecond) // until it was accepted
	began := time.Now()
	if err := f.proxy.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > quietTime+2*time.Second {
		t.Errorf("Shutdown took %v, want %v", took, quietTime)
	}
}

// net/http reads a request that comes after its Shutdown, and closes the connection without an answer.
func TestR71_TheFirstRequestOfAConnectionThatWasTakenIsServedInAStop(t *testing.T) {
	for range 5 {
		f := newFixture(t, setup{})
		f.actorH1("a", true, hello)
		c := f.dial()
		until(t, "the connection was accepted", func() bool {
			f.proxy.clients.mu.Lock()
			defer f.proxy.clients.mu.Unlock()
			return f.proxy.clients.fresh == 1
		})
		down := make(chan error, 1)
		began, late := time.Now(), lateness.Watch()
		go func() { down <- f.proxy.Shutdown(context.Background()) }()
		until(t, "connections are refused", func() bool {
			other, err := net.Dial("tcp", f.addr)
			if err == nil {
				other.Close()
			}
			return err != nil
		})
		c.send("GET / HTTP/1.1\nHost: a.test\n\n")
		sent := time.Since(began)
		resp, err := http.ReadResponse(c.r, nil)
		switch late := late(); {
		case err != nil && sent+4*late > freshTimeout:
			t.Logf("sent %v after the stop began, timers were %v late: too late on this machine", sent, late)
		case err != nil:
			t.Errorf("sent %v after the stop began: %v", sent, err)
		case resp.StatusCode != 200:
			t.Errorf("status %d, want 200", resp.StatusCode)
		}
		if err := receive(t, down, "Shutdown returns"); err != nil {
			t.Errorf("Shutdown = %v", err)
		}
	}
}
