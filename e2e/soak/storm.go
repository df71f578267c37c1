package main

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"time"
)

// kind is a way to send a request, and how often it is chosen.
type kind struct {
	name   string
	weight int
	do     act
	grpc   bool
	can    func(h *house, to string) bool // nil: always
}

// kinds has few resets of HTTP/2 connections: net/http keeps what it had of
// each, some 25 KiB, for its idle time-out of two minutes, and memory would not
// be flat before that.
var kinds = []kind{
	{name: "h1 get", weight: 20, do: get},
	{name: "h2 get", weight: 20, do: get2},
	{name: "upload", weight: 20, do: upload},
	{name: "events", weight: 8, do: events},
	{name: "own error", weight: 4, do: ownFailure},
	{name: "socket", weight: 8, do: socket, can: func(_ *house, to string) bool { return protocol(to) == "h1" }},
	{name: "h1 rude", weight: 6, do: rude, can: func(h *house, _ string) bool { return h.tlsLine == "" }},
	{name: "h2 rude", weight: 1, do: rude2, can: func(h *house, _ string) bool { return h.tlsLine == "" }},
	{name: "pipelined", weight: 6, do: pipelined, can: func(_ *house, to string) bool { return !roleOf(to).grpc }},
	{name: "half-closed", weight: 4, do: halfClosed, can: func(h *house, _ string) bool { return h.tlsLine == "" }},
	{name: "slow reader", weight: 4, do: slowly},
	{name: "grpc unary", weight: 8, do: unary, grpc: true},
	{name: "grpc count", weight: 6, do: count, grpc: true},
	{name: "grpc chat", weight: 6, do: chat, grpc: true},
}

// warmUp sends one of each kind, so that what is made once is made before it
// is measured.
func (h *house) warmUp(ctx context.Context, b *books) {
	for _, k := range kinds {
		to := "steady-1"
		if k.grpc {
			to = "grpc-1"
		}
		if k.can == nil || k.can(h, to) {
			h.play(ctx, k.do, h.newShot("warm-up", to), b)
		}
	}
}

// visitors is how many send at once.
var visitors = map[string]int{"clear": 50, "tls": 25}

// storm lasts that long.
func (h *house) storm(ctx context.Context, length time.Duration, b *books) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var wg sync.WaitGroup
	for range visitors[h.name] {
		wg.Go(func() {
			for ctx.Err() == nil {
				h.visit(b)
				pause(ctx, h.between(0, 200*time.Millisecond))
			}
		})
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			pause(ctx, h.between(2*time.Second, 6*time.Second))
			b.check(h.reload(h.anyPlan()))
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			pause(ctx, h.between(200*time.Millisecond, 2*time.Second))
			b.check(h.killOne())
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			pause(ctx, length/30)
			b.check(h.noteHeap())
		}
	})
	wg.Go(func() { h.restarts(ctx, length, b) })
	wg.Wait()
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// visit sends one request of any kind to any actor, and waits for its end,
// also when the storm is over.
func (h *house) visit(b *books) {
	k := h.anyKind()
	to := names(k.grpc)[h.chance(len(names(k.grpc)))]
	for k.can != nil && !k.can(h, to) {
		k = h.anyKind()
		to = names(k.grpc)[h.chance(len(names(k.grpc)))]
	}
	s := h.newShot(k.name, to)
	s.band = h.chance(2)
	if h.chance(6) == 0 {
		s.timeout = h.between(2*time.Millisecond, 500*time.Millisecond)
	}
	if h.chance(6) == 0 {
		s.leaveAfter = h.between(time.Millisecond, 1500*time.Millisecond)
	}
	h.play(context.Background(), k.do, s, b)
}

func (h *house) anyKind() kind {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	n := h.chance(total)
	i := slices.IndexFunc(kinds, func(k kind) bool { n -= k.weight; return n < 0 })
	return kinds[i]
}

func (h *house) anyPlan() plan {
	return plan{workers: 2 + h.chance(7), lot: 20 + h.chance(60), revision: h.chance(4), guest: h.chance(2) == 0, broken: h.chance(6) == 0}
}

// noteHeap measures the heap, of one router at a time.
func (h *house) noteHeap() error {
	h.proc.RLock()
	defer h.proc.RUnlock()
	heap, err := h.heap()
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heaps = append(h.heaps, heap)
	return nil
}

// killOne kills a process of an actor that is there to be killed, if one runs.
func (h *house) killOne() error {
	h.proc.RLock()
	defer h.proc.RUnlock()
	s, err := h.status()
	if err != nil {
		return err
	}
	ours := processesOf(h.folder)
	var pids []int
	for _, a := range s.Actors {
		if roleOf(a.Name).killed && slices.Contains(ours, a.PID) {
			pids = append(pids, a.PID)
		}
	}
	if len(pids) == 0 {
		return nil
	}
	h.kills++
	if err := syscall.Kill(pids[h.chance(len(pids))], syscall.SIGKILL); err != syscall.ESRCH {
		return err
	}
	return nil
}
