package proxy

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// inbound is a client's request body and what is known of it.
type inbound struct {
	request *http.Request
	atEnd   atomic.Bool // read to its end
	broken  atomic.Bool // it cannot be read any further
	refused atomic.Bool // because it is malformed
}

// shortOverH2 reports whether err says that the body ended before its declared
// length, of which net/http has only a text: the client that sent it is still
// there. Over HTTP/1.1 it is not.
func (in *inbound) shortOverH2(err error) bool {
	return in.request.ProtoMajor == 2 && strings.Contains(err.Error(), "declared a Content-Length")
}

// sending is the request body as one attempt sees it. The Transport closes the
// body of an attempt that failed, and may read it in a goroutine of its own
// after that; so closing it does not touch the client's body, and nothing is
// read once it is closed.
type sending struct {
	in      *inbound
	trailer http.Header // of the outgoing request, with the announced names
	idle    *streamIdle // told what passes; may be nil

	mu      sync.Mutex
	closed  bool
	touched bool   // something may have been read
	unblock func() // ends a Read of the client's body; nil: it must go on
}

var errBodyClosed = errors.New("proxy: the attempt is over")

func (s *sending) Read(p []byte) (int, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return 0, errBodyClosed
	}
	s.touched = true
	s.mu.Unlock()
	n, err := s.in.request.Body.Read(p)
	s.idle.moved(n)
	switch {
	case err == io.EOF:
		for name := range s.trailer { // ReverseProxy cloned them too early
			s.trailer[name] = s.in.request.Trailer[name]
		}
		s.in.atEnd.Store(true)
	case err != nil:
		s.in.refused.Store(errors.Is(err, errMalformed) || s.in.shortOverH2(err))
		s.in.broken.Store(true)
	}
	return n, err
}

func (s *sending) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.unblock != nil && !s.in.atEnd.Load() {
		s.unblock() // under mu, so that it does not come after the handler's end
	}
	s.closed = true
	return nil
}

// last says that there will be no other attempt: from now on closing s ends a
// Read that is under way. Over HTTP/2 the Transport waits for that one before it
// tells that an answer broke off, and the Read for the client, who waits for
// the answer.
func (s *sending) last(unblock func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unblock = unblock
	if s.closed && !s.in.atEnd.Load() {
		unblock() // the connection broke right behind the header
	}
}

// end closes s and reports whether the body is still whole.
func (s *sending) end() (whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return !s.touched
}
