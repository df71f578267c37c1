package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"layover/budget"
	"layover/internal/answer"
	"layover/internal/router"
	"layover/turnstile"
)

const (
	// maxDrain is the longest request body that is read to its end after a
	// refusal, so that the connection can be used again. With longer ones, and
	// those of unknown length, it is closed.
	maxDrain = 64 << 10
	// lingerTimeout bounds the reading of what is left of a request's body after
	// its answer.
	lingerTimeout = 2 * time.Second
)

// exchange is one request and what becomes of it. Except where a field says
// otherwise it belongs to the goroutine of the request's handler, and lives no
// longer than the handler's call: this is why it may hold contexts, which
// ReverseProxy has no parameter for.
//
// It has two contexts, both derived from the request's own. Waiting is done on
// budget, which ends when the client leaves and at the budget's end. Forwarding
// is done on client, so that it can outlive the budget; until the final
// response header, timeout ends client at the budget's end.
type exchange struct {
	proxy   *Proxy
	w       http.ResponseWriter
	in      *http.Request
	trust   *trust
	trusted bool // in comes from a trusted peer
	id      string
	arrived time.Time

	route   router.Route
	state   router.State // of an actor that is not woken for the request
	actor   string
	instead string // the actor that was asked for, if actor is its fallback
	band    int

	budget  context.Context
	spend   context.CancelFunc // of budget
	client  context.Context
	cancel  context.CancelCauseFunc // of client
	timeout *time.Timer

	unwatch   func() // the client's connection is watched; nil: not
	ride      *router.Ride
	stopAbort func() bool // takes Shutdown's end off client and budget; nil: not on
	conns     *conns      // in use by the attempt
	body      *inbound    // nil: the request has none
	sending   *sending    // body as the last attempt sees it
	sent      progress
	idle      *streamIdle // nil: the response may be as idle as it likes
	page      *page       // nil: the request is shown none while it waits

	trace *Trace // nil: nobody collects

	wait     router.Wait // of all rides, and of the refusal
	recorded bool
}

// Handler returns the handler that Serve serves. A request that comes to it by
// other ways than Serve and ServeTLS is not watched while it waits.
func (p *Proxy) Handler() http.Handler { return p }

// ServeHTTP answers one request. It keeps little on the stack while the request
// waits: a parked request's memory is mostly its goroutine's stack.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.inflight.enter()
	defer p.inflight.leave()
	if c, ok := r.Context().Value(connKey{}).(*clientConn); ok {
		p.clients.settle(c)
		c.serving.Store(true)
	}
	x := &exchange{proxy: p, w: w, in: r, trust: p.trust.Load(), arrived: time.Now()}
	defer x.end()
	defer x.rescue()
	refusal := x.admit()
	if refusal == nil && !x.takeOver() {
		refusal = x.board()
	}
	switch {
	case refusal != nil:
		x.refuse(refusal)
	case x.ride == nil:
		x.tell()
	case x.paged():
		x.moveOn()
	default:
		x.forward()
	}
}

// admit finds out what the request is for and how long it may take.
func (x *exchange) admit() *router.Error {
	r := x.in
	x.trusted = x.trust.believes(r.RemoteAddr)
	x.id = requestID(r, x.trusted)
	ctx := r.Context()
	if begin := x.proxy.trace; begin != nil {
		ctx, x.trace = begin(ctx, r)
	}
	if wrong := malformedH2(r); wrong != "" {
		return router.Fail(router.BadRequest, wrong, nil)
	}
	if r.Method == http.MethodConnect { // that asks for a forward proxy
		return noRoute()
	}
	if named := x.trust.actor(r, x.trusted); named != "" {
		x.route, x.actor = x.trust.Direct, named
	} else {
		var err error
		if x.route, x.actor, err = x.proxy.name(r); err != nil {
			return x.turnedAway(err)
		}
	}
	x.band = x.trust.band(r, x.trusted, x.route.Band)
	limit, given, err := budget.ReadHeaders(r.Header)
	switch {
	case errors.Is(err, budget.ErrPast):
		return router.Fail(router.DeadlinePast, strings.TrimPrefix(err.Error(), "budget: "), nil)
	case err != nil:
		return router.Fail(router.BadDeadline, strings.TrimPrefix(err.Error(), "budget: "), nil)
	case !given:
		limit = x.route.Budget
	}
	x.client, x.cancel = context.WithCancelCause(r.Context())
	x.budget, x.spend = budget.For(ctx, min(limit, x.route.MaxBudget))
	if r.Context().Value(connKey{}) == nil { // not from our own server, whose base context ends it
		cancel, spend := x.cancel, x.spend
		x.stopAbort = context.AfterFunc(x.proxy.base, func() {
			cancel(errShutdown)
			spend()
		})
	}
	x.budget = turnstile.Begin(x.budget, x.band)
	return nil
}

