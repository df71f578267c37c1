package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// parse returns the config of a command line.
func parse(t *testing.T, args ...string) (*config, *pflag.FlagSet) {
	t.Helper()
	c := new(config)
	f := pflag.NewFlagSet("atenet-router", pflag.ContinueOnError)
	c.flags(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return c, f
}

// What operators of the router of the same name set, and what they get if they
// do not.
func TestFlagsHaveTheNamesAndDefaultsThatDeploymentsKnow(t *testing.T) {
	_, flags := parse(t)
	for name, want := range map[string]string{
		"parked-request-budget":         "5s",
		"parked-request-max":            "1024",
		"parked-request-retry-interval": "100ms",
		"parked-request-retry-factor":   "1.1",
		"parked-request-retry-jitter":   "0.1",
		"route-timeout":                 "10s",
		"extproc-max-requests":          "0",
		"drain-delay":                   "0s",
		"drain-timeout":                 "0s",
		"resume-attempt-timeout":        "1m0s",
		"ateapi-address":                "",
		"ateapi-ca":                     "",
		"ateapi-token-file":             "",
		"ateapi-server-name":            "",
		"http-address":                  "0.0.0.0:8080",
		"xds-address":                   "127.0.0.1:18000",
		"extproc-address":               "127.0.0.1:50051",
		"status-address":                ":4040",
		"metrics-address":               ":9090",
	} {
		f := flags.Lookup(name)
		if f == nil {
			t.Errorf("there is no --%s", name)
		} else if f.DefValue != want {
			t.Errorf("--%s is %q without a wish, want %q", name, f.DefValue, want)
		}
	}
}

func TestTheDocumentHasEveryFlagAndItsDefault(t *testing.T) {
	doc, err := os.ReadFile("../../docs/atenet-router.md")
	if err != nil {
		t.Fatal(err)
	}
	_, flags := parse(t)
	flags.VisitAll(func(f *pflag.Flag) {
		row := "\n| `--" + f.Name + "` |"
		if f.DefValue != "" {
			row += " `" + strings.NewReplacer("1m0s", "60s", "0s", "0", "false", "off").Replace(f.DefValue) + "` |"
		}
		if f.DefValue == "5s" || f.DefValue == "10s" {
			row = "\n| `--" + f.Name + "` | `" + f.DefValue + "` |"
		}
		if !bytes.Contains(doc, []byte(row)) {
			t.Errorf("docs/atenet-router.md has no row that begins %q", row[1:])
		}
	})
}

func TestWhatCannotWorkIsRefusedAtStart(t *testing.T) {
	for _, test := range []struct{ args, flag, says string }{
		{"", "ateapi-address", "it is missing"},
		{"--ateapi-address=ateapi", "ateapi-address", "host:port"},
		{"--extproc-max-requests=100", "extproc-max-requests", "below the lot of 1024"},
		{"--drain-timeout=4s", "drain-timeout", "shorter than the 5s"},
		{"--parked-request-max=0 --drain-timeout=5s", "drain-timeout", "shorter than the 15s"},
		{"--parked-request-max=-1", "parked-request-max", "negative"},
		{"--parked-request-budget=0", "parked-request-budget", "no time"},
		{"--parked-request-budget=2h", "parked-request-budget", "the hour"},
		{"--parked-request-retry-interval=0", "parked-request-retry-interval", "without a pause"},
		{"--parked-request-retry-factor=0.9", "parked-request-retry-factor", "at least 1"},
		{"--parked-request-retry-factor=NaN", "parked-request-retry-factor", "at least 1"},
		{"--parked-request-retry-jitter=1", "parked-request-retry-jitter", "less than 1"},
		{"--parked-request-retry-jitter=-0.1", "parked-request-retry-jitter", "at least 0"},
		{"--parked-request-retry-jitter=NaN", "parked-request-retry-jitter", "at least 0"},
		{"--resume-attempt-timeout=0", "resume-attempt-timeout", "60s"},
		{"--route-timeout=-1s", "route-timeout", "negative"},
		{"--drain-delay=-1s", "drain-delay", "negative"},
		{"--host-suffix=.", "host-suffix", "empty"},
		{"--actor-port=0", "actor-port", "no port"},
		{"--http-address=:8080", "http-address", "ip:port"},
		{"--http-address=off", "http-address", "nowhere to listen"},
		{"--tls-cert=x", "https-address", "belong together"},
		{"--extproc-address=x", "extproc-address", "host:port"},
		{"--status-address=x", "status-address", "host:port"},
		{"--log-level=loud", "log-level", "debug, info"},
		{"--log-format=xml", "log-format", "text or json"},
	} {
		args := strings.Fields(test.args)
		if test.flag != "ateapi-address" {
			args = append(args, "--ateapi-address=ateapi:443")
		}
		c, _ := parse(t, args...)
		_, _, err := c.check()
		if err == nil {
			t.Errorf("%s: it is not refused", test.args)
		} else if text := err.Error(); !strings.HasPrefix(text, "--"+test.flag+": ") || !strings.Contains(text, test.says) || strings.Contains(text, "\n") {
			t.Errorf("%s: %q, want one line about --%s with %q", test.args, text, test.flag, test.says)
		}
	}
}

func TestWithParkingOffTheHoldIsThatOfAbortedAnswers(t *testing.T) {
	c, _ := parse(t, "--parked-request-max=0", "--ateapi-address=ateapi:443")
	p, _, err := c.check()
	if err != nil || p.Budget != 15*time.Second || p.MessageTimeout() != 20*time.Second || p.Requests() != 1024 {
		t.Errorf("hold %v, message timeout %v, requests %d, %v", p.Budget, p.MessageTimeout(), p.Requests(), err)
	}
}

// A held request is silent: what ends silent streams must be longer.
func TestIdleTimersFollowTheBudget(t *testing.T) {
	c, _ := parse(t, "--parked-request-budget=59m", "--ateapi-address=ateapi:443")
	p, _, err := c.check()
	if err != nil || p.StreamIdle <= p.MessageTimeout() || p.TunnelIdle <= p.MessageTimeout() {
		t.Errorf("idle streams end after %v, tunnels after %v, with a hold of %v: %v", p.StreamIdle, p.TunnelIdle, p.MessageTimeout(), err)
	}
}

func TestEnvoyIsToldAddressesThatItCanReach(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"", "127.0.0.1:50051"},
		{"--extproc-address=:50051", "127.0.0.1:50051"},
		{"--extproc-address=[::]:50051", "127.0.0.1:50051"},
		{"--extproc-address=0.0.0.0:7 --router-host=atenet-router", "atenet-router:7"},
	} {
		c, _ := parse(t, strings.Fields(test.args)...)
		if got := c.plan().Processor; got != test.want {
			t.Errorf("%s: Envoy is told %s, want %s", test.args, got, test.want)
		}
	}
}

func TestHTTPSListensWithACertificate(t *testing.T) {
	c, _ := parse(t, "--tls-cert=c", "--tls-key=k")
	if got := c.plan().HTTPS; got != "0.0.0.0:8443" {
		t.Errorf("HTTPS on %q, want 0.0.0.0:8443", got)
	}
	c, _ = parse(t)
	if got := c.plan().HTTPS; got != "" {
		t.Errorf("HTTPS on %q without a certificate", got)
	}
}
