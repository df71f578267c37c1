package main

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"layover/internal/cli"
	"layover/internal/router"
)

// label is what actors and pools may be called: a DNS label, so that
// {actor}.example.com can name it.
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// token is what a header may be called.
var token = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")

// check adds to r what is wrong with values that are readable each by itself,
// and to c.warnings what is allowed but probably not meant.
func (c *config) check(r *reader) {
	c.checkAddresses(r)
	c.checkTLS(r)
	peers := c.root.values["trusted_peers"]
	nobody := empty(peers) || peers.Kind == yaml.SequenceNode && len(peers.Content) == 0 // not: one that cannot be read
	for name, header := range map[string]string{"band_header": c.BandHeader, "actor_header": c.ActorHeader} {
		if header != "" && nobody {
			r.add(c.root.at(name), "%s is believed from trusted_peers only, and there are none; add them, or delete it", name)
		}
		if header != "" && !token.MatchString(header) {
			r.add(c.root.at(name), "%s %q is not a header's name; use letters, digits and dashes", name, header)
		}
	}
	if c.ActorHeader != "" && strings.EqualFold(c.ActorHeader, c.BandHeader) {
		r.add(c.root.at("actor_header"), "actor_header is also the band_header; use another")
	}
	for name, limit := range map[string]time.Duration{"header_timeout": c.HeaderTimeout, "idle_timeout": c.IdleTimeout} {
		if limit < time.Second {
			r.add(c.root.at(name), "%s %s is too short for a client that is far away; write at least 1s", name, cli.Short(limit))
		}
	}
	for _, p := range c.Pools {
		if !label.MatchString(p.Name) {
			r.add(p.fields.line, "pool %q needs another name; use up to 63 of a-z, 0-9 and inner dashes", p.Name)
		}
	}
	for _, a := range c.Actors {
		c.checkActor(r, a)
	}
	if len(c.Actors) == 0 && wellFormed(c.root.values["actors"]) {
		r.add(c.root.at("actors"), "there are no actors; add at least one with its command")
	}
	c.warnOfKept()
	c.checkRoutes(r)
	c.checkTemplates()
	c.checkReach()
	c.checkEnvoy(r)
	if len(r.list) == 0 {
		c.checkPlane(r)
	}
}

// warnOfKept warns of pools that have no worker but for actors that are kept
// awake.
func (c *config) warnOfKept() {
	for _, p := range c.Pools {
		kept, others := 0, ""
		for _, a := range c.Actors {
			switch {
			case a.Pool != p.Name:
			case a.KeepAwake.Always:
				kept++
			default:
				others = a.Name
			}
		}
		if most, when := c.mostKept(p.Name, time.Now()); kept <= p.Workers && most > p.Workers {
			c.warnings.add(p.fields.line, "pool %q has %s, but from %s on %d of its actors are to be kept awake at once, so some wait; add workers, or change the windows",
				p.Name, count(p.Workers, "worker"), when.Format("Mon 15:04 MST"), most)
		}
		if kept == p.Workers && others != "" {
			c.warnings.add(p.fields.line, "all workers of pool %q are for actors that are kept awake, so actor %q is never woken; add one", p.Name, others)
		}
	}
}

// mostKept returns how many actors of a pool are to be kept awake at once in
// the week from now on, at most, and from when.
func (c *config) mostKept(pool string, now time.Time) (most int, when time.Time) {
	type edge struct {
		at   time.Time
		more int
	}
	var edges []edge
	for _, a := range c.Actors {
		if a.Pool != pool {
			continue
		}
		was := false
		for at := now; !at.IsZero() && at.Before(now.AddDate(0, 0, 7)); {
			in, next := a.KeepAwake.At(at)
			switch {
			case in && !was:
				edges = append(edges, edge{at, +1})
			case was && !in:
				edges = append(edges, edge{at, -1})
			}
			was, at = in, next
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.more, b.more)) })
	n := 0
	for _, e := range edges {
		if n += e.more; n > most {
			most, when = n, e.at
		}
	}
	return most, when
}

var planeError = regexp.MustCompile(`^local: (pool|actor) "([^"]*)": (.*)$`)

