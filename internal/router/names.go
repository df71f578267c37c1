package router

import (
	"fmt"
	"net"
	"strings"
	"time"
	"unicode"
)

// actorPlaceholder stands in a route's host or header value for the one label
// that names the actor.
const actorPlaceholder = "{actor}"

// Route says which requests are for which actor, and how long they may take.
// A condition that is empty always holds.
type Route struct {
	Name   string // bounded label for metrics and pages; unique
	Host   string // "api.example.com" or "{actor}.localhost"; compared without case, port and trailing dot
	Path   string // prefix that ends at a slash or at the end of the path: "/api" matches "/api" and "/api/x", not "/apis"
	Header string // name of a header that must be present and not empty
	Value  string // its value; empty: any; "{actor}": the value names the actor

	Actor string // the actor; empty when Host or Value has {actor}

	NoWake bool // its requests wake nobody and keep nobody awake: see Router.Glance

	Fallback      string        // Ask.Fallback of its requests
	FallbackAfter time.Duration // Ask.FallbackAfter

	Band      int           // priority band of its requests
	Budget    time.Duration // of a request that names no deadline
	MaxBudget time.Duration // the most that a request's own deadline can have

	Interim time.Duration // between signs of life to a client that waits; 0: none
	// WaitingPage is how long a browser's navigation waits as any other request
	// before it is shown a page about that; 0: as long as it lasts.
	WaitingPage time.Duration
	StreamIdle  time.Duration // a response or tunnel on which nothing passes for so long is closed; 0: none is
}

// Names finds the route of a request. It is immutable; the zero value has no
// routes.
type Names struct {
	byHost map[string][]ranked // routes with a literal host
	others []ranked            // any host, or a host with {actor}
}

type ranked struct {
	Route
	rank           int // position in the configuration: the lowest that matches wins
	prefix, suffix string
	actorInHost    bool
}

// NewNames checks routes and returns their table. Of several routes that
// match a request, the first in the list wins.
func NewNames(routes []Route) (*Names, error) {
	n := &Names{byHost: make(map[string][]ranked)}
	seen := make(map[string]bool)
	for i, route := range routes {
		if seen[route.Name] {
			return nil, fmt.Errorf("router: two routes are called %q", route.Name)
		}
		seen[route.Name] = true
		r := ranked{Route: route, rank: i}
		r.Host = NormalHost(route.Host)
		r.prefix, r.suffix, r.actorInHost = strings.Cut(r.Host, actorPlaceholder)
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("router: route %q: %w", route.Name, err)
		}
		if r.Host != "" && !r.actorInHost {
			n.byHost[r.Host] = append(n.byHost[r.Host], r)
		} else {
			n.others = append(n.others, r)
		}
	}
	return n, nil
}

func (r *ranked) check() error {
	sources := 0
	for _, has := range []bool{r.actorInHost, r.Value == actorPlaceholder, r.Actor != ""} {
		if has {
			sources++
		}
	}
	switch {
	case sources == 0:
		return fmt.Errorf("names no actor: set actor, or put %s into host or header value", actorPlaceholder)
	case sources > 1:
		return fmt.Errorf("names the actor more than once: use one of actor, %s in host, %[1]s as header value", actorPlaceholder)
	case r.actorInHost && strings.Contains(r.suffix, "{"):
		return fmt.Errorf("host %q has more than one placeholder", r.Route.Host)
	case hostProblem(r.Host) != "":
		return fmt.Errorf("host %q %s", r.Route.Host, hostProblem(r.Host))
	case strings.HasPrefix(r.Value, "{") && strings.HasSuffix(r.Value, "}") && r.Value != actorPlaceholder:
		return fmt.Errorf("value %q is no placeholder: use %s", r.Value, actorPlaceholder)
	case r.Header != "" && !isToken(r.Header):
		return fmt.Errorf("header %q is not a header's name: use letters, digits and dashes", r.Header)
	case strings.ContainsAny(r.Path, "?#"):
		return fmt.Errorf("path %q has a %q in it: only the path counts, without query and fragment", r.Path, r.Path[strings.IndexAny(r.Path, "?#")])
	case r.Value != "" && r.Header == "":
		return fmt.Errorf("has a header value but no header name")
	case r.Path != "" && !strings.HasPrefix(r.Path, "/"):
		return fmt.Errorf("path %q must begin with a slash", r.Path)
	case r.Budget <= 0:
		return fmt.Errorf("budget must be above zero")
	case r.MaxBudget < r.Budget:
		return fmt.Errorf("max_budget %v is below budget %v", r.MaxBudget, r.Budget)
	}
	return nil
}

// hostProblem returns what a normal host can never match, in words, or "".
func hostProblem(host string) string {
	plain := strings.Replace(host, actorPlaceholder, "x", 1)
	switch {
	case strings.Contains(plain, "*"):
		return "has a '*', which stands for nothing: use " + actorPlaceholder + " for the label that names the actor, or leave host out"
	case strings.ContainsAny(plain, "{}"):
		return "has an unknown placeholder: only " + actorPlaceholder + " is known"
	case strings.ContainsAny(plain, "/?#@"):
		return "has more in it than a host: put the path under path, and leave out the rest"
	case strings.ContainsFunc(plain, unicode.IsSpace):
		return "has a space in it"
	case strings.Contains(plain, ":") && net.ParseIP(plain) == nil:
		return "is neither a name nor an address"
	}
	return ""
}

// isToken reports whether s can be a header's name.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !strings.ContainsRune("!#$%&'*+-.^_`|~", c) && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
}

// Match returns the first route that matches and the actor it names. path is
// the raw path as the client sent it; header returns a header's first value.
func (n *Names) Match(host, path string, header func(string) string) (route Route, actor string, ok bool) {
	host = NormalHost(host)
	exact, others := n.byHost[host], n.others
	for len(exact) > 0 || len(others) > 0 {
		var next *ranked
		if len(others) == 0 || len(exact) > 0 && exact[0].rank < others[0].rank {
			next, exact = &exact[0], exact[1:]
		} else {
			next, others = &others[0], others[1:]
		}
		if actor, ok := next.match(host, path, header); ok {
			return next.Route, actor, true
		}
	}
	return Route{}, "", false
}

func (r *ranked) match(host, path string, header func(string) string) (actor string, ok bool) {
	actor = r.Actor
	if r.actorInHost {
		if actor, ok = between(host, r.prefix, r.suffix); !ok {
			return "", false
		}
	}
	if r.Path != "" && !hasPathPrefix(path, r.Path) {
		return "", false
	}
	if r.Header != "" {
		switch value := header(r.Header); {
		case value == "":
			return "", false
		case r.Value == actorPlaceholder:
			actor = value
		case r.Value != "" && r.Value != value:
			return "", false
		}
	}
	return actor, true
}

// between returns the one label of host that stands between prefix and suffix.
func between(host, prefix, suffix string) (label string, ok bool) {
	if len(host) <= len(prefix)+len(suffix) || !strings.HasPrefix(host, prefix) || !strings.HasSuffix(host, suffix) {
		return "", false
	}
	label = host[len(prefix) : len(host)-len(suffix)]
	return label, !strings.Contains(label, ".")
}

func hasPathPrefix(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == '?' || strings.HasSuffix(prefix, "/"))
}

// NormalHost lowers case and drops port, brackets and trailing dot, so that
// all spellings of one host match one route.
func NormalHost(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
