package lane

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"layover/budget"
	"layover/internal/lateness"
)

// The tests of this file have real sockets, and so real time: none of them waits for it to pass.

// laneTo is a lane to a real server.
func laneTo(t *testing.T, address string, o Options) *Lane {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if o.Client == nil {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		o.Client = &http.Client{Transport: transport}
	}
	l, err := New(u.Host, unpaced(o))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// rawServer accepts connections and hands each to serve, with its number from 0.
func rawServer(t *testing.T, serve func(n int, conn net.Conn, requests *bufio.Reader)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() { // ends with the listener
		for n := 0; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(n, conn, bufio.NewReader(conn))
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

// soon wants an end of which the server heard within 100 ms. On its way from the
// cancel to the server are four steps that each wait for a processor.
func soon(t *testing.T, took, late time.Duration) {
	t.Helper()
	if most := 100*time.Millisecond + 4*late; took > most {
		t.Errorf("the server saw the end after %v, want at most 100ms, %v on a machine that is late by %v", took, most, late)
	}
}

func TestL7_ACancelClosesTheConnectionWithin100Milliseconds(t *testing.T) {
	for name, beginning := range map[string]string{
		"before the header": "",
		"in the header":     "HTTP/1.1 200 OK\r\nContent-",
		"in the body":       "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
	} {
		t.Run(name, func(t *testing.T) {
			waiting, closed := make(chan struct{}), make(chan time.Time, 1)
			l := laneTo(t, rawServer(t, func(n int, conn net.Conn, requests *bufio.Reader) {
				if _, err := http.ReadRequest(requests); err != nil {
					t.Error(err)
				}
				io.WriteString(conn, beginning)
				close(waiting)
				io.Copy(io.Discard, requests) // until it is closed
				closed <- time.Now()
			}), Options{})
			ctx, cancel := budget.For(context.Background(), time.Minute)
			done := make(chan error)
			go func() { _, err := l.Do(ctx, Request{URL: "http://" + l.host}); done <- err }()
			<-waiting
			late, begin := lateness.Watch(), time.Now()
			cancel()
			failure(t, <-done, Cancelled)
			soon(t, (<-closed).Sub(begin), late())
			idle(t, l)
		})
	}
}

func TestL7_ACancelResetsTheStreamAndLeavesItsConnectionToOthers(t *testing.T) {
	waiting, reset := make(chan struct{}), make(chan time.Time, 1)
	var conns atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stall" {
			close(waiting)
			<-r.Context().Done()
			reset <- time.Now()
		}
		io.WriteString(w, r.Proto)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	l := laneTo(t, server.URL, Options{Client: &http.Client{Transport: server.Client().Transport}})
	ctx, cancel := budget.For(context.Background(), time.Minute)
	done := make(chan error)
	go func() { _, err := l.Do(ctx, Request{URL: server.URL + "/stall"}); done <- err }()
	<-waiting
	late, begin := lateness.Watch(), time.Now()
	cancel()
	failure(t, <-done, Cancelled)
	soon(t, (<-reset).Sub(begin), late())
	got, err := l.Do(operation(t, time.Minute), Request{URL: server.URL})
	if err != nil || string(got.Body) != "HTTP/2.0" || conns.Load() != 1 {
		t.Errorf("the next one: %+v, %v, over %d connections; want HTTP/2 over the same", got, err, conns.Load())
	}
}

func TestL6_AnAnswerThatStallsEndsWithTheOperation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := served(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "a beginning")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		begin := time.Now()
		_, err := get(operation(t, 5*time.Second), l)
		exactly(t, "the end", begin, 5*time.Second)
		failure(t, err, Deadline)
		idle(t, l)
	})
}

// stale is a server that answers one request per connection, says that it would answer more, and closes.
func stale(t *testing.T, requests *atomic.Int32) (address string) {
	return rawServer(t, func(n int, conn net.Conn, in *bufio.Reader) {
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		requests.Add(1)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		if n == 0 { // the second request of this connection is read, and broken off
			if _, err := http.ReadRequest(in); err == nil {
				requests.Add(1)
			}
		}
	})
}

