package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"layover/internal/local"
	"layover/internal/router"
	"layover/parking"
)

// good is the smallest file that passes; tests put a line in front of it.
const good = `actors: {a: {command: [sleep, "1"]}}
routes: [{host: a.test, actor: a}]
`

const keptTwice = "actors: {a: {command: [sleep], keep_awake: true}, b: {command: [sleep], keep_awake: true}, c: {command: [sleep]}}\nroutes: [{host: \"{actor}.test\"}]\n"

// keptIn is a file with an actor whose keep_awake is on line 2.
func keptIn(value string) string {
	return "actors: {a: {command: [sleep],\n  keep_awake: " + value + "}}\nroutes: [{host: \"{actor}.test\"}]\n"
}

// keptBy is a file with two actors that are kept awake.
func keptBy(a, b string) string {
	return "actors: {a: {command: [sleep], keep_awake: " + a + "}, b: {command: [sleep], keep_awake: " + b + "}}\nroutes: [{host: \"{actor}.test\"}]\n"
}

// routeWith is a file with two actors and a route to a with further settings.
func routeWith(more string) string {
	return "actors: {a: {command: [sleep]}, spare: {command: [sleep]}}\nroutes:\n- {host: a.test, actor: a, " + more + "}\n"
}

// said returns what is wrong with the text, one line per problem.
func said(t *testing.T, text string) string {
	t.Helper()
	c, err := parseConfig("f.yaml", []byte(text))
	if err == nil {
		return strings.Join(c.warnings.lines("warning: "), "\n")
	}
	return err.Error()
}

