// Package proxy is the built-in front: an HTTP reverse proxy whose requests may
// have to wait until the actor that they are for is awake.
//
//	p := proxy.New(r, proxy.Options{})
//	go p.Serve(listener)
//	...
//	p.Shutdown(ctx)
//
// It speaks HTTP/1.1, HTTP/2 over TLS and HTTP/2 in the clear with prior
// knowledge to clients, HTTP/1.1 and HTTP/2 in the clear to actors. While a
// request waits its body is neither read nor buffered, a client that leaves is
// noticed within 100 ms, and nothing of the forwarding machinery exists yet:
// a waiting request costs what net/http needs for it and about 2 KiB.
//
// A request's budget ends at the final response header. Streams and tunnels
// (WebSocket and other upgrades) live on after it, for as long as both sides
// keep them open, and the actor stays in use that long.
//
// A request is sent again only if no byte of it can have been acted upon: the
// connection was refused, or it broke before the request was written, or the
// request is idempotent, has no body, and the connection had been used before.
//
// A client that half-closes its connection after a HTTP/1.1 request counts as
// gone, as it does for net/http. On systems other than Linux a client that
// leaves while its request body is unread, or with a pipelined request behind
// it, is noticed only when the wait is over.
//
// With Expect: 100-continue nothing is asked for before there is an actor. On
// HTTP/1.1 the actor then decides between 100 and a final answer; on HTTP/2
// net/http hides the expectation, so the body is asked for as soon as there is
// an actor.
//
// All methods may be called from any goroutine.
package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"layover/internal/router"
)

// Trust says whose headers are believed.
type Trust struct {
	// Peers are those whose Forwarded, X-Forwarded-*, X-Request-Id and the two
	// headers below are believed.
	Peers []netip.Prefix
	// BandHeader names the header in which a peer chooses a request's priority
	// band, a whole number. It never reaches an actor. Empty: none.
	BandHeader string
	// ActorHeader names the header in which a peer names a request's actor. Then
	// Direct is its route, whatever its host and path are. It never reaches an
	// actor. Empty: none.
	ActorHeader string
	// Direct is the route of requests whose actor ActorHeader names. Its
	// conditions do not count.
	Direct router.Route
}

// Namer finds the route and the actor of a request, whose header it may change
// for the actor. The error is a *router.Error.
type Namer func(*http.Request) (route router.Route, actor string, err error)

// Trace is the span of one request.
type Trace struct {
	Header http.Header         // tells the actor of the span; it replaces what the request has
	End    func(router.Record) // called once, with the request's record
}

// Options are the settings that may be left out.
type Options struct {
	// Trust says whose headers are believed. Default: nobody's.
	Trust Trust

	// Name finds the actor of a request that Trust does not name. Default: by the
	// router's names.
	Name Namer

	// Trace begins the span of a request, which waits on the context that it
	// returns. Default: none. Without one, and where it returns nil, what the
	// headers say of a trace passes as it is.
	Trace func(context.Context, *http.Request) (context.Context, *Trace)

	// Log is told of faults. Default: slog.Default().
	Log *slog.Logger
	// MaxHeaderBytes bounds a request's header; above it the answer is 431.
	// net/http allows 4 KiB more. Default: 60 KiB, which is also Envoy's.
	MaxHeaderBytes int
	// ReadHeaderTimeout bounds the time that a client takes to send a header.
	// Default: 10 s.
	ReadHeaderTimeout time.Duration
	// IdleTimeout is how long a client's connection may be without a request.
	// Default: 120 s.
	IdleTimeout time.Duration
	// MaxConcurrentStreams bounds the requests of one HTTP/2 connection. The
	// connection may send streamWindow bytes of each before they are read.
	// Default: 250; at most 4000.
	MaxConcurrentStreams int
	// MaxConnections bounds the connections of clients, over all listeners. One
	// more makes the one that has been without a request for the longest time
	// close, or waits until there is one. Default: any number.
	MaxConnections int
	// DialTimeout bounds one connection attempt to an actor, after which the
	// actor's address is asked for again. Default: 3 s, so that a lost SYN is
	// sent twice.
	DialTimeout time.Duration
}

const (
	// streamWindow is how much of a HTTP/2 request body is taken from the client
	// before the actor reads it. The connection's window covers all streams, so
	// that parked uploads cannot hold up the others.
	streamWindow = 256 << 10
	maxStreams   = 4000
)

