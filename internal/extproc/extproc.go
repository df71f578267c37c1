// Package extproc is the front for an Envoy that has the connections: an
// ext_proc server that says, for each request, where Envoy sends it.
//
//	s := extproc.New(r, name, extproc.Options{})
//	g := grpc.NewServer(extproc.ServerOptions()...)
//	s.Register(g)
//	go g.Serve(listener)
//	...
//	s.Wait(ctx)       // every request that was held has its answer
//	g.GracefulStop()  // and Envoy has it
//
// Envoy opens one gRPC stream for each request and holds the request until it
// is told what to do with the headers. The answer is one of two:
//
//   - the actor's address, as dynamic metadata for a cluster of type
//     ORIGINAL_DST, with the header mutations that belong to it; or
//   - a response that Envoy gives in the actor's place, from package answer.
//
// Only the request's headers are needed. Whatever else an Envoy sends because
// its configuration asks for it (bodies in a streamed or buffered mode, trailers,
// response headers) is passed on as it is; what cannot be passed on without
// work (observability mode, full-duplex bodies) ends the stream with an error
// that says so.
//
// # Time
//
// A request's budget is what Envoy may hold it for: its route's, or what the
// caller's deadline headers ask for, up to the route's maximum. What remains of
// the caller's deadline after that is passed on in the same headers, and to Envoy
// in x-envoy-upstream-rq-timeout-ms, since Envoy's own timers begin after the
// hold. A tunnel (CONNECT, Upgrade) has no such timer: its deadline is kept by
// whoever set it.
//
// # The end of a ride
//
// A ride ends with its stream. Envoy closes it when it has nothing more to send
// on it, which is right after the answer, unless the filter's
// response_trailer_mode is SEND: then it is at the end of the response or
// tunnel. For a plane that puts idle actors to sleep it must be.
//
// A client that leaves shows as a stream that is reset or as one that is closed;
// both end the wait. Behind more than a few messages that nobody asked for,
// the closing is noticed when the wait is over.
//
// All methods may be called from any goroutine.
package extproc

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"layover/internal/router"
)

// Name is what a Namer makes of a request.
type Name struct {
	// Route is what rules the request: its label, Budget and MaxBudget, which must
	// be above zero, band, fallback, NoWake. Its conditions do not count.
	Route router.Route
	Actor string
	// Port replaces the port of the actor's address. Zero: it is kept.
	Port uint16
}

// Namer finds the actor of a request. The error is a *router.Error; anything
// else counts as Internal, and the request is recorded under what the Name has
// nevertheless. It must not keep the Request.
type Namer func(*Request) (Name, error)

// ByRoutes returns a Namer that finds the actor by r's routes. The port that a
// CONNECT asks for does not count: it could be any program's.
func ByRoutes(r *router.Router) Namer {
	return func(req *Request) (Name, error) {
		route, actor, ok := r.Names().Match(req.Host, req.Path, req.Header)
		if !ok {
			return Name{}, router.Fail(router.NoRoute, "no route matches the request", nil)
		}
		return Name{Route: route, Actor: actor}, nil
	}
}

// Trace is the span of one request.
type Trace struct {
	// Header is set on the request that goes on, in place of what it has of these
	// names. A name without a value is taken off. Nil: none is touched.
	Header http.Header
	// End is called once, with the decision.
	End func(router.Record)
}

// Trust says what the peers that Envoy marks as trusted (PeerMetadata) may ask
// for. That these headers reach no actor is Envoy's part. The zero Trust: nothing.
type Trust struct {
	// BandHeader names the header that has a request's band, 0 to 99; the nearest
	// counts for a number outside, and for any other text the route's.
	BandHeader string
	// ActorHeader names the header that has a request's actor, whatever its host
	// and path; Direct rules such a request.
	ActorHeader string
	Direct      router.Route
}

// Options are the settings that may be left out.
type Options struct {
	// ActorHeader names the header that tells the actor's name to what comes
	// after Envoy; a client's own is overwritten. Default: none.
	ActorHeader string
	// ResponseLimit is the most that a caller's deadline can give to the
	// response, after the hold. Default: no limit.
	ResponseLimit time.Duration
	// Begin begins the span of a request, which waits on the context that it
	// returns. Default: none; what the headers say of a trace passes as it is.
	Begin func(context.Context, *Request) (context.Context, Trace)
	// Dial tries to connect to an actor's address and hangs up. It is called when
	// a ride has ended, once a second for an actor at most, and tells the plane
	// which actors refuse connections (Ride.Unreachable): Envoy does not. Default:
	// nobody finds out, which is for a plane that is asked anew for each request.
	Dial func(ctx context.Context, addr string) error
	// Log is told of faults. Default: slog.Default().
	Log *slog.Logger
}

// Server is the front. Make it with New.
type Server struct {
	extprocv3.UnimplementedExternalProcessorServer
	router *router.Router
	name   Namer
	o      Options
	held   atomic.Int64 // requests that wait for their answer
	open   open
	reach  reach
	trust  atomic.Pointer[Trust]
}

// New returns a server that finds each request's actor with name and asks r
// where it is.
func New(r *router.Router, name Namer, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.ResponseLimit <= 0 {
		o.ResponseLimit = math.MaxInt64
	}
	s := &Server{router: r, name: name, o: o, reach: reach{dial: o.Dial}}
	s.SetTrust(Trust{})
	return s
}

// SetTrust puts another Trust into force, for requests that come from now on.
func (s *Server) SetTrust(t Trust) { s.trust.Store(&t) }

// Register makes s the ext_proc service of g.
func (s *Server) Register(g grpc.ServiceRegistrar) { extprocv3.RegisterExternalProcessorServer(g, s) }

// Held returns how many requests wait for their answer.
func (s *Server) Held() int { return int(s.held.Load()) }

// Wait returns when Envoy has no stream here any more, or with ctx's cause: no
// request waits for an answer, and none is under way that a lost stream would
// break. It is for shutdown, after Envoy was told to take no more; what is on
// its way to Envoy then, GracefulStop delivers and Stop may not.
func (s *Server) Wait(ctx context.Context) error { return s.open.wait(ctx) }

// maxMessage bounds one message: Envoy takes no header above 60 KiB unless told
// otherwise, and never more than 8 MiB.
const maxMessage = 8 << 20

// ServerOptions returns what a gRPC server needs for this service: no bound on
// streams, because each held request is one, and leave for Envoy to probe a
// silent connection as often as every ten seconds, which grpc-go else answers by
// closing it.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxConcurrentStreams(math.MaxUint32),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
	}
}
