package extproc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	extprocfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"layover/budget"
	"layover/internal/answer"
	"layover/internal/router"
	"layover/turnstile"
)

// maxEarly is how many messages are taken from a stream while its request is
// held. Envoy sends none then, as configured here.
const maxEarly = 8

// call is one stream, which is one request. It belongs to the goroutine of the
// stream's handler and lives no longer than the handler's call.
type call struct {
	server *Server
	stream extprocv3.ExternalProcessor_ProcessServer
	early  chan early // what listen received; nil: it was not needed
	asked  bool       // the request's headers are there
	final  bool       // it was answered with a response, so nothing else can come

	req     Request
	arrived time.Time
	name    Name
	given   bool          // the caller set a deadline
	limit   time.Duration // counted from arrived; if given
	trace   Trace
	budget  context.Context
	spend   context.CancelFunc
	ride    *router.Ride
	state   router.State // of the actor, if there is no ride because the route wakes nobody
}

// early is a message, or what ended the stream.
type early struct {
	msg *extprocv3.ProcessingRequest
	err error
}

// Process implements the ext_proc service.
func (s *Server) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	s.open.enter()
	defer s.open.leave()
	c := &call{server: s, stream: stream}
	defer c.end()
	for {
		msg, err := c.receive()
		switch {
		case err == io.EOF || status.Code(err) == codes.Canceled:
			return nil
		case err != nil:
			return err
		}
		reply, err := c.process(msg)
		if err != nil {
			return err
		}
		if err := stream.Send(reply); err != nil {
			return err
		}
		if c.final {
			return nil
		}
	}
}

func (c *call) end() {
	if c.ride == nil {
		return
	}
	if c.server.reach.refused(c.ride.Target.Addr) {
		c.ride.Unreachable()
	}
	c.ride.Done()
}

// process returns the answer to msg. A panic ends the stream, not the program.
func (c *call) process(msg *extprocv3.ProcessingRequest) (reply *extprocv3.ProcessingResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.panicked(p)
			reply, err = nil, status.Error(codes.Internal, "ext_proc: the processor failed")
		}
	}()
	if msg.GetObservabilityMode() {
		return nil, status.Error(codes.FailedPrecondition, "ext_proc: this processor decides where requests go: turn observability_mode off")
	}
	if p := msg.GetProtocolConfig(); duplex(p.GetRequestBodyMode()) || duplex(p.GetResponseBodyMode()) {
		return nil, status.Errorf(codes.FailedPrecondition,
			"ext_proc: bodies are not for this processor (request_body_mode %v, response_body_mode %v): set both to NONE",
			p.GetRequestBodyMode(), p.GetResponseBodyMode())
	}
	switch m := msg.GetRequest().(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		if c.asked {
			return nil, status.Error(codes.InvalidArgument, "ext_proc: request headers came twice on one stream")
		}
		c.asked = true
		c.req = newRequest(m.RequestHeaders)
		return c.decide()
	case *extprocv3.ProcessingRequest_RequestBody:
		return unchanged.requestBody, nil
	case *extprocv3.ProcessingRequest_RequestTrailers:
		return unchanged.requestTrailers, nil
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		return unchanged.responseHeaders, nil
	case *extprocv3.ProcessingRequest_ResponseBody:
		return unchanged.responseBody, nil
	case *extprocv3.ProcessingRequest_ResponseTrailers:
		return unchanged.responseTrailers, nil
	}
	return nil, status.Error(codes.InvalidArgument, "ext_proc: a message with none of the parts of a request or response that are known here")
}

func duplex(mode extprocfilterv3.ProcessingMode_BodySendMode) bool {
	return mode == extprocfilterv3.ProcessingMode_FULL_DUPLEX_STREAMED || mode == extprocfilterv3.ProcessingMode_GRPC
}

