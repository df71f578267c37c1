// Package e2e runs the programs as strangers do: built from the tree, started
// from the command line, driven with real clients.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

const root = ".."

// binary is the layover program that the tests run.
var binary string

// runMark is the variable that tells the processes of this run from those of another on the same machine. layover keeps its own
// variables, LAYOVER_..., from its actors.
const runMark = "E2E_RUN"

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "layover-e2e-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "layover")
	os.Setenv(runMark, dir) // what the tests start hands it on
	build := exec.Command("go", "build", "-o", binary, "./cmd/layover")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build ./cmd/layover: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	stopPostgres()
	os.RemoveAll(dir)
	os.Exit(code)
}

// need returns the path of a program that a test cannot do without. It must be
// there in CI; elsewhere the test is skipped, loudly.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") == "true":
		t.Fatalf("CI has no %s: add its package to .ci/packages", program)
	default:
		t.Skipf("NOT TESTED: there is no %s on this machine", program)
	}
	return ""
}

func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestAnotherModuleUsesTheLibraries(t *testing.T) {
	if got, want := run(t, "consumer", "go", "run", "."), "hello, world true true\n"; got != want {
		t.Errorf("go run ./consumer printed %q, want %q", got, want)
	}
}

func TestTheDemoFromTheReadme(t *testing.T) {
	out := run(t, root, "go", "run", "./cmd/layover", "demo", "--once")
	t.Log(out)
	if children := leftovers(t); children != "" {
		t.Errorf("processes are left over:\n%s", children)
	}
}

// leftovers lists the processes whose environment marks them as actors of this run.
func leftovers(t *testing.T) string {
	t.Helper()
	var found bytes.Buffer
	entries, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, entry := range entries {
		env, err := os.ReadFile(entry)
		if err == nil && bytes.Contains(env, []byte("LAYOVER_ACTOR=")) && bytes.Contains(env, []byte(runMark+"="+os.Getenv(runMark)+"\x00")) {
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(entry), "cmdline"))
			fmt.Fprintf(&found, "%s: %s\n", entry, bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '}))
		}
	}
	return found.String()
}

// server is a running `layover serve`.
type server struct {
	addr, admin string
	cmd         *exec.Cmd
	out         *bytes.Buffer
	ended       chan error
}

// serve starts layover with the configuration on free ports and waits until it
// is ready.
func serve(t *testing.T, config string) *server {
	t.Helper()
	s := &server{addr: freeAddr(t), admin: freeAddr(t), out: new(bytes.Buffer), ended: make(chan error, 1)}
	dir := t.TempDir()
	config = regexp.MustCompile(`(?m)^listen:.*$`).ReplaceAllString(config, "listen: "+s.addr)
	config += fmt.Sprintf("\nadmin: %s\nstate: %s\n", s.admin, filepath.Join(dir, "state"))
	file := filepath.Join(dir, "layover.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(binary, "serve", file)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		<-s.ended
	})
	until(t, "layover serve is ready", func() bool {
		resp, err := http.Get("http://" + s.admin + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return s
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// curl sends a request to the server as the host.
func (s *server) curl(t *testing.T, host string, args ...string) string {
	t.Helper()
	args = append([]string{"-s", "--max-time", "60", "-H", "Host: " + host}, args...)
	return run(t, ".", need(t, "curl"), append(args, "http://"+s.addr+"/")...)
}

// readmeConfig returns the configuration that the README shows.
func readmeConfig(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "```yaml\n")
	config, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("the README shows no configuration")
	}
	return config
}

func TestTheConfigurationFromTheReadme(t *testing.T) {
	need(t, "python3")
	config := readmeConfig(t)
	file := filepath.Join(t.TempDir(), "layover.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Log(run(t, ".", binary, "check", file))

	s := serve(t, config)
	if got := s.curl(t, "hello.localhost"); !strings.Contains(got, "Directory listing") {
		t.Errorf("hello answered %q, want the listing of python's http.server", got)
	}
	if leftovers(t) == "" {
		t.Error("the process of an actor that is awake is not found")
	}
	var problem struct{ Reason, Actor string }
	got := s.curl(t, "nobody.localhost")
	if err := json.Unmarshal([]byte(got), &problem); err != nil || problem.Reason != "unknown_actor" || problem.Actor != "nobody" {
		t.Errorf("an unknown actor is answered %q", got)
	}
	if got := s.curl(t, "hello.localhost", "-o", os.DevNull, "-w", "%{http_code}", "-H", "Operation-Timeout: soon"); got != "400" {
		t.Errorf("a malformed deadline is answered %s, want 400", got)
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-s.ended:
		s.ended <- nil
		if err != nil {
			t.Errorf("after SIGTERM serve ended with %v:\n%s", err, s.out)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("serve does not end after SIGTERM:\n%s", s.out)
	}
	if left := leftovers(t); left != "" {
		t.Errorf("processes are left over:\n%s", left)
	}
}
