package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"layover/internal/cli"
	"layover/internal/router"
)

// What the burst is made of. The order of the lists is the order of sending.
var (
	burstLater = []string{"cdg", "cdg", "dub", "dub", "fra", "fra", "hel", "hel", "ist", "ist", "lis"}
	burstNow   = []string{"mad", "mad", "osl", "osl", "prg", "prg", "vie", "vie", "lis"} // lis: it raises the one sent later

	// burstOrder is the order in which that must be served.
	burstOrder = []string{"cdg", "dub", "mad", "osl", "prg", "vie", "lis", "fra", "hel", "ist"}
)

const (
	shortBudget = 1500 * time.Millisecond
	shortCount  = demoSpots - 20 // fills the lot
	overflow    = 8
	warmCount   = 100
	patience    = 15 * time.Second // for what takes milliseconds; a run that gives up says at what
)

// shot is one request of the demo and its answer.
type shot struct {
	id     string
	part   string // of the demo
	actor  string
	status int
	retry  string // Retry-After
	took   time.Duration
	err    error
}

// facts are what the demo measured. The zero value is ready.
type facts struct {
	mu      sync.Mutex
	shots   []shot
	records map[string][]router.Record // by request id
	sent    int
}

func (f *facts) record(rec router.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.records == nil {
		f.records = make(map[string][]router.Record)
	}
	f.records[rec.ID] = append(f.records[rec.ID], rec)
}

// demoClient sends requests and notes what became of them.
type demoClient struct {
	facts *facts
	http  http.Client
	port  string
	wg    sync.WaitGroup
}

func newDemoClient(addr string, f *facts) *demoClient {
	_, port, _ := net.SplitHostPort(addr)
	dialer := &net.Dialer{}
	return &demoClient{facts: f, port: port, http: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { // *.localhost need not be known here
			return dialer.DialContext(ctx, "tcp", addr)
		},
	}}}
}

func (c *demoClient) request(ctx context.Context, part, band, actor, path string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+actor+"."+band+".localhost:"+c.port+path, nil)
	if err != nil {
		panic(err) // all parts are ours
	}
	c.facts.mu.Lock()
	defer c.facts.mu.Unlock()
	c.facts.sent++
	req.Header.Set("X-Request-Id", fmt.Sprintf("%s-%d", part, c.facts.sent))
	return req
}

// send sends one request and waits for its answer.
func (c *demoClient) send(req *http.Request, part, actor string) shot {
	s := shot{id: req.Header.Get("X-Request-Id"), part: part, actor: actor}
	began := time.Now()
	resp, err := c.http.Do(req)
	s.took, s.err = time.Since(began), err
	if err == nil {
		s.status, s.retry = resp.StatusCode, resp.Header.Get("Retry-After")
		resp.Body.Close()
	}
	c.facts.mu.Lock()
	defer c.facts.mu.Unlock()
	c.facts.shots = append(c.facts.shots, s)
	return s
}

// launch sends one request and does not wait for its answer.
func (c *demoClient) launch(ctx context.Context, part, band, actor string, timeout time.Duration) {
	req := c.request(ctx, part, band, actor, "/")
	if timeout > 0 {
		req.Header.Set("Operation-Timeout", timeout.String())
	}
	c.wg.Go(func() { c.send(req, part, actor) })
}

