package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"layover/internal/admin"
	"layover/internal/proxy"
	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
)

// rig is a proxy over real sockets in front of one awake actor and one that
// never wakes.
type rig struct {
	url    string // of the proxy
	router *router.Router
	close  func()
	parked []func() // cancels of the parked requests
}

const (
	awakeHost  = "awake.test"
	asleepHost = "asleep.test"
)

// newRig returns a rig whose awake actor is at addr and is already known to be
// awake.
func newRig(addr string, lot *parking.Lot) (*rig, error) {
	plane := planetest.NewScripted(1, addr, "asleep")
	plane.KeepIdle = true
	names, err := router.NewNames([]router.Route{
		{Name: "awake", Host: awakeHost, Actor: addr, Budget: time.Hour, MaxBudget: time.Hour},
		{Name: "asleep", Host: asleepHost, Actor: "asleep", Budget: time.Hour, MaxBudget: time.Hour},
	})
	if err != nil {
		return nil, err
	}
	g := &rig{router: router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})}
	ride, err := g.router.Route(context.Background(), router.Ask{Actor: addr})
	if err != nil {
		return nil, err
	}
	ride.Done()
	operator, err := admin.New(admin.Options{})
	if err != nil {
		return nil, err
	}
	g.router = router.New(plane, lot, router.Options{Observe: operator.Observe})
	g.router.SetNames(names)
	front := proxy.New(g.router, proxy.Options{Log: slog.New(slog.DiscardHandler)})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g.url = "http://" + listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- front.Serve(listener) }()
	g.close = func() {
		for _, cancel := range g.parked {
			cancel()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		front.Shutdown(ctx)
		<-served
	}
	return g, nil
}

// park parks n requests to the actor that never wakes.
func (g *rig) park(n int) {
	for range n {
		ctx, cancel := context.WithCancel(context.Background())
		g.parked = append(g.parked, cancel)
		req, _ := http.NewRequestWithContext(ctx, "GET", g.url, nil) // the address is our own
		req.Host = asleepHost
		go func() {
			if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
				resp.Body.Close()
			}
		}()
	}
	waitFor(func() bool { return g.router.Lot().Snapshot().Active == n })
}

// hello is an actor that is always there.
func hello() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "hello\n")
	}))
}

// client sends requests one after the other over one connection.
type client struct {
	http http.Client
	url  string
	host string
}

func newClient(url, host string) *client {
	return &client{url: url, host: host, http: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}}
}

// get sends one request and returns how long it took.
func (c *client) get() (time.Duration, error) {
	req, err := http.NewRequest("GET", c.url, nil)
	if err != nil {
		return 0, err
	}
	req.Host = c.host
	start := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	took := time.Since(start)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return took, err
}

// measure sends n requests and returns their durations.
func (c *client) measure(n int) (samples, error) {
	s := make(samples, 0, n)
	for range n {
		took, err := c.get()
		if err != nil {
			return nil, err
		}
		s.add(took)
	}
	return s, nil
}

// together sends n requests from each of the clients at once and returns how
// long it took.
func together(clients []*client, n int) (time.Duration, error) {
	start := time.Now()
	errs := make(chan error, len(clients))
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			_, err := c.measure(n)
			errs <- err
		})
	}
	all.Wait()
	took := time.Since(start)
	for range clients {
		if err := <-errs; err != nil {
			return 0, err
		}
	}
	return took, nil
}
