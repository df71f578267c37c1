package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"layover/e2e/envoy"
)

// fronted is a layover with a real Envoy in front.
type fronted struct {
	own   *server // with the built-in proxy
	envoy *envoy.Envoy
	addr  string // where Envoy listens
}

// withEnvoy starts one with that configuration, which gets an envoy section.
func withEnvoy(t *testing.T, config string) *fronted {
	t.Helper()
	path, err := envoy.Find(t.Context())
	if errors.Is(err, envoy.ErrNone) && os.Getenv("CI") != "true" {
		t.Skipf("NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	need(t, "python3")
	f := &fronted{addr: freeAddr(t)}
	admin := freeAddr(t)
	config = fmt.Sprintf("listen: 127.0.0.1:0\nenvoy: {http: %q, ext_proc: %q, xds: %q, admin: %q}\n", f.addr, freeAddr(t), freeAddr(t), admin) + config
	file := filepath.Join(t.TempDir(), "layover.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	bootstrap := run(t, ".", binary, "check", "--bootstrap", file)
	f.own = serve(t, config)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if f.envoy, err = envoy.Start(ctx, path, bootstrap, admin); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Envoy:\n%s", f.envoy.Log())
		}
		f.envoy.Stop()
	})
	return f
}

// ask sends a request for host to Envoy, from an address of this machine.
func (f *fronted) ask(t *testing.T, from, host string, header ...string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequest("GET", "http://"+f.addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

const here = "127.0.0.1"

// layover serve has an Envoy in front as well as its own proxy, over the same
// local actors.
func TestAnEnvoyInFrontOfLocalActors(t *testing.T) {
	f := withEnvoy(t, `actors:
  hello: {command: [python3, -m, http.server, "{port}", --bind, 127.0.0.1], idle: 1s}
routes:
  - host: "{actor}.localhost"
`)
	for range 2 {
		if status, body := f.ask(t, here, "hello.localhost"); status != 200 || !strings.Contains(body, "Directory listing") {
			t.Errorf("through Envoy: %d %s", status, body)
		}
		until(t, "the actor sleeps again", func() bool { return leftovers(t) == "" })
	}
	if status, body := f.ask(t, here, "nobody.localhost"); status != 404 || !strings.Contains(body, "unknown_actor") {
		t.Errorf("an unknown actor through Envoy: %d %s", status, body)
	}
	if got := f.own.curl(t, "hello.localhost"); !strings.Contains(got, "Directory listing") {
		t.Errorf("through the own proxy: %s", got)
	}
}

// echo is an actor that answers with the headers that it got.
const echo = `  %s:
    command:
      - python3
      - -c
      - |
        import http.server, sys
        class Echo(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(sys.argv[2].encode() + b"\n" + str(self.headers).encode())
            def log_message(self, *args):
                pass
        http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
      - "{port}"
      - "{actor}"
`

// Whose headers are believed is the same through Envoy and through the own proxy.
func TestR53_R55_EnvoyBelievesTrustedPeersOnly(t *testing.T) {
	f := withEnvoy(t, `trusted_peers: [127.0.0.2, 127.0.0.2]
band_header: X-Band
actor_header: X-Actor
actors:
`+fmt.Sprintf(echo, "hello")+fmt.Sprintf(echo, "other")+`routes:
  - host: "{actor}.localhost"
`)
	said := []string{"X-Forwarded-For", "192.0.2.9", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "outside.example", "Forwarded", "for=192.0.2.9",
		"X-Request-Id", "mine", "X-Band", "3", "X_Band", "4", "X-Actor", "other"}
	for _, tc := range []struct {
		from         string
		wants, nones []string
	}{
		{"127.0.0.3", []string{"hello\n", "x-forwarded-for: 127.0.0.3\n", "x-forwarded-proto: http\n", "x-forwarded-host: hello.localhost\n"},
			[]string{"192.0.2.9", "outside", "x-request-id: mine"}},
		{"127.0.0.2", []string{"other\n", "x-forwarded-for: 192.0.2.9,127.0.0.2\n", "x-forwarded-proto: https\n", "x-forwarded-host: outside.example\n",
			"forwarded: for=192.0.2.9\n", "x-request-id: mine\n"}, nil},
	} {
		status, body := f.ask(t, tc.from, "hello.localhost", said...)
		body = strings.ReplaceAll(strings.ToLower(body), ", ", ",")
		for _, want := range tc.wants {
			if !strings.Contains(body, want) {
				t.Errorf("from %s: %d\n%s\nwant %q", tc.from, status, body, want)
			}
		}
		for _, none := range append(tc.nones, "x-band", "x_band", "x-actor") {
			if strings.Contains(body, none) {
				t.Errorf("from %s: %d\n%s\nwithout %q", tc.from, status, body, none)
			}
		}
	}
}

// deserter is an actor that answers one request, with its process id, and from
// then on lives without a socket.
const deserter = `actors:
  hello:
    command:
      - python3
      - -c
      - |
        import http.server, os, sys, time
        class Once(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.server.served = True
                self.send_response(200)
                self.end_headers()
                self.wfile.write(str(os.getpid()).encode())
            def log_message(self, *args):
                pass
        s = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Once)
        s.served = False
        while not s.served:
            s.handle_request()
        s.socket.close()
        time.sleep(3600)
      - "{port}"
routes:
  - host: "{actor}.localhost"
`

// Envoy does not tell that its connections to an actor are refused: the requests
// are answered 503 by Envoy itself, until the router, which looks at the socket
// of an actor that has requests, has seen it refuse for three seconds (R11, R59).
func TestR11_BehindEnvoyAnActorWithoutASocketIsStartedAgain(t *testing.T) {
	f := withEnvoy(t, deserter)
	status, first := f.ask(t, here, "hello.localhost")
	if status != 200 || first == "" {
		t.Fatalf("the answer is %d %s", status, first)
	}
	failed, second := 0, ""
	until(t, "the actor is back", func() bool {
		status, body := f.ask(t, here, "hello.localhost")
		switch {
		case status == 200:
			second = body
		case status == 503 && strings.Contains(body, "upstream connect error"):
			failed++
		default:
			t.Fatalf("without a socket the answer is %d %s, want Envoy's own 503", status, body)
		}
		return second != ""
	})
	if failed == 0 || first == second {
		t.Errorf("%d requests failed between process %s and %s: want some, and another process", failed, first, second)
	}
}
