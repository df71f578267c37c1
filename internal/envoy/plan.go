// Package envoy has the configuration of the Envoy in front of an ext_proc
// server whose answers can take a while: the plan of its times and limits, the
// check that they do not contradict each other, and its three forms.
//
//	p := envoy.DefaultPlan()
//	p.Budget = 10 * time.Second
//	for _, problem := range p.Check() { ... }     // before anything is served
//	s, err := envoy.NewServer(ctx, p, onReject)    // xDS, for a running Envoy
//	envoy.Write(w, p.Bootstrap())                  // what that Envoy is started with
//	envoy.Write(w, p.Static())                     // or everything in one file
//
// A Plan is a value; a Server may be used from any goroutine.
package envoy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

const (
	// margin is what Envoy waits beyond the longest hold, so that the refusal at
	// the end of a budget comes from the processor, never from Envoy's timer.
	margin = 5 * time.Second
	// maxMessageTimeout is the longest that Envoy accepts.
	maxMessageTimeout = time.Hour
	// minRequests is Envoy's own limit on the active requests of a cluster.
	minRequests = 1024
	// maxStreams is the most concurrent streams that HTTP/2 can express.
	maxStreams = 1<<31 - 1
	// buffer is what Envoy keeps of a body or of a stream that is not read: what
	// an upload costs while its request is held.
	buffer = 256 << 10
)

// Plan is what can be chosen about the Envoy. Start from DefaultPlan: the zero
// value is refused by Check.
type Plan struct {
	HTTP        string // address to listen at in the clear, as ip:port; empty: not
	HTTPS       string // address to listen at with TLS, as ip:port; empty: not
	Certificate string // for HTTPS: file with the chain, where Envoy runs
	Key         string // for HTTPS: file with the key, where Envoy runs
	Processor   string // where Envoy finds the ext_proc server, as host:port
	XDS         string // where Envoy finds the xDS server, as host:port
	Admin       string // address of Envoy's admin interface, as ip:port; empty: none
	AccessLog   string // file for the access log, where Envoy runs, like /dev/stdout; empty: none

	Lot         int           // most requests that are parked at a time
	MaxRequests int           // most that the processor has at a time; 0: twice the lot and at least 1024
	Budget      time.Duration // the longest that the processor holds a request

	// RouteTimeout bounds the response, from the moment that the request was let
	// go and is complete. Tunnels have no such bound. Zero: none has.
	RouteTimeout time.Duration
	// StreamIdle is how long nothing may pass on a request, the hold included;
	// TunnelIdle is the same for a tunnel. Zero: any time.
	StreamIdle, TunnelIdle time.Duration
	// DrainTimeout is how long a stop waits for requests. Zero: as long as one can
	// take, which is Drain.
	DrainTimeout time.Duration

	// Trusted are the peers whose X-Forwarded-..., Forwarded and X-Request-Id headers
	// are believed. The processor is told of their requests in the metadata of
	// its stream: PeerMetadata is PeerTrusted.
	Trusted []netip.Prefix
	// OnlyTrusted takes X-Forwarded-... and Forwarded off the requests of all other
	// peers, and adds X-Forwarded-Host. False: as Envoy does by itself, which adds
	// to them.
	OnlyTrusted bool
	// Private are further headers that pass neither to actors nor from them.
	Private []string

	// WholeResponse keeps the processor's stream open until the response is
	// complete or the tunnel closed: for a processor that has to know how long an
	// actor is in use.
	WholeResponse bool
}

// DefaultPlan returns the plan of an atenet-router without flags.
func DefaultPlan() Plan {
	return Plan{
		HTTP:      "0.0.0.0:8080",
		Processor: "127.0.0.1:50051",
		XDS:       "127.0.0.1:18000",
		Admin:     "127.0.0.1:9901",

		Lot:          1024,
		Budget:       5 * time.Second,
		RouteTimeout: 10 * time.Second,
		StreamIdle:   5 * time.Minute,
		TunnelIdle:   time.Hour,
	}
}

// MessageTimeout is how long Envoy waits for the processor's answer: the hold
// and a margin.
func (p Plan) MessageTimeout() time.Duration { return p.Budget + margin }

// Requests is how many requests Envoy lets the processor have at a time.
func (p Plan) Requests() int {
	if p.MaxRequests > 0 {
		return p.MaxRequests
	}
	return max(2*p.Lot, minRequests)
}

