package proxy

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"layover/internal/router"
)

func TestR53_ATrustedPeerNamesTheActorAndTheHostStays(t *testing.T) {
	trust := Trust{Peers: loopback, ActorHeader: "x-actor",
		Direct: router.Route{Name: "actor_header", Budget: time.Minute, MaxBudget: time.Minute}}
	got := make(chan *http.Request, 1)
	for _, version := range []int{1, 2} {
		f := newFixture(t, setup{options: Options{Trust: trust}})
		f.actorH1("a", true, func(_ http.ResponseWriter, r *http.Request) { got <- r })
		f.actorH1("b", true, func(http.ResponseWriter, *http.Request) { t.Error("b got the request") })
		req := f.request("GET", "b", "/x", nil)
		req.Header.Set("X-Actor", "a")
		get(t, do(f.client(version), req))
		in := <-got
		if in.Host != "b.test" || in.Header["X-Actor"] != nil {
			t.Errorf("HTTP/%d: the actor got host %q and X-Actor %q; want b.test and none", version, in.Host, in.Header["X-Actor"])
		}
		if rec := f.record(); rec.Route != "actor_header" || rec.Actor != "a" {
			t.Errorf("HTTP/%d: recorded as route %q, actor %q", version, rec.Route, rec.Actor)
		}
		req = f.request("GET", "b", "/x", nil)
		req.Header.Set("X-Actor", "nobody")
		if r := get(t, do(f.client(version), req)); r.resp.StatusCode != http.StatusNotFound {
			t.Errorf("HTTP/%d: an actor that is not there: %d, want 404", version, r.resp.StatusCode)
		}
	}
}

func TestR53_AStrangersActorHeaderIsIgnoredAndStripped(t *testing.T) {
	f := newFixture(t, setup{options: Options{Trust: Trust{ActorHeader: "X-Actor"}}})
	got := make(chan *http.Request, 1)
	f.actorH1("a", true, func(http.ResponseWriter, *http.Request) { t.Error("a stranger chose the actor") })
	f.actorH1("b", true, func(_ http.ResponseWriter, r *http.Request) { got <- r })
	for _, name := range []string{"X-Actor", "x_actor"} {
		c := f.dial()
		c.send("GET / HTTP/1.1\nHost: b.test\n%s: a\n\n", name)
		c.response("GET")
		for sent, value := range (<-got).Header {
			if strings.EqualFold(sent, name) {
				t.Errorf("the actor got %s: %s", sent, value)
			}
		}
	}
}

// interimRoute sends interim answers for the actor a.
func interimRoute(every time.Duration) []router.Route {
	return []router.Route{{Name: "slow", Host: "a.test", Actor: "a", Budget: time.Minute, MaxBudget: time.Minute, Interim: every}}
}

func TestR31_WhoWaitsIsSentInterimAnswers(t *testing.T) {
	f := newFixture(t, setup{routes: interimRoute(30 * time.Millisecond)})
	f.actorH1("a", false, hello)
	c := f.dial()
	c.send("GET / HTTP/1.1\nHost: a.test\n\n")
	for range 3 {
		if resp := c.response("GET"); resp.StatusCode != http.StatusProcessing {
			t.Fatalf("status %d, want 102", resp.StatusCode)
		}
	}
	f.wake("a")
	for {
		resp := c.response("GET")
		if resp.StatusCode == http.StatusProcessing {
			continue
		}
		if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(body) != "hello" {
			t.Errorf("the answer: %d %q, want 200 hello", resp.StatusCode, body)
		}
		break
	}
}

