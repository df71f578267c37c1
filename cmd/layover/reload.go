package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"layover/internal/cli"
	"layover/internal/proxy"
	"layover/internal/router"
)

// reload reads the file again and puts what changed into force. What is wrong
// with it is logged and shown by admin, and then the configuration in force
// stays.
func (s *server) reload() {
	s.tell(stateReloading())
	defer s.tell(stateReady)
	data, err := readAgain(s.config.file)
	s.setTried(digest(data, err))
	var next *config
	if err == nil {
		next, err = parseConfig(s.config.file, data)
	}
	if err == nil {
		err = s.apply(next)
	}
	if err == nil {
		s.admin.Reloaded(s.config.sum, nil)
		return
	}
	if wrong, ok := errors.AsType[*problems](err); ok {
		lines := wrong.lines("")
		for _, line := range lines {
			s.log.Error("reload: " + line)
		}
		s.log.Error("reload: the configuration in force stays", "problems", len(lines))
		s.admin.Reloaded(s.config.sum, lines)
		return
	}
	text := fmt.Sprintf("%.200s", cli.Plain(err.Error()))
	s.log.Error("reload: the configuration in force stays", "err", text)
	s.admin.Reloaded(s.config.sum, []string{text})
}

func (s *server) lastTried() string        { return s.tried.Load().(string) }
func (s *server) setTried(digested string) { s.tried.Store(digested) }

// reloadIfNew is reload, unless the last one already tried what is in the file.
func (s *server) reloadIfNew() {
	if digest(readAgain(s.config.file)) != s.lastTried() {
		s.log.Info("reload: the file changed", "file", s.config.file)
		s.reload()
	}
}

// apply changes over to next. Whatever can fail comes before whatever has an
// effect.
func (s *server) apply(next *config) error {
	next.restart = next.keep(s.config)
	for _, setting := range next.restart {
		s.log.Warn("reload: this setting changes only with a restart", "setting", setting)
	}
	if err := next.recheck(); err != nil {
		return err
	}
	for _, line := range next.warnings.lines("warning: ") {
		s.log.Warn("reload: " + line)
	}
	names, err := router.NewNames(next.routes())
	if err != nil {
		return err
	}
	changes, err := s.plane.Apply(next.local())
	if err != nil {
		return err
	}
	s.router.SetNames(names)
	s.router.SetLimits(next.limits())
	s.lot.Resize(next.Lot)
	s.proxy.SetTrust(next.trust())
	if s.envoy != nil {
		s.envoy.front.SetTrust(next.envoyTrust())
		if err := s.envoy.settings.Set(next.envoyPlan()); err != nil {
			s.log.Error("reload: Envoy keeps what it has", "err", err)
		}
	}
	s.level.Set(next.LogLevel)
	s.access.Store(next.AccessLog)
	if s.cert != nil {
		if err := s.cert.use(next.TLS); err != nil {
			s.log.Error("reload: the last certificate stays", "err", err)
		}
	}
	changes = append(changes, s.config.changes(next)...)
	s.config = next
	s.showConfig(next)
	for _, change := range changes {
		s.log.Info("reload: " + change)
	}
	s.log.Info("reload: done", "changes", len(changes))
	return nil
}

// trust says whose headers the proxy believes.
func (c *config) trust() proxy.Trust {
	return proxy.Trust{Peers: c.Trusted, BandHeader: c.BandHeader, ActorHeader: c.ActorHeader, Direct: c.Direct}
}

