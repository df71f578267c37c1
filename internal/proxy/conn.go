package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// clientConn is a client's connection as net/http sees it: in the clear, with
// what no two parsers agree upon refused, and with a place between two frames
// of HTTP/2. TLS is spoken below it, so that both ways in are one.
//
// Reads belong to one goroutine at a time, and so do writes.
type clientConn struct {
	net.Conn // plain, or a *tls.Conn
	proxy    *Proxy

	in scanner
	h2 *h2Conn // nil before the preface of HTTP/2

	begun   bool        // the first Read has returned
	refused bool        // something was wrong
	late    bool        // a header was not there in time
	serving atomic.Bool // a request is with ServeHTTP, or its answer is under way; of HTTP/1.1
	once    sync.Once   // of Close
	removed bool        // guarded by clients.mu
	settled atomic.Bool // its first request, or HTTP/2, has begun
}

// h2Conn is what a clientConn has more once it speaks HTTP/2.
type h2Conn struct {
	preface string // what is to come of it
	in      frames
	timed   bool // a header that has begun must end in time

	mu  sync.Mutex // held while writing
	out frames

	leaving atomic.Bool   // firstGoAway is to be sent
	heard   chan struct{} // closed when the client has read firstGoAway, or the connection is closed
	hear    func()        // closes heard
}

func (c *clientConn) Read(p []byte) (int, error) {
	if c.in.failed != nil {
		return c.behindMalformed(p)
	}
	n, err := c.Conn.Read(p)
	return c.took(p, n, err)
}

// took is apart from Read because a waiting connection's stack has Read on it.
// It and what it calls are shallow: net/http reads deep in a stack that would
// have to grow, and would stay so for as long as the request waits.
//
//go:noinline
func (c *clientConn) took(p []byte, n int, err error) (int, error) {
	if err != nil && !c.late && errors.Is(err, os.ErrDeadlineExceeded) && c.inHeader() {
		c.late = true
		c.proxy.events.count(eventHeaderTimeout)
	}
	if !c.begun && (n > 0 || err != nil) {
		c.begin(err)
	}
	if c.in.state == scanFree {
		if c.h2 != nil {
			c.follow(p[:n])
		}
		return n, err
	}
	good := c.in.scan(p[:n])
	if good < n && c.in.state == scanPreface {
		good = c.preface(p[:n], good)
	}
	if c.in.failed == nil {
		return n, err
	}
	return c.refuse(good)
}

// inHeader reports whether a header is due: a first one, or the rest of one
// that has begun.
func (c *clientConn) inHeader() bool {
	if c.h2 != nil {
		return c.h2.timed
	}
	if !c.begun {
		t, ok := c.Conn.(*tls.Conn)
		return !ok || t.ConnectionState().HandshakeComplete
	}
	return !c.serving.Load() && c.in.state == scanHeader
}

// behindMalformed reads behind what is refused. While a request from before it
// is served, net/http reads one byte, to find out when the client leaves: an
// error would be that to it. Any other Read gets the error. (One of a header
// has room for one byte if the line is as long as net/http's buffer: then it
// gets the header's time-out.)
func (c *clientConn) behindMalformed(p []byte) (int, error) {
	if len(p) != 1 || c.in.state != scanHeader {
		return c.refuse(0)
	}
	return c.discard()
}

// discard ends when the client leaves, or net/http's deadline because the answer
// is finished.
//
//go:noinline
func (c *clientConn) discard() (int, error) {
	var dropped [512]byte
	for {
		if _, err := c.Conn.Read(dropped[:]); err != nil {
			return 0, err
		}
	}
}

// refuse lets net/http have what came before something was wrong, then the
// error, to which it answers 400.
//
//go:noinline
func (c *clientConn) refuse(good int) (int, error) {
	if good > 0 {
		return good, nil
	}
	if !c.refused {
		c.refused = true
		c.proxy.events.count(eventMalformed)
		c.proxy.log.Debug("a client's bytes are refused", "peer", c.RemoteAddr(), "err", c.in.failed)
	}
	return 0, c.in.failed
}

// begin is called with the first bytes. In the clear a client speaks HTTP/2 if
// it begins like that, with TLS if that was agreed upon.
//
//go:noinline
func (c *clientConn) begin(err error) {
	c.begun = true
	t, ok := c.Conn.(*tls.Conn)
	switch {
	case !ok:
	case !t.ConnectionState().HandshakeComplete:
		c.refused = true
		if err != io.EOF { // who only looks whether the port is open sends nothing
			c.proxy.events.count(eventTLS)
		}
		c.proxy.log.Debug("a TLS handshake failed", "peer", c.RemoteAddr(), "err", err)
		refusePlain(err)
	case t.ConnectionState().NegotiatedProtocol == "h2":
		c.in.speaks = protocolH2
	default:
		c.in.speaks = protocolH1
	}
}