func TestR31_InterimAnswersOverHTTP2(t *testing.T) {
	f := newFixture(t, setup{routes: interimRoute(30 * time.Millisecond)})
	f.actorH1("a", false, hello)
	c := f.frames()
	c.open(1, true, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a.test")
	for range 3 {
		if got := c.outcome(1); got != "102" {
			t.Fatalf("%s, want 102", got)
		}
	}
	f.wake("a")
	for got := "102"; got != "200"; {
		if got = c.outcome(1); got != "102" && got != "200" {
			t.Fatalf("the answer: %s, want 200", got)
		}
	}
}

func TestR31_WhoCannotTakeInterimAnswersGetsNone(t *testing.T) {
	for what, request := range map[string]string{
		"HTTP/1.0":        "GET / HTTP/1.0\nHost: a.test\n\n",
		"gRPC":            "POST / HTTP/1.1\nHost: a.test\nContent-Type: application/grpc\nContent-Length: 0\n\n",
		"an upgrade":      "GET / HTTP/1.1\nHost: a.test\nConnection: Upgrade\nUpgrade: x\n\n",
		"the usual route": "GET / HTTP/1.1\nHost: b.test\n\n",
	} {
		f := newFixture(t, setup{routes: interimRoute(10 * time.Millisecond)})
		f.actorH1("a", false, hello)
		f.actorH1("b", false, hello)
		c := f.dial()
		c.send("%s", strings.ReplaceAll(request, "\n", "\r\n"))
		actor := receive(t, f.parks, "it parks")
		<-time.After(50 * time.Millisecond)
		f.wake(actor)
		if resp := c.response("GET"); resp.StatusCode != 200 {
			t.Errorf("%s: status %d, want 200", what, resp.StatusCode)
		}
	}
}

// A stream or tunnel is in use until it ends, however long nothing passes.
func TestR64_OpenStreamsAndTunnelsPinTheirActor(t *testing.T) {
	f := newFixture(t, setup{})
	release := make(chan struct{})
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-release
	})
	f.actorH1("b", true, switcher)
	for _, version := range []int{1, 2} {
		resp, err := f.client(version).Do(f.request("GET", "a", "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
	}
	tunnel := f.dial()
	tunnel.send("GET / HTTP/1.1\nHost: b.test\nConnection: Upgrade\nUpgrade: x\n\n")
	tunnel.response("GET")
	<-time.After(100 * time.Millisecond)
	if n := f.rides(); n != 3 {
		t.Errorf("%d rides while two streams and a tunnel are open, want 3", n)
	}
	close(release)
	tunnel.Close()
	until(t, "nothing is in use", func() bool { return f.rides() == 0 })
}

func TestR64_AStreamOnWhichNothingPassesIsClosed(t *testing.T) {
	t.Parallel()
	const idle, ticks = 600 * time.Millisecond, 9
	const tick = idle / 6 // so much less that a busy machine does not make a silence of it
	route := router.Route{Name: "idle", Host: "{actor}.idle", Budget: time.Minute, MaxBudget: time.Minute, StreamIdle: idle}
	f := newFixture(t, setup{routes: []router.Route{route}})
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) {
		for range ticks {
			io.WriteString(w, "tick")
			w.(http.Flusher).Flush()
			<-time.After(tick)
		}
		<-r.Context().Done()
	})
	f.actorH1("b", true, switcher)
	f.actorH1("c", true, func(w http.ResponseWriter, r *http.Request) { // its client does not read
		for buf := make([]byte, 1<<20); ; {
			if _, err := w.Write(buf); err != nil {
				return
			}
		}
	})
	began := time.Now()
	var streams []<-chan result
	for _, version := range []int{1, 2} {
		req := f.request("GET", "a", "/", nil)
		req.Host = "a.idle"
		streams = append(streams, do(f.client(version), req))
	}
	const whole = (ticks-1)*tick + idle
	for i, stream := range streams {
		r := receive(t, stream, "the stream is broken off")
		if took := time.Since(began); r.body != strings.Repeat("tick", ticks) || r.err == nil || took < whole || took > whole+2*time.Second {
			t.Errorf("HTTP/%d: %q, %v after %v; want all ticks, then broken off after %v of silence", i+1, r.body, r.err, took, idle)
		}
	}
	tunnel := f.dial()
	tunnel.send("GET / HTTP/1.1\nHost: b.idle\nConnection: Upgrade\nUpgrade: x\n\n")
	tunnel.response("GET")
	for range ticks { // what the client sends counts, too
		<-time.After(tick)
		io.WriteString(tunnel, "ping")
		if _, err := io.ReadFull(tunnel.r, make([]byte, 4)); err != nil {
			t.Fatalf("the tunnel was closed although it is in use: %v", err)
		}
	}
	io.ReadAll(tunnel.r)

	stuck := f.dial()
	stuck.send("GET / HTTP/1.1\nHost: c.idle\n\n")
	until(t, "the stuck response has begun", func() bool { return f.rides() > 0 })
	until(t, "nothing is in use", func() bool { return f.rides() == 0 })
}

func TestR64_SilenceIsMeasuredFromTheLastByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamIdle(time.Minute)
		began := time.Now()
		cut := make(chan time.Duration, 2)
		s.start(func() { cut <- time.Since(began) })
		time.Sleep(45 * time.Second)
		s.moved(1)
		time.Sleep(45 * time.Second)
		s.moved(0) // nothing
		if got, want := <-cut, 105*time.Second; got != want {
			t.Errorf("cut off after %v, want %v", got, want)
		}
		s.stop()

		s = newStreamIdle(time.Minute)
		s.start(func() { t.Error("cut off after its end") })
		s.stop()
		time.Sleep(time.Hour)
	})
}

