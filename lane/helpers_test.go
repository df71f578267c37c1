package lane

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"layover/budget"
)

// Back-offs are not varied in the tests of this package, so that they can be exact.
func init() { jitter = 0 }

// There is one host in these tests.
const (
	host = "boards.example"
	page = "http://boards.example/jobs"
)

// unpaced is a lane that only does what a test is about.
func unpaced(o Options) Options {
	if o.Rate == 0 {
		o.Rate = rate.Inf
	}
	return o
}

// newLane is a lane to host, with options that must be good.
func newLane(t *testing.T, o Options) *Lane {
	t.Helper()
	l, err := New(host, unpaced(o))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// served is a lane to a real HTTP server, over pipes, so that it can live in a bubble.
func served(t *testing.T, o Options, handler http.HandlerFunc) *Lane {
	t.Helper()
	listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: handler}
	go server.Serve(listener) // ends with server.Close
	transport := &http.Transport{DialContext: listener.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	if o.Client == nil {
		o.Client = &http.Client{Transport: transport}
	}
	return newLane(t, o)
}

// pipes is a listener in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// roundTrip is an http.RoundTripper of one function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is what a roundTrip may return; fields are names and values of the header.
func answer(r *http.Request, status int, body string, fields ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i+1 < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r, ProtoMajor: 1, ProtoMinor: 1}
}

// scripted is a client whose n-th request, from 0, gets what script says, and how many there were.
func scripted(script func(n int, r *http.Request) (*http.Response, error)) (client *http.Client, sent *counted) {
	sent = new(counted)
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return script(sent.add()-1, r)
	})}, sent
}

// counted counts from several goroutines.
type counted struct {
	mu sync.Mutex
	n  int
	at []time.Time
}

func (c *counted) add() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	c.at = append(c.at, time.Now())
	return c.n
}

func (c *counted) times() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// after is when the n-th one was, from 0, since begin.
func (c *counted) after(begin time.Time, n int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at[n].Sub(begin)
}

// operation is the context of an operation of that length, for the test.
func operation(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := budget.For(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// get is Do of the one page.
func get(ctx context.Context, l *Lane) (*Response, error) { return l.Do(ctx, Request{URL: page}) }

// failure is err as an *Error that ended for that reason.
func failure(t *testing.T, err error, want Stop) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("Do returned the error %v, want an *Error", err)
	}
	if e.Stop != want {
		t.Errorf("Do ended for the reason %q, want %q: %v", e.Stop, want, err)
	}
	return e
}

// exactly fails the test unless that much time has passed since begin.
func exactly(t *testing.T, what string, begin time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(begin); got != want {
		t.Errorf("%s after %v, want %v", what, got, want)
	}
}

// idle fails the test if the lane has not got back all that it gave out.
func idle(t *testing.T, l *Lane) {
	t.Helper()
	for name, s := range map[string]interface {
		Snapshot() (int, int)
		Size() int
	}{"line": l.line, "door": l.door} {
		if available, waiting := s.Snapshot(); available != s.Size() || waiting != 0 {
			t.Errorf("the %s has %d of %d passes and %d waiting, want all and none", name, available, s.Size(), waiting)
		}
	}
	if s := l.Stats(); s.Waiting != 0 || s.InFlight != 0 {
		t.Errorf("Stats: %d waiting, %d in flight, want none", s.Waiting, s.InFlight)
	}
}

// bubble runs f in a bubble.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

var errReset = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}

var errDial = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