// play sends all requests and returns when all are answered. The error says
// what it waited for in vain.
func (d *demo) play(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 4*patience)
	defer cancel()
	fmt.Fprintf(d.out, "layover demo: %d actors asleep, %d workers, room for %d requests to wait\n\n", len(demoActors), demoWorkers, demoSpots)
	d.screen.start()
	defer d.screen.stop()

	awake, last := demoActors[0], demoActors[len(demoActors)-1]
	d.screen.say("wakes ams and keeps it busy")
	if s := d.client.send(d.client.request(ctx, "cold", "now", awake, "/"), "cold", awake); s.status != 200 {
		return fmt.Errorf("demo: the first actor did not wake: status %d, error %v", s.status, s.err)
	}
	release, err := d.hold(ctx, awake)
	if err != nil {
		return err
	}
	defer release()
	d.warm(ctx, "warm", awake, func() bool { return true })

	d.screen.say("sends the burst: later, then now")
	if err := d.burst(ctx); err != nil {
		return err
	}
	d.screen.say("lot full: sends more, and to ams")
	var more sync.WaitGroup
	for range overflow {
		req := d.client.request(ctx, "overflow", "later", last, "/")
		more.Go(func() { d.client.send(req, "overflow", last) })
	}
	more.Wait()
	d.warm(ctx, "full", awake, func() bool { return d.server.lot.Snapshot().Active == demoSpots })

	d.screen.say("waits for the deadlines to end")
	if err := d.until(ctx, "the short deadlines to end", func() bool { return d.answered("short") == shortCount }); err != nil {
		return err
	}
	inLine := len(burstOrder) - 2 // the first two have workers
	if err := d.until(ctx, "those without callers to leave the line", func() bool {
		return d.server.router.Snapshot().Plane.Pools[0].Waiting == inLine
	}); err != nil {
		return err
	}
	d.screen.say("workers go round")
	d.watch.beginOrder()
	if err := d.openGates(ctx); err != nil {
		return err
	}
	d.client.wg.Wait()
	d.watch.endOrder()
	release()
	d.screen.say("wakes zrh, now with time enough")
	d.client.send(d.client.request(ctx, "after", "later", last, "/"), "after", last)
	d.screen.say("all answered")
	return d.until(ctx, "quiet", func() bool { return d.quiet() && d.facts.counted() })
}

// counted reports whether the router knows of every request that was sent. It
// may learn of an answer a moment after the client.
func (f *facts) counted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.records) >= f.sent
}

// hold keeps an actor in use until release is called.
func (d *demo) hold(ctx context.Context, actor string) (release func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	req := d.client.request(ctx, "hold", "now", actor, "/hold")
	began := time.Now()
	resp, err := d.client.http.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	d.facts.mu.Lock()
	defer d.facts.mu.Unlock()
	d.facts.shots = append(d.facts.shots, shot{id: req.Header.Get("X-Request-Id"), part: "hold", actor: actor, status: resp.StatusCode, took: time.Since(began)})
	return func() {
		cancel()
		resp.Body.Close()
	}, nil
}

// warm sends requests to an awake actor, one after the other, while holds is
// true before and after each.
func (d *demo) warm(ctx context.Context, part, actor string, holds func() bool) {
	for range warmCount {
		if !holds() {
			return
		}
		s := d.client.send(d.client.request(ctx, part, "now", actor, "/"), part, actor)
		if !holds() {
			d.facts.rename(s.id, "warm")
		}
	}
}

func (f *facts) rename(id, part string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.shots {
		if f.shots[i].id == id {
			f.shots[i].part = part
		}
	}
}

// burst fills the lot. Each request is sent when the one before it is parked,
// so that their order is known.
func (d *demo) burst(ctx context.Context) error {
	parked := 0
	launch := func(part, band, actor string, timeout time.Duration) error {
		d.client.launch(ctx, part, band, actor, timeout)
		parked++
		return d.until(ctx, fmt.Sprintf("request %d to park", parked), func() bool {
			return d.server.lot.Snapshot().Active >= parked || d.answered(part) > 0
		})
	}
	for _, actor := range burstLater {
		if err := launch("later", "later", actor, 0); err != nil {
			return err
		}
	}
	for _, actor := range burstNow {
		if err := launch("now", "now", actor, 0); err != nil {
			return err
		}
	}
	for range shortCount {
		if err := launch("short", "later", demoActors[len(demoActors)-1], shortBudget); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) answered(part string) (n int) {
	d.facts.mu.Lock()
	defer d.facts.mu.Unlock()
	for _, s := range d.facts.shots {
		if s.part == part {
			n++
		}
	}
	return n
}

// quiet reports whether nobody waits and nothing is in use.
func (d *demo) quiet() bool {
	s := d.server.router.Snapshot()
	return s.Lot.Active == 0 && s.Plane.Pools[0].Waiting == 0 &&
		!slices.ContainsFunc(s.Plane.Actors, func(a router.ActorSnapshot) bool { return a.InFlight > 0 || a.Wanted > 0 })
}

// until waits for something that is about to happen.
func (d *demo) until(ctx context.Context, what string, happened func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("demo: waited %v for %s", patience, what))
	defer cancel()
	for !happened() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		cli.Pause(ctx, 500*time.Microsecond)
	}
	return nil
}