// preface takes what comes behind the first line of HTTP/2's preface, from the
// byte at of p on, and returns how much of p is good.
//
//go:noinline
func (c *clientConn) preface(p []byte, at int) (good int) {
	if c.h2 == nil {
		h := &h2Conn{preface: clientPreface[prefaceLine:], heard: make(chan struct{})}
		h.hear = sync.OnceFunc(func() { close(h.heard) })
		h.in.onPing = func(payload [8]byte) {
			if payload == drainPing {
				h.hear()
			}
		}
		c.h2 = h
	}
	h := c.h2
	step := min(len(h.preface), len(p)-at)
	if string(p[at:at+step]) != h.preface[:step] {
		c.in.failed = malformed("the preface of HTTP/2 is wrong")
		return at
	}
	if h.preface = h.preface[step:]; h.preface == "" {
		c.in.state = scanFree
		c.follow(p[at+step:])
		c.proxy.clients.speaksH2(c)
	}
	return len(p)
}

// follow reads along with HTTP/2. A header that is not whole has as long as one
// of HTTP/1.1: net/http gives it as long as the connection may be idle, and any
// time while that has a stream. net/http sets no deadline for reading here.
func (c *clientConn) follow(p []byte) {
	h := c.h2
	h.in.follow(p)
	if partial := h.in.inHeader(); partial != h.timed {
		h.timed = partial
		var end time.Time
		if partial {
			end = time.Now().Add(c.proxy.server.ReadHeaderTimeout)
		}
		c.Conn.SetReadDeadline(end)
	}
}

// refusePlain answers a client that does not speak TLS.
func refusePlain(err error) {
	wrong, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok || wrong.Conn == nil {
		return
	}
	switch string(wrong.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		io.WriteString(wrong.Conn, "HTTP/1.0 400 Bad Request\r\nConnection: close\r\n\r\nThis address speaks HTTPS: use https://\n")
	}
}

func (c *clientConn) Write(p []byte) (int, error) {
	if c.h2 != nil {
		return c.h2.write(c.Conn, p)
	}
	if !c.serving.Load() {
		c.refusedByServer(p)
	}
	return c.Conn.Write(p)
}

// refusedByServer counts the answers that net/http gives without a request.
//
//go:noinline
func (c *clientConn) refusedByServer(answer []byte) {
	switch {
	case bytes.HasPrefix(answer, []byte("HTTP/1.1 431")):
		c.proxy.events.count(eventHeaderTooLarge)
	case !c.refused:
		c.proxy.events.count(eventMalformed)
	}
}

// secure reports whether the client speaks TLS.
func (c *clientConn) secure() bool {
	_, ok := c.Conn.(*tls.Conn)
	return ok
}

// CloseWrite ends what the client gets.
func (c *clientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *clientConn) Close() error {
	c.once.Do(func() { c.proxy.clients.remove(c) })
	return c.Conn.Close()
}

func (h *h2Conn) write(w net.Conn, p []byte) (n int, err error) {
	h.mu.Lock()
	n, err = h.writeLocked(w, p)
	h.mu.Unlock()
	h.leave(w) // goAway may have come meanwhile
	return n, err
}

// writeLocked writes p, which may end in the middle of a frame, and firstGoAway
// if that is due and there is a place for it.
func (h *h2Conn) writeLocked(w net.Conn, p []byte) (n int, err error) {
	from := 0
	for at := 0; at < len(p); {
		at += h.out.next(p[at:])
		if at < len(p) && h.leaving.Load() && h.out.between() {
			if n, err = w.Write(p[from:at]); err != nil {
				return from + n, err
			}
			from = at
			h.leaveLocked(w)
		}
	}
	n, err = w.Write(p[from:])
	return from + n, err
}

// leave sends firstGoAway if it is due and nothing is being written: else the
// writer does.
func (h *h2Conn) leave(w net.Conn) {
	if h.leaving.Load() && h.mu.TryLock() {
		if h.out.between() {
			h.leaveLocked(w)
		}
		if h.out.gone { // net/http was first
			h.hear()
		}
		h.mu.Unlock()
	}
}

// leaveLocked holds a stop up for goAwayTimeout at most: the client may not read.
// net/http sets no deadline for writing here.
func (h *h2Conn) leaveLocked(w net.Conn) {
	if !h.leaving.CompareAndSwap(true, false) {
		return
	}
	w.SetWriteDeadline(time.Now().Add(goAwayTimeout))
	if _, err := w.Write(firstGoAway); err != nil {
		w.Close() // some of it may be written, so that nothing can follow
	}
	w.SetWriteDeadline(time.Time{})
}

// goAway begins to take leave of the client.
func (c *clientConn) goAway() {
	c.h2.leaving.Store(true)
	c.h2.leave(c.Conn)
}
