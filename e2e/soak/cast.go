package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"layover/e2e/actor"
)

// role is a kind of actor, and what may happen to those who ask for it.
type role struct {
	name    string
	count   int
	env     string   // beside its name and its events
	grpc    bool     // speaks gRPC, not HTTP
	dies    bool     // may break off at any moment
	killed  bool     // by us
	reasons []string // why requests to it may be refused, beside anyReasons
}

// anyReasons are those for which a request may be refused whoever it is for:
// they are about places and time.
var anyReasons = []string{"lot_full", "no_worker", "still_waking", "attempt_timeout"}

var (
	brokenReasons = []string{"actor_failed", "actor_unreachable", "start_failed", "backing_off"}
	startReasons  = []string{"start_failed", "backing_off"}
)

var cast = []role{
	{name: "steady", count: 3, env: actor.Start + ": 50ms"},
	{name: "slow", count: 2, env: actor.Start + ": 1200ms"},
	{name: "crash", count: 2, env: actor.Crash + ": 0.08", dies: true, reasons: brokenReasons},
	{name: "hang", count: 2, env: actor.Hang + ": 0.2, " + actor.Stubborn + ": 1"},
	{name: "flaky", count: 2, env: actor.Start + ": 100ms, " + actor.Fail + ": 0.4", reasons: startReasons},
	{name: "victim", count: 3, env: actor.Start + ": 100ms", dies: true, killed: true, reasons: brokenReasons},
	{name: "changing", count: 2, env: actor.Start + ": 100ms"},
	{name: "guest", count: 1, env: actor.Start + ": 20ms", reasons: []string{"unknown_actor"}},
	{name: "grpc", count: 1, env: actor.Start + ": 100ms", grpc: true},
	{name: "grpccrash", count: 1, env: actor.Crash + ": 0.08", grpc: true, dies: true, reasons: brokenReasons},
	{name: "grpcvictim", count: 1, env: actor.Start + ": 100ms", grpc: true, dies: true, killed: true, reasons: brokenReasons},
}

// roleOf finds the role of an actor by its name.
func roleOf(name string) *role {
	kind, _, _ := strings.Cut(name, "-")
	i := slices.IndexFunc(cast, func(r role) bool { return r.name == kind })
	return &cast[i]
}

// names lists the actors that speak gRPC, or those that do not.
func names(grpc bool) (all []string) {
	for _, r := range cast {
		for i := range r.count {
			if r.grpc == grpc {
				all = append(all, fmt.Sprintf("%s-%d", r.name, i+1))
			}
		}
	}
	return all
}

// protocol is what an actor is spoken to in: half of those that do not speak
// gRPC get HTTP/1.1.
func protocol(name string) string {
	if roleOf(name).grpc || strings.HasSuffix(name, "2") {
		return "h2c"
	}
	return "h1"
}

// plan is a configuration.
type plan struct {
	workers, lot int
	revision     int // of the actors that change
	guest        bool
	broken       bool // it is none
}

var calmPlan = plan{workers: 4, lot: 60, guest: true}

// routeBudget is the budget of requests that name no deadline.
const routeBudget = 8 * time.Second

// write writes the configuration into the house's file.
func (h *house) write(p plan) error {
	var b strings.Builder
	fmt.Fprintf(&b, `listen: %s
admin: 127.0.0.1:0
state: %q
%s
lot: %d
linger: 500ms
trusted_peers: [127.0.0.1]
band_header: X-Band
log: {level: debug, format: json}
drain_timeout: 20s
defaults: {pool: main, budget: %v, max_budget: %[5]v, start_timeout: 6s, grace: 1s, idle: 3s, min_awake: 100ms, max_hold: 2s}
pools:
  main: {workers: %d, head_start: 1s}
  grpc: {workers: 2, head_start: 1s}
routes: [{name: all, header: X-To, value: "{actor}"}]
actors:
`, h.addr, filepath.Join(h.folder, "state"), h.tlsLine, p.lot, routeBudget, p.workers)
	for _, name := range append(names(false), names(true)...) {
		r := roleOf(name)
		if r.name == "guest" && !p.guest {
			continue
		}
		env := fmt.Sprintf(`%s: "{actor}", %s: %q, %s`, actor.Name, actor.Events, h.events, r.env)
		if r.name == "changing" {
			env += fmt.Sprintf(", REVISION: %d", p.revision)
		}
		pool := "main"
		if r.grpc {
			pool, env = "grpc", env+", "+actor.Kind+": "+actor.KindGRPC
		}
		fmt.Fprintf(&b, "  %s: {command: [%q], pool: %s, protocol: %s, env: {%s}}\n", name, h.self, pool, protocol(name), env)
	}
	if p.broken {
		b.WriteString("surprise: true\n")
	}
	return os.WriteFile(h.file, []byte(b.String()), 0o600)
}
