package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"

	"layover/internal/cli"
	"layover/internal/envoy"
	"layover/internal/extproc"
	"layover/parking"
)

// envoySettings are for an Envoy in front, which asks this program where its
// requests go.
type envoySettings struct {
	HTTP, HTTPS  string // where Envoy listens; both empty: there is no Envoy
	ExtProc, XDS string // where we listen for it
	Admin        string // Envoy's admin interface; "off": it has none

	StreamIdle, TunnelIdle time.Duration // 0: any time; unsaid: Envoy's usual one, or longer if a hold is
}

const unsaid = -1

func (e envoySettings) on() bool { return e.HTTP != "" || e.HTTPS != "" }

var envoyFields = []string{"http", "https", "ext_proc", "xds", "admin", "stream_idle", "tunnel_idle"}

func (c *config) readEnvoy(r *reader, f fields, given bool) {
	if !given || f.refused {
		return
	}
	d := envoy.DefaultPlan()
	c.envoyAt = f
	c.Envoy = envoySettings{
		HTTP: r.text(f, "http", ""), HTTPS: r.text(f, "https", ""),
		ExtProc: r.text(f, "ext_proc", d.Processor), XDS: r.text(f, "xds", d.XDS), Admin: r.text(f, "admin", d.Admin),
		StreamIdle: r.duration(f, "stream_idle", unsaid), TunnelIdle: r.duration(f, "tunnel_idle", unsaid),
	}
	if !c.Envoy.on() {
		r.add(f.line, "envoy does not say where Envoy listens; add http: 0.0.0.0:8000, or delete envoy")
	}
}

// envoyPlan is what Envoy is told.
func (c *config) envoyPlan() envoy.Plan {
	p := envoy.DefaultPlan()
	p.HTTP, p.HTTPS, p.Processor, p.XDS, p.Admin = c.Envoy.HTTP, c.Envoy.HTTPS, c.Envoy.ExtProc, c.Envoy.XDS, c.Envoy.Admin
	if p.HTTPS != "" {
		p.Certificate, p.Key = c.TLS.Cert, c.TLS.Key
	}
	if p.Admin == "off" {
		p.Admin = ""
	}
	p.Lot, p.Budget, p.RouteTimeout = c.Lot, 0, 0
	for _, rt := range c.Routes {
		p.Budget = max(p.Budget, rt.MaxBudget)
	}
	// A held request is silent: what ends silent streams must not be shorter.
	longest := p.MessageTimeout() + time.Minute
	p.StreamIdle, p.TunnelIdle = max(p.StreamIdle, longest), max(p.TunnelIdle, longest)
	if c.Envoy.StreamIdle != unsaid {
		p.StreamIdle = c.Envoy.StreamIdle
	}
	if c.Envoy.TunnelIdle != unsaid {
		p.TunnelIdle = c.Envoy.TunnelIdle
	}
	p.Trusted, p.OnlyTrusted = c.Trusted, true
	for _, name := range []string{c.BandHeader, c.ActorHeader} {
		if name != "" {
			p.Private = append(p.Private, name)
		}
	}
	p.WholeResponse = true // or actors would fall asleep in the midst of responses
	return p
}

// envoySetting is the setting that sets a field of the plan.
var envoySetting = map[string]string{"HTTP": "http", "HTTPS": "https", "Processor": "ext_proc", "XDS": "xds", "Admin": "admin",
	"StreamIdle": "stream_idle", "TunnelIdle": "tunnel_idle", "Budget": "max_budget of a route"}

func (c *config) checkEnvoy(r *reader) {
	if !c.Envoy.on() {
		return
	}
	if c.Lot == parking.Unlimited {
		r.add(c.root.at("lot"), "lot cannot be unlimited with envoy, which has a bound of its own; write a number")
		return
	}
	for _, rt := range c.Routes {
		if rt.Interim > 0 {
			r.add(rt.fields.at("interim"), "interim has no effect behind an Envoy, which cannot send interim answers; delete it, and give what is in front of Envoy an idle time above the max_budget %s, or delete envoy", cli.Short(rt.MaxBudget))
		}
		if rt.StreamIdle > 0 {
			r.add(rt.fields.at("stream_idle"), "stream_idle of a route has no effect behind an Envoy, which has one for all; delete it and set stream_idle and tunnel_idle under envoy, or delete envoy")
		}
	}
	for _, problem := range c.envoyPlan().Check() {
		line, name := c.envoyAt.at(envoySetting[problem.Field]), envoySetting[problem.Field]
		if name == "" {
			name = problem.Field
		}
		if problem.Fatal {
			r.add(line, "envoy: %s: %s", name, problem.Text)
		} else if problem.Field != "StreamIdle" { // there is no route timeout here
			c.warnings.add(line, "envoy: %s: %s", name, problem.Text)
		}
	}
}