// decide holds the request until it has a ride or a refusal.
func (c *call) decide() (*extprocv3.ProcessingResponse, error) {
	c.server.held.Add(1)
	defer c.server.held.Add(-1)
	c.arrived = time.Now()
	c.budget = c.stream.Context()
	if begin := c.server.o.Begin; begin != nil {
		c.budget, c.trace = begin(c.budget, &c.req)
	}
	reply, refusal := c.admit()
	if c.spend != nil {
		defer c.spend()
	}
	rec := c.record(refusal)
	c.server.router.Record(rec)
	if c.trace.End != nil {
		c.trace.End(rec)
	}
	c.final = c.ride == nil || refusal != nil
	switch {
	case refusal == nil:
		return reply, nil
	case refusal.Reason == router.ClientGone:
		return nil, status.Error(codes.Canceled, "ext_proc: the client left")
	}
	return refuse(refusal, &c.req), nil
}

func (c *call) panicked(p any) {
	c.server.o.Log.Error("ext_proc: panic", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
}

// admit makes a panic of whatever stands behind it an answer.
func (c *call) admit() (reply *extprocv3.ProcessingResponse, refusal *router.Error) {
	defer func() {
		if p := recover(); p != nil {
			c.panicked(p)
			reply, refusal = nil, router.Fail(router.Internal, "the router failed", nil)
		}
		if refusal != nil && refusal.Actor == "" {
			refusal.Actor = c.name.Actor
		}
	}()
	if refusal := c.identify(); refusal != nil {
		return nil, refusal
	}
	if refusal := c.board(); refusal != nil {
		return nil, refusal
	}
	if c.ride == nil {
		return tell(c.name.Actor, c.state, &c.req), nil
	}
	return c.routed()
}

// identify finds out what the request is for and how long it may take.
func (c *call) identify() *router.Error {
	if wrong := c.req.badHost; wrong != "" {
		return router.Fail(router.BadHost, wrong, nil)
	}
	var err error
	if c.name, err = c.called(); err != nil {
		return refusalOf(err)
	}
	hold := c.name.Route.Budget
	limit, given, err := budget.ReadHeaders(c.req.header(timeHeaders...))
	switch {
	case errors.Is(err, budget.ErrPast):
		return router.Fail(router.DeadlinePast, strings.TrimPrefix(err.Error(), "budget: "), nil)
	case err != nil:
		return router.Fail(router.BadDeadline, strings.TrimPrefix(err.Error(), "budget: "), nil)
	case given:
		c.given, c.limit = true, limit
		hold = limit
	}
	c.budget, c.spend = budget.For(c.budget, min(hold, c.name.Route.MaxBudget))
	c.budget = turnstile.Begin(c.budget, c.name.Route.Band)
	return nil
}

func refusalOf(err error) *router.Error {
	if e, ok := errors.AsType[*router.Error](err); ok {
		own := *e // it may be shared
		return &own
	}
	return router.Fail(router.Internal, "the router failed", err)
}

// board gets a ride, waiting for it if it must, or the state of an actor that is
// not to be woken.
func (c *call) board() *router.Error {
	route := &c.name.Route
	ask := router.Ask{Actor: c.name.Actor, ID: c.req.id(), Fallback: route.Fallback, FallbackAfter: route.FallbackAfter, OnWait: c.onWait}
	var err error
	if route.NoWake {
		c.ride, c.state, err = c.server.router.Glance(c.budget, ask)
	} else {
		c.ride, err = c.server.router.Route(c.budget, ask)
	}
	if err != nil {
		return refusalOf(err)
	}
	return nil
}

// onWait begins to listen, because a request that waits must hear of its
// client's leaving, and a stream that is closed tells that to its reader alone.
func (c *call) onWait(string) (stop func()) {
	if c.early == nil {
		c.early = make(chan early, maxEarly)
		go c.listen(c.spend) // ends with the stream, which ends with its handler
	}
	return func() {}
}

func (c *call) listen(left context.CancelFunc) {
	gone := c.stream.Context().Done()
	for {
		msg, err := c.stream.Recv()
		if err != nil {
			left()
		}
		select {
		case c.early <- early{msg, err}:
		case <-gone:
			return
		}
		if err != nil {
			return
		}
	}
}

// receive returns the stream's next message.
func (c *call) receive() (*extprocv3.ProcessingRequest, error) {
	if c.early == nil {
		return c.stream.Recv()
	}
	select {
	case e := <-c.early:
		return e.msg, e.err
	case <-c.stream.Context().Done():
		return nil, status.FromContextError(c.stream.Context().Err()).Err()
	}
}

// address returns where the ride goes: Envoy takes an address for it, never a
// name, and before 1.40 one with a zone could crash it.
func (c *call) address() (netip.AddrPort, *router.Error) {
	addr, err := netip.ParseAddrPort(c.ride.Target.Addr)
	if err != nil || addr.Port() == 0 && c.name.Port == 0 || addr.Addr().Zone() != "" {
		e := router.Fail(router.Internal, "the actor has no address that can be routed to", err)
		e.Wait = c.ride.Wait
		return netip.AddrPort{}, e
	}
	if c.name.Port != 0 {
		addr = netip.AddrPortFrom(addr.Addr(), c.name.Port)
	}
	return addr, nil
}

// routed returns the answer that lets the request go to its actor.
func (c *call) routed() (*extprocv3.ProcessingResponse, *router.Error) {
	addr, refusal := c.address()
	if refusal != nil {
		return nil, refusal
	}
	r := routing{addr: addr.String(), port: strconv.Itoa(int(addr.Port())), h2c: c.ride.Target.Protocol == router.ProtocolH2C}
	r.set(originalDstHeader, r.addr)
	if header := c.server.o.ActorHeader; header != "" {
		r.set(header, c.boarded())
	}
	for _, name := range slices.Sorted(maps.Keys(c.trace.Header)) {
		if value := c.trace.Header.Get(name); value != "" {
			r.set(strings.ToLower(name), value)
		} else {
			r.remove(strings.ToLower(name))
		}
	}
	if c.given {
		if err := c.writeDeadline(&r); err != nil {
			e := router.Fail(router.AttemptTimeout, "the request's deadline ended before it could be passed on", err)
			e.Wait = c.ride.Wait
			return nil, e
		}
	}
	return r.reply(), nil
}

// boarded returns the actor that the ride is to.
func (c *call) boarded() string {
	if c.ride.FellBack {
		return c.name.Route.Fallback
	}
	return c.name.Actor
}

// writeDeadline passes on what remains of the caller's deadline.
func (c *call) writeDeadline(r *routing) error {
	left := min(c.limit-time.Since(c.arrived), c.server.o.ResponseLimit)
	ctx, cancel := budget.For(context.Background(), left)
	defer cancel()
	h := c.req.header(timeHeaders...)
	h["content-type"] = []string{c.req.Header("content-type")}
	tunnel := c.req.tunnels()
	if !tunnel {
		h[envoyTimeoutHeader] = []string{"1"} // present, so that it is written
	}
	before := make(map[string]bool, len(timeHeaders))
	for _, name := range timeHeaders {
		before[name] = len(h[name]) > 0
	}
	if err := budget.WriteHeaders(ctx, h); err != nil {
		return err
	}
	for _, name := range timeHeaders {
		switch {
		case tunnel && name == envoyTimeoutHeader && before[name]:
			r.remove(name)
		case len(h[name]) > 0:
			r.set(name, h[name][0])
		case before[name]:
			r.remove(name)
		}
	}
	return nil
}

// record is what becomes known of the request here: how it ended after it was
// let go, Envoy knows.
func (c *call) record(refusal *router.Error) router.Record {
	path, _, _ := strings.Cut(c.req.Path, "?")
	rec := router.Record{
		ID: c.req.id(), At: c.arrived, Method: c.req.Method, Host: c.req.Host, Path: path, Route: c.name.Route.Name, Actor: c.name.Actor,
		Band: c.name.Route.Band, Took: time.Since(c.arrived), Budget: budget.From(c.budget),
	}
	if refusal != nil {
		rec.Wait, rec.Reason, rec.Detail = refusal.Wait, refusal.Reason, refusal.Error()
		rec.Status = answer.RowOf(refusal.Reason).Status
		return rec
	}
	if c.ride == nil {
		rec.Wait, rec.Status = router.Wait{Wake: router.WakeSpared}, http.StatusOK
		return rec
	}
	rec.Wait = c.ride.Wait
	if c.ride.FellBack {
		rec.Actor, rec.Instead = c.name.Route.Fallback, c.name.Actor
	}
	return rec
}
