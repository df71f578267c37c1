package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // zones of keep_awake, where the machine has none

	"go.yaml.in/yaml/v3"

	"layover/internal/cli"
	"layover/internal/local"
	"layover/internal/router"
	"layover/parking"
)

// maxConfigSize bounds what is read of a configuration file.
const maxConfigSize = 1 << 20

// config is a configuration file that was read. load returns only valid ones.
type config struct {
	file string
	sum  string // of the text it was read from, see digest; empty: from none
	root fields
	text []byte // of the file
	// restart names the settings that the file has otherwise than what is in force.
	restart []string

	Listen       []string
	Admin        string // "off": no admin address
	AdminPublic  bool
	TokenFile    string // empty: a token is made at each start
	TLS          tlsFiles
	State        string
	Lot          int // parking.Unlimited: no bound
	Linger       time.Duration
	DrainDelay   time.Duration
	DrainTimeout time.Duration
	Trusted      []netip.Prefix
	BandHeader   string
	ActorHeader  string
	Direct       router.Route // of requests whose actor ActorHeader names

	HeaderTimeout  time.Duration
	IdleTimeout    time.Duration
	MaxConnections int // 0: any number
	MaxStreams     int

	LogLevel  slog.Level
	LogFormat string
	AccessLog bool // a line per request at info

	Pools  []pool
	Actors []actor
	Routes []route
	Envoy  envoySettings

	envoyAt  fields // of Envoy
	warnings problems
}

// tlsFiles name a certificate and its key; both are empty for clear text.
type tlsFiles struct{ Cert, Key string }

// pool is a number of workers; an actor needs one of them to be awake.
type pool struct {
	fields fields

	Name      string
	Workers   int
	HeadStart time.Duration
	MinUseful time.Duration
}

// actor is a program that is started on demand.
type actor struct {
	fields fields

	Name     string
	Pool     string
	Command  []string
	Cwd      string
	Env      []string // KEY=VALUE
	User     string
	Protocol string
	Ready    string // readyConnect, readyNotify, readySocket, or the path of an HTTP probe

	StartTimeout, Grace, Idle, MinAwake, MaxHold, MaxDrain time.Duration

	Limit     router.Limit
	KeepAwake local.Schedule
}

const (
	readyConnect = "connect"
	readyNotify  = "notify"
	readySocket  = "socket"
)

type route struct {
	fields fields
	router.Route
}

// defaults are what pools, actors and routes have that do not say otherwise.
type defaults struct {
	fields            fields
	pool              string
	budget, maxBudget time.Duration
	actor             actor
}

// The settings of a file that does not mention them.
const (
	defaultListen        = "127.0.0.1:8080"
	defaultAdmin         = "127.0.0.1:7070"
	defaultPool          = "default"
	defaultWorkers       = 4
	defaultLot           = 1024
	defaultLinger        = 5 * time.Second
	defaultBudget        = 30 * time.Second
	defaultMaxBudget     = 5 * time.Minute
	defaultStartTimeout  = 30 * time.Second
	defaultGrace         = 10 * time.Second
	defaultIdle          = 5 * time.Minute
	defaultMaxDrain      = time.Minute
	defaultHeaderTimeout = 10 * time.Second
	defaultIdleTimeout   = 2 * time.Minute
	defaultMaxStreams    = 250
	minPage              = 100 * time.Millisecond
	waitingPerTurn       = 10 // max_waiting, for each of max_concurrent
)

var (
	topFields = []string{"listen", "admin", "admin_public", "admin_token_file", "tls", "state", "lot", "linger", "drain_delay",
		"drain_timeout", "defaults", "trusted_peers", "band_header", "actor_header",
		"header_timeout", "idle_timeout", "max_connections", "max_streams", "pools", "actors", "routes", "envoy", "log"}
	timeFields    = []string{"start_timeout", "grace", "idle", "min_awake", "max_hold", "max_drain"}
	defaultFields = slices.Concat([]string{"budget", "max_budget", "pool"}, timeFields)
	poolFields    = []string{"workers", "head_start", "min_useful"}
	actorFields   = slices.Concat([]string{"command", "cwd", "env", "user", "pool", "protocol", "ready", "max_concurrent", "max_waiting", "keep_awake"}, timeFields)
	windowFields  = []string{"days", "from", "to", "zone"}
	routeFields   = []string{"name", "host", "path", "header", "value", "actor", "wake", "fallback", "fallback_after", "band", "budget", "max_budget", "interim", "waiting_page", "stream_idle"}
)

