package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"layover/internal/admin"
	"layover/internal/cli"
	"layover/internal/envoy"
	"layover/internal/substrate"
)

// config is the command line.
type config struct {
	parkBudget     time.Duration
	parkMax        int
	retryInterval  time.Duration
	retryFactor    float64
	retryJitter    float64
	attemptTimeout time.Duration
	routeTimeout   time.Duration
	maxRequests    int
	drainDelay     time.Duration
	drainTimeout   time.Duration

	ateapi     string
	access     substrate.Access
	hostSuffix string
	actorPort  uint16
	listen     string // of our own front; empty: none

	http, https string // Envoy's
	cert, key   string
	extproc     string // ours
	xds         string
	host        string // under which Envoy finds us
	envoyAdmin  string
	accessLog   string
	status      string
	metrics     string

	logLevel  string
	logFormat string
}

// Parking off: only Aborted is retried, and for so long.
const failFastBudget = 15 * time.Second

// flags are all of serve; bootstrap has those of the plan only.
func (c *config) flags(f *pflag.FlagSet) {
	c.planFlags(f)
	f.DurationVar(&c.retryInterval, "parked-request-retry-interval", 100*time.Millisecond, "time between two attempts while there is no worker, and the first pause after other refusals")
	f.Float64Var(&c.retryFactor, "parked-request-retry-factor", 1.1, "how much longer each further pause is; at least 1")
	f.Float64Var(&c.retryJitter, "parked-request-retry-jitter", 0.1, "part of each pause by which it may be shorter or longer; in [0,1)")
	f.DurationVar(&c.attemptTimeout, "resume-attempt-timeout", time.Minute, "bound on one call that resumes an actor")
	f.DurationVar(&c.drainDelay, "drain-delay", 0, "how long a stop waits, not ready any more, before it has Envoy drain: until nobody sends requests here")
	f.StringVar(&c.ateapi, "ateapi-address", "", "control plane, as host:port or another gRPC target (required)")
	f.StringVar(&c.access.CAFile, "ateapi-ca", "", "`file` with the certificates that may sign the control plane's (default the system's)")
	f.StringVar(&c.access.TokenFile, "ateapi-token-file", "", "`file` with the bearer token for the control plane; read again when it changes")
	f.StringVar(&c.access.ServerName, "ateapi-server-name", "", "`name` in the control plane's certificate (default the address's host)")
	f.BoolVar(&c.access.Insecure, "ateapi-insecure", false, "talk to the control plane without TLS")
	f.StringVar(&c.hostSuffix, "host-suffix", substrate.HostSuffix, "what follows <actor>.<atespace>. in a host")
	f.Uint16Var(&c.actorPort, "actor-port", 80, "port at which actors listen")
	f.StringVar(&c.listen, "listen", "", "take requests at this `address`, too, without an Envoy: HTTP/1.1, and HTTP/2, in the clear (default nowhere)")
	f.StringVar(&c.status, "status-address", ":4040", "address of status page, /healthz and /readyz; off: none")
	f.StringVar(&c.metrics, "metrics-address", ":9090", "address of /metrics; off: none")
	f.StringVar(&c.logLevel, "log-level", "info", "debug, info, warn or error; debug has a line for each request")
	f.StringVar(&c.logFormat, "log-format", cli.FormatText, "text or json")
}

// planFlags are those that Envoy's configuration depends on.
func (c *config) planFlags(f *pflag.FlagSet) {
	d := envoy.DefaultPlan()
	f.DurationVar(&c.parkBudget, "parked-request-budget", d.Budget, "how long a request may wait for its actor")
	f.IntVar(&c.parkMax, "parked-request-max", d.Lot, "how many requests may be parked at once; 0 turns parking off: whoever would park is refused at once")
	f.DurationVar(&c.routeTimeout, "route-timeout", d.RouteTimeout, "bound on a response, after the wait; 0: none")
	f.IntVar(&c.maxRequests, "extproc-max-requests", 0, "how many requests Envoy lets the router have at once; 0: twice the lot, at least 1024")
	f.DurationVar(&c.drainTimeout, "drain-timeout", 0, "how long a stop waits for requests; 0: as long as one can take")
	f.StringVar(&c.http, "http-address", d.HTTP, "where Envoy listens in the clear, as ip:port; off: nowhere")
	f.StringVar(&c.https, "https-address", "", "where Envoy listens with TLS, as ip:port (default 0.0.0.0:8443 if there is a certificate)")
	f.StringVar(&c.cert, "tls-cert", "", "`file` with Envoy's certificate chain, where Envoy runs")
	f.StringVar(&c.key, "tls-key", "", "`file` with its key, where Envoy runs")
	f.StringVar(&c.extproc, "extproc-address", d.Processor, "where the router listens for Envoy's requests (ext_proc)")
	f.StringVar(&c.xds, "xds-address", d.XDS, "where the router listens for Envoys that want their configuration (xDS)")
	f.StringVar(&c.host, "router-host", "", "`host` at which Envoy finds the router (default that of --extproc-address and --xds-address)")
	f.StringVar(&c.envoyAdmin, "envoy-admin", d.Admin, "Envoy's admin interface, as ip:port, by which a stop has Envoy drain; off: it has none")
	f.StringVar(&c.accessLog, "access-log", "", "`file` for Envoy's access log, such as /dev/stdout (default none)")
}

