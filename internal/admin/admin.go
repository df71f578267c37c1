// Package admin shows a router to those who run it: health, metrics, a status
// page and profiles, on an address of their own.
//
//	a, err := admin.New(admin.Options{})
//	r := router.New(plane, lot, router.Options{Observe: a.Observe})
//	a.SetRouter(r)
//	a.SetReady(true)
//	go http.Serve(loopbackListener, a)
//
// Paths:
//
//	/healthz       200 while the process lives
//	/readyz        200 while it takes requests, 503 before and while it drains
//	/metrics       Prometheus text or OpenMetrics
//	/statusz       a page for people, live; without scripts ?refresh=5 loads it again every 5 s
//	/configz       the configuration in force, and its time plan
//	/statusz.json  the same for programs; ?after=NAME&limit=N pages through the actors
//	/api/v1/       lists that can be searched, and changes; docs/openapi.yaml
//	/debug/pprof/  profiles of the process
//
// It is the only part of the program that knows a metrics SDK. Labels come
// from closed sets or from the configuration, never from requests.
//
// Whoever reaches the address may read; who changes something needs the token
// that SetControl was given.
//
// All methods may be called from any goroutine.
package admin

import (
	"cmp"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"layover/internal/router"
)

// Options are the settings that may be left out.
type Options struct {
	// Public answers requests whatever host they name. Without it, only those
	// to a loopback name or address are answered, so that a web page cannot
	// read this one by pointing its own name at 127.0.0.1. Default: false.
	Public bool
	// Version is shown on the page and in layover_build_info. Default: none.
	Version string
	// Name is the program's, for the page. Default: layover.
	Name string
	// Settings are shown on the page as they are: no secrets. Default: none.
	Settings []Setting
	// ParkBudget, if it is not zero, adds the instruments of the meter
	// atenet-router. It is the longest that a request is held: one that ended
	// sooner had an end of its own. Default: none.
	ParkBudget time.Duration
	// Log is told of each change that is asked for over the API, never of a
	// token. Default: nobody is.
	Log *slog.Logger
}

// Setting is one line of the page's settings.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Admin is an http.Handler. Make it with New.
type Admin struct {
	options Options
	started time.Time
	mux     *http.ServeMux
	metrics *metrics
	router  atomic.Pointer[router.Router]
	front   atomic.Pointer[func() (int, map[string]uint64)] // see SetFront
	phase   atomic.Int32
	control atomic.Pointer[control]

	configuration atomic.Pointer[func() Configuration] // see SetConfig

	live live

	seenMu sync.Mutex // guards what look shares, and is held while one looks for all
	seen   router.Snapshot
	seenAt time.Time

	configMu sync.Mutex
	config   *config // nil: the program has told of none; see Reloaded
}

// The phases of a program's life, as /readyz tells them.
const (
	starting int32 = iota
	ready
	draining
)

// New returns an Admin that is not ready and knows no router yet.
func New(o Options) (*Admin, error) {
	a := &Admin{options: o, started: time.Now(), mux: http.NewServeMux()}
	a.options.Name = cmp.Or(o.Name, "layover")
	if o.Log == nil {
		a.options.Log = slog.New(slog.DiscardHandler)
	}
	m, err := newMetrics(a)
	if err != nil {
		return nil, err
	}
	a.metrics = m
	a.mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	a.mux.HandleFunc("/readyz", a.readyz)
	a.mux.Handle("/metrics", m.handler)
	a.mux.HandleFunc("/statusz", a.statusz)
	a.mux.HandleFunc("/statusz/live", a.statuszLive)
	a.mux.HandleFunc("/configz", a.configz)
	a.mux.HandleFunc("/statusz.css", asset("statusz.css", "text/css"))
	a.mux.HandleFunc("/statusz.js", asset("statusz.js", "text/javascript"))
	a.mux.HandleFunc("/statusz.json", a.statuszJSON)
	for pattern, handler := range a.routes() {
		a.mux.HandleFunc(pattern, handler)
	}
	a.mux.HandleFunc("/debug/pprof/", pprof.Index)
	a.mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	a.mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	a.mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	a.mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	a.mux.Handle("/{$}", http.RedirectHandler("/statusz", http.StatusFound))
	return a, nil
}

// SetRouter names the router to show.
func (a *Admin) SetRouter(r *router.Router) { a.router.Store(r) }

// SetFront names what tells of the front's connections: how many are open, and
// counts of what happened to them, by names that do not change.
func (a *Admin) SetFront(stats func() (open int, events map[string]uint64)) { a.front.Store(&stats) }

// SetConfig names what tells of the configuration in force. No secret may be in
// what it returns.
func (a *Admin) SetConfig(show func() Configuration) { a.configuration.Store(&show) }

// SetReady says whether the program takes requests. Not ready after ready
// means that it drains.
func (a *Admin) SetReady(is bool) {
	switch {
	case is:
		a.phase.Store(ready)
	default:
		a.phase.CompareAndSwap(ready, draining)
	}
}

// Observe counts a request that has its answer. It is made for
// router.Options.Observe, and does not block.
func (a *Admin) Observe(rec router.Record) { a.metrics.observe(rec) }

// ServeHTTP answers requests that may ask.
func (a *Admin) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	switch {
	case !reads(req) && !(req.Method == http.MethodPost && strings.HasPrefix(req.URL.Path, "/api/")):
		h.Set("Allow", "GET, HEAD")
		say(w, http.StatusMethodNotAllowed, "only GET and HEAD are answered here")
	case !a.options.Public && !loopback(req.Host):
		say(w, http.StatusMisdirectedRequest, "only requests to localhost or a loopback address are answered here")
	case strange(req):
		say(w, http.StatusForbidden, "requests that a page elsewhere makes are not answered here")
	default:
		a.mux.ServeHTTP(w, req)
	}
}

func reads(req *http.Request) bool {
	return req.Method == http.MethodGet || req.Method == http.MethodHead
}

// strange reports whether a browser asks for a page of another origin, which
// cannot read the answer but could have profiles made. Following a link to
// anything but a profile is no such request.
func strange(req *http.Request) bool {
	switch req.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return req.Header.Get("Sec-Fetch-Dest") != "document" || strings.HasPrefix(req.URL.Path, "/debug/")
}

// loopback reports whether a Host header names this machine to itself.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func (a *Admin) readyz(w http.ResponseWriter, _ *http.Request) {
	if word := a.state(); word != "ready" {
		say(w, http.StatusServiceUnavailable, word)
		return
	}
	say(w, http.StatusOK, "ready")
}

func (a *Admin) state() string {
	return [...]string{starting: "starting", ready: "ready", draining: "draining"}[a.phase.Load()]
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	io.WriteString(w, text+"\n")
}