// load reads and checks the file. The error is a *problems, or that of opening
// the file.
func load(file string) (*config, error) {
	data, err := readConfig(file)
	if err != nil {
		return nil, err
	}
	return parseConfig(file, data)
}

// readConfig returns the text of a file, or so much of it that parseConfig sees
// that it is too large.
func readConfig(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxConfigSize+1))
}

// readAgain is readConfig of a router that runs. What is no file, such as a pipe,
// is not waited for: that can last for ever, and a stop would wait with it.
func readAgain(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a pipe just now
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file and cannot be read again; put one in its place", file)
	}
	return io.ReadAll(io.LimitReader(f, maxConfigSize+1))
}

// digest tells one text of a file, or one reason why it cannot be read, from
// another.
func digest(data []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// parseConfig reads and checks the text of a file. What it says about the
// machine (folders, users, certificates) is checked too. The error is a
// *problems with everything that is wrong.
func parseConfig(file string, data []byte) (*config, error) {
	c := &config{file: file, text: data, sum: digest(data, nil), warnings: problems{file: file}}
	r := &reader{problems: problems{file: file}}
	if len(data) > maxConfigSize {
		r.add(0, "the file is larger than %d bytes; split the routers that it describes", maxConfigSize)
		return nil, &r.problems
	}
	root := r.parse(data)
	if root == nil && len(r.list) == 0 {
		r.add(0, "the file is empty; begin with the output of 'layover check --example'")
	}
	if root != nil {
		c.read(r, r.fields(root, "the file", topFields...))
	}
	if root != nil && root.Kind == yaml.MappingNode {
		c.check(r)
	}
	if len(r.list) > 0 {
		return nil, &r.problems
	}
	return c, nil
}

func (c *config) read(r *reader, f fields) {
	c.root = f
	c.Listen = []string{defaultListen}
	if f.has("listen") {
		c.Listen = r.texts(f, "listen")
	}
	c.Admin = r.text(f, "admin", defaultAdmin)
	c.AdminPublic = r.boolean(f, "admin_public")
	c.TokenFile = r.text(f, "admin_token_file", "")
	tls := r.fields(f.values["tls"], "tls", "cert", "key")
	c.TLS = tlsFiles{Cert: r.text(tls, "cert", ""), Key: r.text(tls, "key", "")}
	c.State = r.text(f, "state", "")
	if !f.has("state") {
		c.State = defaultState(c.file)
		if c.State == "" {
			r.add(0, "there is no folder for state: set state to a folder that only this user can write")
		}
	}
	c.Lot = parking.Unlimited
	if r.text(f, "lot", "") != "unlimited" {
		c.Lot = r.integer(f, "lot", 0, 1<<30, defaultLot)
	}
	c.Linger = r.duration(f, "linger", defaultLinger)
	c.DrainDelay = r.duration(f, "drain_delay", 0)
	c.DrainTimeout = r.duration(f, "drain_timeout", 0)
	c.Trusted = r.prefixes(f, "trusted_peers")
	c.BandHeader = r.text(f, "band_header", "")
	c.ActorHeader = r.text(f, "actor_header", "")
	c.HeaderTimeout = r.duration(f, "header_timeout", defaultHeaderTimeout)
	c.IdleTimeout = r.duration(f, "idle_timeout", defaultIdleTimeout)
	c.MaxConnections = r.integer(f, "max_connections", 0, 1<<30, 0)
	c.MaxStreams = r.integer(f, "max_streams", 1, 4000, defaultMaxStreams)
	c.readEnvoy(r, r.fields(f.values["envoy"], "envoy", envoyFields...), f.has("envoy"))
	c.readLog(r, r.fields(f.values["log"], "log", "level", "format", "access"))

	d := c.readDefaults(r, r.fields(f.values["defaults"], "defaults", defaultFields...))
	c.Direct = router.Route{Name: "actor_header", Budget: d.budget, MaxBudget: max(d.maxBudget, d.budget)}
	c.readPools(r, f)
	for _, e := range r.entries(f.values["actors"], "actors") {
		c.Actors = append(c.Actors, c.readActor(r, e, d))
	}
	for i, n := range r.items(f, "routes") {
		if f := r.fields(n, fmt.Sprintf("route %d", i+1), routeFields...); !f.refused {
			c.Routes = append(c.Routes, readRoute(r, f, d))
		}
	}
}

// defaultState returns a folder that belongs to this file, so that routers with
// different files do not meet, and one that is started again finds what the
// last one left; empty if this user has no place for it. Never one in a folder
// that is shared, where a stranger could have made it first.
func defaultState(file string) string {
	base := stateBase(userID())
	if base == "" {
		return ""
	}
	if absolute, err := filepath.Abs(file); err == nil {
		file = absolute
	}
	name := fmt.Sprintf("%s-%x", strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), sha256.Sum256([]byte(file)))
	return filepath.Join(base, name[:len(name)-56]) // 8 digits tell files of one name apart
}

