package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// TestR72_StreamsThatWereOpenedAtTheMomentOfAStopAreServed: the first GOAWAY
// names no last stream, and a stream that the client opens before it has read
// that is served; only then comes the one that names the last.
func TestR72_StreamsThatWereOpenedAtTheMomentOfAStopAreServed(t *testing.T) {
	for _, secure := range []bool{false, true} {
		f := newFixture(t, setup{tls: secure})
		f.actorH1("a", true, hello)
		c := f.frames()
		usual := []string{":method", "POST", ":scheme", "http", ":path", "/", ":authority", "a.test"}
		c.open(1, true, usual...)
		if got := c.outcome(1); got != "200" {
			t.Fatalf("tls=%v: the first stream: %s", secure, got)
		}
		down := make(chan error, 1)
		go func() { down <- f.proxy.Shutdown(context.Background()) }()

		frame := c.until(http2.FrameGoAway).(*http2.GoAwayFrame)
		if frame.LastStreamID != 1<<31-1 || frame.ErrCode != http2.ErrCodeNo {
			t.Errorf("tls=%v: the first GOAWAY names stream %d, %v; want 2^31-1, NO_ERROR", secure, frame.LastStreamID, frame.ErrCode)
		}
		c.open(3, false, usual...) // it has not acknowledged yet
		c.WriteData(3, true, []byte("body"))
		if got := c.outcome(3); got != "200" {
			t.Errorf("tls=%v: a stream that was opened meanwhile: %s, want 200", secure, got)
		}
		c.WritePing(true, drainPing)
		if frame := c.until(http2.FrameGoAway).(*http2.GoAwayFrame); frame.LastStreamID != 3 {
			t.Errorf("tls=%v: the last GOAWAY names stream %d, want 3", secure, frame.LastStreamID)
		}
		if err := receive(t, down, "Shutdown returns"); err != nil {
			t.Errorf("tls=%v: Shutdown = %v", secure, err)
		}
	}
}

// until reads frames up to one of a kind.
func (c *frameClient) until(kind http2.FrameType) http2.Frame {
	c.t.Helper()
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			c.t.Fatalf("waiting for %v: %v", kind, err)
		}
		if frame.Header().Type == kind {
			return frame
		}
	}
}

func TestR72_AClientThatDoesNotAnswerHoldsAStopUpForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(clients)
		c := &clientConn{proxy: &Proxy{}, h2: &h2Conn{heard: make(chan struct{})}}
		s.h2 = map[*clientConn]struct{}{c: {}}
		began := time.Now()
		s.goAway(t.Context())
		if took := time.Since(began); took != goAwayTimeout {
			t.Errorf("it took %v, want %v", took, goAwayTimeout)
		}
	})
}