// checkPlane asks the plane, too: what it would refuse is never found out by
// starting.
func (c *config) checkPlane(r *reader) {
	err := c.local().Validate()
	if err == nil {
		return
	}
	for text := range strings.Lines(err.Error()) {
		line := 0
		text = strings.TrimSuffix(text, "\n")
		if m := planeError.FindStringSubmatch(text); m != nil {
			line, text = c.lineOf(m[1], m[2]), m[1]+" \""+m[2]+"\": "+m[3]
		}
		r.add(line, "%s", text)
	}
}

func (c *config) lineOf(kind, name string) int {
	if p := c.pool(name); kind == "pool" && p != nil {
		return p.fields.line
	}
	for _, a := range c.Actors {
		if a.Name == name {
			return a.fields.line
		}
	}
	return 0
}

func (c *config) checkAddresses(r *reader) {
	seen := make(map[string]string)
	if c.Admin != "off" {
		line := c.root.at("admin")
		host, ok := checkAddress(r, line, "admin", c.Admin)
		if ok && !c.AdminPublic && !loopback(host) {
			r.add(line, "admin %q can be reached from other machines; use 127.0.0.1, or set 'admin_public: true' if a firewall keeps strangers out", c.Admin)
		}
		seen[c.Admin] = "admin"
	}
	if len(c.Listen) == 0 {
		r.add(c.root.at("listen"), "listen names no address; write one such as %s", defaultListen)
	}
	for _, addr := range c.Listen {
		line := c.root.at("listen")
		checkAddress(r, line, "listen", addr)
		if other := seen[addr]; other != "" && !strings.HasSuffix(addr, ":0") {
			r.add(line, "listen %q is already the address of %s; use another port", addr, other)
		}
		seen[addr] = "listen"
	}
}

func checkAddress(r *reader, line int, name, addr string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		r.add(line, "%s %q is not an address; write host:port, such as 127.0.0.1:8080, [::1]:8080 or :8080", name, addr)
		return "", false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		r.add(line, "%s %q has the port %q; write a number from 0 to 65535", name, addr, port)
		return "", false
	}
	if _, err := netip.ParseAddr(host); err != nil && strings.ContainsAny(host, ":/ ") {
		r.add(line, "%s %q has the host %q; write a name or an address", name, addr, host)
		return "", false
	}
	return host, true
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func (c *config) checkTLS(r *reader) {
	line := c.root.at("tls")
	switch {
	case c.TLS.Cert == "" && c.TLS.Key == "":
		if c.root.has("tls") && wellFormed(c.root.values["tls"]) {
			r.add(line, "tls names no files; add cert and key, or delete tls for clear text")
		}
	case c.TLS.Cert == "" || c.TLS.Key == "":
		r.add(line, "tls needs both cert and key; add the missing one")
	default:
		if _, err := tls.LoadX509KeyPair(c.TLS.Cert, c.TLS.Key); err != nil {
			r.add(line, "the certificate cannot be used: %v; give a PEM certificate (chain) and its key", err)
		}
	}
}

func (c *config) checkActor(r *reader, a actor) {
	f := a.fields
	template := strings.Contains(a.Name, "*")
	if !label.MatchString(strings.Replace(a.Name, "*", "x", 1)) {
		r.add(f.line, "actor %q needs another name; use up to 63 of a-z, 0-9 and inner dashes, and at most one *", a.Name)
	}
	c.checkPoolOf(r, a)
	if f.refused {
		return
	}
	if len(a.Command) == 0 || a.Command[0] == "" {
		r.add(f.at("command"), "actor %q has no command; add one that listens on the port in {port} or $PORT: command: [my-server, --port, \"{port}\"]", a.Name)
	} else {
		c.checkProgram(a)
	}
	c.checkPlaceholders(a)
	for _, text := range slices.Concat(a.Command, a.Env, []string{a.Cwd}) {
		if !template && strings.Contains(text, "{match}") {
			r.add(f.line, "{match} stands for what the * of the actor's name stands for, and %q has none; use {actor}", a.Name)
			break
		}
	}
	if a.Cwd != "" && !strings.Contains(a.Cwd, "{") {
		if info, err := os.Stat(a.Cwd); err != nil || !info.IsDir() {
			r.add(f.at("cwd"), "cwd %q is not a folder; create it or correct the path", a.Cwd)
		}
	}
	checkUser(r, a)
	if a.StartTimeout <= 0 {
		r.add(f.at("start_timeout"), "start_timeout of actor %q must be above 0; write how long its slowest good start takes", a.Name)
	}
	if f.has("max_waiting") && a.Limit.Concurrent == 0 {
		r.add(f.at("max_waiting"), "actor %q has max_waiting, but any number of requests may be with it; add max_concurrent, or delete max_waiting", a.Name)
	}
	if a.MaxHold > 0 && a.MinAwake > a.MaxHold {
		r.add(f.at("min_awake"), "min_awake %s of actor %q is longer than its max_hold %s; make it shorter", cli.Short(a.MinAwake), a.Name, cli.Short(a.MaxHold))
	}
}