// TestRapidResetHarmsNobody opens and resets streams as fast as it can, to
// actors that sleep and that are awake (CVE-2023-44487).
func TestRapidResetHarmsNobody(t *testing.T) {
	const streams = 5000
	f := newFixture(t, setup{lot: 1000, silent: true, options: Options{MaxConcurrentStreams: 50}})
	var with, most atomic.Int64
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) {
		if n := with.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer with.Add(-1)
		<-r.Context().Done()
	})
	f.actorH1("s", false, hello)
	f.actorH1("b", true, hello)
	for _, actor := range []string{"a", "s"} {
		c := f.frames()
		ended := make(chan string, 1)
		go func() { ended <- c.outcome(0) }()
		began := time.Now()
		sent := uint32(0)
		for ; sent < streams; sent++ {
			c.open(2*sent+1, true, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", actor+".test")
			if c.WriteRSTStream(2*sent+1, 8) != nil {
				break
			}
			if n := f.rides(); n > 60 {
				t.Fatalf("%d handlers of one connection are with the actor, want up to 50", n)
			}
		}
		r := get(t, do(f.client(2), f.request("GET", "b", "/", nil)))
		if r.body != "hello" {
			t.Errorf("another client: %d %q", r.resp.StatusCode, r.body)
		}
		t.Logf("to %s: %d streams in %v; up to %d at the actor; another client was served after %v", actor, sent, time.Since(began), most.Load(), time.Since(began))
		c.raw.Close()
		t.Logf("the connection ended with %s", receive(t, ended, "the connection ends"))
		until(t, "no ride and no spot is taken", func() bool { return f.rides() == 0 && f.lot.Snapshot().Active == 0 })
	}
}

// A connection may have so many parked streams; the client is told, and one
// more is reset without harm to the others.
func TestParkedStreamsOfAConnectionAreBounded(t *testing.T) {
	const most = 250 // the default
	f := newFixture(t, setup{lot: 1000, silent: true})
	f.actorH1("a", false, hello)
	c := f.frames()
	settings := c.until(http2.FrameSettings).(*http2.SettingsFrame)
	if got, ok := settings.Value(http2.SettingMaxConcurrentStreams); !ok || got != most {
		t.Errorf("SETTINGS says %d streams, want %d", got, most)
	}
	c.WriteSettingsAck()
	for i := range uint32(most + 1) {
		c.open(2*i+1, true, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a.test")
	}
	if got := c.outcome(2*most + 1); got != "RST PROTOCOL_ERROR" && got != "RST REFUSED_STREAM" {
		t.Errorf("the stream too many: %s, want a reset", got)
	}
	until(t, "the others are parked", func() bool { return f.lot.Snapshot().Active == most })
	c.WriteRSTStream(1, 8)
	until(t, "one has left", func() bool { return f.lot.Snapshot().Active == most-1 })
	c.open(2*most+3, true, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a.test")
	until(t, "another one has come", func() bool { return f.lot.Snapshot().Active == most })
	f.wake("a")
	if got := c.outcome(2*most + 3); got != "200" {
		t.Errorf("the one that came: %s, want 200", got)
	}
}

// timed is a client's end that notes how long writing an interim answer may take.
type timed struct {
	http.ResponseWriter
	end  time.Time
	took []time.Duration
}

func (w *timed) SetWriteDeadline(end time.Time) error {
	w.end = end
	return nil
}

func (w *timed) WriteHeader(int) {
	if w.end.IsZero() {
		w.took = append(w.took, -1)
		return
	}
	w.took = append(w.took, time.Until(w.end))
}

// A client that does not read holds its request's wait up for a second at most.
func TestR31_WritingAnInterimAnswerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(timed)
		x := &exchange{w: w, route: router.Route{Interim: time.Minute}}
		stop := x.processing()
		time.Sleep(2*time.Minute + time.Second)
		stop()
		if want := []time.Duration{interimTimeout, interimTimeout}; !slices.Equal(w.took, want) {
			t.Errorf("interim answers may take %v, want %v", w.took, want)
		}
		if !w.end.IsZero() {
			t.Error("the answer inherits the deadline")
		}
	})
}
