package bench

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/semaphore"

	"layover/turnstile"
)

// gate is one of the two things compared: how a worker takes and gives back n times.
type gate func(ctx context.Context, n int, hold func())

func semaphoreGate(size int) gate {
	s := semaphore.NewWeighted(int64(size))
	return func(ctx context.Context, n int, hold func()) {
		for range n {
			if s.Acquire(ctx, 1) != nil {
				panic("semaphore refused")
			}
			if hold != nil {
				hold()
			}
			s.Release(1)
		}
	}
}

// turnstileGate serves in the order of arrival, as the semaphore does: the claims are equal.
func turnstileGate(size int) gate {
	t := turnstile.New(size)
	claim := turnstile.NewClaim(0)
	return func(ctx context.Context, n int, hold func()) {
		for range n {
			pass, ok := t.WaitTurn(ctx, claim)
			if !ok {
				panic("turnstile refused")
			}
			if hold != nil {
				hold()
			}
			pass.Return()
		}
	}
}

// jobsGate makes a claim for every turn: what a program does whose jobs take one turn each.
func jobsGate(size int) gate {
	t := turnstile.New(size)
	return func(ctx context.Context, n int, hold func()) {
		for range n {
			pass, ok := t.WaitTurn(ctx, turnstile.NewClaim(0))
			if !ok {
				panic("turnstile refused")
			}
			if hold != nil {
				hold()
			}
			pass.Return()
		}
	}
}

// load is a number of goroutines at a number of passes.
type load struct {
	name          string
	size, workers int
	turns         int    // per run, of all workers
	hold          func() // nil: the pass is given back at once
	bound         float64
}

// In the contended loads the holder yields once, so that there is a line: on a few cores, workers that never yield hardly meet.
var loads = []load{
	{name: "alone", size: 8, workers: 1, turns: 400_000, bound: 0.65},
	{name: "2 goroutines, passes free", size: 8, workers: 2, turns: 1_000_000, bound: 1.5},
	{name: "8 passes, 256 goroutines", size: 8, workers: 256, turns: 60_000, hold: runtime.Gosched, bound: 1.0},
	{name: "8 passes, 4096 goroutines", size: 8, workers: 4096, turns: 60_000, hold: runtime.Gosched, bound: 1.0},
}

// run is the time per turn.
func (l load) run(g gate) time.Duration {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if l.workers == 1 {
		start := time.Now()
		g(ctx, l.turns, l.hold)
		return time.Since(start)
	}
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	ready.Add(l.workers)
	for range l.workers {
		done.Go(func() {
			ready.Done()
			<-begin
			g(ctx, max(1, l.turns/l.workers), l.hold)
		})
	}
	ready.Wait()
	start := time.Now()
	close(begin)
	done.Wait()
	return time.Since(start)
}

// TestT17_AsFastAsASemaphore compares the turnstile with the semaphore: the median ratio of interleaved pairs, and the spread. A
// noisy machine can fail it, so it runs only where it is asked for: LAYOVER_BENCH=1 go test -run TestT17 -v ./...
func TestT17_AsFastAsASemaphore(t *testing.T) {
	if testing.Short() || os.Getenv("LAYOVER_BENCH") == "" {
		t.Skip("set LAYOVER_BENCH=1 to compare with golang.org/x/sync/semaphore")
	}
	const pairs = 21
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "load\tsemaphore ns\tturnstile ns\tratio\tquartiles\tbound\tfresh claims")
	for _, l := range loads {
		var base, ours, ratios, fresh []float64
		for i := range pairs + 1 {
			var s, o time.Duration
			if i%2 == 0 {
				s, o = l.run(semaphoreGate(l.size)), l.run(turnstileGate(l.size))
			} else {
				o, s = l.run(turnstileGate(l.size)), l.run(semaphoreGate(l.size))
			}
			f := l.run(jobsGate(l.size))
			if i == 0 {
				continue // warm-up
			}
			base = append(base, float64(s)/float64(l.turns))
			ours = append(ours, float64(o)/float64(l.turns))
			ratios = append(ratios, float64(o)/float64(s))
			fresh = append(fresh, float64(f)/float64(s))
		}
		ratio := quantile(ratios, 0.5)
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.2f\t%.2f-%.2f\t%.2f\t%.2f\n", l.name, quantile(base, 0.5), quantile(ours, 0.5),
			ratio, quantile(ratios, 0.25), quantile(ratios, 0.75), l.bound, quantile(fresh, 0.5))
		if ratio > l.bound {
			t.Errorf("%s: turnstile/semaphore = %.2f, want at most %.2f", l.name, ratio, l.bound)
		}
	}
	g := turnstileGate(8)
	if allocs := testing.AllocsPerRun(1000, func() { g(t.Context(), 1, nil) }); allocs != 0 {
		t.Errorf("a turn on the free path allocates %v times, want 0", allocs)
	}
}

// TestT17_OrderIsKept serves the loads' line one by one: it is the line whose cost is compared that keeps the order.
func TestT17_OrderIsKept(t *testing.T) {
	for _, workers := range []int{256, 4096} {
		ts := turnstile.New(1)
		first, _ := ts.WaitTurn(context.Background(), turnstile.NewClaim(0))
		claims := make([]turnstile.Claim, workers)
		for i := range claims {
			claims[i] = turnstile.NewClaim(i % 3)
		}
		rand.Shuffle(workers, func(i, j int) { claims[i], claims[j] = claims[j], claims[i] })
		var served []turnstile.Claim // guarded by the only pass
		var wg sync.WaitGroup
		for _, c := range claims {
			wg.Go(func() {
				pass, _ := ts.WaitTurn(context.Background(), c)
				served = append(served, c)
				pass.Return()
			})
		}
		for _, waiting := ts.Snapshot(); waiting < workers; _, waiting = ts.Snapshot() {
			runtime.Gosched()
		}
		first.Return()
		wg.Wait()
		if !slices.IsSortedFunc(served, byClaim) {
			t.Errorf("%d waiters were not served by band and age", workers)
		}
	}
}

func byClaim(a, b turnstile.Claim) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Seq, b.Seq))
}

func quantile(x []float64, q float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[int(q*float64(len(x)-1))]
}

func BenchmarkTurnstileAndSemaphore(b *testing.B) {
	for _, l := range loads {
		for _, arm := range []struct {
			name string
			gate func(size int) gate
		}{{"semaphore", semaphoreGate}, {"turnstile", turnstileGate}} {
			b.Run(l.name+"/"+arm.name, func(b *testing.B) {
				b.ReportAllocs()
				l.turns = max(b.N, l.workers)
				l.run(arm.gate(l.size))
			})
		}
	}
}