func (o *Options) setDefaults() {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	setDefault(&o.MaxHeaderBytes, 60<<10)
	setDefault(&o.ReadHeaderTimeout, 10*time.Second)
	setDefault(&o.IdleTimeout, 120*time.Second)
	setDefault(&o.MaxConcurrentStreams, 250)
	setDefault(&o.DialTimeout, 3*time.Second)
	o.MaxConcurrentStreams = min(o.MaxConcurrentStreams, maxStreams)
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// Proxy is the front. Make it with New; end it with Shutdown.
type Proxy struct {
	router   *router.Router
	name     Namer
	trace    func(context.Context, *http.Request) (context.Context, *Trace) // nil: none
	log      *slog.Logger
	server   *http.Server
	trust    atomic.Pointer[trust]
	actors   actors
	watch    watch
	clients  clients
	inflight inflight
	handover handover
	events   events

	base  context.Context         // ends with abort
	abort context.CancelCauseFunc // ends every request
}

func byNames(r *router.Router) Namer {
	return func(req *http.Request) (router.Route, string, error) {
		route, actor, ok := r.Names().Match(req.Host, rawPath(req), req.Header.Get)
		if !ok {
			return router.Route{}, "", noRoute()
		}
		return route, actor, nil
	}
}

func noRoute() *router.Error {
	return router.Fail(router.NoRoute, "no route matches the request", nil)
}

// errShutdown is the cause of the requests that outlived Shutdown's context.
var errShutdown = errors.New("proxy: shutdown did not wait any longer")

// New returns a proxy that asks r where each request goes.
func New(r *router.Router, o Options) *Proxy {
	o.setDefaults()
	p := &Proxy{router: r, name: o.Name, trace: o.Trace, log: o.Log}
	if p.name == nil {
		p.name = byNames(r)
	}
	p.clients.max, p.clients.events = max(o.MaxConnections, 0), &p.events
	p.actors.init((&net.Dialer{Timeout: o.DialTimeout}).DialContext)
	p.watch.log = o.Log
	p.SetTrust(o.Trust)

	base, abort := context.WithCancelCause(context.Background())
	p.base, p.abort = base, abort
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	p.server = &http.Server{
		Handler:   p,
		Protocols: &protocols,
		// Else a request for another protocol would be answered that the scanner
		// takes for the last one of its connection; see exchange.last.
		DisableGeneralOptionsHandler: true,

		MaxHeaderBytes:    o.MaxHeaderBytes,
		ReadHeaderTimeout: o.ReadHeaderTimeout,
		IdleTimeout:       o.IdleTimeout,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          o.MaxConcurrentStreams,
			MaxReceiveBufferPerStream:     streamWindow,
			MaxReceiveBufferPerConnection: o.MaxConcurrentStreams * streamWindow,
		},
		ErrorLog:    slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug), // what clients do wrong
		BaseContext: func(net.Listener) context.Context { return base },
		ConnContext: withConn,
		ConnState:   p.clients.changed,
	}
	return p
}

// SetTrust puts another Options.Trust into force, for requests that come from
// now on.
func (p *Proxy) SetTrust(t Trust) { p.trust.Store(newTrust(t)) }

// Serve answers what comes over l in the clear, until Shutdown; then it returns
// http.ErrServerClosed. It may be called for any number of listeners. l is
// closed when it returns.
func (p *Proxy) Serve(l net.Listener) error { return p.serve(l, nil) }

// ServeTLS is Serve with TLS, HTTP/2 if the client wants it. The certificate
// comes from config; config.GetCertificate can change it at any time.
func (p *Proxy) ServeTLS(l net.Listener, config *tls.Config) error {
	config = config.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	return p.serve(l, config)
}

// Shutdown stops accepting, waits for the first requests of connections that
// were accepted, half a second at most, tells clients that speak HTTP/2 to open no more
// streams, and, when they know or after a second, takes none. It waits until every request is answered and every
// tunnel is closed: parked ones are served, or end by their budget. When ctx
// ends before that, it cuts off what is left and returns ctx's cause.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.clients.stop()
	p.handover.close()
	p.clients.waitForFresh(ctx)
	p.clients.goAway(ctx)
	err := p.shutServer(ctx)
	if err == nil { // it does not wait for tunnels
		err = p.inflight.wait(ctx)
	}
	if err != nil {
		err = context.Cause(ctx)
		p.abort(errShutdown)
		p.server.Close()
		p.inflight.wait(context.WithoutCancel(ctx)) // their contexts are over and their connections closed
	}
	p.watch.close()
	p.actors.close()
	return err
}

// quietTime is how long no request may be there before Shutdown closes the
// connections that net/http still waits for.
const quietTime = 2 * time.Second

// shutServer is the server's Shutdown, which on its own can wait up to the idle
// time-out for a connection of HTTP/2 that has no request and began at the moment
// of the call (seen), and some seconds for one that sent half a header.
func (p *Proxy) shutServer(ctx context.Context) error {
	waiting, stop := context.WithCancel(ctx)
	var closing sync.WaitGroup
	closing.Go(func() {
		for p.inflight.wait(waiting) == nil {
			before := p.inflight.begun()
			select {
			case <-waiting.Done():
				return
			case <-time.After(quietTime):
			}
			if p.inflight.begun() == before {
				p.server.Close()
				return
			}
		}
	})
	err := p.server.Shutdown(ctx)
	stop()
	closing.Wait()
	return err
}

// connKey is the context key of a request's net.Conn.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}
