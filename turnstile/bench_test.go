package turnstile

import (
	"context"
	"runtime"
	"sync"
	"testing"
)

// buffered is the naive baseline: as many tokens as passes, in no order that a claim could choose.
type buffered chan struct{}

func (b buffered) turn(ctx context.Context, hold func()) {
	select {
	case b <- struct{}{}:
	case <-ctx.Done():
		return
	}
	hold()
	<-b
}

func BenchmarkTurn(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	nothing := func() {}
	for _, c := range []struct {
		name          string
		size, workers int
		hold          func()
	}{
		{"alone", 8, 1, nothing},
		{"2 goroutines, passes free", 8, 2, nothing},
		{"8 passes, 256 goroutines", 8, 256, runtime.Gosched},
		{"8 passes, 4096 goroutines", 8, 4096, runtime.Gosched},
		{"64 passes, 32 goroutines", 64, 32, runtime.Gosched},
	} {
		b.Run(c.name+"/turnstile", func(b *testing.B) {
			ts, claim := New(c.size), NewClaim(0)
			share(b, c.workers, func() {
				if pass, ok := ts.WaitTurn(ctx, claim); ok {
					c.hold()
					pass.Return()
				}
			})
		})
		b.Run(c.name+"/channel", func(b *testing.B) {
			ch := make(buffered, c.size)
			share(b, c.workers, func() { ch.turn(ctx, c.hold) })
		})
	}
}

// share runs turn b.N times, by that many goroutines together.
func share(b *testing.B, workers int, turn func()) {
	b.ReportAllocs()
	var wg sync.WaitGroup
	for i := range workers {
		n := b.N / workers
		if i < b.N%workers {
			n++
		}
		wg.Go(func() {
			for range n {
				turn()
			}
		})
	}
	wg.Wait()
}

// BenchmarkCancelStorm is the time per waiter, from its start to its end, when a line of that many is cancelled at once: it must not
// grow in proportion to the line.
func BenchmarkCancelStorm(b *testing.B) {
	for _, c := range []struct {
		name string
		n    int
	}{{"1000", 1000}, {"50000", 50_000}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				storm(c.n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.n), "ns/waiter")
		})
	}
}

func storm(n int) {
	ts := New(0)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { ts.WaitTurn(ctx, claimAt(i%3, i*7919%n)) })
	}
	for _, waiting := ts.Snapshot(); waiting < n; _, waiting = ts.Snapshot() {
		runtime.Gosched()
	}
	cancel()
	wg.Wait()
}
