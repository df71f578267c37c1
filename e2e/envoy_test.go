package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"layover/e2e/envoy"
)

// layover serve has an Envoy in front as well as its own proxy, over the same
// local actors.
func TestAnEnvoyInFrontOfLocalActors(t *testing.T) {
	path, err := envoy.Find(t.Context())
	if errors.Is(err, envoy.ErrNone) && os.Getenv("CI") != "true" {
		t.Skipf("NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	need(t, "python3")
	front, admin := freeAddr(t), freeAddr(t)
	config := fmt.Sprintf(`listen: 127.0.0.1:0
envoy: {http: %q, ext_proc: %q, xds: %q, admin: %q}
actors:
  hello: {command: [python3, -m, http.server, "{port}", --bind, 127.0.0.1], idle: 1s}
routes:
  - host: "{actor}.localhost"
`, front, freeAddr(t), freeAddr(t), admin)
	file := filepath.Join(t.TempDir(), "layover.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	bootstrap := run(t, ".", binary, "check", "--bootstrap", file)
	s := serve(t, config)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	e, err := envoy.Start(ctx, path, bootstrap, admin)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Stop()
	ask := func(host string) (int, string) {
		req, err := http.NewRequest("GET", "http://"+front+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	for range 2 {
		if status, body := ask("hello.localhost"); status != 200 || !strings.Contains(body, "Directory listing") {
			t.Errorf("through Envoy: %d %s", status, body)
		}
		until(t, "the actor sleeps again", func() bool { return leftovers(t) == "" })
	}
	if status, body := ask("nobody.localhost"); status != 404 || !strings.Contains(body, "unknown_actor") {
		t.Errorf("an unknown actor through Envoy: %d %s", status, body)
	}
	if got := s.curl(t, "hello.localhost"); !strings.Contains(got, "Directory listing") {
		t.Errorf("through the own proxy: %s", got)
	}
}
