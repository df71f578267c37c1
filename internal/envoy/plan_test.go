package envoy_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"layover/internal/envoy"
)

func TestTheDefaultPlanContradictsNothing(t *testing.T) {
	if problems := envoy.DefaultPlan().Check(); len(problems) > 0 {
		t.Errorf("Check = %v", problems)
	}
}

func TestCheckFindsContradictions(t *testing.T) {
	for _, tc := range []struct {
		name    string
		breakIt func(*envoy.Plan)
		field   string
		fatal   bool
		says    string
	}{
		{"a limit below the lot", func(p *envoy.Plan) { p.MaxRequests = 1023 }, "MaxRequests", true, "at least 1024"},
		{"a limit below twice the lot", func(p *envoy.Plan) { p.MaxRequests = 2047 }, "MaxRequests", false, "twice the lot"},
		{"a negative limit", func(p *envoy.Plan) { p.MaxRequests = -1 }, "MaxRequests", true, "use 0"},
		{"more requests than streams", func(p *envoy.Plan) { p.Lot = 1 << 31 }, "MaxRequests", true, "HTTP/2"},
		{"a negative lot", func(p *envoy.Plan) { p.Lot = -1 }, "Lot", true, "use 0"},
		{"no budget", func(p *envoy.Plan) { p.Budget = 0 }, "Budget", true, "no time"},
		{"a budget that Envoy cannot wait for", func(p *envoy.Plan) { p.Budget, p.StreamIdle, p.TunnelIdle = time.Hour, 0, 0 }, "Budget", true, "59m55s"},
		{"a hold that the idle timeout cuts", func(p *envoy.Plan) { p.StreamIdle = 10 * time.Second }, "StreamIdle", true, "408"},
		{"a response that the idle timeout cuts", func(p *envoy.Plan) { p.RouteTimeout = 5 * time.Minute }, "StreamIdle", false, "longer"},
		{"an unbounded response that the idle timeout cuts", func(p *envoy.Plan) { p.RouteTimeout = 0 }, "StreamIdle", false, "longer"},
		{"a negative idle timeout", func(p *envoy.Plan) { p.StreamIdle = -1 }, "StreamIdle", true, "use 0"},
		{"a tunnel that is cut while it is held", func(p *envoy.Plan) { p.TunnelIdle = time.Second }, "TunnelIdle", true, "longer"},
		{"a negative tunnel timeout", func(p *envoy.Plan) { p.TunnelIdle = -1 }, "TunnelIdle", true, "use 0"},
		{"a negative route timeout", func(p *envoy.Plan) { p.RouteTimeout = -1 }, "RouteTimeout", true, "use 0"},
		{"R73: a stop that drops the parked", func(p *envoy.Plan) { p.DrainTimeout = 4999 * time.Millisecond }, "DrainTimeout", true, "at least 5s"},
		{"a stop that cuts responses", func(p *envoy.Plan) { p.DrainTimeout = 14 * time.Second }, "DrainTimeout", false, "cut responses"},
		{"a negative stop", func(p *envoy.Plan) { p.DrainTimeout = -1 }, "DrainTimeout", true, "use 0"},
		{"nowhere to listen", func(p *envoy.Plan) { p.HTTP = "" }, "HTTP", true, "nowhere"},
		{"a name to listen at", func(p *envoy.Plan) { p.HTTP = "localhost:8080" }, "HTTP", true, "ip:port"},
		{"one port for two", func(p *envoy.Plan) { p.HTTPS, p.Certificate, p.Key = "127.0.0.1:8080", "c", "k" }, "HTTPS", true, "taken"},
		{"TLS without a key", func(p *envoy.Plan) { p.HTTPS, p.Certificate = "0.0.0.0:8443", "c" }, "HTTPS", true, "belong together"},
		{"TLS without a certificate", func(p *envoy.Plan) { p.HTTPS = "0.0.0.0:8443" }, "HTTPS", true, "belong together"},
		{"an admin interface for everybody", func(p *envoy.Plan) { p.Admin = "0.0.0.0:9901" }, "Admin", false, "127.0.0.1"},
		{"a processor without a port", func(p *envoy.Plan) { p.Processor = "router" }, "Processor", true, "host:port"},
		{"an xDS server without a host", func(p *envoy.Plan) { p.XDS = ":18000" }, "XDS", true, "host:port"},
	} {
		p := envoy.DefaultPlan()
		tc.breakIt(&p)
		problems := p.Check()
		if len(problems) != 1 {
			t.Errorf("%s: Check = %v, want one problem", tc.name, problems)
			continue
		}
		if got := problems[0]; got.Field != tc.field || got.Fatal != tc.fatal || !strings.Contains(got.Text, tc.says) {
			t.Errorf("%s: Check = %+v, want one of %s, fatal %v, that says %q", tc.name, got, tc.field, tc.fatal, tc.says)
		}
		_, err := envoy.NewServer(context.Background(), p, nil)
		if refused := err != nil; refused != tc.fatal {
			t.Errorf("%s: NewServer = %v", tc.name, err)
		}
	}
}

func TestWhatIsLeftOutIsDerived(t *testing.T) {
	for _, tc := range []struct {
		p        envoy.Plan
		requests int
		drain    time.Duration
	}{
		{envoy.Plan{Lot: 0, Budget: 5 * time.Second, RouteTimeout: 10 * time.Second}, 1024, 20 * time.Second},
		{envoy.Plan{Lot: 512, Budget: 5 * time.Second}, 1024, 40 * time.Second},
		{envoy.Plan{Lot: 4096, Budget: time.Minute, DrainTimeout: time.Hour}, 8192, time.Hour},
		{envoy.Plan{Lot: 4096, MaxRequests: 5000}, 5000, 35 * time.Second},
	} {
		if got := tc.p.Requests(); got != tc.requests {
			t.Errorf("%+v: Requests = %d, want %d", tc.p, got, tc.requests)
		}
		if got := tc.p.Drain(); got != tc.drain {
			t.Errorf("%+v: Drain = %v, want %v", tc.p, got, tc.drain)
		}
	}
}

func TestANetworkOfTrustedPeersHasToBeOne(t *testing.T) {
	p := envoy.DefaultPlan()
	p.Trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	if problems := p.Check(); len(problems) != 0 {
		t.Errorf("good networks: %v", problems)
	}
	for _, bad := range []netip.Prefix{{}, netip.MustParsePrefix("10.0.0.1/8")} {
		p.Trusted = []netip.Prefix{bad}
		if problems := p.Check(); len(problems) != 1 || problems[0].Field != "Trusted" || !problems[0].Fatal {
			t.Errorf("%v: %v, want a refusal", bad, problems)
		}
	}
}