// keep takes over from the configuration in force what cannot change while it
// runs, and returns the names of the settings that next has otherwise.
func (next *config) keep(now *config) (restart []string) {
	keep(&restart, "listen", &next.Listen, now.Listen)
	keep(&restart, "admin", &next.Admin, now.Admin)
	keep(&restart, "admin_token_file", &next.TokenFile, now.TokenFile)
	keep(&restart, "admin_public", &next.AdminPublic, now.AdminPublic)
	keep(&restart, "state", &next.State, now.State)
	keep(&restart, "linger", &next.Linger, now.Linger)
	keep(&restart, "header_timeout", &next.HeaderTimeout, now.HeaderTimeout)
	keep(&restart, "idle_timeout", &next.IdleTimeout, now.IdleTimeout)
	keep(&restart, "max_connections", &next.MaxConnections, now.MaxConnections)
	keep(&restart, "max_streams", &next.MaxStreams, now.MaxStreams)
	keep(&restart, "envoy", &next.Envoy, now.Envoy)
	keep(&restart, "log format", &next.LogFormat, now.LogFormat)
	if (next.TLS == tlsFiles{}) != (now.TLS == tlsFiles{}) {
		keep(&restart, "tls", &next.TLS, now.TLS)
	}
	for i := range next.Pools {
		p := &next.Pools[i]
		if was := now.pool(p.Name); was != nil {
			keep(&restart, "head_start of pool "+p.Name, &p.HeadStart, was.HeadStart)
			keep(&restart, "min_useful of pool "+p.Name, &p.MinUseful, was.MinUseful)
		}
	}
	return restart
}

// recheck checks again after keep: what was kept may not go with what is new.
// The error is a *problems, of which the file itself may show no trace.
func (c *config) recheck() error {
	r := &reader{problems: problems{file: c.file}}
	c.warnings.list = nil // check finds them again
	c.check(r)
	if len(r.list) > 0 {
		return &r.problems
	}
	return nil
}

func keep[T any](restart *[]string, name string, next *T, now T) {
	if !reflect.DeepEqual(*next, now) {
		*restart = append(*restart, name)
		*next = now
	}
}

// changes says what next has otherwise, but for actors and pools, which the
// plane compares.
func (c *config) changes(next *config) (changes []string) {
	note := func(format string, args ...any) { changes = append(changes, fmt.Sprintf(format, args...)) }
	if c.Lot != next.Lot {
		note("lot is %s, before %s", lotSize(next.Lot), lotSize(c.Lot))
	}
	if !slices.Equal(c.Trusted, next.Trusted) || c.BandHeader != next.BandHeader || c.ActorHeader != next.ActorHeader {
		note("trusted_peers, band_header or actor_header changed")
	}
	if c.LogLevel != next.LogLevel {
		note("log level is %s, before %s", next.LogLevel, c.LogLevel)
	}
	if c.AccessLog != next.AccessLog {
		note("access log is %s", map[bool]string{true: "on", false: "off"}[next.AccessLog])
	}
	if c.TLS != next.TLS {
		note("tls files changed")
	}
	if c.DrainDelay != next.DrainDelay || c.DrainTimeout != next.DrainTimeout {
		note("drain times changed")
	}
	limits := make(map[string]router.Limit)
	for _, a := range c.Actors {
		limits[a.Name] = a.Limit
	}
	for _, a := range next.Actors {
		if was, had := limits[a.Name]; had && was != a.Limit {
			note("actor %q may have %d requests at once and %d in line (0 at once: any number), before %d and %d",
				a.Name, a.Limit.Concurrent, a.Limit.Waiting, was.Concurrent, was.Waiting)
		}
	}
	before := make(map[string]router.Route)
	for _, rt := range c.Routes {
		before[rt.Name] = rt.Route
	}
	for _, rt := range next.Routes {
		was, had := before[rt.Name]
		delete(before, rt.Name)
		switch {
		case !had:
			note("route %q added", rt.Name)
		case was != rt.Route:
			note("route %q changed", rt.Name)
		}
	}
	for _, rt := range c.Routes {
		if _, gone := before[rt.Name]; gone {
			note("route %q removed", rt.Name)
		}
	}
	if len(changes) == 0 && !slices.Equal(c.routes(), next.routes()) {
		note("the order of the routes changed")
	}
	return changes
}