var userID = os.Getuid // a test is somebody else

func stateBase(uid int) string {
	given, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":") // of a service manager, already the program's own
	xdg := os.Getenv("XDG_STATE_HOME")
	home := os.Getenv("HOME")
	switch {
	case filepath.IsAbs(given):
		return given
	case filepath.IsAbs(xdg):
		return filepath.Join(xdg, "layover")
	case filepath.IsAbs(home):
		return filepath.Join(home, ".local", "state", "layover")
	case uid == 0:
		return "/var/lib/layover"
	}
	return ""
}

func (c *config) readLog(r *reader, f fields) {
	level := r.choice(f, "level", "info", "debug", "info", "warn", "error")
	if err := c.LogLevel.UnmarshalText([]byte(level)); err != nil {
		r.add(f.at("level"), "level: %v", err)
	}
	c.AccessLog = r.boolean(f, "access")
	c.LogFormat = r.choice(f, "format", cli.FormatText, cli.FormatText, cli.FormatJSON)
}

func (c *config) readDefaults(r *reader, f fields) defaults {
	d := defaults{fields: f, pool: r.text(f, "pool", "")}
	d.actor = actor{StartTimeout: defaultStartTimeout, Grace: defaultGrace, Idle: defaultIdle, MaxDrain: defaultMaxDrain}
	d.actor.readTimes(r, f)
	d.budget = r.duration(f, "budget", defaultBudget)
	d.maxBudget = r.duration(f, "max_budget", max(defaultMaxBudget, d.budget))
	return d
}

func (c *config) readPools(r *reader, f fields) {
	for _, e := range r.entries(f.values["pools"], "pools") {
		if e.value.Kind == yaml.ScalarNode && isNumber(e.value.Value) {
			r.add(e.line, "pool %q is a number; write %[1]s: {workers: %s}", e.key, e.value.Value)
			e.value = nil
		}
		p := pool{Name: e.key, fields: r.fields(e.value, fmt.Sprintf("pool %q", e.key), poolFields...)}
		p.fields.line = e.line
		if !p.fields.has("workers") && !p.fields.refused && e.value != nil {
			r.add(e.line, "pool %q has no workers; add 'workers: 4', the number of its actors that may be awake at once", e.key)
		}
		p.Workers = r.integer(p.fields, "workers", 1, 100_000, 1)
		p.HeadStart = r.duration(p.fields, "head_start", 0)
		p.MinUseful = r.duration(p.fields, "min_useful", 0)
		c.Pools = append(c.Pools, p)
	}
	if len(c.Pools) == 0 {
		c.Pools = []pool{{Name: defaultPool, Workers: defaultWorkers, fields: fields{line: f.at("pools")}}}
	}
}