func TestConfigSaysTheLineWhatIsWrongAndTheFix(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"good", good, ""},
		{"empty", "", "f.yaml: the file is empty; begin with the output of 'layover check --example'"},
		{"only a comment", "# nothing\n", "f.yaml: the file is empty; begin with the output of 'layover check --example'"},
		{"not YAML", "a: [1\nb: 2\n", "f.yaml:2: this is not YAML: did not find expected ',' or ']'"},
		{"not YAML, further down", good + "lot: @\n", "f.yaml:3: this is not YAML: found character that cannot start any token"},
		{"a tab", "actors:\n\thello: {command: [x]}\n", "f.yaml:2: this is not YAML: the line is indented with a tab; use spaces"},
		{"a tab, further in", "actors:\n  hello:\n  \tcommand: [x]\n", "f.yaml:3: this is not YAML: the line is indented with a tab; use spaces"},
		{"a tab where spaces were", good + "defaults:\n    budget: 1s\n\tidle: 1s\n", "f.yaml:5: this is not YAML: the line is indented with a tab; use spaces"},
		{"not YAML, first line", "a: %\n", "f.yaml:1: this is not YAML: found character that cannot start any token"},
		{"a list", "- a\n", "f.yaml:1: the file is a list; write 'name: value' lines"},
		{"unknown field", "lisen: :80\n" + good, `f.yaml:1: the file has no field "lisen"; did you mean "listen"?`},
		{"unknown field, nothing near", "tls: {zzzzz: 1, cert: a}\n" + good, "f.yaml:1: tls has no field \"zzzzz\"; use one of cert, key\n" +
			"f.yaml:1: tls needs both cert and key; add the missing one"},
		{"twice", good + "lot: 1\nlot: 2\n", `f.yaml:4: "lot" is set twice in the file, first on line 3; delete one`},
		{"two documents", good + "---\nlot: 1\n", "f.yaml:3: a second document begins here; keep one, without '---' between parts"},
		{"duration without a unit", "linger: 30\n" + good, "f.yaml:1: linger 30 has no unit; write 30s, or with another of ms, m, h"},
		{"duration", "linger: soon\n" + good, `f.yaml:1: linger "soon" is not a duration; write one like 500ms, 10s or 1m30s`},
		{"negative duration", "linger: -1s\n" + good, "f.yaml:1: linger -1s is negative; write a duration from 0 up"},
		{"number", "lot: many\n" + good, `f.yaml:1: lot "many" is not allowed; write a whole number from 0 to 1073741824`},
		{"boolean", "admin_public: yes\n" + good, `f.yaml:1: admin_public "yes" is neither true nor false; write one of them`},
		{"no value", "state:\n" + good, "f.yaml:1: state has no value; write one or delete the line"},
		{"a list for a value", "lot: [1]\n" + good, "f.yaml:1: lot is a list; write one value"},
		{"level", "log: {level: inf}\n" + good, `f.yaml:1: level "inf" is not known; did you mean "info"?`},
		{"listen", "listen: [8080]\n" + good, `f.yaml:1: listen "8080" is not an address; write host:port, such as 127.0.0.1:8080, [::1]:8080 or :8080`},
		{"listen port", "listen: :http\n" + good, `f.yaml:1: listen ":http" has the port "http"; write a number from 0 to 65535`},
		{"listen twice", "listen: [127.0.0.1:7070]\n" + good, `f.yaml:1: listen "127.0.0.1:7070" is already the address of admin; use another port`},
		{"public admin", "admin: :7070\n" + good, `f.yaml:1: admin ":7070" can be reached from other machines; use 127.0.0.1, or set 'admin_public: true' if a firewall keeps strangers out`},
		{"public admin on purpose", "admin: :7070\nadmin_public: true\n" + good, ""},
		{"half of TLS", "tls: {cert: c.pem}\n" + good, "f.yaml:1: tls needs both cert and key; add the missing one"},
		{"no certificate", "tls: {cert: /no/c.pem, key: /no/k.pem}\n" + good, "f.yaml:1: the certificate cannot be used: open /no/c.pem: no such file or directory; give a PEM certificate (chain) and its key"},
		{"peers", "trusted_peers: [10.0.0.0/8, \"::1\", nobody]\n" + good, `f.yaml:1: trusted_peers has "nobody"; write a network such as 10.0.0.0/8, or an address`},
		{"one mistake is said once", "trusted_peers: [nobody]\nband_header: X-Band\nactor_header: X-Actor\n" + good, `f.yaml:1: trusted_peers has "nobody"; write a network such as 10.0.0.0/8, or an address`},
		{"header with nobody to be trusted", "trusted_peers: []\nband_header: X-Band\n" + good, "f.yaml:2: band_header is believed from trusted_peers only, and there are none; add them, or delete it"},
		{"actor header without peers", "actor_header: X-Actor\n" + good, "f.yaml:1: actor_header is believed from trusted_peers only, and there are none; add them, or delete it"},
		{"one header for both", "trusted_peers: 10.0.0.0/8\nband_header: X-A\nactor_header: x-a\n" + good, "f.yaml:3: actor_header is also the band_header; use another"},
		{"a header time-out that is too short", "header_timeout: 10ms\n" + good, "f.yaml:1: header_timeout 10ms is too short for a client that is far away; write at least 1s"},
		{"too many streams", "max_streams: 5000\n" + good, "f.yaml:1: max_streams \"5000\" is not allowed; write a whole number from 1 to 4000"},
		{"band header without peers", "band_header: X-Band\n" + good, "f.yaml:1: band_header is believed from trusted_peers only, and there are none; add them, or delete it"},
		{"band header that is none", "trusted_peers: [10.0.0.0/8]\nband_header: 'X Band'\n" + good, `f.yaml:2: band_header "X Band" is not a header's name; use letters, digits and dashes`},
		{"pool without workers", "pools:\n  p: {}\n" + good, "f.yaml:2: pool \"p\" has no workers; add 'workers: 4', the number of its actors that may be awake at once"},
		{"pool name", "pools: {P: {workers: 1}}\n" + good, `f.yaml:1: pool "P" needs another name; use up to 63 of a-z, 0-9 and inner dashes`},
		{"drain", "drain_timeout: 1s\n" + good, `f.yaml:1: warning: drain_timeout 1s is below the max_budget 5m of route "a.test": a stop may cut off its parked requests`},
		{"no actors", "routes: [{host: a.test, actor: a}]\n", "f.yaml:1: there are no actors; add at least one with its command\n" +
			`f.yaml:1: the route leads to actor "a", which is not under actors; there are none`},
		{"wake", "actors: {a: {command: [sleep]}}\nroutes: [{host: a.test, actor: a, wake: no}]\n", `f.yaml:2: wake "no" is neither true nor false; write one of them`},
		{"fallback", routeWith("fallback: b"), `f.yaml:3: the fallback "b" is not under actors; did you mean "a"?`},
		{"fallback to itself", routeWith("fallback: a"), `f.yaml:3: the fallback "a" is the actor itself; name another, or delete it`},
		{"fallback_after alone", routeWith("fallback_after: 1s"), "f.yaml:3: route 1 has fallback_after, but no fallback; add one, or delete it"},
		{"late fallback", routeWith("fallback: spare, fallback_after: 30s"), "f.yaml:3: fallback_after 30s is not below the budget 30s, so no time would be left for the fallback; make it shorter"},
		{"fallback of glances", routeWith("fallback: spare, wake: false"), "f.yaml:3: route 1 has wake: false, so its requests wait for nothing that a fallback could do instead; delete one of them"},
		{"waiting page", routeWith("waiting_page: 1s, fallback: spare"), ""},
		{"no waiting page", routeWith("waiting_page: 0s, fallback: spare"), ""},
		{"a waiting page that flashes", routeWith("waiting_page: 50ms"), "f.yaml:3: waiting_page 50ms is too short, each start would flash it; write at least 100ms, or 0s for none"},
		{"a late waiting page", routeWith("waiting_page: 30s"), "f.yaml:3: waiting_page 30s is not below the budget 30s, so the page would never be shown; lower it, or raise budget"},
		{"a waiting page for glances", routeWith("waiting_page: 1s, wake: false"), "f.yaml:3: waiting_page is for requests that wake their actor, and wake is false; delete one of them"},
		{"a waiting page behind Envoy", "envoy: {http: \"127.0.0.1:8000\"}\n" + routeWith("fallback: spare, waiting_page: 1s"), "f.yaml:4: warning: waiting_page is shown to what comes to listen; requests that Envoy asks about wait without it"},
		{"good fallback", routeWith("fallback: spare, fallback_after: 29s"), ""},
		{"too many kept", "pools: {p: {workers: 1}}\n" + keptTwice, `f.yaml:1: pool "p": has 1 workers for 2 actors that are kept awake: give it more, or keep fewer`},
		{"only kept", "pools: {p: {workers: 2}}\n" + keptTwice, `f.yaml:1: warning: all workers of pool "p" are for actors that are kept awake, so actor "c" is never woken; add one`},
		{"enough workers", "pools: {p: {workers: 3}}\n" + keptTwice, ""},
		{"kept template", "actors: {a-*: {command: [sleep], keep_awake: true}}\nroutes: [{host: \"{actor}.test\"}]\n", `f.yaml:1: actor "a-*": is a template, which has no actor to keep awake: give that one an entry of its own`},
		{"kept and held", "actors: {a: {command: [sleep], keep_awake: true, max_hold: 1h}}\nroutes: [{host: a.test, actor: a}]\n", `f.yaml:1: actor "a": is kept awake, but max_hold 1h0m0s would put it to sleep: remove one of them`},
		{"kept in one window", keptIn("{from: 08:00, to: 18:30}"), ""},
		{"kept in windows", keptIn(`[{days: mon-fri, from: "08:00", to: 18:30, zone: Europe/Lisbon}, {days: [sat, sun], from: 22:00, to: 06:00}]`), ""},
		{"kept for a word", keptIn("weekdays"), `f.yaml:2: keep_awake "weekdays" is neither true nor false; write one of them, or windows such as [{days: mon-fri, from: 08:00, to: 18:30}]`},
		{"kept in no window", keptIn("[]"), "f.yaml:2: keep_awake has no windows; write false, or one such as {days: mon-fri, from: 08:00, to: 18:30}"},
		{"kept in a text", keptIn("[mon-fri]"), "f.yaml:2: an item of keep_awake is a single value; write a window such as {days: mon-fri, from: 08:00, to: 18:30}"},
		{"half a window", keptIn("[{from: 08:00}]"), "f.yaml:2: a window of keep_awake has no to; add one such as to: 08:00"},
		{"a window's field", keptIn("[{from: 08:00, too: 09:00, to: 09:00}]"), `f.yaml:2: a window of keep_awake has no field "too"; did you mean "to"?`},
		{"a window's clock", keptIn("[{from: 8am, to: 25:00}]"), `f.yaml:2: from "8am" is no time of the day: use one like 08:30, or 24:00 for the end of the day` + "\n" +
			`f.yaml:2: to "25:00" is no time of the day: use one like 08:30, or 24:00 for the end of the day`},
		{"no window", keptIn("[{from: 08:00, to: 08:00}]"), "f.yaml:2: a window from 08:00 to the same time is no time; for all day write from: 00:00 and to: 24:00"},
		{"a window from the end", keptIn("[{from: 24:00, to: 08:00}]"), "f.yaml:2: a window cannot begin at 24:00; write from: 00:00, and the next day"},
		{"a window's days", keptIn("[{from: 08:00, to: 09:00, days: mo-fr}]"), `f.yaml:2: days: "mo-fr" is no day: use mon tue wed thu fri sat sun, with '-' for a row of them and ',' between`},
		{"a window's zone", keptIn("[{from: 08:00, to: 09:00, zone: Europe/Lissabon}]"), `f.yaml:2: zone "Europe/Lissabon" is not known; write one such as Europe/Lisbon or UTC, or delete it for this machine's`},
		{"a window of a template", strings.ReplaceAll(keptIn("{from: 08:00, to: 09:00}"), "a:", "a-*:"), `f.yaml:1: actor "a-*": is a template, which has no actor to keep awake: give that one an entry of its own`},
		{"windows that meet", "pools: {p: {workers: 1}}\n" + keptBy("{from: 08:00, to: 20:00, zone: UTC}", "{from: 20:00, to: 08:00, zone: UTC}"), ""},
		{"windows that overlap", "pools: {p: {workers: 1}}\n" + keptBy("{days: mon, from: 08:00, to: 20:00, zone: UTC}", "{days: mon, from: 19:00, to: 21:00, zone: UTC}"),
			`f.yaml:1: warning: pool "p" has 1 worker, but from Mon 19:00 UTC on 2 of its actors are to be kept awake at once, so some wait; add workers, or change the windows`},
		{"only glances", "actors: {a: {command: [sleep]}}\nroutes: [{host: a.test, actor: a, wake: false}]\n", `f.yaml:1: warning: actor "a" is not woken by any route`},
		{"merge key", "x: &x {workers: 1}\npools: {p: {<<: *x}}\n" + good, "f.yaml:1: the file has no field \"x\"; use one of " + strings.Join(topFields, ", ") + "\n" +
			"f.yaml:2: merge keys (<<) are not read; write the values out, or put shared ones under 'defaults'\n" +
			"f.yaml:2: pool \"p\" has no workers; add 'workers: 4', the number of its actors that may be awake at once"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := said(t, test.text); got != test.want {
				t.Errorf("parseConfig(%q) says\n%s\nwant\n%s", test.text, got, test.want)
			}
		})
	}
}