// Uploads that cannot be sent again, one behind the other, while the proxy is
// stopped: each is served, or was never begun on a connection that had served.
func TestR72_NoUploadThatCannotBeSentAgainIsLostAtAStop(t *testing.T) {
	for _, secure := range []bool{false, true} {
		f := newFixture(t, setup{tls: secure, silent: true})
		f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
		client := f.client(2)
		sent := make(chan struct{}, 10_000)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					req := f.request("POST", "a", "/", io.MultiReader(strings.NewReader("body"))) // no GetBody
					resp, err := client.Do(req)
					if err != nil {
						if strings.Contains(err.Error(), "GOAWAY") || strings.Contains(err.Error(), "cannot retry") {
							t.Errorf("tls=%v: an upload was lost: %v", secure, err)
						}
						return
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					sent <- struct{}{}
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

// written is a connection that keeps what is written to it.
type written struct {
	net.Conn
	strings.Builder
}

func (w *written) Write(p []byte) (int, error)      { return w.Builder.Write(p) }
func (w *written) SetWriteDeadline(time.Time) error { return nil }

// The first GOAWAY stands between two frames, and in no header block, however
// the frames are written.
func TestTheFirstGoAwayStandsBetweenFrames(t *testing.T) {
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	headers := "\x00\x00\x02\x01\x00\x00\x00\x00\x01ab"     // no END_HEADERS
	continuation := "\x00\x00\x01\x09\x04\x00\x00\x00\x01c" // END_HEADERS
	data := "\x00\x00\x05\x00\x01\x00\x00\x00\x01hello"     // END_STREAM
	last := "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"
	stream := settings + headers + continuation + data + settings
	for size := 1; size <= len(stream); size++ {
		for at := 0; at <= len(stream); at += size { // it is asked for behind at bytes
			var out written
			h := &h2Conn{heard: make(chan struct{})}
			for from := 0; from < len(stream); from += size {
				if from == at {
					h.leaving.Store(true)
					h.leave(&out)
				}
				if _, err := h.write(&out, []byte(stream[from:min(from+size, len(stream))])); err != nil {
					t.Fatal(err)
				}
			}
			if at >= len(stream) {
				continue
			}
			before, behind, found := strings.Cut(out.String(), string(firstGoAway))
			if !found || before+behind != stream {
				t.Fatalf("asked for at %d, written by %d: found %v, the rest is %q", at, size, found, before+behind)
			}
			switch before {
			case settings, settings + headers + continuation, settings + headers + continuation + data, stream:
			default:
				t.Fatalf("asked for at %d, written by %d: it stands behind %d bytes", at, size, len(before))
			}
		}
	}
	var out written
	h := &h2Conn{heard: make(chan struct{})}
	h.hear = func() { close(h.heard) }
	h.write(&out, []byte(settings+last))
	h.leaving.Store(true)
	h.leave(&out)
	if out.String() != settings+last {
		t.Errorf("behind the last GOAWAY comes %q", out.String()[len(settings+last):])
	}
	<-h.heard // nobody waits for what does not come
}

func TestR61_MoreConnectionsThanTheLimitWaitAndTheIdleMakeRoom(t *testing.T) {
	for _, secure := range []bool{false, true} {
		f := newFixture(t, setup{tls: secure, options: Options{MaxConnections: 2}})
		f.actorH1("a", true, hello)
		f.actorH1("b", false, hello)

		busy, idle := f.dial(), f.dial()
		busy.send("GET / HTTP/1.1\nHost: b.test\n\n")
		f.parked()
		idle.send("GET / HTTP/1.1\nHost: a.test\n\n")
		io.Copy(io.Discard, idle.response("GET").Body)

		third := f.dial() // idle makes room for it
		third.send("GET / HTTP/1.1\nHost: b.test\n\n")
		until(t, "the third is parked", func() bool { return f.lot.Snapshot().Active == 2 })
		if _, err := idle.r.ReadByte(); err == nil {
			t.Errorf("tls=%v: the idle connection is still open", secure)
		}

		fourth, served := f.dialTCP(), make(chan int, 1) // nobody is idle
		go func() {
			c := f.over(fourth, "http/1.1")
			c.send("GET / HTTP/1.1\nHost: a.test\n\n")
			served <- c.response("GET").StatusCode
		}()
		select {
		case code := <-served:
			t.Fatalf("tls=%v: the fourth was served (%d) beside two others", secure, code)
		case <-time.After(50 * time.Millisecond):
		}
		f.wake("b")
		io.Copy(io.Discard, busy.response("GET").Body)
		if code := receive(t, served, "the fourth is served"); code != 200 {
			t.Errorf("tls=%v: the fourth: %d, want 200", secure, code)
		}
	}
}

func TestR61_AConnectionThatWaitsForRoomDoesNotHoldAStopUp(t *testing.T) {
	f := newFixture(t, setup{options: Options{MaxConnections: 1}})
	f.actorH1("b", false, hello)
	busy := f.dial()
	busy.send("GET / HTTP/1.1\nHost: b.test\n\n")
	f.parked()
	waiting := f.dial()
	waiting.send("GET / HTTP/1.1\nHost: b.test\n\n")
	<-time.After(20 * time.Millisecond)
	down := make(chan error, 1)
	go func() { down <- f.proxy.Shutdown(context.Background()) }()
	if _, err := waiting.r.ReadByte(); err == nil {
		t.Error("the connection that waited got an answer")
	}
	f.wake("b")
	if code := busy.response("GET").StatusCode; code != 200 {
		t.Errorf("the parked request: %d, want 200", code)
	}
	if err := receive(t, down, "Shutdown returns"); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
}

func TestASlowHeaderIsCutOffAtItsTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 400 * time.Millisecond // in which a busy machine makes a TLS connection
	for _, secure := range []bool{false, true} {
		f := newFixture(t, setup{tls: secure, options: Options{ReadHeaderTimeout: timeout}})
		f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
		for _, begin := range []string{"", "G", "GET / HTTP/1.1\r\nHost: a.te"} {
			began := time.Now()
			c := f.dialTCP()
			if len(begin) > 1 {
				c = f.over(c, "http/1.1")
			}
			if begin != "" {
				go c.pieces(begin, 0)
			}
			io.ReadAll(c.Conn)
			if took := time.Since(began); took < timeout || took > timeout+2*time.Second {
				t.Errorf("tls=%v: after %q it was cut off at %v, want %v", secure, begin, took, timeout)
			}
			c.Close()
		}
		c := f.dial() // a slow body is nobody's fault
		c.send("POST / HTTP/1.1\nHost: a.test\nContent-Length: 5\n\n")
		for _, piece := range []string{"he", "ll", "o"} {
			<-time.After(timeout)
			io.WriteString(c, piece)
		}
		if body, err := io.ReadAll(c.response("POST").Body); string(body) != "hello" {
			t.Errorf("tls=%v: a slow body: %q, %v", secure, body, err)
		}
	}
}

func TestAnIdleConnectionIsClosedAtItsTimeout(t *testing.T) {
	const timeout = 200 * time.Millisecond
	f := newFixture(t, setup{options: Options{IdleTimeout: timeout}})
	f.actorH1("a", true, hello)
	c := f.dial()
	began := time.Now() // before it can be idle
	c.send("GET / HTTP/1.1\nHost: a.test\n\n")
	io.Copy(io.Discard, c.response("GET").Body)
	if _, err := c.r.ReadByte(); err != io.EOF {
		t.Errorf("an idle connection: %v, want the end", err)
	}
	if took := time.Since(began); took < timeout || took > timeout+2*time.Second {
		t.Errorf("an idle connection was closed after %v, want %v", took, timeout)
	}
}

func TestR61_AnIdleConnectionOfHTTP2MakesRoom(t *testing.T) {
	for _, secure := range []bool{false, true} {
		f := newFixture(t, setup{tls: secure, options: Options{MaxConnections: 1}})
		f.actorH1("a", true, hello)
		for range 3 { // each by a client of its own, which keeps its connection
			if r := get(t, do(f.client(2), f.request("GET", "a", "/", nil))); r.body != "hello" || r.resp.ProtoMajor != 2 {
				t.Errorf("tls=%v: %d %q over HTTP/%d", secure, r.resp.StatusCode, r.body, r.resp.ProtoMajor)
			}
		}
	}
}
