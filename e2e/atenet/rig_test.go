// Package atenet runs atenet-router as in a cluster: built from the tree, with a
// real Envoy in front and a control plane behind it.
package atenet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"layover/e2e/actor"
	"layover/e2e/cluster"
	"layover/e2e/envoy"
	"layover/internal/substrate/controlplane"
)

// binary is the atenet-router that the tests run.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "layover-atenet-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "atenet-router")
	build := exec.Command("go", "build", "-o", binary, "./cmd/atenet-router")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build ./cmd/atenet-router: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var findEnvoy = sync.OnceValues(func() (string, error) { return envoy.Find(context.Background()) })

// realEnvoy is the path of an Envoy. It must be there in CI; elsewhere the test
// is skipped, loudly.
func realEnvoy(t *testing.T) string {
	t.Helper()
	path, err := findEnvoy()
	if errors.Is(err, envoy.ErrNone) && os.Getenv("CI") != "true" {
		t.Skipf("NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// start starts a cluster with that many workers and the actors demo/a, demo/b,
// demo/c, that take resume to be resumed.
func start(t *testing.T, workers int, resume time.Duration, args ...string) *cluster.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Options{Envoy: realEnvoy(t), Router: binary, Workers: workers, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the router:\n%s", c.RouterLog())
			t.Logf("Envoy:\n%s", c.Envoy.Log())
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"demo/a", "demo/b", "demo/c"} {
		c.Plane.AddActor(controlplane.Actor{Name: name, Resume: resume})
	}
	return c
}

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
	took   time.Duration
}

// send sends a request; its answer can be received once.
func send(req *http.Request) <-chan answer {
	got := make(chan answer, 1)
	began := time.Now()
	go func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
		resp, err := client.Do(req)
		a := answer{err: err, took: time.Since(began)}
		if err == nil {
			var body []byte
			body, a.err = io.ReadAll(resp.Body)
			resp.Body.Close()
			a.status, a.header, a.body = resp.StatusCode, resp.Header, string(body)
		}
		got <- a
	}()
	return got
}

// get asks for / of an actor.
func get(c *cluster.Cluster, name string) <-chan answer {
	return send(c.Request("GET", name, "/", nil))
}

// mustServe waits for an answer of the worker at ip.
func mustServe(t *testing.T, got <-chan answer, ip string) answer {
	t.Helper()
	a := <-got
	if a.err != nil || a.status != http.StatusOK || a.header.Get(actor.MarkHeader) != ip {
		t.Fatalf("the answer is %d %q of %q, %v, after %v; want 200 of %s", a.status, a.body, a.header.Get(actor.MarkHeader), a.err, a.took, ip)
	}
	return a
}

// mustRefuse waits for a refusal, and checks its body, and its Retry-After if it
// is a 503.
func mustRefuse(t *testing.T, got <-chan answer, status int, reason string) answer {
	t.Helper()
	a := <-got
	var problem struct{ Reason, Detail string }
	json.Unmarshal([]byte(a.body), &problem)
	if a.err != nil || a.status != status || problem.Reason != reason || a.header.Get("Layover-Reason") != reason {
		t.Fatalf("the answer is %d %q, %v, after %v; want %d %s", a.status, a.body, a.err, a.took, status, reason)
	}
	if has := a.header.Get("Retry-After") != ""; has != (status == http.StatusServiceUnavailable) {
		t.Errorf("%d has Retry-After %q", status, a.header.Get("Retry-After"))
	}
	return a
}

// mustTake checks that an answer came after at least least, and no later than
// slack after it: this machine may have other things to do.
func mustTake(t *testing.T, a answer, least time.Duration) {
	t.Helper()
	const slack = 2 * time.Second
	if a.took < least-5*time.Millisecond || a.took > least+slack {
		t.Errorf("it took %v, want %v and little more", a.took, least)
	}
}

// until waits for something that happens soon.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("it is not so that %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func untilParked(t *testing.T, c *cluster.Cluster, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d requests are parked", n), func() bool {
		parked, err := c.Parked(t.Context())
		return err == nil && parked == n
	})
}

// metric is the value of a line of the router's metrics.
func metric(t *testing.T, c *cluster.Cluster, name string) string {
	t.Helper()
	text, err := c.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
