package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"layover/internal/cli"
)

// asProgram makes this test binary be the program itself.
const asProgram = "LAYOVER_TEST_PROGRAM"

// asDeserter makes it be an actor that answers one request, and from then on
// lives without a socket.
const asDeserter = "LAYOVER_TEST_DESERTER"

func desert() {
	l, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.Close()
		w.Header().Set("Connection", "close")
		w.Header().Set(headerPID, strconv.Itoa(os.Getpid()))
	}))
	select {}
}

func TestMain(m *testing.M) {
	if runDemoActor() {
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")) // else the race detector holds up each exit for a second
	if os.Getenv(asDeserter) != "" {
		desert()
	}
	if os.Getenv(asProgram) != "" {
		os.Exit(execute(context.Background(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

// program is a run of layover as a process of its own.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	folder string
	front  string // address
	admin  string
	logs   *logs
	exited chan error
}

// logs collects what a program writes.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serving starts layover serve with the file in folder, and returns when it
// listens. It is killed at the end of the test, if it still runs.
func serving(t *testing.T, folder, text string) *program {
	t.Helper()
	return servingOn(t, nil, folder, text)
}

// servingOn is serving with a listening socket that is handed down, if it is
// not nil.
func servingOn(t *testing.T, socket *os.File, folder, text string) *program {
	t.Helper()
	p := &program{t: t, folder: folder, logs: new(logs), exited: make(chan error, 1)}
	p.write(text)
	p.cmd = layover("serve", filepath.Join(folder, "f.yaml"))
	if socket != nil {
		handDown(p.cmd, socket)
	}
	p.cmd.Stderr = p.logs
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for p.admin == "" && lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
			_, p.front, _ = strings.Cut(url, "://")
			p.front, _, _ = strings.Cut(p.front, fmt.Sprintf(", pid %d", p.cmd.Process.Pid))
		}
		if _, url, ok := strings.Cut(lines.Text(), "admin on http://"); ok {
			p.admin, _, _ = strings.Cut(url, "/")
		}
	}
	go func() { // ends with the process, which the cleanup kills
		io.Copy(io.Discard, out)
		p.exited <- p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("log of pid %d:\n%s", p.cmd.Process.Pid, p.logs)
		}
	})
	if p.admin == "" {
		t.Fatalf("layover serve did not start:\n%s", p.logs)
	}
	return p
}

// layover is a command that runs this test binary as the program.
func layover(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// handDown gives a command the file as the socket that LISTEN_FDS announces. The
// shell is there because only the process itself knows the number that
// LISTEN_PID must be.
func handDown(cmd *exec.Cmd, file *os.File) {
	cmd.Args = append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`}, cmd.Args...)
	cmd.Path = "/bin/sh"
	cmd.Env = append(cmd.Env, "LISTEN_FDS=1")
	cmd.ExtraFiles = []*os.File{file}
}

// write replaces the configuration. The state is the folder's own.
func (p *program) write(text string) {
	p.t.Helper()
	if !strings.Contains(text, "listen: ") {
		text = "listen: 127.0.0.1:0\n" + text
	}
	text = fmt.Sprintf("admin: 127.0.0.1:0\nstate: %q\n%s", filepath.Join(p.folder, "state"), text)
	if err := os.WriteFile(filepath.Join(p.folder, "f.yaml"), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exit waits for the end of the process and returns its exit code.
func (p *program) exit() int {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		p.t.Fatal("layover serve does not exit")
		return -1
	}
}

// answer is what a client got.
type answer struct {
	status   int
	body     string
	pid      int
	fallback string // the actor that answered for another
	err      error
}

// get asks the front for host. Each call has a connection of its own, so that
// nothing but the front decides what becomes of it.
func (p *program) get(host string, header ...string) answer {
	req, err := http.NewRequest("GET", "http://"+p.front+"/", nil)
	if err != nil {
		return answer{err: err}
	}
	req.Host = host
	req.Close = true
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := http.Client{Timeout: time.Minute} // nobody hangs for ever
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	pid, _ := strconv.Atoi(resp.Header.Get(headerPID))
	return answer{resp.StatusCode, string(body), pid, resp.Header.Get("Layover-Fallback"), err}
}

// begin is get without waiting for the answer.
func (p *program) begin(host string, header ...string) <-chan answer {
	got := make(chan answer, 1)
	go func() { got <- p.get(host, header...) }()
	return got
}

// served is get that must be served.
func (p *program) served(host string) answer {
	p.t.Helper()
	a := p.get(host)
	if a.err != nil || a.status != 200 || a.pid == 0 {
		p.t.Fatalf("GET %s: %+v, want 200 from an actor", host, a)
	}
	return a
}

func (p *program) readyz() int {
	resp, err := http.Get("http://" + p.admin + "/readyz")
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// parked returns how many requests hold a spot.
func (p *program) parked() int {
	var s struct{ Lot struct{ Active int } }
	resp, err := http.Get("http://" + p.admin + "/statusz.json")
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	if json.NewDecoder(resp.Body).Decode(&s) != nil {
		return -1
	}
	return s.Lot.Active
}

// logged reports whether the log has all of the texts in one line.
func (p *program) logged(texts ...string) bool {
	for line := range strings.Lines(p.logs.String()) {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			return true
		}
	}
	return false
}

// until waits for something that is about to happen in another process.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for !happened() {
		if ctx.Err() != nil {
			t.Fatalf("waited in vain for %s", what)
		}
		cli.Pause(ctx, 2*time.Millisecond)
	}
}

// gone reports whether a process has ended. One whose parent was killed may
// still have to be reaped by whoever inherited it.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		return strings.Contains(string(stat), ") Z ")
	}
	return syscall.Kill(pid, 0) == syscall.ESRCH
}

// testActor is a configuration line of an actor that takes delay to start, and
// not less than until gate exists, if it is not empty.
func testActor(name string, delay time.Duration, gate string) string {
	line := fmt.Sprintf("  %s: {command: [%q], env: {%s: %s, %s: %v, %s: /dev/null", name, os.Args[0], demoName, name, demoDelay, delay, demoEvents)
	if gate != "" {
		line += fmt.Sprintf(", %s: %q", demoGate, gate)
	}
	return line + "}}\n"
}

const byName = "routes: [{name: by-name, host: \"{actor}.test\"}]\n"

// openGate lets an actor with that gate become ready.
func openGate(t *testing.T, gate string) {
	t.Helper()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// refused reports whether nobody listens at addr.
func refused(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		c.Close()
	}
	return err != nil
}
