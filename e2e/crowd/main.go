// Command crowd measures what parked requests cost others behind atenet-router
// and a real Envoy: the times of requests to awake actors with a crowd parked
// beside them, against the same without, and the memory of each parked request.
//
//	go run ./crowd                  5 pairs of 5 s each, 2,000 parked, 1,000 requests a second
//	go run ./crowd -pairs 1 -time 1s
//
// It exits with 0 if the limits held. Leave the machine alone meanwhile.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"layover/e2e/cluster"
	"layover/e2e/envoy"
	"layover/internal/substrate/controlplane"
)

const (
	limit  = 1.25 // how much more anything may be beside a crowd
	steady = 1.5  // how much the times without one may differ, to say anything
)

const (
	workers  = 8
	sleepers = 200 // actors that the crowd waits for
	lot      = 4096
)

type options struct {
	parked, rate, pairs int
	time                time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.parked, "parked", 2000, "how many requests are parked")
	flag.IntVar(&o.rate, "rate", 1000, "requests per second to awake actors")
	flag.IntVar(&o.pairs, "pairs", 5, "how many times each is measured")
	flag.DurationVar(&o.time, "time", 5*time.Second, "how long each time")
	flag.Parse()
	// The control plane, the actors and the requests are in this process; its
	// collections shall not be what is measured. The router decides for itself.
	debug.SetGCPercent(1500)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, o options) (err error) {
	c, err := start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: 10 * time.Second}
	for i := range workers { // wake them
		if _, err := ask(ctx, client, c, i); err != nil {
			return err
		}
	}
	if _, err := load(ctx, client, c, o.rate, time.Second); err != nil { // warm up
		return err
	}
	fmt.Printf("%d requests a second to %d awake actors, %v each time; alone, and beside %d parked ones\n\n", o.rate, workers, o.time, o.parked)
	fmt.Printf("%-40s%s\n%10s%10s%10s%10s%10s%10s%10s%10s%8s\n", "alone", "beside the crowd", "p50", "p99", "per s", "CPU", "p50", "p99", "per s", "CPU", "ratio")
	var ratios, costs, quiet []float64
	var memory sizes
	for range o.pairs {
		alone, err := load(ctx, client, c, o.rate, o.time)
		if err != nil {
			return err
		}
		before := sizesOf(c)
		crowd, err := park(ctx, c, o.parked)
		if err != nil {
			return err
		}
		if memory.envoy == 0 { // later ones find memory that was used before
			memory = sizesOf(c).less(before)
		}
		beside, err := load(ctx, client, c, o.rate, o.time)
		still, _ := c.Parked(ctx)
		crowd.leave()
		if err != nil {
			return err
		}
		if still != o.parked {
			return fmt.Errorf("%d are parked at the end, not %d", still, o.parked)
		}
		ratio := float64(beside.at(.99)) / float64(alone.at(.99))
		ratios, costs = append(ratios, ratio), append(costs, float64(beside.cpu)/float64(max(alone.cpu, 1)))
		quiet = append(quiet, float64(alone.at(.99)))
		fmt.Printf("%s%s%8.2f\n", alone, beside, ratio)
		if err := emptied(ctx, c); err != nil {
			return err
		}
	}
	fmt.Printf("\nmemory of a parked request: %.1f KiB in the router, %.1f KiB in Envoy\n", memory.router/float64(o.parked)/1024, memory.envoy/float64(o.parked)/1024)
	return judge(ratios, costs, quiet)
}

// judge says whether the crowd costs the others more than it may. What a
// request costs in processor time is true on a busy machine, too; how long it
// takes is not.
func judge(ratios, costs, quiet []float64) error {
	fmt.Printf("CPU of a request beside the crowd / alone: median %.2f, limit %.2f\n", median(costs), limit)
	fmt.Printf("p99 beside the crowd / p99 alone: median %.2f, limit %.2f\n", median(ratios), limit)
	if median(costs) > limit {
		return errors.New("NOT SO: requests cost more beside the crowd")
	}
	if spread := slices.Max(quiet) / slices.Min(quiet); spread > steady {
		fmt.Printf("The p99 alone differs by a factor of %.1f from one time to another: this machine does something else, its p99 says nothing.\n", spread)
		return nil
	}
	if median(ratios) > limit {
		return errors.New("NOT SO: requests take longer beside the crowd")
	}
	return nil
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}

