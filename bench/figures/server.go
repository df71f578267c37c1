package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// actorEnv makes this program the actor of a configuration: it says how.
const actorEnv = "FIGURES_ACTOR"

// server is the real program in a process of its own.
type server struct {
	cmd   *exec.Cmd
	addr  string // of the proxy
	admin string
	dir   string
	log   string // path of what it printed
}

// startServer builds layover and serves the configuration, in which {self} is
// this program, as an actor.
func startServer(config string) (*server, error) {
	dir, err := os.MkdirTemp("", "figures-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, log: filepath.Join(dir, "log")}
	binary := filepath.Join(dir, "layover")
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "layover").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: run this in the bench folder", err)
	}
	build := exec.Command("go", "build", "-o", binary, "./cmd/layover")
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %v\n%s", err, out)
	}
	if s.addr, err = freeAddr(); err != nil {
		return nil, err
	}
	if s.admin, err = freeAddr(); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	config = fmt.Sprintf("listen: %s\nadmin: %s\nstate: %s\n", s.addr, s.admin, filepath.Join(dir, "state")) +
		strings.ReplaceAll(config, "{self}", self)
	file := filepath.Join(dir, "layover.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd = exec.Command(binary, "serve", file)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if resp, err := http.Get("http://" + s.admin + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return s, nil
			}
		}
		if time.Now().After(deadline) {
			printed, _ := os.ReadFile(s.log)
			s.stop()
			return nil, fmt.Errorf("layover serve does not become ready:\n%s", printed)
		}
	}
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (s *server) stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	ended := make(chan struct{})
	go func() {
		s.cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		s.cmd.Process.Kill()
		<-ended
	}
	os.RemoveAll(s.dir)
}

// inUse returns HeapInuse + StackInuse after a collection.
func (s *server) inUse() (bytes int64, err error) {
	resp, err := http.Get("http://" + s.admin + "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	found := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		for _, prefix := range []string{"# HeapInuse = ", "# Stack = "} {
			if value, ok := strings.CutPrefix(lines.Text(), prefix); ok {
				value, _, _ = strings.Cut(value, " ")
				n, err := strconv.ParseInt(value, 10, 64)
				if err != nil {
					return 0, err
				}
				bytes += n
				found++
			}
		}
	}
	if found != 2 {
		return 0, fmt.Errorf("no HeapInuse and Stack in the profile of %s", s.admin)
	}
	return bytes, nil
}

// metric returns a metric without labels.
func (s *server) metric(name string) (float64, error) {
	resp, err := http.Get("http://" + s.admin + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("no metric %s", name)
}

// rss returns the resident memory of the server process.
func (s *server) rss() (bytes int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(rest)
	if !ok || len(fields) == 0 {
		return 0, fmt.Errorf("no VmRSS in /proc")
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10, err
}

// actAsActor is what this program does as an actor: it waits as long as
// FIGURES_ACTOR says, listens, and answers each request with when its process
// began to run and when it listened, in nanoseconds.
func actAsActor(delay string) {
	began := time.Now()
	d, err := time.ParseDuration(delay)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	time.Sleep(d)
	l, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	listens := time.Now()
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintln(w, began.UnixNano(), listens.UnixNano(), n)
	}))
}

// sendOver runs the request under ctx over a connection of its own.
func sendOver(ctx context.Context, method, url, host string, body io.Reader, length int64) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return "", err
	}
	req.Host, req.ContentLength = host, length
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	return string(text), err
}