func (c *config) checkPoolOf(r *reader, a actor) {
	if c.pool(a.Pool) != nil {
		return
	}
	names := make([]string, len(c.Pools))
	for i, p := range c.Pools {
		names[i] = p.Name
	}
	if a.Pool == "" {
		r.add(a.fields.line, "actor %q names no pool and there are several; add pool: one of %s", a.Name, strings.Join(names, ", "))
		return
	}
	r.add(a.fields.at("pool"), "actor %q is in pool %q, which is not under pools; %s", a.Name, a.Pool, cli.Suggest(a.Pool, names))
}

// checkProgram warns if the program cannot be found now; it may be installed
// later.
func (c *config) checkProgram(a actor) {
	program := a.Command[0]
	if strings.Contains(program, "{") {
		return
	}
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		program = filepath.Join(a.Cwd, program)
		if a.Cwd == "" {
			program = "./" + program
		}
	}
	_, err := exec.LookPath(program)
	switch words := strings.Fields(program); {
	case err == nil:
	case len(a.Command) == 1 && len(words) > 1:
		c.warnings.add(a.fields.at("command"), "actor %q: there is no program %q; write one item per argument: [%s]", a.Name, a.Command[0], strings.Join(words, ", "))
	default:
		c.warnings.add(a.fields.at("command"), "actor %q: the program %q cannot be run now; install it or correct the path", a.Name, a.Command[0])
	}
}

// placeholder is what looks as if it were to be replaced, and is no variable of
// a shell.
var placeholder = regexp.MustCompile(`(?:^|[^$])(\{[a-z_]+\})`)

// checkPlaceholders warns of placeholders that are not known, which the program
// gets as they are. In an argument with spaces, which may be a script, they are
// only looked for if they are nearly known.
func (c *config) checkPlaceholders(a actor) {
	find := func(setting, text string, known ...string) {
		for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
			fix := cli.Suggest(m[1], known)
			if slices.Contains(known, m[1]) || strings.ContainsAny(text, " \t\n") && !strings.HasPrefix(fix, "did you mean") {
				continue
			}
			c.warnings.add(a.fields.at(setting), "actor %q: %s in %s is not replaced by anything; %s", a.Name, m[1], setting, fix)
		}
	}
	for _, text := range a.Command {
		find("command", text, "{port}", "{actor}", "{match}") // {match} without a * is an error already
	}
	for _, text := range a.Env {
		find("env", text, "{port}", "{actor}", "{match}")
	}
	find("cwd", a.Cwd, "{actor}", "{match}")
}

func checkUser(r *reader, a actor) {
	if a.User == "" {
		return
	}
	line := a.fields.at("user")
	u, err := user.Lookup(a.User)
	if err != nil {
		u, err = user.LookupId(a.User)
	}
	switch {
	case err != nil:
		r.add(line, "user %q does not exist on this machine; create it or correct the name", a.User)
	case os.Geteuid() != 0 && u.Uid != strconv.Itoa(os.Geteuid()):
		r.add(line, "only root can start programs as user %q; run as root or delete user", a.User)
	}
}

