package proxy

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// clients are the connections of clients, over all listeners.
type clients struct {
	max    int // 0: any number
	events *events

	mu      sync.Mutex
	n       int
	room    chan struct{} // closed when n has fallen or one is idle; nil: nobody waits
	idle    list.List     // of *clientConn without a request, the longest idle first
	isIdle  map[*clientConn]*list.Element
	h2      map[*clientConn]struct{}
	leaving bool // connections of HTTP/2 are told to go

	fresh     int           // connections whose first request has not begun
	noneFresh chan struct{} // closed when fresh is 0; nil: nobody waits

	listeners map[*listener]struct{}
	accepting sync.WaitGroup // by listeners
	stopped   bool           // no more of them
}

// enter waits for room for one more connection. Who is idle the longest makes
// room. It reports false once over is closed.
func (s *clients) enter(over <-chan struct{}) bool {
	for waits := false; ; {
		s.mu.Lock()
		if s.max == 0 || s.n < s.max {
			s.n++
			s.fresh++
			s.mu.Unlock()
			return true
		}
		if first := s.idle.Front(); first != nil {
			c := first.Value.(*clientConn)
			s.notIdleLocked(c)
			s.mu.Unlock()
			s.events.count(eventIdleClosed)
			c.Close()
			continue
		}
		if s.room == nil {
			s.room = make(chan struct{})
		}
		room := s.room
		s.mu.Unlock()
		if !waits {
			waits = true
			s.events.count(eventWaited)
		}
		select {
		case <-room:
		case <-over:
			return false
		}
	}
}

// leave gives back what enter took.
func (s *clients) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n--
	s.roomLocked()
}

func (s *clients) roomLocked() {
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
}

func (s *clients) notIdleLocked(c *clientConn) {
	if e := s.isIdle[c]; e != nil {
		s.idle.Remove(e)
		delete(s.isIdle, c)
	}
}

// changed is the server's ConnState: it tells who is idle.
func (s *clients) changed(conn net.Conn, state http.ConnState) {
	c, ok := conn.(*clientConn)
	if !ok {
		return
	}
	if state == http.StateIdle {
		c.serving.Store(false)
	}
	if s.max == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notIdleLocked(c)
	if state == http.StateIdle {
		if s.isIdle == nil {
			s.isIdle = make(map[*clientConn]*list.Element)
		}
		s.isIdle[c] = s.idle.PushBack(c)
		s.roomLocked()
	}
}

// settle notes that the first request of a connection has begun, or that there
// will be none.
func (s *clients) settle(c *clientConn) {
	if c.settled.Load() || c.settled.Swap(true) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fresh--; s.fresh == 0 && s.noneFresh != nil {
		close(s.noneFresh)
		s.noneFresh = nil
	}
}

// freshTimeout bounds the wait for the first request of a connection. Browsers
// open some that they may not use.
const freshTimeout = 500 * time.Millisecond

// waitForFresh waits for the first requests of the connections that were taken.
// net/http reads one that comes after its Shutdown, and does not answer it.
func (s *clients) waitForFresh(ctx context.Context) {
	s.mu.Lock()
	if s.fresh == 0 {
		s.mu.Unlock()
		return
	}
	if s.noneFresh == nil {
		s.noneFresh = make(chan struct{})
	}
	none := s.noneFresh
	s.mu.Unlock()
	timeout := time.NewTimer(freshTimeout)
	defer timeout.Stop()
	select {
	case <-none:
	case <-timeout.C:
	case <-ctx.Done():
	}
}

// remove forgets a connection that is being closed.
func (s *clients) remove(c *clientConn) {
	s.settle(c)
	s.mu.Lock()
	c.removed = true
	s.notIdleLocked(c)
	_, speaksH2 := s.h2[c]
	delete(s.h2, c)
	s.mu.Unlock()
	if speaksH2 {
		c.h2.hear()
	}
	s.leave()
}

func (s *clients) speaksH2(c *clientConn) {
	s.mu.Lock()
	if s.h2 == nil {
		s.h2 = make(map[*clientConn]struct{})
	}
	if !c.removed { // by who closes all connections, for one
		s.h2[c] = struct{}{}
	}
	leaving := s.leaving
	s.mu.Unlock()
	s.settle(c)
	if leaving {
		c.goAway()
	}
}

// goAwayTimeout bounds the wait for a client to read the first GOAWAY.
const goAwayTimeout = time.Second

// goAway tells the clients that speak HTTP/2 to open no more streams, and waits
// until they know. net/http's own GOAWAY, which comes next, names the last
// stream that is served: who had opened another one would have to send it
// again, and cannot if its body is spent.
func (s *clients) goAway(ctx context.Context) {
	s.mu.Lock()
	s.leaving = true
	all := make([]*clientConn, 0, len(s.h2))
	for c := range s.h2 {
		all = append(all, c)
	}
	s.mu.Unlock()
	timeout := time.NewTimer(goAwayTimeout)
	defer timeout.Stop()
	var telling sync.WaitGroup
	for _, c := range all { // side by side, because each may take goAwayTimeout
		telling.Go(c.goAway)
	}
	telling.Wait()
	for _, c := range all {
		select {
		case <-c.h2.heard:
		case <-timeout.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// serving adds l, unless it is too late.
func (s *clients) serving(l *listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	if s.listeners == nil {
		s.listeners = make(map[*listener]struct{})
	}
	s.listeners[l] = struct{}{}
	s.accepting.Add(1)
	return true
}

// stop closes all listeners, and returns when what they accepted is counted.
func (s *clients) stop() {
	s.mu.Lock()
	s.stopped = true
	all := s.listeners
	s.listeners = nil
	s.mu.Unlock()
	for l := range all {
		l.Close()
	}
	s.accepting.Wait()
}

// listener makes clientConns of the connections that come over it.
type listener struct {
	net.Listener
	proxy *Proxy
	tls   *tls.Config // nil: in the clear

	once sync.Once
	over chan struct{} // closed with the listener
}

// serve is the server's Serve.
func (p *Proxy) serve(inner net.Listener, config *tls.Config) error {
	l := &listener{Listener: inner, proxy: p, tls: config, over: make(chan struct{})}
	if !p.clients.serving(l) {
		l.Close()
		return http.ErrServerClosed
	}
	err := p.server.Serve(l)
	p.clients.accepting.Done()
	select {
	case <-l.over: // Shutdown closes listeners before it asks the server to
		return http.ErrServerClosed
	default:
		return err
	}
}

// Accept waits with a connection that is one too many until there is room; the
// next ones wait in the kernel.
func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if !l.proxy.clients.enter(l.over) {
		conn.Close()
		return nil, net.ErrClosed
	}
	if l.tls != nil {
		conn = tls.Server(conn, l.tls) // its handshake is made by the first Read
	}
	return &clientConn{Conn: conn, proxy: l.proxy}, nil
}

func (l *listener) Close() (err error) {
	l.once.Do(func() {
		close(l.over)
		err = l.Listener.Close()
	})
	return err
}
