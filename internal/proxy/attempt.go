package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"layover/budget"
	"layover/internal/router"
)

// The wait before another attempt begins at firstRetry, doubles, and stays at
// maxRetry: an actor that says it is awake takes connections in moments, and
// the wait for it must not add much.
const (
	firstRetry = time.Millisecond
	maxRetry   = 100 * time.Millisecond
)

// progress is how far an attempt came. The Transport tells it, from any
// goroutine.
type progress struct {
	connected atomic.Bool // in this attempt
	reused    atomic.Bool // the connection had been used before
	wrote     atomic.Bool // a request header was complete, in this attempt or an earlier one
}

// RoundTrip sends the request to the actor until there is a final response
// header or another attempt is not allowed. ReverseProxy calls it, once. Its
// errors are *router.Error.
func (x *exchange) RoundTrip(out *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(out.Context()) // ReverseProxy's, for this request alone
	trace.GotConn = func(info httptrace.GotConnInfo) {
		x.sent.reused.Store(info.Reused)
		x.sent.connected.Store(true)
	}
	trace.WroteHeaders = func() { x.sent.wrote.Store(true) }
	if early := trace.Got1xxResponse; early != nil { // ReverseProxy passes it on
		trust := x.trust
		trace.Got1xxResponse = func(code int, h textproto.MIMEHeader) error {
			trust.strip(http.Header(h))
			return early(code, h)
		}
	}

	for try := 0; ; try++ {
		resp, again, refusal := x.attempt(out)
		if refusal == nil {
			refusal = x.answered(out, resp)
			if refusal == nil {
				return resp, nil
			}
			again = false
		}
		if again {
			refusal = x.retry(try, refusal)
		}
		if refusal != nil {
			return nil, refusal
		}
	}
}

// attempt sends the request once. again says that it may be sent once more.
func (x *exchange) attempt(out *http.Request) (resp *http.Response, again bool, refusal *router.Error) {
	endPhase := budget.From(x.budget).Phase(router.PhaseAttempt)
	defer endPhase()
	if err := budget.WriteHeaders(x.budget, out.Header); err != nil {
		return nil, false, x.ended(err)
	}
	target := x.ride.Target
	x.conns = x.proxy.actors.take(x.actor, target)
	out.URL.Host = target.Addr
	if target.Protocol == router.ProtocolH2C && out.Header.Get("Upgrade") != "" {
		out.Header.Del("Upgrade") // HTTP/2 has no such thing
		out.Header.Del("Connection")
	}
	if x.body != nil {
		x.sending = &sending{in: x.body, trailer: out.Trailer, idle: x.idle}
		out.Body = x.sending
	}
	x.sent.connected.Store(false)
	resp, err := x.conns.transport.RoundTrip(out)
	if err == nil {
		return resp, false, nil
	}
	whole := x.sending == nil || x.sending.end()
	switch _, undialed := errors.AsType[*dialError](err); {
	case x.client.Err() != nil:
		return nil, false, x.ended(err)
	case x.body != nil && x.body.broken.Load() && x.body.refused.Load():
		return nil, false, router.Fail(router.BadRequest, "the request's body cannot be read", err)
	case x.body != nil && x.body.broken.Load():
		return nil, false, router.Fail(router.ClientGone, "the request's body ended early", err)
	case undialed:
		if errors.Is(err, syscall.ECONNREFUSED) {
			x.ride.Unreachable()
		}
		refusal = router.Fail(router.ActorUnreachable, "the actor takes no connections", err)
		return nil, whole, refusal
	}
	refusal = router.Fail(router.ActorFailed, brokenOff(err, target.Protocol), err)
	unwritten := x.sent.connected.Load() && !x.sent.wrote.Load()
	repeatable := x.sent.reused.Load() && x.body == nil && idempotent(x.in.Method)
	return nil, whole && (unwritten || repeatable), refusal
}

// brokenOff says what became of an attempt without an answer. That the actor
// speaks another protocol can be told by the text of the error alone.
func brokenOff(err error, protocol string) string {
	if protocol == router.ProtocolH2C && strings.Contains(err.Error(), "frame too large") {
		return "the actor does not seem to speak h2c; see its setting protocol"
	}
	return "the connection to the actor broke before an answer"
}

// retry waits a little and gets another ride: the actor may have gone. failed
// is what the last attempt ended with, and what the client is told if there is
// no time for another one.
func (x *exchange) retry(try int, failed *router.Error) *router.Error {
	x.alight()
	x.watchClient()
	budget.From(x.budget).Note(failed.Err)
	endPhase := budget.From(x.budget).Phase(router.PhaseRetry)
	err := budget.Wait(x.budget, min(firstRetry<<min(try, 10), maxRetry))
	endPhase()
	if err == nil {
		if refusal := x.board(); refusal != nil || x.ride != nil {
			return refusal
		}
		return failed // it was awake, and a glance does not wake it
	}
	if x.client.Err() != nil {
		return x.ended(err)
	}
	return failed
}

// answered ends the budget, now that the actor's final response header is
// there: unless it had already ended.
func (x *exchange) answered(out *http.Request, resp *http.Response) *router.Error {
	if !x.timeout.Stop() {
		resp.Body.Close()
		return x.ended(nil)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols && !switches(out, resp) {
		resp.Body.Close()
		return router.Fail(router.ActorFailed, "the actor switched to a protocol that was not asked for", nil)
	}
	if x.sending != nil && x.ride.Target.Protocol == router.ProtocolH2C {
		x.sending.last(func() { http.NewResponseController(x.w).SetReadDeadline(time.Unix(1, 0)) })
	}
	x.spend()
	x.stopWatch()
	x.record(resp.StatusCode, nil)
	return nil
}

// switches reports whether resp switches to the protocol that out asked for,
// over a connection that can be written to.
func switches(out *http.Request, resp *http.Response) bool {
	_, writable := resp.Body.(io.Writer)
	asked := out.Header.Get("Upgrade")
	return writable && asked != "" && strings.EqualFold(asked, resp.Header.Get("Upgrade"))
}

// ended is the refusal of a request that was with the actor when its budget
// ended or its client left.
func (x *exchange) ended(err error) *router.Error {
	if x.client.Err() != nil && !errors.Is(context.Cause(x.client), context.DeadlineExceeded) {
		return router.Fail(router.ClientGone, "the client left before the answer", context.Cause(x.client))
	}
	if err == nil {
		err = context.Cause(x.client)
	}
	return router.Fail(router.AttemptTimeout, "the actor did not answer within the request's budget", err)
}