func (c *config) checkRoutes(r *reader) {
	if n := c.root.values["routes"]; empty(n) || kind(n) == "a list" && len(n.Content) == 0 {
		r.add(c.root.at("routes"), "there are no routes, so no request reaches an actor; add one: - host: \"{actor}.localhost\"")
	}
	byName := make(map[string]int)
	for i, rt := range c.Routes {
		line := rt.fields.line
		if rt.Actor == "" && !strings.Contains(rt.Host, "{actor}") && rt.Value != "{actor}" {
			r.add(line, "%s names no actor; add actor, or put {actor} into host or value", rt.fields.what)
			continue
		}
		for name, every := range map[string]time.Duration{"interim": rt.Interim, "stream_idle": rt.StreamIdle} {
			if 0 < every && every < time.Second {
				r.add(rt.fields.at(name), "%s %s is too short; write at least 1s, or 0s for none", name, cli.Short(every))
			}
		}
		if rt.MaxBudget < rt.Budget {
			r.add(rt.fields.at("max_budget"), "max_budget %s is below the budget %s; raise it, or lower budget", cli.Short(rt.MaxBudget), cli.Short(rt.Budget))
			continue
		}
		if _, err := router.NewNames([]router.Route{rt.Route}); err != nil {
			_, text, _ := strings.Cut(err.Error(), ": route ")
			r.add(line, "route %s; correct it", text)
			continue
		}
		if rt.Actor != "" && len(c.actorsFor(rt)) == 0 {
			r.add(rt.fields.at("actor"), "the route leads to actor %q, which is not under actors; %s", rt.Actor, cli.Suggest(rt.Actor, c.actorNames()))
		}
		if hider, ok := c.hidden(i); ok {
			r.add(line, "%s is never reached: every request that matches it matches the one on line %d first; put it before that one", rt.fields.what, hider.fields.line)
		} else if first := byName[rt.Name]; first > 0 {
			r.add(rt.fields.at("name"), "the name %q is already that of the route on line %d; use another", rt.Name, first)
		}
		byName[rt.Name] = rt.fields.at("name")
		c.checkFallback(r, rt)
		c.checkUseful(r, rt)
		c.checkPage(r, rt)
	}
}

func (c *config) checkPage(r *reader, rt route) {
	after, line := rt.WaitingPage, rt.fields.at("waiting_page")
	switch {
	case after == 0:
	case rt.NoWake:
		r.add(line, "waiting_page is for requests that wake their actor, and wake is false; delete one of them")
	case after < minPage:
		r.add(line, "waiting_page %s is too short, each start would flash it; write at least %s, or 0s for none", cli.Short(after), cli.Short(minPage))
	case after >= rt.Budget:
		r.add(line, "waiting_page %s is not below the budget %s, so the page would never be shown; lower it, or raise budget", cli.Short(after), cli.Short(rt.Budget))
	case c.Envoy.on():
		c.warnings.add(line, "waiting_page is shown to what comes to listen; requests that Envoy asks about wait without it")
	}
}

func (c *config) checkFallback(r *reader, rt route) {
	f := rt.fields
	switch {
	case rt.Fallback == "":
		if f.has("fallback_after") {
			r.add(f.at("fallback_after"), "%s has fallback_after, but no fallback; add one, or delete it", f.what)
		}
	case !slices.ContainsFunc(c.Actors, func(a actor) bool { return a.matches(rt.Fallback) }):
		r.add(f.at("fallback"), "the fallback %q is not under actors; %s", rt.Fallback, cli.Suggest(rt.Fallback, c.actorNames()))
	case rt.NoWake:
		r.add(f.at("fallback"), "%s has wake: false, so its requests wait for nothing that a fallback could do instead; delete one of them", f.what)
	case rt.Fallback == rt.Actor:
		r.add(f.at("fallback"), "the fallback %q is the actor itself; name another, or delete it", rt.Fallback)
	case rt.FallbackAfter >= rt.Budget:
		r.add(f.at("fallback_after"), "fallback_after %s is not below the budget %s, so no time would be left for the fallback; make it shorter", cli.Short(rt.FallbackAfter), cli.Short(rt.Budget))
	}
}

// checkUseful refuses a route whose every request a pool would pass over.
func (c *config) checkUseful(r *reader, rt route) {
	for _, a := range c.actorsFor(rt) {
		p := c.pool(a.Pool)
		if p != nil && !rt.NoWake && p.MinUseful >= rt.Budget {
			r.add(p.fields.at("min_useful"), "min_useful %s of pool %q is not below the budget %s of the route on line %d, so its requests would always be passed over; lower one or raise the other", cli.Short(p.MinUseful), p.Name, cli.Short(rt.Budget), rt.fields.line)
			return
		}
	}
}