func TestOneMistakeIsOneError(t *testing.T) {
	rest := "actors: {a: {command: [sleep, 1]}}\nroutes: [{host: a.test, actor: a}]\n"
	for text, want := range map[string]string{
		"pools: {other: 1}\n" + rest:                                               `f.yaml:1: pool "other" is a number; write other: {workers: 1}`,
		"pools: {other: [1]}\n" + rest:                                             `f.yaml:1: pool "other" is a list; write 'name: value' lines`,
		"pools: {other: {}}\n" + rest:                                              `f.yaml:1: pool "other" has no workers; add 'workers: 4', the number of its actors that may be awake at once`,
		"tls: yes\n" + rest:                                                        "f.yaml:1: tls is a single value; write 'name: value' lines",
		"envoy: yes\n" + rest:                                                      "f.yaml:1: envoy is a single value; write 'name: value' lines",
		"actors: {a: sleep}\nroutes: [{host: a.test, actor: a}]\n":                 `f.yaml:1: actor "a" is a single value; write 'name: value' lines`,
		"actors: {a: {command: [sleep]}}\nroutes: {a: 1}\n":                        "f.yaml:2: routes is a mapping; write a list",
		"actors: {a: {command: [sleep]}}\nroutes: [x, {host: a.test, actor: a}]\n": "f.yaml:2: route 1 is a single value; write 'name: value' lines",
		"actors: 3\nroutes: [{host: '{actor}.test'}]\n":                            "f.yaml:1: actors is a single value; write 'name: value' lines",
	} {
		if got := said(t, text); got != want {
			t.Errorf("parseConfig(%q) says\n%s\nwant\n%s", text, got, want)
		}
	}
}