func TestA42_L5_WhatTheTransportSendsAgainCounts(t *testing.T) {
	var requests atomic.Int32
	l := laneTo(t, stale(t, &requests), Options{Rate: 0.001, Burst: 3})
	ctx := Allow(operation(t, time.Minute), 3, 1)
	for i, want := range []int{1, 2} { // the second finds the connection broken after it was written, and is sent again
		got, err := l.Do(ctx, Request{URL: "http://" + l.host})
		if err != nil || got.Attempts != want {
			t.Fatalf("request %d: Do = %+v, %v; want %d attempts", i, got, err, want)
		}
	}
	if s := l.Stats(); s.Attempts != 3 || s.Retries != 1 || s.Resends != 1 || s.Allowance != 9.1 || requests.Load() != 3 {
		t.Errorf("Stats = %+v, %d at the server; want 3 attempts, 1 repeat by the transport, 9.1 left", s, requests.Load())
	}
	if left := l.pace.Tokens(); left > 0.5 {
		t.Errorf("the pace has %v left of 3 after 3 requests, want none", left)
	}
	if a := allowanceOf(ctx); a.attempts != 0 || a.retries != 0 {
		t.Errorf("the operation has %d attempts and %d repeats left, want none", a.attempts, a.retries)
	}
}

func TestA42_L5_TheTransportMaySendAgainOnlyWhatTheLaneMay(t *testing.T) {
	var requests atomic.Int32
	l := laneTo(t, stale(t, &requests), Options{Attempts: 1})
	ctx := operation(t, time.Minute)
	if _, err := l.Do(ctx, Request{URL: "http://" + l.host}); err != nil {
		t.Fatal(err)
	}
	_, err := l.Do(ctx, Request{URL: "http://" + l.host})
	if e := failure(t, err, Failed); !errors.Is(err, ErrAttempts) || e.Attempts != 1 || strings.Count(err.Error(), "no attempt left") != 1 {
		t.Errorf("Do = %v, want ErrAttempts after the one attempt", err)
	}
	if got := requests.Load(); got != 2 {
		t.Errorf("the server got %d requests, want 2", got)
	}
	idle(t, l)
}

func TestL5_AConnectionThatIsNotUsedIsNoRepeat(t *testing.T) {
	asked := 0
	w := &wire{sends: 1, again: func() bool { asked++; return true }}
	trace := w.trace()
	conn, other := net.Pipe()
	defer conn.Close()
	defer other.Close()
	for _, event := range []struct {
		wrote bool
		asked int
	}{{false, 0}, {false, 0}, {true, 0}, {false, 1}, {false, 1}, {true, 1}, {false, 2}} {
		if event.wrote {
			trace.WroteHeaders()
		} else {
			trace.GotConn(httptrace.GotConnInfo{Conn: conn})
		}
		if asked != event.asked {
			t.Errorf("it asked %d times, want %d", asked, event.asked)
		}
	}
}

func TestL5_ARepeatThatIsOneTooManyCannotBeWritten(t *testing.T) {
	w := &wire{sends: 1, again: func() bool { return false }}
	trace := w.trace()
	trace.WroteHeaders()
	for range 2 {
		conn, other := net.Pipe()
		defer other.Close()
		trace.GotConn(httptrace.GotConnInfo{Conn: conn})
		if _, err := conn.Write([]byte("GET")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Write = %v, want the connection closed", err)
		}
	}
}

func TestL6_ARedirectOverARealTransportIsNoRepeat(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := served(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/on" {
				http.Redirect(w, r, "/on", http.StatusFound)
			}
		})
		got, err := get(operation(t, time.Minute), l)
		if s := l.Stats(); err != nil || got.Attempts != 1 || s.Attempts != 1 || s.Resends != 0 {
			t.Errorf("Do = %+v, %v, Stats = %+v; want one attempt", got, err, s)
		}
	})
}

func TestA43_L5_APostOnABrokenConnectionIsNotSentAgain(t *testing.T) {
	var requests atomic.Int32
	l := laneTo(t, stale(t, &requests), Options{})
	ctx := operation(t, time.Minute)
	post := Request{Method: "POST", URL: "http://" + l.host, Body: []byte("x")}
	if _, err := l.Do(ctx, post); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Do(ctx, post); err == nil {
		t.Error("the second POST was answered")
	}
	if got := requests.Load(); got != 2 {
		t.Errorf("the server got %d requests, want 2", got)
	}
}