// Drain is how long a stop waits for requests: by default what one that has
// just come can take. Without a route timeout half a minute is allowed for the
// response.
func (p Plan) Drain() time.Duration {
	switch {
	case p.DrainTimeout > 0:
		return p.DrainTimeout
	case p.RouteTimeout > 0:
		return p.MessageTimeout() + p.RouteTimeout
	}
	return p.MessageTimeout() + 30*time.Second
}

// Problem is a contradiction in a plan.
type Problem struct {
	Field string // of Plan
	Text  string // what is wrong, and what to do
	Fatal bool   // it would lose requests or not start at all
}

func (p Problem) String() string { return p.Field + ": " + p.Text }

// Check returns what contradicts itself in the plan, the fatal first.
func (p Plan) Check() []Problem {
	var c checker
	p.checkTimes(&c)
	p.checkLimits(&c)
	p.checkAddresses(&c)
	slices.SortStableFunc(c.problems, func(a, b Problem) int {
		switch {
		case a.Fatal == b.Fatal:
			return 0
		case a.Fatal:
			return -1
		}
		return 1
	})
	return c.problems
}

// refusal returns what Check refuses as one error, nil if it refuses nothing.
func (p Plan) refusal() error {
	var all []error
	for _, problem := range p.Check() {
		if problem.Fatal {
			all = append(all, errors.New("envoy: "+problem.String()))
		}
	}
	return errors.Join(all...)
}

type checker struct{ problems []Problem }

func (c *checker) refuse(field, format string, args ...any) {
	c.problems = append(c.problems, Problem{field, fmt.Sprintf(format, args...), true})
}

func (c *checker) warn(field, format string, args ...any) {
	c.problems = append(c.problems, Problem{field, fmt.Sprintf(format, args...), false})
}

func (p Plan) checkTimes(c *checker) {
	hold := p.MessageTimeout()
	switch {
	case p.Budget <= 0:
		c.refuse("Budget", "%v is no time to wait: make it at least a few seconds", p.Budget)
	case hold > maxMessageTimeout:
		c.refuse("Budget", "%v and %v of margin are more than the hour that Envoy can wait for an answer: make it at most %v",
			p.Budget, margin, maxMessageTimeout-margin)
	}
	if p.RouteTimeout < 0 {
		c.refuse("RouteTimeout", "%v is negative: use 0 for no bound on responses", p.RouteTimeout)
	}
	switch {
	case p.StreamIdle < 0:
		c.refuse("StreamIdle", "%v is negative: use 0 for no bound", p.StreamIdle)
	case p.StreamIdle > 0 && p.StreamIdle <= hold:
		c.refuse("StreamIdle", "nothing passes on a request that is held, so %v would end it (408) before Envoy's wait of %v is over: make it longer than that",
			p.StreamIdle, hold)
	case p.StreamIdle > 0 && (p.RouteTimeout == 0 || p.RouteTimeout >= p.StreamIdle):
		c.warn("StreamIdle", "a response that pauses for %v is cut although the route timeout (%v) would allow it: make it longer", p.StreamIdle, p.RouteTimeout)
	}
	if p.TunnelIdle < 0 {
		c.refuse("TunnelIdle", "%v is negative: use 0 for no bound", p.TunnelIdle)
	} else if p.TunnelIdle > 0 && p.TunnelIdle <= hold {
		c.refuse("TunnelIdle", "%v would end a tunnel that is held before Envoy's wait of %v is over: make it longer than that", p.TunnelIdle, hold)
	}
	switch {
	case p.DrainTimeout < 0:
		c.refuse("DrainTimeout", "%v is negative: use 0 for as long as a request can take", p.DrainTimeout)
	case p.DrainTimeout > 0 && p.DrainTimeout < p.Budget:
		c.refuse("DrainTimeout", "%v is shorter than the %v that a parked request may wait: a stop would drop parked requests; make it at least %v",
			p.DrainTimeout, p.Budget, p.Budget)
	case p.DrainTimeout > 0 && p.DrainTimeout < p.Budget+p.RouteTimeout:
		c.warn("DrainTimeout", "%v is shorter than a hold of %v and a response of %v: a stop can cut responses", p.DrainTimeout, p.Budget, p.RouteTimeout)
	}
}