func TestConfigRefusesActorsThatCannotWork(t *testing.T) {
	for _, test := range []struct{ name, actor, want string }{
		{"no command", "{}", `actor "a" has no command; add one that listens on the port in {port} or $PORT: command: [my-server, --port, "{port}"]`},
		{"empty command", "{command: []}", `actor "a" has no command; add one that listens on the port in {port} or $PORT: command: [my-server, --port, "{port}"]`},
		{"one text", "{command: sleep 1}", "command is one text; write a list, one item per argument: [sleep, 1]"},
		{"one word", "{command: sleep}", ""},
		{"no program", "{command: [/no/such]}", `warning: actor "a": the program "/no/such" cannot be run now; install it or correct the path`},
		{"arguments in one item", "{command: ['sleep 1  2']}", `warning: actor "a": there is no program "sleep 1  2"; write one item per argument: [sleep, 1, 2]`},
		{"placeholder", "{command: [sleep, '--port={prot}']}", `warning: actor "a": {prot} in command is not replaced by anything; did you mean "{port}"?`},
		{"placeholder in env", "{command: [sleep], env: {A: '{name}'}}", `warning: actor "a": {name} in env is not replaced by anything; use one of {port}, {actor}, {match}`},
		{"port in cwd", "{command: [sleep], cwd: '/{port}'}", `warning: actor "a": {port} in cwd is not replaced by anything; use one of {actor}, {match}`},
		{"scripts", "{command: [sh, -c, 'awk {print} ${port}'], env: {A: '${x}', B: '{\"a\": 1}'}}", ""},
		{"match", "{command: [sleep, '{match}']}", `{match} stands for what the * of the actor's name stands for, and "a" has none; use {actor}`},
		{"cwd", "{command: [sleep], cwd: /no/folder}", `cwd "/no/folder" is not a folder; create it or correct the path`},
		{"user", "{command: [sleep], user: nobody-of-that-name}", `user "nobody-of-that-name" does not exist on this machine; create it or correct the name`},
		{"pool", "{command: [sleep], pool: defualt}", `actor "a" is in pool "defualt", which is not under pools; did you mean "default"?`},
		{"protocol", "{command: [sleep], protocol: h3}", `protocol "h3" is not known; did you mean "h1"?`},
		{"ready", "{command: [sleep], ready: later}", `ready "later" is not known; write connect, notify, socket, or the path of a health page such as /healthz`},
		{"env", "{command: [sleep], env: {A=B: 1}}", `env has a variable called "A=B"; write a name without '='`},
		{"env value", "{command: [sleep], env: {A: [1]}}", "env A is a list; write one value"},
		{"start_timeout", "{command: [sleep], start_timeout: 0s}", `start_timeout of actor "a" must be above 0; write how long its slowest good start takes`},
		{"long start_timeout", "{command: [sleep], start_timeout: 1h}", `warning: actor "a" may start for 1h, but no request waits longer than 5m: a slow start is seen as still_waking, never as start_failed`},
		{"max_waiting", "{command: [sleep], max_waiting: 1}", `actor "a" has max_waiting, but any number of requests may be with it; add max_concurrent, or delete max_waiting`},
		{"max_concurrent", "{command: [sleep], max_concurrent: -1}", `max_concurrent "-1" is not allowed; write a whole number from 0 to 100000`},
		{"max_hold", "{command: [sleep], min_awake: 2s, max_hold: 1s}", `min_awake 2s of actor "a" is longer than its max_hold 1s; make it shorter`},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := "actors:\n  a: " + test.actor + "\nroutes: [{host: a.test, actor: a}]\n"
			want := test.want
			if want != "" {
				want = "f.yaml:2: " + want
			}
			if got := said(t, text); got != want {
				t.Errorf("parseConfig(%q) says\n%s\nwant\n%s", text, got, want)
			}
		})
	}
}

