package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"time"
)

// park measures what a parked HTTP/1.1 request costs the server process, and
// how soon clients that leave are gone from the count.
func park(r *report) error {
	const (
		clients = 10_000
		leaving = 1_000
	)
	s, err := startServer(`
lot: 20000
pools: {default: {workers: 1}}
actors:
  never: {command: [sleep, "3600"], start_timeout: 1h}
routes:
  - {host: never.test, actor: never, budget: 1h, max_budget: 1h}
`)
	if err != nil {
		return err
	}
	defer s.stop()
	active := func() float64 {
		n, err := s.metric("layover_lot_spots_used")
		if err != nil {
			return -1
		}
		return n
	}
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	connect := func(request string) error {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			return err
		}
		conns = append(conns, c)
		_, err = io.WriteString(c, request)
		return err
	}
	const get = "GET / HTTP/1.1\r\nHost: never.test\r\nUser-Agent: figures/1.0\r\nAccept: */*\r\n\r\n"
	for range 100 { // warm up
		if err := connect(get); err != nil {
			return err
		}
	}
	if err := settle(func() bool { return active() == 100 }); err != nil {
		return fmt.Errorf("the first 100 do not park: %w", err)
	}
	before, err := s.inUse()
	if err != nil {
		return err
	}
	for range clients {
		if err := connect(get); err != nil {
			return err
		}
	}
	if err := settle(func() bool { return active() == 100+clients }); err != nil {
		return fmt.Errorf("%v of %d are parked: %w", active(), 100+clients, err)
	}
	after, err := s.inUse()
	if err != nil {
		return err
	}
	r.figure("parked: KiB in use per request, of %d", float64(after-before)/clients/1024, atMost, 24, clients)

	start := time.Now()
	for _, c := range conns[:leaving] {
		c.Close()
	}
	if err := settle(func() bool { return active() == 100+clients-leaving }); err != nil {
		return fmt.Errorf("%d clients left, %v are parked: %w", leaving, active(), err)
	}
	r.duration("parked: %d clients leave, until the count says so", time.Since(start), 100*time.Millisecond+scrape(active), leaving)

	for _, c := range conns {
		c.Close()
	}
	conns = nil
	if err := settle(func() bool { return active() == 0 }); err != nil {
		return fmt.Errorf("all clients left, %v are parked: %w", active(), err)
	}
	// One that has sent a part of its body, and one with a request behind it.
	for _, unread := range []struct{ what, request string }{
		{"with its body unread", "POST / HTTP/1.1\r\nHost: never.test\r\nContent-Length: 1000000\r\n\r\nbegin"},
		{"with a pipelined request behind", get + get},
	} {
		var worst time.Duration
		for range 20 {
			if err := connect(unread.request); err != nil {
				return err
			}
			if err := settle(func() bool { return active() == 1 }); err != nil {
				return err
			}
			cost := scrape(active)
			start := time.Now()
			conns[0].Close()
			conns = nil
			if err := settle(func() bool { return active() == 0 }); err != nil {
				return fmt.Errorf("a client %s is not noticed to leave: %w", unread.what, err)
			}
			worst = max(worst, time.Since(start)-cost)
		}
		r.duration("parked: a client %s leaves, worst of 20", worst, 100*time.Millisecond, unread.what)
	}
	return nil
}

// scrape returns how long one look at the count takes.
func scrape(active func() float64) time.Duration {
	start := time.Now()
	active()
	return time.Since(start)
}

// settle waits until ready holds, at most a minute.
func settle(ready func() bool) error {
	for deadline := time.Now().Add(time.Minute); !ready(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("not so after a minute")
		}
	}
	return nil
}

// upload sends 5 GB through a cold start and watches the server's memory.
func upload(r *report) error {
	const size = 5_000_000_000
	s, err := startServer(`
pools: {default: {workers: 1}}
actors:
  sink: {command: [{self}], env: {FIGURES_ACTOR: 500ms}}
routes:
  - {host: sink.test, actor: sink, budget: 10m, max_budget: 10m}
`)
	if err != nil {
		return err
	}
	defer s.stop()
	before, err := s.rss()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	peak := make(chan int64)
	go func() {
		var most int64
		for ctx.Err() == nil {
			if now, err := s.rss(); err == nil {
				most = max(most, now)
			}
			time.Sleep(10 * time.Millisecond)
		}
		peak <- most
	}()
	start := time.Now()
	body := bufio.NewReaderSize(io.LimitReader(zeros{}, size), 256<<10)
	answer, err := sendOver(ctx, "POST", "http://"+s.addr, "sink.test", body, size)
	took := time.Since(start)
	cancel()
	most := <-peak
	if err != nil {
		return err
	}
	var began, listened, got int64
	if _, err := fmt.Sscan(answer, &began, &listened, &got); err != nil || got != size {
		return fmt.Errorf("the actor got %d bytes of %d: %q", got, int64(size), answer)
	}
	r.figure("upload of 5 GB through a cold start: growth of resident memory, MiB", float64(most-before)/(1<<20), atMost, 32)
	r.duration("upload of 5 GB through a cold start: took", took, 0)
	return nil
}

// zeros is a reader without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
