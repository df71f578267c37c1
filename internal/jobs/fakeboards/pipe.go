package fakeboards

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Pipe serves a handler on connections in memory, for tests, also in a bubble
// of synctest: its waits are durable there.
type Pipe struct {
	server http.Server
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	served sync.WaitGroup
}

// NewPipe begins to serve h. Close ends it.
func NewPipe(h http.Handler) *Pipe {
	p := &Pipe{server: http.Server{Handler: h}, conns: make(chan net.Conn), closed: make(chan struct{})}
	p.served.Go(func() { p.server.Serve((*pipeListener)(p)) }) // its error is that it was closed
	return p
}

// Dial connects, whatever the network and the address: it is a DialContext for
// an http.Transport.
func (p *Pipe) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close breaks all connections and waits until nothing more is accepted.
// Requests under way find their context cancelled.
func (p *Pipe) Close() {
	p.server.Close()
	p.served.Wait()
}

type pipeListener Pipe

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