func TestConfigRefusesRoutesThatCannotWork(t *testing.T) {
	for _, test := range []struct{ name, first, second, want string }{
		{"good", "{host: a.test, actor: a}", "{host: b.test, actor: a}", ""},
		{"no actor", "{host: a.test, actor: a}", "{host: b.test}", "route 2 names no actor; add actor, or put {actor} into host or value"},
		{"unknown actor", "{host: a.test, actor: a}", "{host: b.test, actor: aa}", `the route leads to actor "aa", which is not under actors; did you mean "a"?`},
		{"two sources", "{host: a.test, actor: a}", `{host: "{actor}.x", actor: a}`, `route "{actor}.x": names the actor more than once: use one of actor, {actor} in host, {actor} as header value; correct it`},
		{"path", "{host: a.test, actor: a}", "{path: x, actor: a}", `route "x": path "x" must begin with a slash; correct it`},
		{"wildcard", "{host: a.test, actor: a}", "{host: '*.test', actor: a}", `route "*.test": host "*.test" has a '*', which stands for nothing: use {actor} for the label that names the actor, or leave host out; correct it`},
		{"host with a port", "{host: a.test, actor: a}", "{host: 'b.test:8080', actor: a}", ""},
		{"host with a bad port", "{host: a.test, actor: a}", "{host: 'b.test:80:80', actor: a}", `route "b.test:80:80": host "b.test:80:80" is neither a name nor an address; correct it`},
		{"host with an address", "{host: a.test, actor: a}", "{host: '[::1]:8080', actor: a}", ""},
		{"host with a path", "{host: a.test, actor: a}", "{host: b.test/x, actor: a}", `route "b.test/x": host "b.test/x" has more in it than a host: put the path under path, and leave out the rest; correct it`},
		{"host with a space", "{host: a.test, actor: a}", "{host: b test, actor: a}", `route "b test": host "b test" has a space in it; correct it`},
		{"host with an unknown placeholder", "{host: a.test, actor: a}", `{host: "{name}.test", actor: a}`, `route "{name}.test": host "{name}.test" has an unknown placeholder: only {actor} is known; correct it`},
		{"value with an unknown placeholder", "{host: a.test, actor: a}", `{header: X-A, value: "{name}", actor: a}`, `route "[X-A: {name}]": value "{name}" is no placeholder: use {actor}; correct it`},
		{"path with a query", "{host: a.test, actor: a}", "{path: '/x?y', actor: a}", `route "/x?y": path "/x?y" has a '?' in it: only the path counts, without query and fragment; correct it`},
		{"header", "{host: a.test, actor: a}", "{header: 'X A:', actor: a}", `route "[X A:]": header "X A:" is not a header's name: use letters, digits and dashes; correct it`},
		{"budget", "{host: a.test, actor: a}", "{host: b.test, actor: a, budget: 0s}", `route "b.test": budget must be above zero; correct it`},
		{"max_budget", "{host: a.test, actor: a}", "{host: b.test, actor: a, max_budget: 1s}", "max_budget 1s is below the budget 30s; raise it, or lower budget"},
		{"budget above the default maximum", "{host: a.test, actor: a}", "{host: b.test, actor: a, budget: 1h}", ""},
		{"name", "{host: a.test, actor: a, name: x}", "{host: b.test, actor: a, name: x}", `the name "x" is already that of the route on line 3; use another`},
		{"band", "{host: a.test, actor: a}", "{host: b.test, actor: a, band: -1}", `band "-1" is not allowed; write a whole number from 0 to 99`},
		{"hidden by the same", "{host: a.test, actor: a}", "{host: A.test., actor: a}", "route 2 is never reached: every request that matches it matches the one on line 3 first; put it before that one"},
		{"hidden by the same with a port", "{host: 'a.test:80', actor: a}", "{host: a.test, actor: a}", "route 2 is never reached: every request that matches it matches the one on line 3 first; put it before that one"},
		{"hidden by everything", "{actor: a}", "{host: b.test, path: /x, actor: a}", "route 2 is never reached: every request that matches it matches the one on line 3 first; put it before that one"},
		{"hidden by a pattern", `{host: "{actor}.test"}`, "{host: b.test, actor: a}", "route 2 is never reached: every request that matches it matches the one on line 3 first; put it before that one"},
		{"not hidden by a pattern of one label", `{host: "{actor}.test"}`, "{host: b.c.test, actor: a}", ""},
		{"hidden by a shorter path", "{path: /x, actor: a}", "{path: /x/y, actor: a}", "route 2 is never reached: every request that matches it matches the one on line 3 first; put it before that one"},
		{"not hidden by a path that only looks shorter", "{path: /x, actor: a}", "{path: /xy, actor: a}", ""},
		{"hidden by any value", "{header: X-A, actor: a}", "{header: x-a, value: v, actor: a}", "route 2 is never reached: every request that matches it matches the one on line 3 first; put it before that one"},
		{"not hidden by a header", "{host: a.test, header: X-A, actor: a}", "{host: a.test, actor: a}", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := "actors: {a: {command: [sleep]}}\nroutes:\n  - " + test.first + "\n  - " + test.second + "\n"
			want := test.want
			if want != "" {
				want = "f.yaml:4: " + want
			}
			if got := said(t, text); got != want {
				t.Errorf("parseConfig(%q) says\n%s\nwant\n%s", text, got, want)
			}
		})
	}
}