func (c *config) printBootstrap(w io.Writer) error {
	if !c.Envoy.on() {
		return fmt.Errorf("%s has no envoy section, so there is nothing that an Envoy could be started with", c.file)
	}
	boot, err := c.envoyPlan().Bootstrap()
	if err != nil {
		return err
	}
	return envoy.Write(w, boot)
}

// envoyFront is the front for an Envoy.
type envoyFront struct {
	front    *extproc.Server
	settings *envoy.Server
	servers  []*grpc.Server
	end      context.CancelFunc // of the streams that settings has
}

// knock tries to connect to addr and hangs up.
func knock(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err == nil {
		conn.Close()
	}
	return err
}

// serveEnvoy begins to serve the Envoy that the configuration has, if any.
func (s *server) serveEnvoy() (err error) {
	if !s.config.Envoy.on() {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	o := extproc.Options{Log: s.log, Dial: knock}
	if s.traces != nil {
		o.Begin = s.traces.Envoy
	}
	e := &envoyFront{end: cancel, front: extproc.New(s.router, extproc.ByRoutes(s.router), o)}
	e.front.SetTrust(s.config.envoyTrust())
	s.envoy = e
	if e.settings, err = envoy.NewServer(ctx, s.config.envoyPlan(), func(_, kind, reason string) {
		s.log.Error("Envoy refuses its configuration", "type", kind, "reason", reason)
	}); err != nil {
		return err
	}
	for _, at := range []struct {
		setting, addr string
		register      func(grpc.ServiceRegistrar)
	}{
		{"envoy.ext_proc", s.config.Envoy.ExtProc, e.front.Register},
		{"envoy.xds", s.config.Envoy.XDS, e.settings.Register},
	} {
		var l net.Listener
		if l, err = listen(at.setting, at.addr); err != nil {
			return err
		}
		g := grpc.NewServer(extproc.ServerOptions()...)
		at.register(g)
		e.servers = append(e.servers, g)
		go func() { s.failed <- g.Serve(l) }() // ends with close
	}
	return nil
}

// envoyTrust says what trusted peers may ask for of Envoy.
func (c *config) envoyTrust() extproc.Trust {
	return extproc.Trust{BandHeader: c.BandHeader, ActorHeader: c.ActorHeader, Direct: c.Direct}
}

// sayEnvoy says where Envoy is to be found, and how one is started.
func (c *config) sayEnvoy() []string {
	at := c.Envoy.HTTP
	if c.Envoy.HTTPS != "" {
		at = strings.TrimPrefix(at+" and "+c.Envoy.HTTPS, " and ")
	}
	return []string{
		fmt.Sprintf("an Envoy that listens on %s asks at %s (ext_proc) and gets its configuration at %s (xDS)", at, c.Envoy.ExtProc, c.Envoy.XDS),
		fmt.Sprintf("start it with: layover check --bootstrap %s > envoy.yaml && envoy -c envoy.yaml", c.file),
	}
}

// shutdown returns when Envoy has no request any more that we know of, or with
// ctx's cause. It goes on to serve: who keeps new ones away is Envoy.
func (e *envoyFront) shutdown(ctx context.Context) error {
	if e == nil {
		return nil
	}
	defer e.close()
	if err := e.front.Wait(ctx); err != nil {
		return err
	}
	e.end() // or the streams of settings would not end
	done := make(chan struct{})
	go func() { // ends when the last response has ended, or close ends them all
		e.servers[0].GracefulStop()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (e *envoyFront) close() {
	if e == nil {
		return
	}
	e.end()
	for _, g := range e.servers {
		g.Stop()
	}
}
