package proxy

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"layover/internal/router"
)

func TestR61_WhatHappensToConnectionsIsCounted(t *testing.T) {
	f := newFixture(t, setup{tls: true, options: Options{MaxConnections: 2}})
	f.actorH1("a", true, hello)
	f.actorH1("b", false, hello)
	want := map[string]uint64{"malformed": 0, "header_too_large": 0, "header_timeout": 0, "tls_handshake": 0, "waited_for_room": 0, "idle_closed_for_room": 0, "stream_idle": 0}
	is := func(event string) {
		t.Helper()
		want[event]++
		until(t, event+" is counted, and nothing else", func() bool { return maps.Equal(f.proxy.Stats().Events, want) })
	}
	closed := func(c *raw) { io.ReadAll(c.r); c.Close() }
	none := func() {
		t.Helper()
		until(t, "all connections are closed", func() bool { return f.proxy.Stats().Connections == 0 })
	}
	for event, begin := range map[string]string{
		"malformed":        "GET / HTTP/1.1\r\nA : b\r\n\r\n",
		"header_too_large": "GET / HTTP/1.1\r\nA: " + strings.Repeat("x", 100_000),
	} {
		c := f.dial()
		go c.pieces(begin, 0)
		closed(c)
		is(event)
		none()
	}
	c := f.dial()
	go c.pieces("GET / HTTP/1.1\r\n\r\n", 0) // net/http's own refusal
	closed(c)
	is("malformed")
	c = f.dialTCP()
	c.send("GET / HTTP/1.1\n\n")
	closed(c)
	is("tls_handshake")
	none()

	idle := f.dial()
	for range 3 { // the answer of an actor, whatever it is, is no event
		idle.send("GET / HTTP/1.1\nHost: a.test\n\n")
		io.Copy(io.Discard, idle.response("GET").Body)
	}
	idle.send("GET / HTTP/1.1\nHost: nobody\n\n")
	io.Copy(io.Discard, idle.response("GET").Body)
	<-time.After(200 * time.Millisecond)
	busy := f.dial()
	busy.send("GET / HTTP/1.1\nHost: b.test\n\n")
	f.parked()
	third := f.dialTCP()
	is("idle_closed_for_room")
	fourth := f.dialTCP()
	is("waited_for_room")
	if n := f.proxy.Stats().Connections; n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
	f.wake("b")
	if code := busy.response("GET").StatusCode; code != 200 {
		t.Errorf("the parked request: %d, want 200", code)
	}
	third.Close()
	fourth.Close()
}

func TestR61_ALateHeaderIsCountedAndAWaitForTheNextRequestIsNot(t *testing.T) {
	t.Parallel()
	const timeout = 300 * time.Millisecond
	f := newFixture(t, setup{options: Options{ReadHeaderTimeout: timeout}})
	f.actorH1("a", true, hello)
	late := f.dial()
	late.send("GET / HTTP/1.1\n")
	io.ReadAll(late.r)
	counted := func() uint64 { return f.proxy.Stats().Events["header_timeout"] }
	until(t, "it is counted", func() bool { return counted() == 1 })
	idle := f.dial()
	for range 2 {
		idle.send("GET / HTTP/1.1\nHost: a.test\n\n")
		io.Copy(io.Discard, idle.response("GET").Body)
		<-time.After(2 * timeout)
	}
	if n := counted(); n != 1 {
		t.Errorf("counted %d times, want once", n)
	}
}

func TestR64_AStreamThatIsCutOffIsCounted(t *testing.T) {
	f := newFixture(t, setup{routes: []router.Route{{Name: "a", Actor: "a", Budget: time.Minute, MaxBudget: time.Minute, StreamIdle: 100 * time.Millisecond}}})
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "begin")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	for i, version := range []int{1, 2} {
		<-do(f.client(version), f.request("GET", "a", "/", nil))
		if n := f.proxy.Stats().Events["stream_idle"]; n != uint64(i+1) {
			t.Errorf("HTTP/%d: counted %d times, want %d", version, n, i+1)
		}
	}
}