func TestConfigWarnsOfATemplateThatAnEarlierOneHides(t *testing.T) {
	text := "routes: [{host: '{actor}.test'}]\nactors:\n  p-*: {command: [sleep]}\n  p-*-x: {command: [sleep]}\n  '*-x': {command: [sleep]}\n  p-y: {command: [sleep]}\n"
	want := `f.yaml:4: warning: actor "p-*-x" is never made: each name that matches it matches "p-*" on line 3 first; put it before that one`
	if got := said(t, text); got != want {
		t.Errorf("said\n%s\nwant\n%s", got, want)
	}
}

func TestConfigListsAllProblemsInTheOrderOfTheLines(t *testing.T) {
	got := said(t, `pools: {p: {workers: 1, min_useful: 1m}}
lot: -1
actors:
  b: {command: [sleep], pool: q}
  a: {command: [sleep], idle: never}
routes:
  - {host: a.test, actor: a}
  - {host: c.test, actor: c}
linger: x
`)
	want := `f.yaml:1: min_useful 1m of pool "p" is not below the budget 30s of the route on line 7, so its requests would always be passed over; lower one or raise the other
f.yaml:2: lot "-1" is not allowed; write a whole number from 0 to 1073741824
f.yaml:4: actor "b" is in pool "q", which is not under pools; did you mean "p"?
f.yaml:5: idle "never" is not a duration; write one like 500ms, 10s or 1m30s
f.yaml:8: the route leads to actor "c", which is not under actors; did you mean "b"?
f.yaml:9: linger "x" is not a duration; write one like 500ms, 10s or 1m30s`
	if got != want {
		t.Errorf("said\n%s\nwant\n%s", got, want)
	}
}

