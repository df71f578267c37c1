package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"layover/e2e/certificate"
)

// house is a layover process and what belongs to it.
type house struct {
	name    string
	folder  string
	file    string // configuration
	logFile string
	events  string // of its actors
	self    string // program of its actors
	tlsLine string // of the configuration

	binary  string
	books   *books
	addr    string
	socket  *os.File // that is handed down to each router; nil: each opens its own
	clients clients

	proc  sync.RWMutex // held while a router is replaced by the next; guards what follows
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended, with err
	err   error
	admin string

	mu      sync.Mutex
	rng     *rand.Rand // guarded by mu, as what follows
	windows []window
	heaps   []uint64 // bytes after a collection, through the storm since the last restart

	before, after levels
	reloads       int
	kills         int
}

// address is how layover prints where it listens.
var address = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// open starts a layover.
func open(binary, parent, name string, rng *rand.Rand) (*house, error) {
	h := &house{name: name, folder: filepath.Join(parent, name), rng: rng, binary: binary}
	h.file, h.logFile, h.events = filepath.Join(h.folder, "layover.yaml"), filepath.Join(h.folder, "log"), filepath.Join(h.folder, "events")
	if err := os.Mkdir(h.folder, 0o700); err != nil {
		return nil, err
	}
	var err error
	if h.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if name == "tls" {
		cert, key, err := certificate.Write(h.folder)
		if err != nil {
			return nil, err
		}
		h.tlsLine = fmt.Sprintf("tls: {cert: %q, key: %q}", cert, key)
	}
	l, err := h.reserve()
	if err != nil {
		return nil, err
	}
	h.addr = l.Addr().String()
	if name == "clear" { // as systemd does; the other one's socket is each router's own
		if h.socket, err = l.(*net.TCPListener).File(); err != nil {
			return nil, err
		}
	}
	l.Close()
	if err := h.write(calmPlan); err != nil {
		return nil, err
	}
	if err := h.start(); err != nil {
		return nil, err
	}
	return h, h.clients.dial(h)
}