// board gets a ride, waiting for it if it must.
func (x *exchange) board() *router.Error {
	if x.route.NoWake {
		return x.glance()
	}
	ride, err := x.proxy.router.Route(x.budget, router.Ask{
		Actor: x.actor, ID: x.id, Fallback: x.route.Fallback, FallbackAfter: x.route.FallbackAfter, OnWait: x.onWait})
	if err != nil {
		return x.turnedAway(err)
	}
	x.ride = ride
	if ride.FellBack {
		x.actor, x.instead = x.route.Fallback, x.actor
	}
	x.wait.Add(ride.Wait)
	return nil
}

// turnedAway is apart from board because a waiting request's stack has board
// on it.
//
//go:noinline
func (x *exchange) turnedAway(err error) *router.Error {
	e, ok := errors.AsType[*router.Error](err)
	if !ok {
		e = router.Fail(router.Internal, "the router failed", err)
	}
	x.wait.Add(e.Wait)
	return e
}

// asked is the actor that the request is for, also when its fallback serves it.
func (x *exchange) asked() string {
	if x.instead != "" {
		return x.instead
	}
	return x.actor
}

// onWait is called when the request begins to wait for actor. The watch is kept beyond
// the wait, up to the final response header.
func (x *exchange) onWait(actor string) (stop func()) {
	x.watchClient()
	stop = func() {}
	if x.route.Interim > 0 && x.takesInterim() && !x.paged() {
		stop = x.processing()
	}
	if x.route.WaitingPage > 0 && x.timeout == nil && navigates(x.in) { // with a timeout it is being forwarded
		return x.waitingPage(actor, stop)
	}
	return stop
}

// watchClient ends both contexts when the client's connection is closed from
// the other side. HTTP/2 needs no help for that, and a connection of it is shared.
func (x *exchange) watchClient() {
	if x.unwatch != nil || x.in.ProtoMajor != 1 {
		return
	}
	conn, ok := x.in.Context().Value(connKey{}).(net.Conn)
	if !ok {
		return
	}
	cancel, spend := x.cancel, x.spend
	x.unwatch = x.proxy.watch.add(conn, func() {
		cancel(errClientLeft)
		spend()
	})
}

// errClientLeft is the cause of a request whose client closed the connection.
var errClientLeft = errors.New("proxy: the client closed the connection")

// forward sends the request to the ride's target and the response back.
func (x *exchange) forward() {
	if after := x.route.StreamIdle; after > 0 {
		x.idle = newStreamIdle(after)
	}
	if x.hasBody() {
		x.body = &inbound{request: x.in}
		// The response does not wait for the rest of the body: the actor may
		// answer early. On HTTP/2 this is so anyway.
		http.NewResponseController(x.w).EnableFullDuplex()
		x.watchClient() // net/http does not see it leave while the actor does not read
	}
	// A timer of our own costs half of what context.AfterFunc on budget does.
	cancel, limit := x.cancel, budget.From(x.budget)
	x.timeout = time.AfterFunc(limit.Remaining(), func() { cancel(limit.Afford(0)) })
	proxy := httputil.ReverseProxy{
		Rewrite:        x.rewrite,
		Transport:      x,
		ModifyResponse: x.modifyResponse,
		ErrorHandler:   x.failed,
		BufferPool:     &buffers,
		ErrorLog:       x.proxy.server.ErrorLog,
	}
	w := x.w
	if x.in.Header.Get("Upgrade") != "" {
		w = switching{w}
	}
	defer x.flushCutOff()
	proxy.ServeHTTP(w, x.in.WithContext(x.client))
}

// flushCutOff sends what there is of an answer that cannot be finished, before
// ReverseProxy's panic breaks the connection off. A client that got not a byte
// would take its request for one that was never worked on, and send it again.
func (x *exchange) flushCutOff() {
	cause := recover()
	if cause == nil {
		return
	}
	if cause == http.ErrAbortHandler && x.recorded {
		http.NewResponseController(x.w).Flush() // an error means that the client has left
	}
	panic(cause)
}

func (x *exchange) hasBody() bool {
	return x.in.ContentLength != 0 && x.in.Body != nil && x.in.Body != http.NoBody
}

// unread reports whether the connection still has some of the request's body on
// it, so that it cannot be used for another request.
func (x *exchange) unread() bool {
	return x.in.ProtoMajor == 1 && x.hasBody() && (x.body == nil || !x.body.atEnd.Load())
}

// last reports whether no request can follow on the connection: there is some
// of this one's body on it, or, behind a request for another protocol, bytes
// that no scanner has seen.
func (x *exchange) last() bool { return x.unread() || x.asksToSwitch() }

func (x *exchange) asksToSwitch() bool {
	_, asks := x.in.Header["Upgrade"]
	return asks && x.in.ProtoMajor == 1
}

// failed is told by ReverseProxy what kept it from a response.
func (x *exchange) failed(_ http.ResponseWriter, _ *http.Request, err error) {
	if x.recorded { // the actor's response could not be passed on
		panic(http.ErrAbortHandler)
	}
	refusal, ok := errors.AsType[*router.Error](err)
	if !ok { // ReverseProxy's own, before an attempt: it refuses to ask for a protocol without a name
		refusal = router.Fail(router.BadRequest, "the Upgrade header is not the name of a protocol", err)
	}
	x.refuse(refusal)
}

