package lane

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"layover/budget"
)

// attempt sends the request once. An error says that the operation's end or cancel cut it off; everything else is in c.
func (l *Lane) attempt(ctx context.Context, c *call) error {
	defer budget.From(ctx).Phase("attempt")()
	defer l.arrive()
	l.depart(c)
	c.fresh = false
	w := &wire{sends: 1}
	answer, err := l.send(ctx, c, w)
	if answer != nil {
		c.answer, c.fresh = answer, true
	}
	switch {
	case err == nil && answer.Status >= 400:
		c.last = statusError(answer.Status)
	case err == nil:
		c.last = nil
	default:
		if over := budget.Wait(ctx, 0); over != nil {
			return over
		}
		c.last = err
		c.unsent = w.unsent(err)
	}
	return nil
}

// send is one http.Client.Do, with the body read. Of an answer of an error status it returns what it gets.
func (l *Lane) send(ctx context.Context, c *call, w *wire) (*Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.again = func() bool {
		err := l.resend(c)
		if err != nil {
			cancel(err)
		}
		return err == nil
	}
	var body io.Reader
	if c.request.Body != nil {
		body = bytes.NewReader(c.request.Body)
	}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, w.trace()), c.method, c.request.URL, body)
	if err != nil {
		return nil, backoff.Permanent(bare(err))
	}
	if c.request.Header != nil {
		request.Header = c.request.Header.Clone()
	}
	request.Header.Set("Accept-Encoding", "gzip")
	if l.o.SendDeadline {
		if err := budget.WriteHeaders(ctx, request.Header); err != nil {
			return nil, err
		}
	}
	client := l.client
	client.CheckRedirect = func(next *http.Request, via []*http.Request) error { return l.follow(w, next, via) }
	response, err := client.Do(request)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, ErrAttempts) {
			err = cause
		}
		return nil, bare(err)
	}
	defer response.Body.Close()

	c.hintAt = l.learn(c, response.StatusCode, response.Header)
	answer := &Response{Status: response.StatusCode, Header: response.Header, URL: response.Request.URL}
	answer.Body, err = l.read(response)
	answer.Attempts = l.sent(c)
	switch {
	case answer.Status >= 400:
		return answer, nil // the status is the answer, even if the rest of it did not come
	case w.stranded != nil:
		return answer, w.stranded
	case err != nil:
		return nil, bare(err)
	}
	return answer, nil
}

// bare is err without the URL that net/http puts around it: its query may be secret.
func bare(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// worthRepeating reports whether another attempt is safe and may help.
func (l *Lane) worthRepeating(c *call) bool {
	switch {
	case c.fresh && c.answer.Status < 400: // a redirect that is not followed
		return false
	case c.fresh:
		return c.repeatable && l.mayHelp(c.answer.Status)
	}
	return (c.repeatable || c.unsent) && !permanent(c.last)
}

// mayHelp reports whether an answer of that status is a reason for a repeat.
func (l *Lane) mayHelp(status int) bool {
	switch {
	case status < 400:
		return false
	case status < 500:
		return status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests
	}
	return l.o.RetryStatus(status)
}

// retryStatus is the default of Options.RetryStatus.
func retryStatus(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// permanent reports whether err would come again.
func permanent(err error) bool {
	var (
		said        *backoff.PermanentError
		certificate *tls.CertificateVerificationError
		address     *net.DNSError
	)
	return errors.As(err, &said) || errors.As(err, &certificate) || errors.As(err, &address) && address.IsNotFound ||
		errors.Is(err, ErrAttempts) || errors.Is(err, ErrTooLarge)
}

// wire is what one attempt has put on the wire, as net/http tells it. A RoundTripper that does not tell has sent it all.
type wire struct {
	again    func() bool  // the transport is about to send it again by itself: may it?
	asked    atomic.Int32 // for a connection
	got      atomic.Int32 // a connection
	wrote    atomic.Int32 // the header of a request
	sends    int32        // requests that the lane knows of: the first one, and one for each redirect and each repeat
	refused  bool         // that one was one too many
	moved    bool         // a redirect was followed, which is an answer of the host
	stranded error        // why a redirect was not followed
}

func (w *wire) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn:      func(string) { w.asked.Add(1) },
		WroteHeaders: func() { w.wrote.Add(1) },
		GotConn: func(info httptrace.GotConnInfo) {
			w.got.Add(1)
			// A connection may be got, and not used, more than once per request: only one that follows a written header is for a
			// repeat.
			if w.wrote.Load() >= w.sends {
				w.sends++
				w.refused = !w.again()
			}
			if w.refused {
				hangUp(info.Conn)
			}
		},
	}
}

// hangUp keeps a request from being written although its context is done, which HTTP/1 does not look at before it writes. HTTP/2
// does, and its connection has other requests.
func hangUp(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok && t.ConnectionState().NegotiatedProtocol == "h2" {
		return
	}
	conn.Close()
}

// unsent reports whether the host can have seen nothing of the attempt that failed with err.
func (w *wire) unsent(err error) bool {
	if w.moved {
		return false
	}
	var dial *net.OpError
	if w.asked.Load() == 0 {
		return errors.As(err, &dial) && dial.Op == "dial"
	}
	if w.got.Load() == 0 {
		return true
	}
	var refused streamError
	return errors.As(err, &refused) && refused.Code == refusedStream
}

// streamError is what net/http's HTTP/2 errors can be read as: they fill any struct of this form.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

// refusedStream says that the host has not looked at the request: RFC 9113, section 8.7.
const refusedStream = 7

func (streamError) Error() string { return "stream error" }

// resend counts a request that the transport sends again by itself. It does not wait for its pace, but those behind it will.
func (l *Lane) resend(c *call) error {
	if err := l.permit(c); err != nil {
		return err
	}
	l.pace.ReserveN(time.Now(), 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Resends++
	l.countLocked(c)
	return nil
}

// maxRedirects is how many redirects one attempt follows.
const maxRedirects = 3

// follow decides upon a redirect. One that is not followed is an answer, which its caller gets, with the reason.
func (l *Lane) follow(w *wire, next *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	switch {
	case len(via) > maxRedirects:
		w.stranded = fmt.Errorf("%w: it is the %dth", ErrRedirect, len(via))
	case !l.hosts[hostOf(next.URL)]:
		w.stranded = fmt.Errorf("%w: it leads to %s", ErrRedirect, next.URL.Host)
	case from.Scheme == "https" && next.URL.Scheme != "https", next.URL.Scheme != "http" && next.URL.Scheme != "https":
		w.stranded = fmt.Errorf("%w: it leads from %s to %s", ErrRedirect, from.Scheme, next.URL.Scheme)
	}
	if w.stranded != nil {
		return http.ErrUseLastResponse
	}
	if hostOf(next.URL) != hostOf(via[0].URL) {
		for name := range next.Header {
			switch name {
			case "Accept", "Accept-Encoding", "Accept-Language", "Content-Type", "User-Agent":
			default:
				next.Header.Del(name)
			}
		}
	}
	w.moved = true
	w.sends++
	l.pace.ReserveN(time.Now(), 1)
	return nil
}