func TestA43_L5_APostThatFoundNoConnectionIsSentAgain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	dials := 0
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials++; dials == 1 {
			return nil, errors.New("not yet")
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	defer transport.CloseIdleConnections()
	l := laneTo(t, server.URL, Options{Client: &http.Client{Transport: transport}, Backoff: 1})
	got, err := l.Do(operation(t, time.Minute), Request{Method: "POST", URL: server.URL})
	if err != nil || got.Attempts != 2 {
		t.Errorf("Do = %+v, %v; want the second attempt's answer", got, err)
	}
}

// h2 is a server that speaks HTTP/2 by hand: it refuses the first so many streams, and answers the others.
func h2(t *testing.T, refuse int32, code http2.ErrCode) (server *httptest.Server, streams *atomic.Int32) {
	streams = new(atomic.Int32)
	server = httptest.NewUnstartedServer(nil)
	server.TLS = &tls.Config{NextProtos: []string{"h2"}}
	server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
			io.ReadFull(conn, make([]byte, len(http2.ClientPreface)))
			framer := http2.NewFramer(conn, conn)
			framer.WriteSettings()
			for {
				frame, err := framer.ReadFrame()
				if err != nil {
					return
				}
				switch frame := frame.(type) {
				case *http2.SettingsFrame:
					if !frame.IsAck() {
						framer.WriteSettingsAck()
					}
				case *http2.HeadersFrame:
					if streams.Add(1) <= refuse {
						framer.WriteRSTStream(frame.StreamID, code)
						continue
					}
					framer.WriteHeaders(http2.HeadersFrameParam{StreamID: frame.StreamID, BlockFragment: []byte{0x88}, EndHeaders: true, EndStream: true}) // :status 200
				}
			}
		},
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, streams
}

func TestL5_APostWhoseStreamWasRefusedIsSentAgain(t *testing.T) {
	for _, test := range []struct {
		name  string
		code  http2.ErrCode
		tries int
		want  int32
	}{
		{"refused", http2.ErrCodeRefusedStream, 4, 2}, // by the transport, at once, which counts
		{"refused, and it may be sent once", http2.ErrCodeRefusedStream, 1, 1},
		{"broken off", http2.ErrCodeInternal, 4, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			server, streams := h2(t, 1, test.code)
			transport := server.Client().Transport.(*http.Transport)
			transport.ForceAttemptHTTP2 = true
			l := laneTo(t, server.URL, Options{Client: &http.Client{Transport: transport}, Attempts: test.tries, Backoff: 1})
			got, err := l.Do(operation(t, time.Minute), Request{Method: "POST", URL: server.URL})
			if (err == nil) != (test.want == 2) || streams.Load() != test.want || l.Stats().Attempts != uint64(test.want) {
				t.Errorf("Do = %+v, %v after %d streams, %+v; want %d streams", got, err, streams.Load(), l.Stats(), test.want)
			}
			var seen streamError
			if test.code == http2.ErrCodeInternal && (!errors.As(err, &seen) || seen.Code != uint32(test.code)) {
				t.Errorf("Do = %v, of which the code cannot be read", err)
			}
			idle(t, l)
		})
	}
}

func TestL5_OnlyARefusedStreamIsKnownToBeUnsent(t *testing.T) {
	w := &wire{}
	w.asked.Store(1)
	w.got.Store(1)
	for code, want := range map[http2.ErrCode]bool{http2.ErrCodeRefusedStream: true, http2.ErrCodeCancel: false} {
		if got := w.unsent(streamError{Code: uint32(code)}); got != want {
			t.Errorf("unsent(%v) = %v, want %v", code, got, want)
		}
	}
	w.moved = true
	if w.unsent(streamError{Code: refusedStream}) {
		t.Error("what a redirect has answered is taken for unsent")
	}
	w.moved = false
	if w.unsent(errDial) {
		t.Error("a dial that failed after a connection is taken for the first one") // a redirect's
	}
}
