package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// pages measures what looking at a large router costs: how long its pages take
// with many actors and many parked requests, and what requests to an awake
// actor notice of ten pages that are kept up to date.
func pages(r *report) error {
	const (
		actors = 10_000
		parked = 2_000
		open   = 10
		pairs  = 7
		phase  = 2 * time.Second // the pages' clock is a second
	)
	var config strings.Builder
	config.WriteString("lot: 5000\npools: {warm: {workers: 1}, default: {workers: 1}}\ndefaults: {pool: default, start_timeout: 1h, idle: 0s}\nactors:\n")
	config.WriteString("  hello: {pool: warm, command: [{self}], env: {FIGURES_ACTOR: 0s}}\n")
	for i := range actors {
		fmt.Fprintf(&config, "  a%05d: {command: [sleep, \"3600\"]}\n", i)
	}
	config.WriteString("routes: [{host: \"{actor}.test\", budget: 1h, max_budget: 1h}]\n")
	s, err := startServer(config.String())
	if err != nil {
		return err
	}
	defer s.stop()
	for i := range parked {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a%05d.test\r\n\r\n", i); err != nil {
			return err
		}
	}
	if err := settle(func() bool { n, err := s.metric("layover_lot_spots_used"); return err == nil && n == parked }); err != nil {
		return fmt.Errorf("the requests do not park: %w", err)
	}
	for _, path := range []string{"/statusz", "/api/v1/actors?limit=500", "/api/v1/actors?search=a09999", "/api/v1/lot?limit=500", "/api/v1/pools", "/api/v1/requests"} {
		var took samples
		for range 20 {
			start := time.Now()
			if err := read(context.Background(), "http://"+s.admin+path); err != nil {
				return err
			}
			took.add(time.Since(start))
		}
		r.duration("%s: median, %d actors, %d parked", took.quantile(0.5), 200*time.Millisecond, path, actors, parked)
		r.duration("%s: p95 of 20", took.quantile(0.95), 0, path)
	}
	client := newClient("http://"+s.addr, "hello.test")
	if _, err := client.get(); err != nil { // wakes it
		return err
	}
	served := func() (float64, error) {
		n := 0
		for start := time.Now(); time.Since(start) < phase; n++ {
			if _, err := client.get(); err != nil {
				return 0, err
			}
		}
		return float64(n), nil
	}
	var slower ratios
	for range pairs {
		alone, err := served()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		closed := make(chan error, open)
		for i := range open {
			go func() {
				closed <- read(ctx, fmt.Sprintf("http://%s/statusz/live?search=%s", s.admin, []string{"", "a0999"}[i%2]))
			}()
		}
		watched, err := served()
		cancel()
		for range open {
			if err := <-closed; ctx.Err() == nil && err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		slower = append(slower, alone/watched)
	}
	r.ratio(fmt.Sprintf("requests to an awake actor: time with %d live pages of %d actors, to without", open, actors), slower, atMost, 1.10)
	return nil
}

// read reads a page to its end, which for a live one is that of ctx.
func read(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
