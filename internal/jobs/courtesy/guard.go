package courtesy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"layover/internal/jobs/board"
)

// longestURL is more than any board's addresses need.
const longestURL = 4096

// guard lets requests through to the boards' hosts only. It sees what is really
// sent: redirects and repeats too.
type guard struct {
	next  http.RoundTripper
	plain bool // the way to a stand-in for the network, which speaks no TLS

	mu    sync.Mutex
	hosts []string // patterns, as in board.Board
}

func (g *guard) allow(hosts []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range hosts {
		if !slices.Contains(g.hosts, h) {
			g.hosts = append(g.hosts, h)
		}
	}
}

func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	hosts := g.hosts
	g.mu.Unlock()
	if _, err := hostOf(r.URL, hosts); err != nil {
		return nil, err
	}
	if r.Host != "" && r.Host != r.URL.Host {
		return nil, refuse("the Host header names another host than the URL")
	}
	if g.plain {
		r = r.Clone(r.Context())
		r.URL.Scheme = "http"
	}
	return g.next.RoundTrip(r)
}

// checked returns the host of a request to b, if it is one of b's.
func checked(b *board.Board, r board.Request) (string, error) {
	if len(r.URL) > longestURL {
		return "", refuse("the URL is too long")
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return "", refuse("the URL cannot be read") // its text is in err, and may be secret
	}
	return hostOf(u, b.Hosts)
}

// hostOf returns the host of u if it is in a form that leaves nothing to
// interpretation and one of hosts.
func hostOf(u *url.URL, hosts []string) (string, error) {
	host := u.Hostname()
	switch {
	case u.Scheme != "https":
		return "", refuse("boards are read by https only")
	case u.User != nil:
		return "", refuse("the URL has a user in it")
	case u.Port() != "" && u.Port() != "443":
		return "", refuse("port " + u.Port() + ": boards are read on 443 only")
	case !slices.ContainsFunc(hosts, func(pattern string) bool { return matches(pattern, host) }):
		return "", refuse("host " + clip(host) + " is not one of the board's")
	}
	return host, nil
}

// matches reports whether host is what pattern stands for: itself, or with
// each "*." in front one label before it.
func matches(pattern, host string) bool {
	rest, any := strings.CutPrefix(pattern, "*.")
	if !any {
		return host == pattern
	}
	label, host, ok := strings.Cut(host, ".")
	return ok && isLabel(label) && matches(rest, host)
}

// isLabel reports whether s is one label of a host name, in lower case.
func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-') {
			return false
		}
	}
	return true
}

func clip(s string) string {
	const longest = 80
	if len(s) > longest {
		return strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}
