package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// switching is the ResponseWriter of a request for another protocol.
// ReverseProxy takes the connection from it and would drop what the client sent
// behind its request.
type switching struct{ http.ResponseWriter }

func (s switching) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s switching) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(s.ResponseWriter).Hijack()
	if err != nil || rw.Reader.Buffered() == 0 {
		return c, rw, err
	}
	return &begun{c, rw.Reader}, rw, nil
}

// begun is a connection of which r has read some already.
type begun struct {
	net.Conn
	r *bufio.Reader
}

func (b *begun) Read(p []byte) (int, error) {
	if n := b.r.Buffered(); n > 0 {
		return b.r.Read(p[:min(n, len(p))])
	}
	return b.Conn.Read(p)
}

// CloseWrite passes the actor's end of file on.
func (b *begun) CloseWrite() error {
	if c, ok := b.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return io.ErrClosedPipe
}
