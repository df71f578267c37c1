package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"layover/internal/cli"
	"layover/internal/substrate/controlplane"
)

// ownFront starts a router with a front of its own, whose one worker answers
// with the name that its actor was told.
func ownFront(t *testing.T, args ...string) (c *config, s *server, plane *controlplane.Server) {
	t.Helper()
	return ownFrontLogging(t, io.Discard, args...)
}

// logBuffer is a bytes.Buffer for writers and a reader at once.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *logBuffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Reset()
}

// ownFrontLogging is ownFront with the log in logs.
func ownFrontLogging(t *testing.T, logs io.Writer, args ...string) (c *config, s *server, plane *controlplane.Server) {
	t.Helper()
	worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprint(w, req.Header.Get("ate-target-actor"))
	}))
	t.Cleanup(worker.Close)
	host, port, _ := net.SplitHostPort(worker.Listener.Addr().String())
	plane = controlplane.New()
	plane.AddPool(controlplane.Pool{Name: "default", IPs: []string{host}})
	plane.AddActor(controlplane.Actor{Name: "demo/a", Resume: 50 * time.Millisecond}, controlplane.Actor{Name: "demo/b"})
	ateapi, err := plane.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Stop)
	addrs, err := freeAddrs(3)
	if err != nil {
		t.Fatal(err)
	}
	c, _ = parse(t, append(args, "--listen="+addrs[0], "--extproc-address="+addrs[1], "--xds-address="+addrs[2],
		"--ateapi-insecure", "--ateapi-address="+ateapi, "--actor-port="+port, "--status-address=off", "--metrics-address=off")...)
	plan, _, err := c.check()
	if err != nil {
		t.Fatal(err)
	}
	if s, err = start(c, plan, nil, cli.NewLog(logs, nil, cli.FormatText)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return c, s, plane
}

func ask(t *testing.T, addr, host string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequest("GET", "http://"+addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err := (&http.Client{Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// mustPark waits until a request is parked.
func mustPark(t *testing.T, s *server) {
	t.Helper()
	if !soon(t.Context(), func() bool { return s.router.Lot().Snapshot().Active == 1 }) {
		t.Fatal("the request does not park")
	}
}

const suffix = ".demo.actors.resources.substrate.ate.dev"

func TestTheOwnFrontWakesActorsWithoutAnEnvoy(t *testing.T) {
	c, _, plane := ownFront(t, "--parked-request-budget=300ms", "--envoy-admin=off")
	if status, body := ask(t, c.listen, "a"+suffix); status != 200 || body != "demo/a" {
		t.Errorf("the answer is %d %q", status, body)
	}
	if status, body := ask(t, c.listen, "b"+suffix); status != 503 || !strings.Contains(body, "no free workers") {
		t.Errorf("with no worker free: %d %q", status, body)
	}
	if status, body := ask(t, c.listen, "elsewhere"); status != 404 || !strings.Contains(body, "invalid actor reference") {
		t.Errorf("for a host that names none: %d %q", status, body)
	}
	twice, err := http.NewRequest("GET", "http://"+c.listen, nil)
	if err != nil {
		t.Fatal(err)
	}
	twice.Header["Ate-Target-Actor"] = []string{"demo/a", "demo/b"}
	resp, err := http.DefaultClient.Do(twice)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 404 {
		t.Errorf("for two target headers: %d", resp.StatusCode)
	}
	if n := plane.Resumes("demo/a"); n != 1 {
		t.Errorf("it was resumed %d times", n)
	}
}

func TestG10_AStopServesWhatTheOwnFrontHolds(t *testing.T) {
	c, s, plane := ownFront(t, "--parked-request-budget=20s", "--envoy-admin=off")
	ask(t, c.listen, "a"+suffix)
	served := make(chan int, 1)
	go func() {
		status, _ := ask(t, c.listen, "b"+suffix)
		served <- status
	}()
	mustPark(t, s)
	stop := make(chan os.Signal, 1)
	stop <- syscall.SIGTERM
	stopped := make(chan error, 1)
	go func() { stopped <- s.run(stop) }()
	select {
	case err := <-stopped:
		t.Fatalf("it ends with a request parked: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	plane.Suspend("demo/a")
	if status := <-served; status != 200 {
		t.Errorf("the parked request is answered %d", status)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestAStopOfTheOwnFrontDoesNotWaitForEnvoys(t *testing.T) {
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "http.http.downstream_rq_active: 1\n") // a tunnel, say
	}))
	t.Cleanup(admin.Close)
	c, s, _ := ownFront(t, "--envoy-admin="+admin.Listener.Addr().String())
	stop := make(chan os.Signal, 1)
	stop <- syscall.SIGTERM
	stopped := make(chan error, 1)
	go func() { stopped <- s.run(stop) }()
	for {
		conn, err := net.Dial("tcp", c.listen)
		if err != nil {
			break // it listens no more
		}
		conn.Close()
		select {
		case <-stopped:
			t.Fatal("it took connections until Envoy had no request any more")
		case <-time.After(10 * time.Millisecond):
		}
	}
	select {
	case <-stopped:
		t.Fatal("it did not wait for Envoy")
	case <-time.After(2 * cli.SameStop):
	}
	stop <- syscall.SIGTERM
	<-stopped
}
