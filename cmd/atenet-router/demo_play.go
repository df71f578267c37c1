package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"layover/internal/cli"
	"layover/internal/router"
	"layover/internal/substrate"
)

// shot is one request of the demo and what came of it.
type shot struct {
	actor  string
	status int
	reason router.Reason
	retry  string
	took   time.Duration
	err    error
}

func (s shot) served() bool { return s.err == nil && s.status == http.StatusOK }

// send sends a request and returns what came of it.
func (d *demo) send(ctx context.Context, actor string, header ...string) shot {
	d.mu.Lock()
	d.sent++
	d.mu.Unlock()
	s := shot{actor: actor}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.addr+"/", nil)
	if err != nil {
		s.err = err
		return s
	}
	req.Header.Set(substrate.TargetHeader, actor)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	began := time.Now()
	resp, err := demoClient.Do(req)
	s.took, s.err = time.Since(began), err
	if err != nil {
		return s
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	s.status, s.retry = resp.StatusCode, resp.Header.Get("Retry-After")
	var problem struct{ Reason router.Reason }
	if json.Unmarshal(body, &problem) == nil {
		s.reason = problem.Reason
	}
	return s
}

// demoClient has a connection for each request, as strangers do.
var demoClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}

// volley is requests that are on their way.
type volley struct {
	all   sync.WaitGroup
	mu    sync.Mutex
	shots []shot
}

func (v *volley) add(send func() shot) {
	v.all.Go(func() {
		s := send()
		v.mu.Lock()
		defer v.mu.Unlock()
		v.shots = append(v.shots, s)
	})
}

func (v *volley) wait() []shot {
	v.all.Wait()
	return v.shots
}

func (v *volley) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.shots)
}

// parked waits until that many requests are parked. It reports whether it came
// to that.
func (d *demo) parked(ctx context.Context, n int) bool {
	return soon(ctx, func() bool { return d.server.router.Lot().Snapshot().Active == n })
}

// soon waits for something that is so within a few seconds, or not at all.
func soon(ctx context.Context, is func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for !is() {
		if ctx.Err() != nil {
			return false
		}
		cli.Pause(ctx, 2*time.Millisecond)
	}
	return true
}

// play sends the requests and prints what is claimed of them. It reports
// whether all of it held.
func (d *demo) play(ctx context.Context) bool {
	fmt.Fprintf(d.out, "A real Envoy on %s, %d actors on %d workers, %d spots, a budget of %v.\n", d.addr, demoActors, demoWorkers, demoSpots, demoBudget)
	held := []bool{
		d.playCold(ctx),
		d.playFull(ctx),
		d.playEnds(ctx),
		d.playRestart(ctx),
	}
	return ctx.Err() == nil && !slices.Contains(held, false)
}

func (d *demo) claim(holds bool, format string, args ...any) bool {
	mark := "✓"
	if !holds {
		mark = "✗ NOT SO:"
	}
	fmt.Fprintf(d.out, "  %s %s\n", mark, fmt.Sprintf(format, args...))
	return holds
}

// playCold wakes as many actors as there are workers.
func (d *demo) playCold(ctx context.Context) bool {
	fmt.Fprintln(d.out, "\nAsleep")
	var v volley
	for i := range demoWorkers {
		for range 5 {
			v.add(func() shot { return d.send(ctx, demoActor(i)) })
		}
	}
	shots := v.wait()
	once := true
	for i := range demoWorkers {
		once = once && d.plane.Resumes(demoActor(i)) == 1
	}
	return d.claim(once && allServed(shots), "%d requests for %d sleeping actors: %d served after %v to %v, each actor resumed once",
		len(shots), demoWorkers, served(shots), round(slices.MinFunc(shots, byTook).took), round(slices.MaxFunc(shots, byTook).took))
}

