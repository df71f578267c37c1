package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"layover/internal/admin"
	"layover/internal/cli"
	"layover/internal/local"
	"layover/internal/proxy"
	"layover/internal/router"
	"layover/internal/sampled"
	"layover/internal/tracing"
	"layover/parking"
)

// server is a proxy that runs.
type server struct {
	log      *slog.Logger
	level    *slog.LevelVar
	access   atomic.Bool         // each request has a line at info
	outcomes func(router.Record) // logs those that were not served
	config   *config             // in force; only the goroutine in run uses it after start
	tried    atomic.Value        // string: digest of what the last reload read

	plane  *local.Plane
	lot    *parking.Lot
	router *router.Router
	proxy  *proxy.Proxy
	traces *tracing.Traces // nil: nobody collects
	admin  *admin.Admin
	cert   *certificate // nil: clear text
	envoy  *envoyFront  // nil: there is no Envoy in front

	observer    func(router.Record) // of each request, beside admin and log; may be nil
	listeners   []net.Listener
	adminServer *http.Server // nil: none
	adminAddr   net.Addr
	tell        func(state string) // tells the service manager; see notify.go
	failed      chan error         // from the goroutines that serve, which end with proxy, envoy and adminServer
}

// start makes everything that c describes and begins to serve. observer is
// called with each request that has its answer; it may be nil. After an error
// nothing of it is left.
func start(c *config, log *slog.Logger, level *slog.LevelVar, observer func(router.Record)) (_ *server, err error) {
	s := &server{log: log, level: level, config: c, observer: observer, outcomes: sampled.Outcomes(log, cli.Plain), tell: func(string) {}, failed: make(chan error, len(c.Listen)+3)}
	s.access.Store(c.AccessLog)
	s.setTried(c.sum)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	names, err := router.NewNames(c.routes())
	if err != nil {
		return nil, err
	}
	if c.TLS != (tlsFiles{}) {
		if s.cert, err = newCertificate(c.TLS, log); err != nil {
			return nil, err
		}
	}
	if s.admin, err = admin.New(admin.Options{Public: c.AdminPublic, Version: cli.Version(), Log: log}); err != nil {
		return nil, err
	}
	if err := s.listen(); err != nil {
		return nil, err
	}
	s.plane, err = local.New(c.local(), local.Options{Log: log})
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("%w; make it writable for this user, or set another folder as state", err)
	}
	if err != nil {
		return nil, err
	}
	s.lot = parking.NewLot(c.Lot)
	s.router = router.New(s.plane, s.lot, router.Options{Linger: c.Linger, Observe: s.observe})
	s.router.SetNames(names)
	s.router.SetLimits(c.limits())
	front := proxy.Options{
		Trust: c.trust(), Log: log,
		ReadHeaderTimeout: c.HeaderTimeout, IdleTimeout: c.IdleTimeout,
		MaxConnections: connections(c, openFiles()), MaxConcurrentStreams: c.MaxStreams,
	}
	if s.traces, err = tracing.New(context.Background(), s.log, tracing.Program{
		Name: "layover", Version: cli.Version(), Prefix: "layover.", Protocol: tracing.HTTP,
	}); err != nil {
		return nil, err
	}
	if s.traces != nil {
		front.Trace = s.traces.Proxy
	}
	s.proxy = proxy.New(s.router, front)
	if err := s.openAdmin(); err != nil {
		return nil, err
	}
	s.admin.Reloaded(c.sum, nil)
	s.admin.SetFront(func() (int, map[string]uint64) {
		seen := s.proxy.Stats()
		return seen.Connections, seen.Events
	})
	if err := s.serveEnvoy(); err != nil {
		return nil, err
	}
	s.serve()
	s.admin.SetReady(true)
	s.warnOfDescriptors()
	return s, nil
}

// descriptors returns how many open files a full lot of c needs: a parked request
// needs a connection, and another one when its actor is awake. 0: any number.
func descriptors(c *config) uint64 {
	if c.Lot == parking.Unlimited {
		return 0
	}
	return 2*uint64(c.Lot) + 100
}