func (p Plan) checkLimits(c *checker) {
	if p.Lot < 0 {
		c.refuse("Lot", "%d is negative: use 0 to park nothing", p.Lot)
	}
	switch {
	case p.MaxRequests < 0:
		c.refuse("MaxRequests", "%d is negative: use 0 for twice the lot", p.MaxRequests)
	case p.MaxRequests > 0 && p.MaxRequests < p.Lot:
		c.refuse("MaxRequests", "%d is below the lot of %d: Envoy would answer 503 by itself before the lot is full; use 0 for twice the lot, or at least %d",
			p.MaxRequests, p.Lot, p.Lot)
	case p.MaxRequests > 0 && p.MaxRequests < 2*p.Lot:
		c.warn("MaxRequests", "%d is below twice the lot of %d: with the lot full, requests to running actors can be refused by Envoy", p.MaxRequests, p.Lot)
	case p.Requests() > maxStreams:
		c.refuse("MaxRequests", "%d is more than HTTP/2 has streams: at most %d", p.Requests(), maxStreams)
	}
}

func (p Plan) checkAddresses(c *checker) {
	if p.HTTP == "" && p.HTTPS == "" {
		c.refuse("HTTP", "there is nowhere to listen at: set HTTP or HTTPS")
	}
	for _, at := range []struct{ field, addr string }{{"HTTP", p.HTTP}, {"HTTPS", p.HTTPS}, {"Admin", p.Admin}} {
		if at.addr == "" {
			continue
		}
		if addr, err := netip.ParseAddrPort(at.addr); err != nil || addr.Port() == 0 {
			c.refuse(at.field, "%q is no address to listen at: use ip:port, like 0.0.0.0:8080", at.addr)
		}
	}
	for _, at := range []struct{ field, addr string }{{"Processor", p.Processor}, {"XDS", p.XDS}} {
		if host, port, err := splitHostPort(at.addr); err != nil || host == "" || port == 0 {
			c.refuse(at.field, "%q is no address that Envoy can connect to: use host:port", at.addr)
		}
	}
	if p.HTTP != "" && sharePort(p.HTTP, p.HTTPS) {
		c.refuse("HTTPS", "%s is taken by HTTP: use another port", p.HTTPS)
	}
	if (p.HTTPS != "") != (p.Certificate != "") || (p.Certificate != "") != (p.Key != "") {
		c.refuse("HTTPS", "HTTPS, Certificate and Key belong together: set all three or none")
	}
	for _, peer := range p.Trusted {
		if !peer.IsValid() || peer != peer.Masked() {
			c.refuse("Trusted", "%v is no network: use one like 10.0.0.0/8", peer)
		}
	}
	if addr, err := netip.ParseAddrPort(p.Admin); err == nil && !addr.Addr().IsLoopback() {
		c.warn("Admin", "whoever reaches %s can stop this Envoy and read its configuration: use 127.0.0.1", p.Admin)
	}
}

func splitHostPort(addr string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return host, uint16(n), err
}

func sharePort(a, b string) bool {
	x, err := netip.ParseAddrPort(a)
	y, err2 := netip.ParseAddrPort(b)
	return err == nil && err2 == nil && x.Port() == y.Port() &&
		(x.Addr() == y.Addr() || x.Addr().IsUnspecified() || y.Addr().IsUnspecified())
}

// Explain writes which timer and which limit ends what, for people.
func (p Plan) Explain(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	unlessZero := func(d time.Duration) string {
		if d == 0 {
			return "none"
		}
		return d.String()
	}
	for _, row := range [][2]string{
		{"hold, at most", fmt.Sprintf("%v, then 503 with Retry-After", p.Budget)},
		{"Envoy waits for the router", fmt.Sprintf("%v, then 504; reached only if the router hangs", p.MessageTimeout())},
		{"response, after the hold", unlessZero(p.RouteTimeout) + "; tunnels: none"},
		{"nothing passes on a request", unlessZero(p.StreamIdle) + "; on a tunnel: " + unlessZero(p.TunnelIdle)},
		{"stop waits", p.Drain().String()},
		{"parked", fmt.Sprintf("%d at a time", p.Lot)},
		{"with the router", fmt.Sprintf("%d at a time, then Envoy's own 503; so many streams a client's HTTP/2 connection may have", p.Requests())},
		{"body of a held request, in Envoy", fmt.Sprintf("%d KiB, so at most %d MiB for a full lot", buffer>>10, max(p.Lot, 0)*buffer>>20)},
	} {
		fmt.Fprintf(t, "%s\t%s\n", row[0], row[1])
	}
	return t.Flush()
}