// plan is what Envoy is told.
func (c *config) plan() envoy.Plan {
	p := envoy.DefaultPlan()
	p.HTTP, p.HTTPS, p.Certificate, p.Key = unlessOff(c.http), unlessOff(c.https), c.cert, c.key
	if p.HTTPS == "" && c.https == "" && c.cert != "" {
		p.HTTPS = "0.0.0.0:8443"
	}
	p.Processor, p.XDS, p.Admin, p.AccessLog = c.seenFromEnvoy(c.extproc), c.seenFromEnvoy(c.xds), unlessOff(c.envoyAdmin), c.accessLog
	p.Lot, p.MaxRequests, p.Budget, p.RouteTimeout, p.DrainTimeout = c.parkMax, c.maxRequests, c.budget(), c.routeTimeout, c.drainTimeout
	// A held request is silent: what ends silent streams must not be shorter.
	longest := p.MessageTimeout() + time.Minute
	p.StreamIdle, p.TunnelIdle = max(p.StreamIdle, longest), max(p.TunnelIdle, longest)
	return p
}

// budget is the longest that a request is held.
func (c *config) budget() time.Duration {
	if c.parkMax == 0 {
		return failFastBudget
	}
	return c.parkBudget
}

// seenFromEnvoy is one of our addresses as Envoy has to call it.
func (c *config) seenFromEnvoy(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr // the check says what is wrong with it
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	if c.host != "" {
		host = c.host
	}
	return net.JoinHostPort(host, port)
}

func unlessOff(addr string) string {
	if addr == "off" {
		return ""
	}
	return addr
}

// flagOf is the flag that sets a field of the plan.
var flagOf = map[string]string{
	"Lot": "parked-request-max", "MaxRequests": "extproc-max-requests", "Budget": "parked-request-budget",
	"RouteTimeout": "route-timeout", "DrainTimeout": "drain-timeout",
	"HTTP": "http-address", "HTTPS": "https-address", "Processor": "extproc-address", "XDS": "xds-address", "Admin": "envoy-admin",
}

// checkPlan returns the plan and what is doubtful about it. The error is all
// that is refused.
func (c *config) checkPlan() (p envoy.Plan, doubts []string, err error) {
	p = c.plan()
	var refused []error
	for _, problem := range p.Check() {
		text := problem.String()
		if flag := flagOf[problem.Field]; flag != "" {
			text = "--" + flag + ": " + problem.Text
		}
		if problem.Fatal {
			refused = append(refused, errors.New(text))
		} else {
			doubts = append(doubts, text)
		}
	}
	if c.parkBudget <= 0 && c.parkMax == 0 { // the plan does not see it
		refused = append(refused, fmt.Errorf("--parked-request-budget: %v is no time to wait", c.parkBudget))
	}
	return p, doubts, errors.Join(refused...)
}

// check returns what is wrong with the flags, all at once.
func (c *config) check() (p envoy.Plan, doubts []string, err error) {
	p, doubts, planErr := c.checkPlan()
	refused := []error{planErr}
	refuse := func(flag, format string, args ...any) {
		refused = append(refused, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
	}
	if c.retryInterval <= 0 {
		refuse("parked-request-retry-interval", "%v would ask the control plane without a pause: write a time such as 100ms", c.retryInterval)
	}
	if !(c.retryFactor >= 1) {
		refuse("parked-request-retry-factor", "%v: pauses cannot get shorter: write at least 1", c.retryFactor)
	}
	if !(c.retryJitter >= 0 && c.retryJitter < 1) {
		refuse("parked-request-retry-jitter", "%v: write at least 0 and less than 1", c.retryJitter)
	}
	if c.attemptTimeout <= 0 {
		refuse("resume-attempt-timeout", "%v: write a time such as 60s", c.attemptTimeout)
	}
	if c.drainDelay < 0 {
		refuse("drain-delay", "%v is negative: write 0 for no delay", c.drainDelay)
	}
	if c.ateapi == "" {
		refuse("ateapi-address", "it is missing: write the control plane's host:port")
	} else if _, _, err := net.SplitHostPort(c.ateapi); err != nil && !strings.Contains(c.ateapi, "://") && !strings.HasPrefix(c.ateapi, "unix:") {
		refuse("ateapi-address", "%q: write host:port, or a gRPC target such as dns:///host:port", c.ateapi)
	}
	if c.hostSuffix == "" || strings.Trim(c.hostSuffix, ".") == "" {
		refuse("host-suffix", "it is empty: write what follows <actor>.<atespace>. in a host")
	}
	if c.actorPort == 0 {
		refuse("actor-port", "0 is no port: write the one at which actors listen")
	}
	for flag, addr := range map[string]string{"status-address": c.status, "metrics-address": c.metrics, "listen": c.listen} {
		if _, _, err := net.SplitHostPort(addr); err != nil && addr != "off" && addr != "" {
			refuse(flag, "%q: write host:port, :port or off", addr)
		}
	}
	if _, err := cli.Level(c.logLevel); err != nil {
		refuse("log-level", "%v", err)
	}
	if c.logFormat != cli.FormatText && c.logFormat != cli.FormatJSON {
		refuse("log-format", "%q: write text or json", c.logFormat)
	}
	if c.access.Insecure && c.access.TokenFile != "" {
		doubts = append(doubts, "--ateapi-insecure: the token goes over the wire in the clear")
	}
	return p, doubts, errors.Join(refused...)
}

// inForce is the command line and its time plan, for the status page.
func inForce(plan envoy.Plan, shown []admin.Setting) admin.Configuration {
	c := admin.Configuration{File: "the command line, and its defaults"}
	for _, s := range shown {
		c.Text += s.Name + "=" + s.Value + "\n"
	}
	var b strings.Builder
	plan.Explain(&b) // it cannot fail
	c.Plan = b.String()
	return c
}

// settings are all flags, given or not, for the status page. Secrets are in files; a URL may
// have one all the same.
func settings(flags *pflag.FlagSet) (all []admin.Setting) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "version" {
			all = append(all, admin.Setting{Name: "--" + f.Name, Value: cli.HideUserinfo(f.Value.String())})
		}
	})
	return all
}
