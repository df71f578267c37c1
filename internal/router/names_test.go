package router_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"layover/internal/router"
)

func route(name string, change func(*router.Route)) router.Route {
	r := router.Route{Name: name, Budget: time.Second, MaxBudget: time.Minute}
	change(&r)
	return r
}

func TestNamesMatch(t *testing.T) {
	names, err := router.NewNames([]router.Route{
		route("internal", func(r *router.Route) { r.Host, r.Path, r.Actor = "api.example.com", "/internal", "ops" }),
		route("api", func(r *router.Route) { r.Host, r.Actor = "API.example.com.", "api" }),
		route("header", func(r *router.Route) { r.Header, r.Value = "X-Actor", "{actor}" }),
		route("canary", func(r *router.Route) { r.Header, r.Value, r.Actor = "X-Canary", "yes", "canary" }),
		route("preview", func(r *router.Route) { r.Host = "pr-{actor}.preview.example.com" }),
		route("local", func(r *router.Route) { r.Host = "{actor}.localhost" }),
		route("v6", func(r *router.Route) { r.Host, r.Actor = "[::1]", "six" }),
		route("files", func(r *router.Route) { r.Path, r.Actor = "/files/", "files" }),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host, path, header, value string
		route, actor              string // both empty: no match
	}{
		{host: "api.example.com", path: "/", route: "api", actor: "api"},
		{host: "api.example.com", path: "/internal", route: "internal", actor: "ops"},
		{host: "api.example.com", path: "/internal/x", route: "internal", actor: "ops"},
		{host: "api.example.com", path: "/internal?x", route: "internal", actor: "ops"},
		{host: "api.example.com", path: "/internals", route: "api", actor: "api"},
		{host: "api.example.com", path: "/%69nternal", route: "api", actor: "api"}, // R49: raw paths are not decoded
		{host: "API.Example.COM:8080", path: "/", route: "api", actor: "api"},      // R50
		{host: "api.example.com.", path: "/", route: "api", actor: "api"},          // R50
		{host: "api.example.com.:443", path: "/", route: "api", actor: "api"},      // R50
		{host: "[::1]:8080", path: "/", route: "v6", actor: "six"},
		{host: "::1", path: "/", route: "v6", actor: "six"},
		{host: "hello.localhost:8080", path: "/", route: "local", actor: "hello"},
		{host: "HELLO.localhost", path: "/", route: "local", actor: "hello"},
		{host: "a.b.localhost", path: "/"},
		{host: ".localhost", path: "/"},
		{host: "localhost", path: "/"},
		{host: "pr-17.preview.example.com", path: "/", route: "preview", actor: "17"},
		{host: "pr-.preview.example.com", path: "/"},
		{host: "hello.localhost", path: "/", header: "X-Actor", value: "other", route: "header", actor: "other"},
		{host: "hello.localhost", path: "/", header: "X-Canary", value: "yes", route: "canary", actor: "canary"},
		{host: "hello.localhost", path: "/", header: "X-Canary", value: "no", route: "local", actor: "hello"},
		{host: "elsewhere", path: "/files/a", route: "files", actor: "files"},
		{host: "elsewhere", path: "/files"},
		{host: "", path: "/"},
	} {
		h := http.Header{}
		h.Set(c.header, c.value)
		route, actor, ok := names.Match(c.host, c.path, h.Get)
		if route.Name != c.route || actor != c.actor || ok != (c.route != "") {
			t.Errorf("Match(%q, %q, %s=%s) = %q, %q, %v; want %q, %q", c.host, c.path, c.header, c.value, route.Name, actor, ok, c.route, c.actor)
		}
	}
}

func TestNewNamesRefusesRoutesThatCannotWork(t *testing.T) {
	for _, c := range []struct {
		change func(*router.Route)
		want   string
	}{
		{func(r *router.Route) { r.Host = "example.com" }, "names no actor"},
		{func(r *router.Route) { r.Host, r.Actor = "{actor}.localhost", "a" }, "more than once"},
		{func(r *router.Route) { r.Host = "{actor}.{actor}.localhost" }, "more than one placeholder"},
		{func(r *router.Route) { r.Actor, r.Value = "a", "v" }, "no header name"},
		{func(r *router.Route) { r.Actor, r.Path = "a", "api" }, "begin with a slash"},
		{func(r *router.Route) { r.Actor, r.Budget = "a", 0 }, "budget must be above zero"},
		{func(r *router.Route) { r.Actor, r.MaxBudget = "a", time.Millisecond }, "below budget"},
	} {
		_, err := router.NewNames([]router.Route{route("r", c.change)})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `"r"`) {
			t.Errorf("NewNames error = %v, want one about route %q: %q", err, "r", c.want)
		}
	}
	twice := route("twice", func(r *router.Route) { r.Actor = "a" })
	if _, err := router.NewNames([]router.Route{twice, twice}); err == nil {
		t.Error("NewNames accepts two routes of one name")
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("{actor}.localhost", "hello.localhost:80", "/api", "/api/x")
	f.Add("a{actor}b", "ab", "/", "")
	f.Add("[::1]", "[::1]:1", "/%2f", "//")
	f.Fuzz(func(t *testing.T, pattern, host, prefix, path string) {
		names, err := router.NewNames([]router.Route{
			route("host", func(r *router.Route) { r.Host = pattern }),
			route("path", func(r *router.Route) { r.Path, r.Actor = prefix, "fixed" }),
		})
		if err != nil {
			return
		}
		matched, actor, ok := names.Match(host, path, func(string) string { return "" })
		if !ok {
			return
		}
		if actor == "" || strings.Contains(actor, ".") {
			t.Errorf("%q on %q names the actor %q", pattern, host, actor)
		}
		if matched.Name == "path" && !strings.HasPrefix(path, prefix) {
			t.Errorf("path %q matches the prefix %q", path, prefix)
		}
	})
}