// connections returns how many connections of clients there may be at once. It is
// what c says, but where c has no bound and a full lot would need more open files
// than limit: without a bound those who wait would have all of them, and no start
// could be probed, no awake actor reached and no operator answered. A third is left
// for that: requests to awake actors need it soon after one another, not at once.
// It is not for everybody, because a bound costs each request a look at who is
// idle.
func connections(c *config, limit uint64) int {
	if c.MaxConnections > 0 || limit >= descriptors(c) {
		return c.MaxConnections
	}
	return max(int(limit-min(limit/3, 100))*2/3, 1)
}

// warnOfDescriptors says when the lot is larger than what the system lets this
// process hold. Go has raised the limit as far as it can.
func (s *server) warnOfDescriptors() {
	limit := openFiles()
	if need := descriptors(s.config); limit < need {
		s.log.Warn("the lot is larger than the limit of open files allows; raise it (ulimit -n, LimitNOFILE=)", "lot", s.config.Lot, "need", need, "limit", limit, "max_connections", connections(s.config, limit))
	}
}

// openFiles returns how many files the system lets this process have open.
func openFiles() (limit uint64) {
	var rlimit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &rlimit) != nil {
		return math.MaxUint64
	}
	return uint64(rlimit.Cur)
}

// close undoes a start that failed half-way.
func (s *server) close() {
	for _, l := range s.listeners {
		l.Close()
	}
	s.envoy.close()
	if s.adminServer != nil {
		s.adminServer.Close()
	}
	if s.plane != nil {
		s.plane.Stop(context.Background())
	}
}

// listen opens all listeners. The admin address answers from now on, so that
// readiness can be asked for while the rest starts.
func (s *server) listen() error {
	sockets, err := handedDown(os.Getenv, os.Getpid())
	if err != nil {
		return err
	}
	defer func() { sockets.close() }() // what is left then
	for _, addr := range s.config.Listen {
		l, err := sockets.listen("listen", addr)
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, l)
	}
	if s.config.Admin == "off" {
		return sockets.unused()
	}
	l, err := sockets.listen("admin", s.config.Admin)
	if err != nil {
		return err
	}
	if err := sockets.unused(); err != nil {
		l.Close()
		return err
	}
	s.adminAddr = l.Addr()
	s.adminServer = &http.Server{Handler: s.admin, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	go func() { s.failed <- s.adminServer.Serve(l) }()
	return nil
}

func listen(setting, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s: another program listens on %s; stop it or set another %[1]s address", setting, addr)
	}
	if errors.Is(err, syscall.EACCES) {
		return nil, fmt.Errorf("%s: this user may not listen on %s; use a port from 1024 up, or run as root or with CAP_NET_BIND_SERVICE", setting, addr)
	}
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return nil, fmt.Errorf("%s: %s is not an address of this machine; correct it, or use 127.0.0.1 or [::] for all", setting, addr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return l, nil
}

func (s *server) serve() {
	for _, l := range s.listeners {
		go func() {
			if s.cert == nil {
				s.failed <- s.proxy.Serve(l)
				return
			}
			s.failed <- s.proxy.ServeTLS(l, &tls.Config{GetCertificate: s.cert.get})
		}()
	}
}

// urls says where it listens, one line each.
func (s *server) urls() []string {
	scheme := "http"
	if s.cert != nil {
		scheme = "https"
	}
	var lines []string
	for _, l := range s.listeners {
		lines = append(lines, fmt.Sprintf("listening on %s://%s, pid %d", scheme, l.Addr(), os.Getpid()))
	}
	if s.adminAddr != nil {
		lines = append(lines, fmt.Sprintf("admin on http://%s/statusz", s.adminAddr))
	}
	if s.config.Envoy.on() {
		lines = append(lines, s.config.sayEnvoy()...)
	}
	return lines
}