func TestConfigMeansWhatItSays(t *testing.T) {
	cwd := t.TempDir()
	c, err := parseConfig("f.yaml", []byte(`
listen: ["127.0.0.1:1", "[::1]:2"]
admin: "off"
lot: unlimited
defaults: {budget: 3s, max_budget: 20s, start_timeout: 2s, grace: 1s, idle: 0s, pool: slow}
trusted_peers: [10.1.2.3/8, "::1"]
band_header: X-Band
log: {level: debug, format: json}
pools:
  fast: {workers: 2, head_start: 1m, min_useful: 100ms}
  slow: {workers: 1}
actors:
  web: {command: &run [sleep, "{port}"], cwd: `+cwd+`, env: {N: 1, S: x}, pool: fast, protocol: h2c, ready: /up, max_hold: 1m, min_awake: 2s, max_drain: 7s, keep_awake: {days: "fri-sun", from: 22:00, to: 06:30, zone: UTC}}
  pr-*: {command: *run, ready: notify, idle: 9s}
routes:
  - {host: web.test, path: /a, actor: web, band: 3, budget: 4s, max_budget: 5s, name: w}
  - {header: X-Actor, value: "{actor}"}
`))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c.Listen, []string{"127.0.0.1:1", "[::1]:2"}) || c.Admin != "off" || c.Lot != parking.Unlimited {
		t.Errorf("listen %v, admin %q, lot %d", c.Listen, c.Admin, c.Lot)
	}
	if got := c.Trusted[0].String() + " " + c.Trusted[1].String(); got != "10.0.0.0/8 ::1/128" {
		t.Errorf("trusted %s", got)
	}
	for i := range c.Actors {
		c.Actors[i].fields = fields{}
	}
	want := []actor{
		{Name: "web", Pool: "fast", Command: []string{"sleep", "{port}"}, Cwd: cwd, Env: []string{"N=1", "S=x"}, Protocol: "h2c", Ready: "/up",
			StartTimeout: 2 * time.Second, Grace: time.Second, MinAwake: 2 * time.Second, MaxHold: time.Minute, MaxDrain: 7 * time.Second,
			KeepAwake: local.Schedule{Windows: []local.Window{{Days: [7]bool{time.Friday: true, time.Saturday: true, time.Sunday: true}, From: 22 * 60, To: 6*60 + 30, Zone: time.UTC}}}},
		{Name: "pr-*", Pool: "slow", Command: []string{"sleep", "{port}"}, Protocol: "h1", Ready: "notify",
			StartTimeout: 2 * time.Second, Grace: time.Second, Idle: 9 * time.Second, MaxDrain: time.Minute},
	}
	if !reflect.DeepEqual(c.Actors, want) {
		t.Errorf("actors\n%+v\nwant\n%+v", c.Actors, want)
	}
	if got, want := c.Routes[0].Route, (router.Route{Name: "w", Host: "web.test", Path: "/a", Actor: "web", Band: 3, Budget: 4 * time.Second, MaxBudget: 5 * time.Second}); got != want {
		t.Errorf("route %+v, want %+v", got, want)
	}
	if got, want := c.Routes[1].Route, (router.Route{Name: "[X-Actor: {actor}]", Header: "X-Actor", Value: "{actor}", Budget: 3 * time.Second, MaxBudget: 20 * time.Second}); got != want {
		t.Errorf("route %+v, want %+v", got, want)
	}
}

