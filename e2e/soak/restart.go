package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// window is the time in which a router is replaced by the next one, and in
// which a client may see that:
//
//   - no door: its connection was refused. Not where the socket is handed down.
//   - hung up: its connection was closed before the answer began, although a
//     stop serves what it has taken: the request met the closing of an idle
//     connection. No router has it in its log, and no actor got it.
//   - killed: the router died while it had the request, at any point. Only if it
//     was killed.
//
// Before and after, each of these is a fault.
type window struct {
	signal   syscall.Signal
	from, to time.Time // to: the next router listens; zero: not yet
}

// about is how much later than a client did something it may have happened, on
// a busy machine.
const about = time.Second

// meets reports whether a request was there in the window.
func (w window) meets(began, now time.Time) bool {
	return now.After(w.from) && (w.to.IsZero() || began.Before(w.to))
}

// arrives reports whether a request came in the window.
func (w window) arrives(began time.Time) bool {
	return began.After(w.from.Add(-about)) && (w.to.IsZero() || began.Before(w.to.Add(about)))
}

func (h *house) allWindows() []window {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.windows)
}

// excuse is the ending of a request whose connection failed, if the replacement
// of a router explains it. answered says that its answer had begun.
func (h *house) excuse(s *shot, err error, answered bool) (ending, bool) {
	refusal := strings.Contains(err.Error(), syscall.ECONNREFUSED.Error())
	if !refusal && h.metKill(s) {
		return ending{outcome: killed, mayMiss: true}, true
	}
	came := slices.ContainsFunc(h.allWindows(), func(w window) bool { return w.arrives(s.began) })
	switch {
	case came && refusal && h.socket == nil:
		return ending{outcome: noDoor, mayMiss: true}, true
	case came && !refusal && !answered:
		return ending{outcome: hungUp, mayMiss: true}, true
	}
	return ending{}, false
}

// metKill reports whether a router was killed while the request was there: then
// its log may lack what its client saw.
func (h *house) metKill(s *shot) bool {
	return slices.ContainsFunc(h.allWindows(), func(w window) bool {
		return w.signal == syscall.SIGKILL && w.meets(s.began, time.Now())
	})
}

// waited is how long of a request no router was there.
func (h *house) waited(s *shot) (d time.Duration) {
	for _, w := range h.allWindows() {
		if w.to.IsZero() { // it listens, but we have not got to writing that down
			w.to = time.Now()
		}
		if w.meets(s.began, time.Now()) {
			d += w.to.Sub(w.from)
		}
	}
	return d
}

// restart replaces the router by the next one on the same address.
func (h *house) restart(signal syscall.Signal, b *books) error {
	h.proc.Lock()
	defer h.proc.Unlock()
	p := h.anyPlan()
	p.broken = false
	if err := h.write(p); err != nil {
		return err
	}
	before := h.processes()
	for limit := time.Now().Add(5 * time.Second); len(before) == 0 && time.Now().Before(limit); before = h.processes() {
		time.Sleep(10 * time.Millisecond)
	}
	began := time.Now()
	h.mu.Lock()
	h.windows = append(h.windows, window{signal: signal, from: began})
	h.mu.Unlock()
	if signal == syscall.SIGTERM { // with reloads before and behind
		for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGHUP} {
			h.cmd.Process.Signal(s)
		}
		h.reloads += 2
	} else {
		h.cmd.Process.Signal(signal)
	}
	select {
	case <-h.ended:
	case <-time.After(30 * time.Second):
		return fmt.Errorf("%s: still there 30 s after %v", h.name, signal)
	}
	gone := time.Since(began)
	if signal == syscall.SIGTERM {
		left := processesOf(h.folder)
		b.verdict(h.err == nil && len(left) == 0, "%s: SIGTERM in the load: exit with 0 after %v (%v), processes left: %d", h.name, gone.Round(time.Millisecond), h.err, len(left))
	}
	if err := h.start(); err != nil {
		return err
	}
	h.mu.Lock()
	h.windows[len(h.windows)-1].to = time.Now()
	h.mu.Unlock()
	if signal == syscall.SIGKILL {
		after := h.processes()
		orphans := 0
		for _, p := range before {
			if slices.Contains(after, p) {
				orphans++
			}
		}
		b.verdict(len(before) > 0 && orphans == 0, "%s: SIGKILL in the load with %d actors; of these, when the next router listened %v later: %d",
			h.name, len(before), time.Since(began).Round(time.Millisecond), orphans)
	}
	return nil
}

// process is one process: numbers are used again.
type process struct {
	pid   int
	began string // in ticks since the machine started
}

// processes lists the actors of the house that run.
func (h *house) processes() (all []process) {
	for _, pid := range processesOf(h.folder) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, ok := bytes.Cut(stat, []byte(") "))
		if fields := strings.Fields(string(rest)); err == nil && ok && len(fields) > 19 {
			all = append(all, process{pid, fields[19]})
		}
	}
	return all
}

// restarts replaces the router in the first part of the storm, so that the last
// one has most of it.
func (h *house) restarts(ctx context.Context, length time.Duration, b *books) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		pause(ctx, length/10)
		if ctx.Err() != nil {
			b.verdict(false, "%s: too short for all restarts", h.name)
			return
		}
		b.check(h.restart(signal, b))
	}
	h.mu.Lock()
	h.heaps = nil
	h.mu.Unlock()
}

// reserve finds a port that nothing else takes while no router has it: the
// system gives those of this range to nobody by itself. The listener is open.
func (h *house) reserve() (net.Listener, error) {
	var last error
	for range 50 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+h.chance(9000)))
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, last
}