func (c *config) readActor(r *reader, e entry, d defaults) actor {
	f := r.fields(e.value, fmt.Sprintf("actor %q", e.key), actorFields...)
	f.line = e.line
	a := d.actor
	a.Name, a.fields = e.key, f
	a.Pool = r.text(f, "pool", d.pool)
	if a.Pool == "" {
		a.Pool = c.onlyPool()
	}
	if n := f.values["command"]; n != nil && !empty(n) && len(n.Content) == 0 && strings.ContainsAny(n.Value, " \t") {
		r.add(n.Line, "command is one text; write a list, one item per argument: [%s]", strings.Join(strings.Fields(n.Value), ", "))
		a.Command = strings.Fields(n.Value)
	} else {
		a.Command = r.texts(f, "command")
	}
	a.Cwd = r.text(f, "cwd", "")
	a.User = r.text(f, "user", "")
	a.Protocol = r.choice(f, "protocol", router.ProtocolH1, router.ProtocolH1, router.ProtocolH2C)
	a.Ready = r.text(f, "ready", readyConnect)
	if known := []string{readyConnect, readyNotify, readySocket}; !strings.HasPrefix(a.Ready, "/") && !slices.Contains(known, a.Ready) {
		r.add(f.at("ready"), "ready %q is not known; write connect, notify, socket, or the path of a health page such as /healthz", a.Ready)
	}
	for _, v := range r.entries(f.values["env"], "env") {
		if value, ok := r.scalar(v.value, "env "+v.key); ok {
			a.Env = append(a.Env, v.key+"="+value)
		}
		if v.key == "" || strings.ContainsAny(v.key, "=\x00") {
			r.add(v.line, "env has a variable called %q; write a name without '='", v.key)
		}
	}
	a.readTimes(r, f)
	a.KeepAwake = r.schedule(f, "keep_awake")
	a.Limit.Concurrent = r.integer(f, "max_concurrent", 0, 100_000, 0)
	a.Limit.Waiting = r.integer(f, "max_waiting", 0, 1_000_000, waitingPerTurn*a.Limit.Concurrent)
	return a
}

func (a *actor) readTimes(r *reader, f fields) {
	a.StartTimeout = r.duration(f, "start_timeout", a.StartTimeout)
	a.Grace = r.duration(f, "grace", a.Grace)
	a.Idle = r.duration(f, "idle", a.Idle)
	a.MinAwake = r.duration(f, "min_awake", a.MinAwake)
	a.MaxHold = r.duration(f, "max_hold", a.MaxHold)
	a.MaxDrain = r.duration(f, "max_drain", a.MaxDrain)
}

// schedule reads true, false, a window or a list of windows.
func (r *reader) schedule(f fields, name string) (s local.Schedule) {
	n := f.values[name]
	if empty(n) {
		return s
	}
	if n.Kind == yaml.ScalarNode {
		text, ok := r.scalar(n, name)
		if ok && text != "true" && text != "false" {
			r.add(n.Line, "%s %q is neither true nor false; write one of them, or windows such as [{days: mon-fri, from: 08:00, to: 18:30}]", name, text)
		}
		return local.Schedule{Always: text == "true"}
	}
	windows := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		windows = r.items(f, name)
		if len(windows) == 0 {
			r.add(n.Line, "%s has no windows; write false, or one such as {days: mon-fri, from: 08:00, to: 18:30}", name)
		}
	}
	for _, w := range windows {
		if window, ok := r.window(w, name); ok {
			s.Windows = append(s.Windows, window)
		}
	}
	return s
}

func (r *reader) window(n *yaml.Node, name string) (w local.Window, ok bool) {
	if n.Kind != yaml.MappingNode {
		r.add(n.Line, "an item of %s is %s; write a window such as {days: mon-fri, from: 08:00, to: 18:30}", name, kind(n))
		return w, false
	}
	before := len(r.list)
	f := r.fields(n, "a window of "+name, windowFields...)
	for _, must := range []string{"from", "to"} {
		if !f.has(must) {
			r.add(n.Line, "a window of %s has no %s; add one such as %s: 08:00", name, must, must)
		}
	}
	w.From, w.To = r.clock(f, "from"), r.clock(f, "to")
	if days := r.texts(f, "days"); f.has("days") {
		var err error
		if w.Days, err = local.ParseDays(strings.Join(days, ",")); err != nil {
			r.add(f.at("days"), "days: %v", err)
		}
	}
	if zone := r.text(f, "zone", ""); f.has("zone") {
		var err error
		if w.Zone, err = time.LoadLocation(zone); err != nil || zone == "" {
			r.add(f.at("zone"), "zone %q is not known; write one such as Europe/Lisbon or UTC, or delete it for this machine's", zone)
		}
	}
	if len(r.list) == before && w.From == w.To {
		r.add(f.at("to"), "a window from %s to the same time is no time; for all day write from: 00:00 and to: 24:00", r.text(f, "to", ""))
	}
	if w.From == 24*60 {
		r.add(f.at("from"), "a window cannot begin at 24:00; write from: 00:00, and the next day")
	}
	return w, len(r.list) == before
}