// start builds the router and starts the cluster, whose workers are taken once
// the first actors are awake.
func start(ctx context.Context) (*cluster.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	path, err := envoy.Find(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "layover-crowd-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // what runs from it goes on
	binary := filepath.Join(dir, "atenet-router")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/atenet-router")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build ./cmd/atenet-router: %w\n%s", err, out)
	}
	c, err := cluster.Start(ctx, cluster.Options{Envoy: path, Router: binary, Workers: workers,
		Args: []string{"--parked-request-max=" + strconv.Itoa(lot), "--parked-request-budget=10m"}})
	if err != nil {
		return nil, err
	}
	for i := range workers {
		c.Plane.AddActor(controlplane.Actor{Name: awake(i)})
	}
	for i := range sleepers {
		c.Plane.AddActor(controlplane.Actor{Name: asleep(i)})
	}
	return c, nil
}

func awake(i int) string  { return fmt.Sprintf("load/awake-%d", i%workers) }
func asleep(i int) string { return fmt.Sprintf("load/asleep-%d", i%sleepers) }

// ask sends one request to an awake actor.
func ask(ctx context.Context, client *http.Client, c *cluster.Cluster, i int) (time.Duration, error) {
	began := time.Now()
	resp, err := client.Do(c.Request("GET", awake(i), "/", nil).WithContext(ctx))
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("an awake actor is answered for with %s", resp.Status)
	}
	return time.Since(began), err
}

// times are how long requests took.
type times struct {
	took []time.Duration // sorted
	rate float64         // of their answers, per second
	cpu  time.Duration   // of the router and Envoy together, per request
}

func (t times) at(q float64) time.Duration {
	return t.took[min(int(q*float64(len(t.took))), len(t.took)-1)].Round(10 * time.Microsecond)
}

func (t times) String() string {
	return fmt.Sprintf("%10v%10v%10.0f%10v", t.at(.5), t.at(.99), t.rate, t.cpu.Round(time.Microsecond))
}

// load sends rate requests per second for d, whether or not the earlier ones
// have their answers.
func load(ctx context.Context, client *http.Client, c *cluster.Cluster, rate int, d time.Duration) (times, error) {
	var mu sync.Mutex
	var t times
	var failed error
	var all sync.WaitGroup
	began, busy := time.Now(), cpuOf(c)
	for i := 0; time.Since(began) < d && ctx.Err() == nil; {
		for due := int(time.Since(began).Seconds() * float64(rate)); i <= due; i++ {
			all.Go(func() {
				took, err := ask(ctx, client, c, i)
				mu.Lock()
				defer mu.Unlock()
				t.took = append(t.took, took)
				if err != nil {
					failed = err
				}
			})
		}
		time.Sleep(time.Millisecond)
	}
	all.Wait()
	t.rate = float64(len(t.took)) / time.Since(began).Seconds()
	t.cpu = (cpuOf(c) - busy) / time.Duration(len(t.took))
	slices.Sort(t.took)
	return t, errors.Join(failed, context.Cause(ctx))
}

// crowd is the connections of parked requests.
type crowd []net.Conn

func (c crowd) leave() {
	for _, conn := range c {
		conn.Close()
	}
}

// park has n requests wait, each on a connection of its own.
func park(ctx context.Context, c *cluster.Cluster, n int) (all crowd, err error) {
	defer func() {
		if err != nil {
			all.leave()
		}
	}()
	for i := range n {
		conn, err := net.Dial("tcp", c.Addr)
		if err != nil {
			return all, err
		}
		all = append(all, conn)
		if err := c.Request("GET", asleep(i), "/", nil).Write(conn); err != nil {
			return all, err
		}
	}
	return all, until(ctx, c, n)
}

func emptied(ctx context.Context, c *cluster.Cluster) error { return until(ctx, c, 0) }

// until waits until n requests are parked, and nothing moves any more.
func until(ctx context.Context, c *cluster.Cluster, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		now, err := c.Parked(ctx)
		if err != nil {
			return fmt.Errorf("waiting for %d parked requests: %w", n, err)
		}
		if now == n {
			time.Sleep(500 * time.Millisecond)
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// sizes are the resident memory of the two processes, in bytes.
type sizes struct{ router, envoy float64 }

func (s sizes) less(before sizes) sizes {
	return sizes{s.router - before.router, s.envoy - before.envoy}
}

func sizesOf(c *cluster.Cluster) sizes {
	return sizes{resident(c.RouterPid()), resident(c.Envoy.Pid())}
}

// cpuOf is the processor time of the two processes, 0 where there is no /proc.
func cpuOf(c *cluster.Cluster) (d time.Duration) {
	for _, pid := range []int{c.RouterPid(), c.Envoy.Pid()} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 13 {
			return 0
		}
		for _, ticks := range fields[11:13] { // user, system; in hundredths of a second
			n, _ := strconv.Atoi(ticks)
			d += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return d
}

// resident is 0 where there is no /proc.
func resident(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize())
}
