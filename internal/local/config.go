package local

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"layover/internal/router"
)

// Config says which actors there are and how many workers they share.
type Config struct {
	// State is the folder in which the plane remembers what it runs, so that
	// the next one can end what a killed one left. Only one plane at a time has
	// a folder. Default: a private temporary folder, and then nothing is found
	// by the next plane.
	State  string
	Pools  []Pool
	Actors []Actor
}

// Pool is a number of workers. An actor holds one of them from the moment it
// begins to start until its exit is confirmed.
type Pool struct {
	Name    string
	Workers int // at least 1
	// HeadStart and MinUseful are those of [turnstile.Options]. They cannot be
	// changed while the plane runs.
	HeadStart, MinUseful time.Duration
}

// Actor is a program that sleeps until a request wants it.
type Actor struct {
	// Name is a DNS label, or a template: a DNS label with one '*', which stands
	// for at least one character. Each name that matches a template is an actor
	// of its own. An actor's own entry goes before templates, and of several
	// templates the first that matches.
	Name string
	Pool string

	// Command is the program and its arguments. In it, {port} is the port to
	// listen at on 127.0.0.1, {actor} the actor's name, and {match} what '*'
	// stood for; the last two also in Dir. The same goes for Env, which is added
	// to the router's own environment; PORT is always set.
	Command []string
	Dir     string   // default: the router's
	Env     []string // KEY=VALUE
	User    string   // name or number of the user to run as; needs root. Default: the router's

	Protocol string // router.ProtocolH1 or router.ProtocolH2C. Default: router.ProtocolH1
	Ready    Ready

	StartTimeout time.Duration // until ready, or the start has failed. Default: one minute
	Grace        time.Duration // from TERM to KILL. Default: 10 seconds
	Idle         time.Duration // without a request until it sleeps. Default: it never sleeps for idleness alone
	MinAwake     time.Duration // before which it is not put to sleep for being idle. Default: 0
	MaxHold      time.Duration // awake for so long, it is put to sleep although busy when a wake-up waits for a worker. Default: never
	MaxDrain     time.Duration // requests that are with it when it is put to sleep have so long; then it is stopped under them. Default: for ever

	// KeepAwake is when the plane itself starts it, at once and after it exits,
	// and does not put it to sleep for being idle or for others. Not for
	// templates. Default: never.
	KeepAwake Schedule
}

// Ready says how an actor shows that it can serve.
type Ready struct {
	// Kind is one of
	//   - ReadyConnect (default): it accepts a connection;
	//   - ReadyHTTP: it accepts one and answers GET Path with a status below 400;
	//   - ReadyNotify: it sends READY=1 to NOTIFY_SOCKET, then accepts one;
	//   - ReadySocket: it is given a listening socket (LISTEN_FDS=1: file
	//     descriptor 3) and takes the first connection from it.
	// The first two are found out by trying, so up to a 64th of the time that
	// the start took is lost, but at least 1 ms and at most 25 ms.
	Kind string
	Path string // of ReadyHTTP. Default: "/"
}

// The kinds of Ready.
const (
	ReadyConnect = "connect"
	ReadyHTTP    = "http"
	ReadyNotify  = "notify"
	ReadySocket  = "socket"
)

const (
	defaultStartTimeout = time.Minute
	defaultGrace        = 10 * time.Second
	longestLabel        = 63
)

// Validate returns everything that is wrong with c, each error with the pool
// or actor it is about and what to do, or nil. It asks nothing of the machine.
func (c Config) Validate() error {
	var errs []error
	if len(c.Pools) == 0 {
		errs = append(errs, errors.New("local: there is no pool: add one with at least 1 worker"))
	}
	pools := make(map[string]bool)
	for _, pool := range c.Pools {
		bad := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("local: pool %q: %w", pool.Name, fmt.Errorf(format, args...)))
		}
		if pool.Name == "" {
			bad("has no name: give it one")
		}
		if pools[pool.Name] {
			bad("is there twice: rename or remove one")
		}
		pools[pool.Name] = true
		if pool.Workers < 1 {
			bad("has %d workers: it needs at least 1", pool.Workers)
		}
		if pool.HeadStart < 0 || pool.MinUseful < 0 {
			bad("has a negative head start or least useful time: use 0 to turn it off")
		}
	}
	actors := make(map[string]bool)
	for _, actor := range c.Actors {
		for _, err := range actor.problems() {
			errs = append(errs, fmt.Errorf("local: actor %q: %w", actor.Name, err))
		}
		if actors[actor.Name] {
			errs = append(errs, fmt.Errorf("local: actor %q: is there twice: rename or remove one", actor.Name))
		}
		actors[actor.Name] = true
		if !pools[actor.Pool] {
			errs = append(errs, fmt.Errorf("local: actor %q: there is no pool %q: use one of %s",
				actor.Name, actor.Pool, quoted(slices.Sorted(maps.Keys(pools)))))
		}
	}
	return errors.Join(append(errs, c.keptProblems()...)...)
}

