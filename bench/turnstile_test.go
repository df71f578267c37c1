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

	"layover/bench/gates"
	"layover/turnstile"
)

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
	for _, l := range gates.T17 {
		var base, ours, ratios, fresh []float64
		for i := range pairs + 1 {
			var s, o time.Duration
			if i%2 == 0 {
				s, o = run(l, gates.Semaphore), run(l, gates.Turnstile)
			} else {
				o, s = run(l, gates.Turnstile), run(l, gates.Semaphore)
			}
			f := run(l, gates.FreshClaims)
			if i == 0 {
				continue // warm-up
			}
			base = append(base, float64(s)/float64(l.Turns))
			ours = append(ours, float64(o)/float64(l.Turns))
			ratios = append(ratios, float64(o)/float64(s))
			fresh = append(fresh, float64(f)/float64(s))
		}
		ratio := quantile(ratios, 0.5)
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.2f\t%.2f-%.2f\t%.2f\t%.2f\n", l.Name, quantile(base, 0.5), quantile(ours, 0.5),
			ratio, quantile(ratios, 0.25), quantile(ratios, 0.75), l.Bound, quantile(fresh, 0.5))
		if ratio > l.Bound {
			t.Errorf("%s: turnstile/semaphore = %.2f, want at most %.2f", l.Name, ratio, l.Bound)
		}
	}
	g := gates.Turnstile.New(8)
	if allocs := testing.AllocsPerRun(1000, func() { g.Turns(t.Context(), 1, nil) }); allocs != 0 {
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

func run(l gates.Load, arm gates.Arm) time.Duration { return l.Run(arm.New(l.Size)).Time }

func BenchmarkTurnstileAndSemaphore(b *testing.B) {
	for _, l := range gates.T17 {
		for _, arm := range []gates.Arm{gates.Semaphore, gates.Turnstile} {
			b.Run(l.Name+"/"+arm.Name, func(b *testing.B) {
				b.ReportAllocs()
				l.Turns = max(b.N, l.Workers)
				run(l, arm)
			})
		}
	}
}
