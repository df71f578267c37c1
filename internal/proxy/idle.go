package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// streamIdle cuts a response or tunnel off on which nothing passes, in either
// direction, for a while. What passes costs a reading of the clock; one timer
// looks at when that was last, and goes on for what is left.
type streamIdle struct {
	after time.Duration
	begin time.Time
	last  atomic.Int64 // when something passed, in nanoseconds since begin

	mu    sync.Mutex
	timer *time.Timer // nil before start
	cut   func()
	over  bool
}

func newStreamIdle(after time.Duration) *streamIdle {
	return &streamIdle{after: after, begin: time.Now()}
}

// moved says that n bytes passed. s may be nil.
func (s *streamIdle) moved(n int) {
	if s != nil && n > 0 {
		s.last.Store(int64(time.Since(s.begin)))
	}
}

// start begins to count. cut is called once, from another goroutine, when
// nothing passed for long enough, and not after stop.
func (s *streamIdle) start(cut func()) {
	s.moved(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = cut
	s.timer = time.AfterFunc(s.after, s.look)
}

func (s *streamIdle) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	idle := time.Since(s.begin) - time.Duration(s.last.Load())
	if idle < s.after {
		s.timer.Reset(s.after - idle)
		return
	}
	s.over = true
	s.cut()
}

func (s *streamIdle) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// errStreamIdle is the cause of a request whose response was cut off.
var errStreamIdle = errors.New("proxy: nothing passed for as long as the route's stream_idle")

// watchStream has resp watched if its route says so.
func (x *exchange) watchStream(resp *http.Response) {
	if x.idle == nil {
		return
	}
	if tunnel, ok := resp.Body.(io.ReadWriteCloser); ok && resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = &countedTunnel{tunnel, x.idle}
	} else {
		resp.Body = &counted{resp.Body, x.idle}
	}
	cancel, rc, events := x.cancel, http.NewResponseController(x.w), &x.proxy.events
	x.idle.start(func() {
		events.count(eventStreamIdle)
		cancel(errStreamIdle)
		rc.SetWriteDeadline(time.Now().Add(time.Second)) // a client that does not read holds nothing up
	})
}

// counted is a body whose bytes are counted as passing.
type counted struct {
	io.ReadCloser
	idle *streamIdle
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.idle.moved(n)
	return n, err
}

// countedTunnel is the actor's end of a tunnel.
type countedTunnel struct {
	io.ReadWriteCloser
	idle *streamIdle
}

func (c *countedTunnel) Read(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(p)
	c.idle.moved(n)
	return n, err
}

func (c *countedTunnel) Write(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Write(p)
	c.idle.moved(n)
	return n, err
}

// CloseWrite passes the client's end of file on.
func (c *countedTunnel) CloseWrite() error {
	if half, ok := c.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
