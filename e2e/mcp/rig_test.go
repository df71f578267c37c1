// Package mcp has the protocol's own programs judge jobs-mcp: the official
// inspector and the official conformance suite, against real processes.
package mcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"layover/e2e/cache"
	"layover/e2e/npm"
)

// What is installed, each in its exact version.
const (
	nodeVersion        = "24.22.3"
	inspectorVersion   = "2.12.0"
	conformanceVersion = "0.1.16"
	draftVersion       = "0.2.0-alpha.12" // of the suite, for the protocol's version 2026-07-28
)

const root = "../.."

// programs is the folder of the programs that the tests run.
var programs string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "layover-e2e-mcp-")
	if err != nil {
		panic(err)
	}
	programs = dir
	build := exec.Command("go", "build", "-o", dir, "./cmd/layover", "./cmd/jobs-mcp")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build ./cmd/layover ./cmd/jobs-mcp: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// installed is where npm put these packages. Where it cannot, the test is
// skipped, loudly; in CI it fails.
func installed(t *testing.T, name string, packages ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	folder, err := npm.Install(ctx, cache.Folder(), name, nil, packages...)
	if errors.Is(err, npm.ErrNone) && os.Getenv("CI") != "true" {
		t.Skipf("NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, "node_modules")
}

// node is a Node.js that is new enough for what is installed.
func node(t *testing.T) string {
	t.Helper()
	pkg := "node-" + npm.Platform()
	return filepath.Join(installed(t, "node-"+nodeVersion, pkg+"@"+nodeVersion), pkg, "bin", "node")
}

// process is a program that runs until the test ends.
type process struct {
	cmd *exec.Cmd

	mu  sync.Mutex
	out strings.Builder
}

// start starts one of our programs and waits until it says something with mark
// in it; said is the rest of that line.
func start(t *testing.T, mark, program string, args ...string) (p *process, said string) {
	t.Helper()
	p = &process{cmd: exec.Command(filepath.Join(programs, program), args...)}
	p.cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir())
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = write, write
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	marked := make(chan string, 1)
	go func() { // ends with the process
		defer read.Close()
		lines := bufio.NewScanner(read)
		for lines.Scan() {
			p.mu.Lock()
			fmt.Fprintln(&p.out, lines.Text())
			p.mu.Unlock()
			if _, rest, ok := strings.Cut(lines.Text(), mark); ok {
				select {
				case marked <- rest:
				default:
				}
			}
		}
		io.Copy(io.Discard, read)
		close(marked)
	}()
	t.Cleanup(func() { p.stop(t) })
	said, ok := <-marked
	if !ok {
		t.Fatalf("%s %q ended:\n%s", program, args, p.said())
	}
	return p, said
}

// said is what it has said so far.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (p *process) stop(t *testing.T) {
	t.Helper()
	p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", filepath.Base(p.cmd.Path), err, p.said())
	}
	if t.Failed() {
		t.Logf("%s said:\n%s", filepath.Base(p.cmd.Path), p.said())
	}
}

// playBoards starts boards and returns their address.
func playBoards(t *testing.T, args ...string) string {
	t.Helper()
	_, address := start(t, "jobs-mcp serve --boards-at ", "jobs-mcp", append([]string{"boards", "--listen", "127.0.0.1:0"}, args...)...)
	return address
}

// serveHTTP starts the server over HTTP and returns its URL.
func serveHTTP(t *testing.T, boards string) string {
	t.Helper()
	_, said := start(t, "msg=listening url=", "jobs-mcp", "serve", "--http", "127.0.0.1:0", "--boards-at", boards)
	url, _, _ := strings.Cut(said, " ")
	return url
}

// judge runs a JavaScript program and returns what it printed and its exit code.
func judge(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node(t), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "XDG_CACHE_HOME="+cmd.Dir, "NO_COLOR=1", "FORCE_COLOR=0",
		"PATH="+filepath.Dir(node(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