// playFull fills the lot, looks at what that does to others, and then lets one
// worker after another become free.
func (d *demo) playFull(ctx context.Context) bool {
	fmt.Fprintln(d.out, "\nMust it wait?")
	asleep := demoActors - demoWorkers
	var waiting volley
	filled := true
	for i := range demoSpots {
		actor := demoActor(demoWorkers + i%asleep)
		waiting.add(func() shot { return d.send(ctx, actor) })
		filled = d.parked(ctx, i+1) && filled // so that their ages are in this order
	}
	before := d.server.router.Snapshot().Totals.Parked
	var warm volley
	for i := range 200 {
		warm.add(func() shot { return d.send(ctx, demoActor(i%demoWorkers)) })
		cli.Pause(ctx, 2*time.Millisecond)
	}
	awake := warm.wait()
	parked := d.server.router.Snapshot().Totals.Parked - before
	slices.SortFunc(awake, byTook)
	var over volley
	for range 10 {
		over.add(func() shot { return d.send(ctx, demoActor(demoActors-1)) })
	}
	shed := over.wait()
	told := !slices.ContainsFunc(shed, func(s shot) bool {
		return s.status != http.StatusServiceUnavailable || s.reason != router.LotFull || s.retry == "" || s.took > d.slack()
	})
	held := []bool{
		d.claim(filled && parked == 0 && allServed(awake), "with %d requests parked and the lot full, %d to awake actors were served and none parked: p50 %v, p99 %v",
			demoSpots, len(awake), round(awake[len(awake)/2].took), round(awake[len(awake)*99/100].took)),
		d.claim(told, "%d that found no spot had their 503 and Retry-After in at most %v", len(shed), round(slices.MaxFunc(shed, byTook).took)),
	}
	fmt.Fprintln(d.out, "\nWho is next?")
	return d.playOrder(ctx, &waiting, asleep) && !slices.Contains(held, false)
}

// playOrder frees one worker at a time and looks whose actor gets it. The next
// one is freed when all who waited for that actor have their answers: an address
// is only good as long as the actor runs there.
func (d *demo) playOrder(ctx context.Context, waiting *volley, asleep int) bool {
	calls, began := d.plane.Count("ResumeActor"), time.Now()
	var order, want []string
	answers := 0
	for i := range asleep {
		want = append(want, demoActor(demoWorkers+i))
		answers += (demoSpots - i + asleep - 1) / asleep
		before := d.plane.Running()
		d.plane.Suspend(before[0])
		soon(ctx, func() bool { return waiting.count() >= answers && len(d.plane.Running()) == demoWorkers })
		for _, name := range d.plane.Running() {
			if !slices.Contains(before, name) {
				order = append(order, name)
			}
		}
	}
	shots := waiting.wait()
	took := time.Since(began)
	spent := d.plane.Count("ResumeActor") - calls
	held := []bool{
		d.claim(slices.Equal(order, want) && allServed(shots), "%d workers became free one by one: %d parked requests were served, in the order of their actors' oldest", asleep, served(shots)),
		d.claim(spent <= asleep+int(float64(took)/float64(d.config.retryInterval)/(1-d.config.retryJitter)), "for all of them the control plane was asked %d times in %v: one asks for the line, every %v",
			spent, round(took), d.config.retryInterval),
	}
	return !slices.Contains(held, false)
}

// playEnds lets waits end: by a deadline, and by their client.
func (d *demo) playEnds(ctx context.Context) bool {
	fmt.Fprintln(d.out, "\nWhen does it end?")
	const own = 700 * time.Millisecond
	var short, gone volley
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	for range 5 {
		short.add(func() shot { return d.send(ctx, demoActor(0), "Operation-Timeout", own.String()) })
		gone.add(func() shot { return d.send(leaving, demoActor(1)) })
	}
	all := d.parked(ctx, 10)
	leave()
	freed := d.parked(ctx, 5)
	gone.wait()
	shots := short.wait()
	inTime := !slices.ContainsFunc(shots, func(s shot) bool {
		return s.reason != router.NoWorker || s.retry == "" || s.took < own-5*time.Millisecond || s.took > own+d.slack()
	})
	held := []bool{
		d.claim(all && freed, "5 clients left while parked: their spots were free at once"),
		d.claim(inTime, "5 with a deadline of %v and no worker in sight had 503 no_worker after %v to %v, never before",
			own, round(slices.MinFunc(shots, byTook).took), round(slices.MaxFunc(shots, byTook).took)),
	}
	return !slices.Contains(held, false)
}