func TestConfigRefusesAFileThatAliasesMakeHuge(t *testing.T) {
	var b strings.Builder
	b.WriteString("x: &x [" + strings.Repeat("a,", 2000) + "a]\nactors:\n")
	for i := range 300 {
		b.WriteString("  a" + strings.Repeat("b", i%50) + strings.Repeat("c", i/50) + ": {command: *x}\n")
	}
	if got := said(t, b.String()); !strings.Contains(got, "the file stands for more than 200000 values; use fewer aliases") {
		t.Errorf("said %s", got)
	}
}

func TestExampleFilePassesItsOwnCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "layover.yaml")
	if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(file); err != nil {
		t.Fatal(err)
	}
}

// Each commented-out setting of the example is one that exists: with the
// comment signs of settings gone, the file is still free of unknown fields.
func TestExampleFileShowsOnlyFieldsThatExist(t *testing.T) {
	var lines []string
	for line := range strings.Lines(example) {
		head, tail, found := strings.Cut(line, "# ")
		if found && strings.TrimSpace(head) == "" && field.MatchString(tail) {
			line = head + tail
		}
		lines = append(lines, line)
	}
	text := strings.Join(lines, "")
	got := said(t, text)
	for _, bad := range []string{"no field", "not YAML", "is not known", "not a duration", "not allowed"} {
		if strings.Contains(got, bad) {
			t.Errorf("said\n%s", got)
		}
	}
	for _, name := range topFields {
		if !strings.Contains("\n"+text, "\n"+name+":") {
			t.Errorf("the example does not show %q", name)
		}
	}
}

var field = regexp.MustCompile(`^(- |  )?[a-z_]+: `)

func FuzzConfig(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(example))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("actors: &a {<<: *a, x: *a}\n"))
	f.Add([]byte("? [x]\n: y\n"))
	f.Add([]byte(strings.Repeat("[", 5000)))
	f.Add([]byte("lot: !!binary aGk=\npools: !!set {a, b}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseConfig("f.yaml", data)
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "f.yaml:") {
					t.Errorf("parseConfig(%q): the message %q names no place", data, line)
				}
			}
			return
		}
		plan(c)
	})
}

func TestTheDocumentNamesEverySetting(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "config.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(topFields, defaultFields, poolFields, actorFields, windowFields, routeFields) {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/config.md does not have `%s`", name)
		}
	}
}

func TestTheStateFolderIsNeverInASharedOne(t *testing.T) {
	for _, test := range []struct {
		name, given, xdg, home string
		uid                    int
		want                   string // empty: none, so the file must name one
	}{
		{"a service manager's", "/var/lib/l:/var/lib/m", "/x", "/homes/u", 1000, "/var/lib/l"},
		{"XDG's", "", "/x", "", 1000, "/x/layover"},
		{"a relative one counts for nothing", "s", "x", "/homes/u", 1000, "/homes/u/.local/state/layover"},
		{"the home's", "", "", "/homes/u", 1000, "/homes/u/.local/state/layover"},
		{"root's", "", "", "", 0, "/var/lib/layover"},
		{"nobody's", "", "", "", 1000, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("STATE_DIRECTORY", test.given)
			t.Setenv("XDG_STATE_HOME", test.xdg)
			t.Setenv("HOME", test.home)
			if got := stateBase(test.uid); got != test.want {
				t.Errorf("the folder of the state is %q, want %q", got, test.want)
			}
		})
	}
}

func TestAFileWithoutAPlaceForItsStateIsRefused(t *testing.T) {
	userID = func() int { return 1000 } // root has a place
	defer func() { userID = os.Getuid }()
	for _, name := range []string{"STATE_DIRECTORY", "XDG_STATE_HOME", "HOME"} {
		t.Setenv(name, "")
	}
	if _, err := parseConfig("f.yaml", []byte(good)); err == nil || !strings.Contains(err.Error(), "set state to a folder") {
		t.Errorf("parseConfig = %v, want an error about state", err)
	}
}

func TestConnectionsAreBoundedWhereAFullLotWouldTakeAllOpenFiles(t *testing.T) {
	for _, test := range []struct {
		lot, bound int
		limit      uint64
		want       int
	}{
		{lot: 1024, limit: 2148, want: 0}, // room for all
		{lot: 1024, limit: 2147, want: 1364},
		{lot: 1024, limit: 64, want: 28},
		{lot: 1024, limit: 1, want: 1},
		{lot: 1024, limit: 64, bound: 500, want: 500},
		{lot: parking.Unlimited, limit: 64, want: 0}, // as who wrote it wants it
	} {
		if got := connections(&config{Lot: test.lot, MaxConnections: test.bound}, test.limit); got != test.want {
			t.Errorf("%+v: %d connections", test, got)
		}
	}
}