// start starts a router and returns when it listens. It needs h.proc once the
// house is open.
func (h *house) start() error {
	logs, err := os.OpenFile(h.logFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logs.Close()
	cmd := exec.Command(h.binary, "serve", h.file)
	if h.socket != nil { // only the process itself knows the number that LISTEN_PID must be
		cmd = exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" serve "$1"`, h.binary, h.file)
		cmd.ExtraFiles = []*os.File{h.socket}
	}
	cmd.Stderr = logs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	h.cmd, h.admin = cmd, ""
	lines := bufio.NewScanner(out)
	for h.admin == "" && lines.Scan() {
		if strings.HasPrefix(lines.Text(), "admin") {
			h.admin = address.FindString(lines.Text())
		}
	}
	ended := make(chan struct{})
	h.ended = ended
	go func() {
		io.Copy(io.Discard, out)
		h.err = cmd.Wait()
		close(ended)
	}()
	if h.admin == "" {
		h.kill()
		text, _ := os.ReadFile(h.logFile)
		return fmt.Errorf("layover does not start:\n%s", text[max(0, len(text)-3000):])
	}
	return nil
}

// kill ends a process that may have ended.
func (h *house) kill() {
	h.cmd.Process.Kill()
	<-h.ended
}

// chance returns a number from 0 to n-1.
func (h *house) chance(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rng.IntN(n)
}

// between returns a duration up to most.
func (h *house) between(least, most time.Duration) time.Duration {
	return least + time.Duration(h.chance(int(most-least)))
}

// statusz is what soak reads of /statusz.json.
type statusz struct {
	Lot   struct{ Active int }
	Pools []struct {
		Name          string
		Used, Waiting int
	}
	Actors []struct {
		Name     string
		InFlight int `json:"in_flight"`
		Wanted   int
		PID      int
	}
}

// busy says what goes on; empty when nothing does.
func (s *statusz) busy() string {
	var all []string
	note := func(what string, n int) {
		if n != 0 {
			all = append(all, fmt.Sprintf("%s %d", what, n))
		}
	}
	note("lot", s.Lot.Active)
	for _, p := range s.Pools {
		note("workers of "+p.Name, p.Used)
		note("line of "+p.Name, p.Waiting)
	}
	for _, a := range s.Actors {
		note("in flight to "+a.Name, a.InFlight)
		note("wanted "+a.Name, a.Wanted)
	}
	return strings.Join(all, ", ")
}

// adminGet asks on a connection of its own, so that none is left open.
func (h *house) adminGet(path string) ([]byte, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	resp, err := client.Get("http://" + h.admin + path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

func (h *house) status() (*statusz, error) {
	text, err := h.adminGet("/statusz.json")
	if err != nil {
		return nil, err
	}
	s := new(statusz)
	return s, json.Unmarshal(text, s)
}

// levels are what must come back to where it was.
type levels struct {
	goroutines, fds, actors int
	heap, rss               uint64 // bytes
}

func (h *house) levels() (l levels, err error) {
	if l.heap, err = h.heap(); err != nil {
		return l, err
	}
	text, err := h.adminGet("/debug/pprof/goroutine?debug=1")
	if err != nil {
		return l, err
	}
	fmt.Sscanf(string(text), "goroutine profile: total %d", &l.goroutines)
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", h.cmd.Process.Pid))
	if err != nil {
		return l, err
	}
	l.fds, l.actors = len(fds), len(processesOf(h.folder))
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", h.cmd.Process.Pid))
	var total uint64
	fmt.Sscan(string(statm), &total, &l.rss)
	l.rss *= uint64(os.Getpagesize())
	return l, err
}

// heap is what is in use after a collection.
func (h *house) heap() (n uint64, err error) {
	text, err := h.adminGet("/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	_, rest, ok := bytes.Cut(text, []byte("# HeapAlloc = "))
	if !ok {
		return 0, fmt.Errorf("the heap profile has no HeapAlloc")
	}
	_, err = fmt.Sscan(string(rest), &n)
	return n, err
}

// processesOf lists the actors whose events go into the folder.
func processesOf(folder string) (pids []int) {
	entries, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, entry := range entries {
		env, err := os.ReadFile(entry)
		if err == nil && bytes.Contains(env, []byte("ACTOR_EVENTS="+folder+"/")) {
			var pid int
			fmt.Sscanf(entry, "/proc/%d/", &pid)
			pids = append(pids, pid)
		}
	}
	return pids
}

func killLeftovers(folder string) {
	for _, name := range []string{"clear", "tls"} {
		for _, pid := range processesOf(filepath.Join(folder, name)) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// reload puts a plan into force.
func (h *house) reload(p plan) error {
	h.proc.RLock()
	defer h.proc.RUnlock()
	if err := h.write(p); err != nil {
		return err
	}
	h.reloads++
	return h.cmd.Process.Signal(syscall.SIGHUP)
}

// calm waits until everything is at rest, and measures.
func (h *house) calm(b *books) levels {
	b.check(h.reload(calmPlan))
	h.clients.closeIdle()
	busy := "unknown"
	var l, last levels
	for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); time.Sleep(250 * time.Millisecond) {
		s, err := h.status()
		if err != nil {
			b.check(err)
			return levels{}
		}
		if l, err = h.levels(); err != nil {
			b.check(err)
			return levels{}
		}
		busy = s.busy()
		rested := l.goroutines <= h.before.goroutines && l.fds <= h.before.fds
		if h.before.goroutines == 0 { // the first time: there is nothing to compare with but the last look
			rested = l.goroutines == last.goroutines && l.fds == last.fds
		}
		if busy == "" && l.actors == 0 && rested {
			return l
		}
		last = l
	}
	b.verdict(busy == "", "%s: nothing goes on after 30 s of rest: %s", h.name, busy)
	if stacks, err := h.adminGet("/debug/pprof/goroutine?debug=1"); err == nil {
		os.WriteFile(filepath.Join(h.folder, "goroutines"), stacks, 0o600)
	}
	return l
}

// compare says whether everything is back to its level.
func (h *house) compare(b *books) {
	b.verdict(h.after.goroutines <= h.before.goroutines, "%s: goroutines %d before, %d after", h.name, h.before.goroutines, h.after.goroutines)
	b.verdict(h.after.fds <= h.before.fds, "%s: descriptors %d before, %d after", h.name, h.before.fds, h.after.fds)
	b.verdict(h.after.actors == 0, "%s: actors' processes after: %d", h.name, h.after.actors)
	third := len(h.heaps) / 3
	if third == 0 {
		b.verdict(false, "%s: too short to say whether memory is flat", h.name)
		return
	}
	first, last := median(h.heaps[:third]), median(h.heaps[len(h.heaps)-third:])
	b.verdict(last <= first+first/4+2<<20, "%s: heap in the load's first third %s, in its last %s; at rest %s before, %s after; resident %s before, %s after",
		h.name, mib(first), mib(last), mib(h.before.heap), mib(h.after.heap), mib(h.before.rss), mib(h.after.rss))
}

func median(all []uint64) uint64 { return slices.Sorted(slices.Values(all))[len(all)/2] }

func mib(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// closeDown sends SIGTERM to a house full of parked requests.
func (h *house) closeDown(ctx context.Context, b *books) {
	const guests = 30
	endings := make(chan ending, guests)
	for i := range guests {
		go func() {
			sh := h.newShot("parked", []string{"slow-1", "slow-2"}[i%2])
			endings <- h.play(ctx, []act{get, upload, get2}[i%3], sh, b)
		}()
	}
	parked := 0
	for limit := time.Now().Add(3 * time.Second); parked < guests && time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if s, err := h.status(); err == nil {
			parked = max(parked, s.Lot.Active)
		}
	}
	b.check(h.cmd.Process.Signal(syscall.SIGTERM))
	answered := 0
	for range guests {
		if e := <-endings; e.outcome == served {
			answered++
		}
	}
	b.verdict(parked == guests && answered == guests, "%s: SIGTERM with %d of %d requests parked: %d served", h.name, parked, guests, answered)
	select {
	case <-h.ended:
		b.verdict(h.err == nil, "%s: after SIGTERM it exits with 0: %v", h.name, h.err)
	case <-time.After(30 * time.Second):
		b.verdict(false, "%s: still there 30 s after SIGTERM", h.name)
	}
	left := processesOf(h.folder)
	b.verdict(len(left) == 0, "%s: processes left: %d", h.name, len(left))
}