// playRestart takes the control plane away while requests wait.
func (d *demo) playRestart(ctx context.Context) bool {
	d.plane.Suspend(d.plane.Running()[0])
	var v volley
	for range 5 {
		v.add(func() shot { return d.send(ctx, demoActor(2)) })
	}
	soon(ctx, func() bool { return len(d.plane.Running()) < demoWorkers && d.server.front.Held() == 5 })
	d.plane.Stop()
	down := d.parked(ctx, 5)
	_, err := d.plane.Start(d.ateapi)
	shots := v.wait()
	return d.claim(down && err == nil && allServed(shots) && d.plane.Stranded() == 0,
		"the control plane restarted in mid-resume: %d requests parked and %d were served, no worker was lost", len(shots), served(shots))
}

// try lets people send requests until ctx ends. What nobody has asked for in a
// while falls asleep meanwhile, as it would in a cluster.
func (d *demo) try(ctx context.Context) {
	before := d.counted()
	for ; ctx.Err() == nil; cli.Pause(ctx, 100*time.Millisecond) {
		asked := make(map[string]bool)
		for _, c := range slices.Backward(d.plane.Calls()) {
			if time.Since(c.At) > demoIdle {
				break
			}
			asked[c.Actor] = true
		}
		for _, name := range d.plane.Running() {
			if !asked[name] {
				d.plane.Suspend(name)
			}
		}
	}
	soon(context.Background(), func() bool { return d.server.front.Held() == 0 })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent += d.counted() - before
}

// counted is how many requests the router has counted.
func (d *demo) counted() int {
	totals := d.server.router.Snapshot().Totals
	n := int(totals.Served)
	for _, refused := range totals.Refused {
		n += int(refused)
	}
	return n
}

// end stops the router with requests parked.
func (d *demo) end() bool {
	ctx := context.Background()
	fmt.Fprintln(d.out, "\nThe end")
	for _, name := range d.plane.Running() {
		d.plane.Suspend(name)
	}
	for i := range demoWorkers {
		d.send(ctx, demoActor(i))
	}
	var v volley
	for range 5 {
		v.add(func() shot { return d.send(ctx, demoActor(6)) })
	}
	held := d.parked(ctx, 5)
	stopped := make(chan error, 1)
	go func() { stopped <- d.server.stop(nil) }()
	soon(ctx, func() bool {
		resp, err := http.Get("http://" + d.config.status + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable
	})
	d.plane.Suspend(d.plane.Running()[0])
	shots := v.wait()
	err := <-stopped
	counted := d.counted()
	d.mu.Lock()
	defer d.mu.Unlock()
	claims := []bool{
		d.claim(held && err == nil && allServed(shots), "stopped with %d requests parked: Envoy drained, %d were served, then the router ended", len(shots), served(shots)),
		d.claim(counted == d.sent, "%d requests sent, %d counted: each exactly once", d.sent, counted),
		d.claim(len(d.wrong) == 0, "each came to the worker that its actor was on%s", strings.Join(d.wrong, "; ")),
	}
	return !slices.Contains(claims, false)
}

func byTook(a, b shot) int { return int(a.took - b.took) }

func served(shots []shot) (n int) {
	for _, s := range shots {
		if s.served() {
			n++
		}
	}
	return n
}

func allServed(shots []shot) bool { return served(shots) == len(shots) }

// round writes a duration as people compare it.
func round(d time.Duration) time.Duration {
	if d >= 10*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Microsecond)
}