// observe counts and logs a request that has its answer.
func (s *server) observe(rec router.Record) {
	s.admin.Observe(rec)
	if s.observer != nil {
		s.observer(rec)
	}
	s.outcomes(rec)
	ctx, level := context.Background(), slog.LevelDebug
	if s.access.Load() {
		level = slog.LevelInfo
	}
	if !s.log.Enabled(ctx, level) {
		return
	}
	ledger := rec.Budget.Ledger()
	attrs := []slog.Attr{slog.String("id", rec.ID), slog.String("method", rec.Method), slog.String("host", sampled.Cut(rec.Host)), slog.String("path", sampled.Cut(rec.Path)),
		slog.String("route", rec.Route), slog.String("actor", rec.Actor), slog.String("instead_of", rec.Instead), slog.Int("band", rec.Band), slog.Int("status", rec.Status),
		slog.String("reason", string(rec.Reason)), slog.String("detail", rec.Detail), slog.String("wake", string(rec.Wake)),
		slog.Duration("parked", rec.ParkedFor), slog.Duration("took", rec.Took), slog.String("ledger", ledger.String())}
	if skew := ledger.Skew(time.Now()); skew.Abs() >= time.Second { // the machine slept, or its clock was set
		attrs = append(attrs, slog.Duration("wall_skew", skew))
	}
	if rec.MovedOn {
		attrs = append(attrs, slog.Bool("moved_on", true))
	}
	s.log.LogAttrs(ctx, level, "request", attrs...)
}

// run reloads and stops when told to, and reloads when changed says that the
// file is another; changed may be nil. A listener that fails ends it, too.
func (s *server) run(reload, stop <-chan os.Signal, changed <-chan struct{}) error {
	for {
		select {
		case err := <-s.failed:
			return errors.Join(err, s.stop(stop))
		case <-reload:
			s.reload()
		case <-changed:
			s.reloadIfNew()
		case got := <-stop:
			s.log.Info("stopping", "signal", got.String())
			return s.stop(stop)
		}
	}
}

// local returns the part of the configuration that is the plane's.
func (c *config) local() local.Config {
	out := local.Config{State: c.State}
	for _, p := range c.Pools {
		out.Pools = append(out.Pools, local.Pool{Name: p.Name, Workers: p.Workers, HeadStart: p.HeadStart, MinUseful: p.MinUseful})
	}
	for _, a := range c.Actors {
		ready := local.Ready{Kind: a.Ready}
		if a.Ready[0] == '/' {
			ready = local.Ready{Kind: local.ReadyHTTP, Path: a.Ready}
		}
		out.Actors = append(out.Actors, local.Actor{
			Name: a.Name, Pool: a.Pool, Command: a.Command, Dir: a.Cwd, Env: a.Env, User: a.User, Protocol: a.Protocol, Ready: ready,
			StartTimeout: a.StartTimeout, Grace: a.Grace, Idle: a.Idle, MinAwake: a.MinAwake, MaxHold: a.MaxHold, MaxDrain: a.MaxDrain, KeepAwake: a.KeepAwake,
		})
	}
	return out
}

// limits returns the function that finds an actor's limit, nil if none has one.
func (c *config) limits() func(actor string) router.Limit {
	if !slices.ContainsFunc(c.Actors, func(a actor) bool { return a.Limit.Concurrent > 0 }) {
		return nil
	}
	exact := make(map[string]router.Limit)
	var templates []actor
	for _, a := range c.Actors {
		if strings.Contains(a.Name, "*") {
			templates = append(templates, a)
		} else {
			exact[a.Name] = a.Limit
		}
	}
	return func(name string) router.Limit {
		limit, ok := exact[name]
		if !ok {
			if i := slices.IndexFunc(templates, func(a actor) bool { return a.matches(name) }); i >= 0 {
				limit = templates[i].Limit
			}
		}
		return limit
	}
}

func (c *config) routes() []router.Route {
	routes := make([]router.Route, len(c.Routes))
	for i, rt := range c.Routes {
		routes[i] = rt.Route
	}
	return routes
}
