package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"layover/e2e/actor"
	"layover/e2e/certificate"
)

// The tests of clients_*_test.go send requests to sleeping actors with clients that others wrote. A request names its actor in
// the header X-To, because not every client lets its user choose the host.

func init() {
	if actor.Run() { // this process is an actor of a test
		os.Exit(0)
	}
}

// coldStart is how long the actors take to start. What is answered sooner did not wait for one.
const coldStart = 300 * time.Millisecond

// serveActors starts layover with actors of four kinds, each with as many names as a test wants. settings are added to the file.
// When the test ends, layover must stop as it should.
func serveActors(t *testing.T, settings string) *server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := func(start any, more string) string {
		return fmt.Sprintf(`command: [%q], env: {%s: "{actor}", %s: %v%s}`, self, actor.Name, actor.Start, start, more)
	}
	s := serve(t, fmt.Sprintf(`
listen: filled in
trusted_peers: [127.0.0.1]
defaults: {budget: 30s, max_budget: 30s, grace: 2s, start_timeout: 1m}
pools: {default: {workers: 100}}
routes: [{header: X-To, value: "{actor}"}]
actors:
  "h1-*": {%s}
  "h2c-*": {%s, protocol: h2c}
  "grpc-*": {%s, protocol: h2c}
  "failing-*": {%s}
  "never-*": {%s}
%s
`, env(coldStart, ""), env(coldStart, ""), env(coldStart, ", "+actor.Kind+": "+actor.KindGRPC), env(coldStart, ", "+actor.Fail+": 1"),
		env("1h", ""), settings))
	t.Cleanup(func() {
		s.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-s.ended:
			s.ended <- nil
			if err != nil {
				t.Errorf("after SIGTERM layover ended with %v:\n%s", err, s.out)
			}
		case <-time.After(40 * time.Second):
			t.Error("layover does not end after SIGTERM")
		}
	})
	return s
}

// tlsSettings are the lines that make a server speak TLS.
func tlsSettings(t *testing.T) string {
	t.Helper()
	cert, key, err := certificate.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("tls: {cert: %s, key: %s}", cert, key)
}

// statusz is what the tests read of /statusz.json.
type statusz struct {
	Lot    struct{ Active, Rejected int }
	Actors []struct {
		Name  string
		State string
		Wakes int
		PID   int
	}
}

func (s *server) status(t *testing.T) statusz {
	t.Helper()
	var out statusz
	if err := json.Unmarshal(s.adminGet(t, "/statusz.json?limit=2000"), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *server) adminGet(t *testing.T, path string) []byte {
	t.Helper()
	resp, err := http.Get("http://" + s.admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// until waits for what another process must come to.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for tick := time.NewTicker(20 * time.Millisecond); !is(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited 30 s for: %s", what)
		}
	}
}

// counted sums layover_requests_total over the lines that contain all of the labels.
func (s *server) counted(t *testing.T, labels ...string) int {
	t.Helper()
	sum := 0
lines:
	for line := range strings.Lines(string(s.adminGet(t, "/metrics"))) {
		if !strings.HasPrefix(line, "layover_requests_total{") {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(line, label) {
				continue lines
			}
		}
		var n float64
		fmt.Sscan(line[strings.LastIndex(line, " "):], &n)
		sum += int(n)
	}
	return sum
}

// told is a line that the scripts in testdata print.
type told struct {
	What, Mark, Body string
	Status           int
}

func tellings(t *testing.T, out string) map[string]told {
	t.Helper()
	all := make(map[string]told)
	for decoder := json.NewDecoder(strings.NewReader(out)); ; {
		var one told
		switch err := decoder.Decode(&one); err {
		case nil:
			all[one.What] = one
		case io.EOF:
			return all
		default:
			t.Fatalf("%v in:\n%s", err, out)
		}
	}
}

// wantServed checks that every request was answered by its actor, and every actor was woken for it.
func wantServed(t *testing.T, got map[string]told, want map[string]told) {
	t.Helper()
	for what, w := range want {
		g, ok := got[what]
		if w.Status == 0 {
			w.Status = 200
		}
		if !ok || g.Status != w.Status || g.Mark != w.Mark || w.Body != "" && g.Body != w.Body {
			t.Errorf("%s: got %+v, want %+v", what, g, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d answers, want %d: %+v", len(got), len(want), got)
	}
}

// short bounds what a client of a test may take.
func short(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func repeat(text string, n int) []byte { return bytes.Repeat([]byte(text), n) }
