package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"layover/internal/router"
)

func configOf(t *testing.T, text string) *config {
	t.Helper()
	c, err := parseConfig("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestChangesNamesEachSettingThatChanged(t *testing.T) {
	routes := "actors: {a: {command: [sleep]}}\nroutes: [{host: a.test, actor: a}, {host: b.test, actor: a}]\n"
	for _, test := range []struct{ name, next, want string }{
		{"nothing", routes, ""},
		{"lot", "lot: unlimited\n" + routes, "lot is unlimited, before 1024 spots"},
		{"trust", "trusted_peers: [10.0.0.0/8]\n" + routes, "trusted_peers, band_header or actor_header changed"},
		{"level", "log: {level: debug}\n" + routes, "log level is DEBUG, before INFO"},
		{"drain", "drain_delay: 1s\n" + routes, "drain times changed"},
		{"limit", strings.Replace(routes, "[sleep]", "[sleep], max_concurrent: 2", 1),
			`actor "a" may have 2 requests at once and 20 in line (0 at once: any number), before 0 and 0`},
		{"routes", "actors: {a: {command: [sleep]}}\nroutes: [{host: b.test, actor: a, band: 1}, {host: c.test, actor: a}]\n",
			`route "b.test" changed; route "c.test" added; route "a.test" removed`},
		{"order", "actors: {a: {command: [sleep]}}\nroutes: [{host: b.test, actor: a}, {host: a.test, actor: a}]\n", "the order of the routes changed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := strings.Join(configOf(t, routes).changes(configOf(t, test.next)), "; "); got != test.want {
				t.Errorf("changes: %s, want %s", got, test.want)
			}
		})
	}
}

func TestTheLimitOfAnActorIsThatOfItsOwnEntryElseOfTheFirstTemplate(t *testing.T) {
	limits := configOf(t, "actors:\n  m-*: {command: [s], max_concurrent: 1}\n  m-x: {command: [s]}\n  m-y: {command: [s], max_concurrent: 3, max_waiting: 0}\n"+
		"  '*': {command: [s], max_concurrent: 2}\nroutes: [{host: \"{actor}.test\"}]\n").limits()
	for name, want := range map[string]router.Limit{"m-a": {Concurrent: 1, Waiting: 10}, "m-x": {}, "m-y": {Concurrent: 3}, "o": {Concurrent: 2, Waiting: 20}} {
		if got := limits(name); got != want {
			t.Errorf("limits(%s) = %+v, want %+v", name, got, want)
		}
	}
	if configOf(t, good).limits() != nil {
		t.Error("limits without a limit are not nil: requests pay for them")
	}
}

func TestKeepTakesOverWhatCannotChange(t *testing.T) {
	now := configOf(t, "pools: {p: {workers: 1, min_useful: 1s}}\n"+good)
	next := configOf(t, "listen: :1\nadmin: \"off\"\nstate: /s\nlinger: 1s\nlog: {format: json, level: warn}\npools: {p: {workers: 2, head_start: 1m}, q: {workers: 1, head_start: 1m}}\n"+
		"actors: {a: {command: [sleep], pool: p}}\nroutes: [{host: a.test, actor: a}]\n")
	want := []string{"listen", "admin", "state", "linger", "log format", "head_start of pool p", "min_useful of pool p"}
	if got := next.keep(now); !slices.Equal(got, want) {
		t.Errorf("keep returns %q, want %q", got, want)
	}
	if again := next.keep(now); again != nil {
		t.Errorf("afterwards %q still differ", again)
	}
	if p := next.pool("p"); p.Workers != 2 || p.MinUseful != time.Second || next.pool("q").HeadStart != time.Minute {
		t.Errorf("pools are %+v", next.Pools)
	}
}

func TestWhatIsKeptIsCheckedWithWhatIsNew(t *testing.T) {
	file := func(useful, budget string) string {
		return "pools: {p: {workers: 1, min_useful: " + useful + "}}\nactors: {a: {command: [sleep]}}\nroutes: [{host: a.test, actor: a, budget: " + budget + "}]\n"
	}
	now, next := configOf(t, file("20s", "30s")), configOf(t, file("1s", "10s"))
	next.keep(now)
	want := `f.yaml:1: min_useful 20s of pool "p" is not below the budget 10s of the route on line 3, so its requests would always be passed over; lower one or raise the other`
	if err := next.recheck(); err == nil || err.Error() != want {
		t.Errorf("recheck = %v, want %s", err, want)
	}
	warned := configOf(t, good+"drain_timeout: 1s\n")
	before := warned.warnings.lines("")
	if err := warned.recheck(); err != nil || len(before) == 0 || !slices.Equal(warned.warnings.lines(""), before) {
		t.Errorf("recheck = %v with warnings %q, want those from before: %q", err, warned.warnings.lines(""), before)
	}
}

// Whenever one route is said to hide another, the router agrees: no request
// matches the second without matching the first.
func TestARouteThatCoversAnotherMatchesAllItsRequests(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	route := func() (router.Route, *router.Names) {
		for {
			r := router.Route{Name: "r", Host: pick("", "a.test", "{actor}.test", "x-{actor}.test", "x-a.test", "A.test."),
				Path: pick("", "/", "/p", "/p/", "/p/q"), Header: pick("", "", "H", "h", "I"), Budget: 1, MaxBudget: 1}
			if r.Header != "" {
				r.Value = pick("", "v", "w", "{actor}")
			}
			if !strings.Contains(r.Host+r.Value, "{actor}") {
				r.Actor = "a"
			}
			if names, err := router.NewNames([]router.Route{r}); err == nil {
				return r, names
			}
		}
	}
	covered := 0
	for range 20_000 {
		a, first := route()
		b, second := route()
		if !covers(a, b) {
			continue
		}
		covered++
		for range 20 {
			host, path := pick("a.test", "b.test", "x-a.test", "x-b.test", "a.b.test", "A.TEST:80", "x-.test"), pick("/", "/p", "/p/", "/p/q", "/pp", "/p/q/r", "/p?x")
			name, value := pick("H", "I"), pick("", "v", "w", "u")
			header := func(asked string) string {
				if strings.EqualFold(asked, name) {
					return value
				}
				return ""
			}
			_, _, one := first.Match(host, path, header)
			_, _, two := second.Match(host, path, header)
			if two && !one {
				t.Fatalf("covers(%+v, %+v), but only the second matches host %s, path %s, %s: %s", a, b, host, path, name, value)
			}
		}
	}
	if covered < 100 {
		t.Errorf("only %d pairs covered each other", covered)
	}
}