func (a Actor) problems() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch label := strings.Replace(a.Name, "*", "x", 1); {
	case strings.Contains(label, "*"):
		bad("the name has more than one '*': keep one")
	case !isLabel(label):
		bad("the name is not a DNS label: use at most %d of a-z, 0-9 and '-', not '-' at either end", longestLabel)
	}
	if len(a.Command) == 0 || a.Command[0] == "" {
		bad("has no command: name the program to run")
	}
	if !strings.Contains(a.Name, "*") && uses(a, "{match}") {
		bad("uses {match}, but the name has no '*': put one into the name or use {actor}")
	}
	for _, kv := range a.Env {
		key, _, ok := strings.Cut(kv, "=")
		switch {
		case !ok || key == "":
			bad("environment entry %q is not KEY=VALUE", kv)
		case strings.HasPrefix(key, markerKey) || key == "PORT" || key == "NOTIFY_SOCKET" || strings.HasPrefix(key, "LISTEN_"):
			bad("sets %s, which the router sets itself: remove it", key)
		}
	}
	for _, text := range slices.Concat(a.Command, a.Env, []string{a.Dir}) {
		if strings.ContainsRune(text, 0) {
			bad("has a zero byte in %q: remove it", text)
		}
	}
	if p := a.protocol(); p != router.ProtocolH1 && p != router.ProtocolH2C {
		bad("protocol %q is not known: use %q or %q", p, router.ProtocolH1, router.ProtocolH2C)
	}
	switch kind := a.Ready.kind(); {
	case !slices.Contains([]string{ReadyConnect, ReadyHTTP, ReadyNotify, ReadySocket}, kind):
		bad("readiness %q is not known: use one of %q, %q, %q, %q", kind, ReadyConnect, ReadyHTTP, ReadyNotify, ReadySocket)
	case a.Ready.Path != "" && kind != ReadyHTTP:
		bad("has a readiness path, but readiness is %q: use %q or remove the path", kind, ReadyHTTP)
	case a.Ready.Path != "" && !strings.HasPrefix(a.Ready.Path, "/"):
		bad("readiness path %q must begin with a slash", a.Ready.Path)
	}
	for _, d := range []time.Duration{a.StartTimeout, a.Grace, a.Idle, a.MinAwake, a.MaxHold, a.MaxDrain} {
		if d < 0 {
			bad("has a negative duration %v: use 0 for its default", d)
		}
	}
	errs = append(errs, a.KeepAwake.problems()...)
	if !a.KeepAwake.never() && strings.Contains(a.Name, "*") {
		bad("is a template, which has no actor to keep awake: give that one an entry of its own")
	}
	if a.KeepAwake.Always && a.MaxHold > 0 {
		bad("is kept awake, but max_hold %v would put it to sleep: remove one of them", a.MaxHold)
	}
	if a.MaxHold > 0 && a.MaxHold < a.MinAwake {
		bad("max_hold %v is below min_awake %v: it could neither stay nor go in between", a.MaxHold, a.MinAwake)
	}
	return errs
}

func uses(a Actor, placeholder string) bool {
	return slices.ContainsFunc(slices.Concat(a.Command, a.Env, []string{a.Dir}), func(s string) bool { return strings.Contains(s, placeholder) })
}

func quoted(names []string) string {
	for i, name := range names {
		names[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(names, ", ")
}

// isLabel reports whether s is a DNS label in lower case.
func isLabel(s string) bool {
	if len(s) == 0 || len(s) > longestLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

func (a Actor) protocol() string { return orDefault(a.Protocol, router.ProtocolH1) }

func (r Ready) kind() string { return orDefault(r.Kind, ReadyConnect) }

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// definitions finds the definition of a name.
type definitions struct {
	exact     map[string]Actor
	templates []Actor
}

func newDefinitions(actors []Actor) definitions {
	d := definitions{exact: make(map[string]Actor)}
	for _, a := range actors {
		if strings.Contains(a.Name, "*") {
			d.templates = append(d.templates, a)
		} else {
			d.exact[a.Name] = a
		}
	}
	return d
}

// of returns the definition of the actor called name, with its defaults and
// without placeholders other than {port}.
func (d definitions) of(name string) (Actor, bool) {
	if a, ok := d.exact[name]; ok {
		return a.as(name, ""), true
	}
	if !isLabel(name) {
		return Actor{}, false
	}
	for _, a := range d.templates {
		before, after, _ := strings.Cut(a.Name, "*")
		if len(name) > len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after) {
			return a.as(name, name[len(before):len(name)-len(after)]), true
		}
	}
	return Actor{}, false
}

func (a Actor) as(name, match string) Actor {
	replace := strings.NewReplacer("{actor}", name, "{match}", match)
	a.Name = name
	a.Command = replaced(a.Command, replace)
	a.Env = replaced(a.Env, replace)
	a.Dir = replace.Replace(a.Dir)
	a.Protocol = a.protocol()
	a.Ready.Kind = a.Ready.kind()
	if a.Ready.Kind == ReadyHTTP {
		a.Ready.Path = orDefault(a.Ready.Path, "/")
	}
	a.StartTimeout = orDefault(a.StartTimeout, defaultStartTimeout)
	a.Grace = orDefault(a.Grace, defaultGrace)
	return a
}

func replaced(texts []string, replace *strings.Replacer) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = replace.Replace(text)
	}
	return out
}

// sameProgram reports whether a running actor of definition a is also one of
// definition b: what differs, if anything, is only when it is put to sleep and
// how long that may take.
func (a Actor) sameProgram(b Actor) bool {
	return a.Pool == b.Pool && slices.Equal(a.Command, b.Command) && a.Dir == b.Dir &&
		slices.Equal(a.Env, b.Env) && a.User == b.User && a.Protocol == b.Protocol && a.Ready == b.Ready
}

func (a Actor) equal(b Actor) bool {
	return a.sameProgram(b) && a.StartTimeout == b.StartTimeout && a.Grace == b.Grace &&
		a.Idle == b.Idle && a.MinAwake == b.MinAwake && a.MaxHold == b.MaxHold && a.MaxDrain == b.MaxDrain && a.KeepAwake.equal(b.KeepAwake)
}