// refuse answers the request with e.
func (x *exchange) refuse(e *router.Error) {
	if e.Actor == "" {
		e.Actor = x.actor
	}
	x.stopWatch() // a client that hangs up on the refusal is no news
	if x.paged() {
		if x.sentAway() {
			return
		}
		x.record(http.StatusAccepted, e)
		x.page.finish(x.page.pieces.Refused(e))
		return
	}
	x.record(answer.RowOf(e.Reason).Status, e)
	x.reply(func() { answer.Write(x.w, x.in, e, x.id) })
}

// reply answers the request without an actor.
func (x *exchange) reply(write func()) {
	x.w.Header()[requestIDHeader] = []string{x.id}
	drain, closes := false, x.asksToSwitch()
	if x.hasBody() && x.in.ProtoMajor == 1 {
		// Else net/http would read from the body before it sends the answer.
		http.NewResponseController(x.w).EnableFullDuplex()
		length := x.in.ContentLength
		drain = x.body == nil && 0 < length && length <= maxDrain && x.in.Header.Get("Expect") == "" && !closes
		closes = !drain
	}
	if closes {
		x.w.Header().Set("Connection", "close")
	}
	write()
	if drain {
		x.drain()
	}
}

// drain reads the request's body, now that its answer is on its way. That is
// not left to net/http: in full duplex its own draining ends in a panic
// (golang/go#68560), and it would take what it could not read in time for the
// next request.
func (x *exchange) drain() {
	rc := http.NewResponseController(x.w)
	rc.Flush()
	rc.SetReadDeadline(time.Now().Add(lingerTimeout))
	if x.in.Body.Close() != nil {
		panic(http.ErrAbortHandler)
	}
}

// record hands in the request's record. e is nil when the actor answered.
func (x *exchange) record(status int, e *router.Error) {
	x.recorded = true
	rec := router.Record{
		ID: x.id, At: x.arrived, Method: x.in.Method, Host: x.in.Host, Path: x.in.URL.Path, Route: x.route.Name, Actor: x.actor, Instead: x.instead, Band: x.band,
		Wait: x.wait, Status: status, Took: time.Since(x.arrived),
	}
	if x.budget != nil {
		rec.Budget = budget.From(x.budget)
	}
	rec.MovedOn = e == nil && x.paged()
	if e != nil {
		rec.Reason, rec.Detail = e.Reason, e.Error()
		x.logFault(e)
	}
	x.proxy.router.Record(rec)
	if x.trace != nil {
		x.trace.End(rec)
	}
}

func (x *exchange) logFault(e *router.Error) {
	x.proxy.log.Log(x.in.Context(), slog.LevelDebug, "request refused",
		"reason", e.Reason, "actor", e.Actor, "route", x.route.Name, "id", x.id, "err", e)
}

// rescue answers a request whose handling panicked: a plane's panic reaches
// every request that waits for it. After the final response header there is
// nothing to answer any more, and net/http closes the connection; ReverseProxy
// panics on purpose to abort a response that it cannot finish.
func (x *exchange) rescue() {
	if x.recorded {
		return
	}
	if cause := recover(); cause != nil {
		x.proxy.log.Error("panic while a request was routed", "panic", cause, "stack", string(debug.Stack()))
	}
	x.refuse(router.Fail(router.Internal, "the request could not be handled", nil))
}

// end gives back what the request holds. It runs on every way out.
func (x *exchange) end() {
	if x.idle != nil {
		x.idle.stop()
	}
	x.stopWatch()
	if x.page != nil {
		x.page.close()
	}
	x.alight()
	if x.timeout != nil {
		x.timeout.Stop()
	}
	if x.stopAbort != nil {
		x.stopAbort()
	}
	if x.cancel != nil {
		x.spend()
		x.cancel(nil)
	}
	if x.sending != nil {
		x.sending.end()
	}
	if x.in.ProtoMajor == 2 && x.hasBody() {
		x.in.Body.Close() // else net/http keeps what it received as long as a broken connection's time-out
	}
	if x.unread() { // then the connection is about to be closed, or drained already
		http.NewResponseController(x.w).SetReadDeadline(time.Now().Add(lingerTimeout))
	}
}

// alight ends the ride and the use of its connections.
func (x *exchange) alight() {
	if x.conns != nil {
		x.proxy.actors.give(x.conns)
		x.conns = nil
	}
	if x.ride != nil {
		x.ride.Done()
		x.ride = nil
	}
}

func (x *exchange) stopWatch() {
	if x.unwatch != nil {
		x.unwatch()
		x.unwatch = nil
	}
}

// buffers are what bodies are copied through.
var buffers bufferPool

type bufferPool struct{ pool sync.Pool }

const bufferSize = 32 << 10

func (b *bufferPool) Get() []byte {
	if buf, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return buf[:]
	}
	return make([]byte, bufferSize)
}

func (b *bufferPool) Put(buf []byte) { b.pool.Put((*[bufferSize]byte)(buf)) }
