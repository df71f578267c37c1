package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"layover/internal/admin"
	"layover/internal/cli"
	"layover/internal/envoy"
	"layover/internal/extproc"
	"layover/internal/proxy"
	"layover/internal/router"
	"layover/internal/sampled"
	"layover/internal/substrate"
	"layover/internal/substrate/ateapi"
	"layover/internal/tracing"
	"layover/parking"
)

func serveCommand(use string) *cobra.Command {
	c := new(config)
	cmd := &cobra.Command{
		Use:   use,
		Short: "Run the router (what happens without a command, too)",
		Long: `Serve runs the router until it is told to stop. It prints the time plan: which timer ends what.

Envoy gets its configuration from --xds-address ('atenet-router bootstrap' prints what it is started with) and asks for
each request at --extproc-address, where gRPC health checks are answered, too.

SIGTERM and SIGINT stop it: it is no longer ready; after --drain-delay Envoy's listeners drain; requests that are held are
served or end by their budget; then it exits. A second signal stops it at once.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stop := make(chan os.Signal, 2)
			signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
			defer signal.Stop(stop)
			collectLater(os.Getenv("GOGC"))
			return serve(c, settings(cmd.Flags()), cmd.OutOrStdout(), cmd.ErrOrStderr(), stop)
		},
	}
	c.flags(cmd.Flags())
	return cmd
}

// garbage is how much of it there may be, in percent of what is in use, before
// it is collected. With Go's 100 a collection came every second at 1,000
// requests per second beside 2,000 parked ones, walked all of those, and was
// what the slowest 1 % of the others waited for (docs/decisions/0012-collect-later.md).
const garbage = 400

// collectLater does so, unless the environment's GOGC has said when.
func collectLater(gogc string) {
	if gogc == "" {
		debug.SetGCPercent(garbage)
	}
}

// serve runs the router that c describes until stop says to stop. It prints the
// plan and where it listens to out, and logs to logs.
func serve(c *config, shown []admin.Setting, out, logs io.Writer, stop <-chan os.Signal) error {
	plan, doubts, err := c.check()
	if err != nil {
		return err
	}
	level, _ := cli.Level(c.logLevel)
	log := cli.NewLog(logs, level, c.logFormat)
	for _, doubt := range doubts {
		log.Warn(doubt)
	}
	s, err := start(c, plan, shown, log)
	if err != nil {
		return err
	}
	plan.Explain(out)
	for _, line := range s.where() {
		fmt.Fprintln(out, line)
	}
	return s.run(stop)
}

// server is a router that runs.
type server struct {
	config *config
	plan   envoy.Plan
	log    *slog.Logger

	outcomes func(router.Record) // logs those that were not served

	conn   *grpc.ClientConn // to the control plane
	router *router.Router
	front  *extproc.Server
	own    *proxy.Proxy // the front without an Envoy; nil: there is none
	admin  *admin.Admin
	health *health.Server
	traces *tracing.Traces

	closeXDS context.CancelFunc
	grpcs    []*grpc.Server // the front's is the first
	https    []*http.Server
	listens  []string   // what listens where
	failed   chan error // from the goroutines that serve, which end with their servers
}

// start makes everything that c describes and begins to serve. After an error
// nothing of it is left.
func start(c *config, plan envoy.Plan, shown []admin.Setting, log *slog.Logger) (_ *server, err error) {
	s := &server{config: c, plan: plan, log: log, outcomes: sampled.Outcomes(log, cli.Plain), failed: make(chan error, 5), closeXDS: func() {}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.traces, err = tracing.New(context.Background(), log, program()); err != nil {
		return nil, err
	}
	if s.conn, err = substrate.Dial(c.ateapi, c.access, tellTrace(), newTrouble(log).dialOption()); err != nil {
		return nil, err
	}
	plane, err := substrate.New(ateapi.NewControlClient(s.conn), substrate.Options{
		FailFast: c.parkMax == 0, Interval: c.retryInterval, Factor: c.retryFactor, Jitter: c.retryJitter,
		AttemptTimeout: c.attemptTimeout, Port: c.actorPort,
	})
	if err != nil {
		return nil, err
	}
	// Readiness, metrics and the page are for whoever reaches them; profiles are
	// not, see guard.
	if s.admin, err = admin.New(admin.Options{Public: true, Version: cli.Version(), Name: "atenet-router", Settings: shown, ParkBudget: c.budget()}); err != nil {
		return nil, err
	}
	s.router = router.New(plane, parking.NewLot(c.parkMax), router.Options{Observe: s.observe, Identity: tracing.Identity})
	s.admin.SetRouter(s.router)
	inForce := inForce(plan, shown)
	s.admin.SetConfig(func() admin.Configuration { return inForce })
	s.front = extproc.New(s.router, namer(c), extproc.Options{
		ActorHeader: substrate.TargetHeader, ResponseLimit: c.routeTimeout, Begin: s.traces.Envoy, Log: log})
	if err := s.listenGRPC(); err != nil {
		return nil, err
	}
	if err := s.listenHTTP(); err != nil {
		return nil, err
	}
	if err := s.listenOwn(); err != nil {
		return nil, err
	}
	s.admin.SetReady(true)
	s.health.Resume()
	return s, nil
}

// route is that of all requests.
func (c *config) route() router.Route {
	return router.Route{Name: "actors", Budget: c.budget(), MaxBudget: c.budget()}
}

// targetOf is what the target headers of a request say. Two are no actor's name:
// a proxy in front may have added its own behind the client's.
func targetOf(values []string) string { return strings.Join(values, ",") }

// ownNamer is namer for the front without an Envoy. The actor is told its name
// there, too.
func ownNamer(c *config) proxy.Namer {
	route := c.route()
	return func(req *http.Request) (router.Route, string, error) {
		ref, err := substrate.Locate(targetOf(req.Header.Values(substrate.TargetHeader)), req.Host, c.hostSuffix)
		if err != nil {
			return route, "", err
		}
		req.Header.Set(substrate.TargetHeader, ref.String())
		return route, ref.String(), nil
	}
}

// namer finds the actor of a request, and how long it may wait.
func namer(c *config) extproc.Namer {
	route := c.route()
	return func(req *extproc.Request) (extproc.Name, error) {
		ref, err := substrate.Locate(targetOf(req.Values(substrate.TargetHeader)), req.Host, c.hostSuffix)
		if err != nil {
			return extproc.Name{Route: route}, err
		}
		return extproc.Name{Route: route, Actor: ref.String(), Port: req.Port()}, nil
	}
}

func (s *server) listenGRPC() error {
	s.health = health.NewServer() // serving for the empty name, which is the whole server
	s.health.Shutdown()           // until Resume
	front := grpc.NewServer(extproc.ServerOptions()...)
	s.front.Register(front)
	healthv1.RegisterHealthServer(front, s.health)
	if err := s.serveGRPC(front, "extproc-address", s.config.extproc); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.closeXDS = cancel
	config, err := envoy.NewServer(ctx, s.plan, func(node, kind, reason string) {
		s.log.Error("Envoy refuses its configuration", "node", node, "type", kind, "reason", reason)
	})
	if err != nil {
		return err
	}
	xds := grpc.NewServer(extproc.ServerOptions()...)
	config.Register(xds)
	return s.serveGRPC(xds, "xds-address", s.config.xds)
}

func (s *server) serveGRPC(g *grpc.Server, flag, addr string) error {
	l, err := listen(flag, addr)
	if err != nil {
		return err
	}
	s.grpcs = append(s.grpcs, g)
	s.listens = append(s.listens, fmt.Sprintf("%s on %s", strings.TrimSuffix(flag, "-address"), l.Addr()))
	go func() { s.failed <- g.Serve(l) }()
	return nil
}

func (s *server) listenHTTP() error {
	for _, at := range []struct {
		flag, addr string
		handler    http.Handler
	}{
		{"status-address", s.config.status, guard(s.admin)},
		{"metrics-address", s.config.metrics, onlyMetrics(s.admin)},
	} {
		if at.addr == "off" {
			continue
		}
		l, err := listen(at.flag, at.addr)
		if err != nil {
			return err
		}
		h := &http.Server{Handler: at.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
			ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
		s.https = append(s.https, h)
		s.listens = append(s.listens, fmt.Sprintf("%s on http://%s", strings.TrimSuffix(at.flag, "-address"), l.Addr()))
		go func() { s.failed <- h.Serve(l) }()
	}
	return nil
}

func (s *server) listenOwn() error {
	if unlessOff(s.config.listen) == "" {
		return nil
	}
	l, err := listen("listen", s.config.listen)
	if err != nil {
		return err
	}
	s.own = proxy.New(s.router, proxy.Options{Name: ownNamer(s.config), Trace: s.traces.Proxy, Log: s.log})
	s.admin.SetFront(func() (int, map[string]uint64) {
		seen := s.own.Stats()
		return seen.Connections, seen.Events
	})
	s.listens = append(s.listens, fmt.Sprintf("requests on http://%s", l.Addr()))
	go func() { s.failed <- s.own.Serve(l) }()
	return nil
}

// guard keeps profiles, which cost time and tell internals, from all but this
// machine and whoever forwards a port to it.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		from, err := netip.ParseAddrPort(req.RemoteAddr)
		if strings.HasPrefix(req.URL.Path, "/debug/") && (err != nil || !from.Addr().Unmap().IsLoopback()) {
			http.Error(w, "profiles are for requests from this machine only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, req)
	})
}

func onlyMetrics(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", next)
	return mux
}

func listen(flag, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("--%s: another program listens on %s: stop it, or choose another address", flag, addr)
	case err != nil:
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return l, nil
}

// where says what listens where.
func (s *server) where() []string {
	return append(append([]string(nil), s.listens...), fmt.Sprintf("pid %d", os.Getpid()))
}

// observe counts and logs a request that has its answer.
func (s *server) observe(rec router.Record) {
	s.admin.Observe(rec)
	s.outcomes(rec)
	ctx := context.Background()
	if !s.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	ledger := rec.Budget.Ledger()
	s.log.LogAttrs(ctx, slog.LevelDebug, "request", slog.String("id", rec.ID), slog.String("method", rec.Method), slog.String("host", sampled.Cut(rec.Host)),
		slog.String("path", sampled.Cut(rec.Path)), slog.String("actor", rec.Actor),
		slog.Int("status", rec.Status), slog.String("reason", string(rec.Reason)), slog.String("detail", rec.Detail), slog.String("wake", string(rec.Wake)),
		slog.Duration("parked", rec.ParkedFor), slog.Duration("took", rec.Took), slog.String("ledger", ledger.String()))
}

// run serves until told to stop. A listener that fails ends it, too.
func (s *server) run(stop <-chan os.Signal) error {
	select {
	case err := <-s.failed:
		return errors.Join(err, s.stop(stop))
	case got := <-stop:
		s.log.Info("stopping", "signal", got.String())
		return s.stop(stop)
	}
}

// ended is a context that is over.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// close ends everything at once.
func (s *server) close() {
	s.closeXDS()
	if s.own != nil {
		s.own.Shutdown(ended) // at once
	}
	for _, g := range s.grpcs {
		g.Stop()
	}
	for _, h := range s.https {
		h.Close()
	}
	if s.conn != nil {
		s.conn.Close()
	}
	s.traces.Close()
}