func (r *reader) clock(f fields, name string) int {
	text := r.text(f, name, "")
	if text == "" {
		return 0
	}
	minutes, err := local.ParseClock(text)
	if err != nil {
		r.add(f.at(name), "%s %q %v", name, text, err)
	}
	return minutes
}

// onlyPool returns the pool of an actor that names none: the only one, or the
// one called default.
func (c *config) onlyPool() string {
	if len(c.Pools) == 1 {
		return c.Pools[0].Name
	}
	if c.pool(defaultPool) != nil {
		return defaultPool
	}
	return ""
}

func (c *config) pool(name string) *pool {
	for i := range c.Pools {
		if c.Pools[i].Name == name {
			return &c.Pools[i]
		}
	}
	return nil
}

func readRoute(r *reader, f fields, d defaults) route {
	rt := route{fields: f}
	rt.Host = r.text(f, "host", "")
	rt.Path = r.text(f, "path", "")
	rt.Header = r.text(f, "header", "")
	rt.Value = r.text(f, "value", "")
	rt.Actor = r.text(f, "actor", "")
	rt.Name = r.text(f, "name", "")
	if rt.Name == "" {
		rt.Name = describe(rt)
	}
	rt.NoWake = f.has("wake") && !r.boolean(f, "wake")
	rt.Fallback = r.text(f, "fallback", "")
	rt.FallbackAfter = r.duration(f, "fallback_after", 0)
	rt.Band = r.integer(f, "band", 0, 99, 0)
	rt.Budget = r.duration(f, "budget", d.budget)
	most := d.maxBudget
	if !d.fields.has("max_budget") {
		most = max(most, rt.Budget)
	}
	rt.MaxBudget = r.duration(f, "max_budget", most)
	rt.Interim = r.duration(f, "interim", 0)
	rt.WaitingPage = r.duration(f, "waiting_page", 0)
	rt.StreamIdle = r.duration(f, "stream_idle", 0)
	return rt
}

// describe returns the conditions of a route, which name it if nothing else
// does: in metrics, log and pages, so it has no secrets.
func describe(r route) string {
	s := r.Host + r.Path
	if r.Header != "" {
		s += "[" + r.Header
		switch {
		case r.Value != "" && r.Value != "{actor}" && secret.MatchString(r.Header):
			s += ": " + cli.Hidden + ", " + r.fields.what // which of them
		case r.Value != "":
			s += ": " + r.Value
		}
		s += "]"
	}
	if s == "" {
		return "everything"
	}
	return s
}

func (r *reader) texts(f fields, name string) []string {
	var all []string
	for _, n := range r.items(f, name) {
		if text, ok := r.scalar(n, "an item of "+name); ok {
			all = append(all, text)
		}
	}
	return all
}

// prefixes reads networks; a plain address is the network of that address.
func (r *reader) prefixes(f fields, name string) []netip.Prefix {
	var all []netip.Prefix
	for _, n := range r.items(f, name) {
		text, ok := r.scalar(n, "an item of "+name)
		if !ok {
			continue
		}
		if addr, err := netip.ParseAddr(text); err == nil {
			all = append(all, netip.PrefixFrom(addr.WithZone(""), addr.BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			r.add(n.Line, "%s has %q; write a network such as 10.0.0.0/8, or an address", name, text)
			continue
		}
		all = append(all, prefix.Masked())
	}
	return all
}