// hidden returns the earlier route that takes every request of route i.
func (c *config) hidden(i int) (route, bool) {
	for _, earlier := range c.Routes[:i] {
		if covers(earlier.Route, c.Routes[i].Route) {
			return earlier, true
		}
	}
	return route{}, false
}

// covers reports whether every request that matches b also matches a.
func covers(a, b router.Route) bool {
	return coversHost(router.NormalHost(a.Host), router.NormalHost(b.Host)) && coversPath(a.Path, b.Path) && coversHeader(a, b)
}

func coversHost(a, b string) bool {
	if a == "" || a == b {
		return true
	}
	prefix, suffix, pattern := strings.Cut(a, "{actor}")
	if !pattern || !strings.HasPrefix(b, prefix) || !strings.HasSuffix(b, suffix) {
		return false
	}
	if len(b) <= len(prefix)+len(suffix) {
		return false
	}
	return !strings.Contains(b[len(prefix):len(b)-len(suffix)], ".")
}

func coversPath(a, b string) bool {
	if a == "" || a == b || a == "/" && b != "" {
		return true
	}
	rest, ok := strings.CutPrefix(b, a)
	return ok && (strings.HasSuffix(a, "/") || strings.HasPrefix(rest, "/"))
}

func coversHeader(a, b router.Route) bool {
	if a.Header == "" {
		return true
	}
	return strings.EqualFold(a.Header, b.Header) && (a.Value == "" || a.Value == "{actor}" || a.Value == b.Value)
}

// checkTemplates warns of templates whose every name an earlier one takes.
func (c *config) checkTemplates() {
	for i, a := range c.Actors {
		before, after, ok := strings.Cut(a.Name, "*")
		for _, earlier := range c.Actors[:i] {
			prefix, suffix, template := strings.Cut(earlier.Name, "*")
			if ok && template && a.Name != earlier.Name && strings.HasPrefix(before, prefix) && strings.HasSuffix(after, suffix) {
				c.warnings.add(a.fields.line, "actor %q is never made: each name that matches it matches %q on line %d first; put it before that one",
					a.Name, earlier.Name, earlier.fields.line)
				break
			}
		}
	}
}

// checkReach warns of limits that are too long to be ever reached, and of
// actors that no request reaches.
func (c *config) checkReach() {
	longest := make(map[string]time.Duration)
	if c.ActorHeader != "" {
		for _, a := range c.Actors {
			longest[a.Name] = c.Direct.MaxBudget
		}
	}
	for _, rt := range c.Routes {
		if rt.NoWake {
			continue
		}
		for _, a := range c.Actors {
			if rt.Actor == "" || a.matches(rt.Actor) || a.matches(rt.Fallback) {
				longest[a.Name] = max(longest[a.Name], rt.MaxBudget)
			}
		}
		if c.DrainTimeout > 0 && c.DrainTimeout < rt.MaxBudget {
			c.warnings.add(c.root.at("drain_timeout"), "drain_timeout %s is below the max_budget %s of route %q: a stop may cut off its parked requests", cli.Short(c.DrainTimeout), cli.Short(rt.MaxBudget), rt.Name)
		}
	}
	for _, a := range c.Actors {
		most, reached := longest[a.Name]
		switch {
		case !reached:
			c.warnings.add(a.fields.line, "actor %q is not woken by any route", a.Name)
		case a.StartTimeout > most:
			c.warnings.add(a.fields.at("start_timeout"), "actor %q may start for %s, but no request waits longer than %s: a slow start is seen as still_waking, never as start_failed", a.Name, cli.Short(a.StartTimeout), cli.Short(most))
		}
	}
}

// actorsFor returns the actors that requests of the route can reach.
func (c *config) actorsFor(rt route) []actor {
	var all []actor
	for _, a := range c.Actors {
		if rt.Actor == "" || a.matches(rt.Actor) {
			all = append(all, a)
		}
	}
	return all
}

// matches reports whether name is the actor, or one of a template's.
func (a actor) matches(name string) bool {
	before, after, template := strings.Cut(a.Name, "*")
	if !template {
		return a.Name == name
	}
	return len(name) > len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}

func (c *config) actorNames() []string {
	names := make([]string, len(c.Actors))
	for i, a := range c.Actors {
		names[i] = a.Name
	}
	return names
}
