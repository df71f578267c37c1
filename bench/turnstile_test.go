package bench

import (
	"context"
	"sync"
	"testing"

	"golang.org/x/sync/semaphore"

	"layover/turnstile"
)

func loop(n, workers int, f func(i int)) {
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range n / workers {
				f(w)
			}
		})
	}
	wg.Wait()
}

func BenchmarkTurnstile(b *testing.B) {
	for _, c := range []struct{ name string; size, workers int }{{"alone", 1, 1}, {"alone8", 8, 1}, {"two", 8, 2}, {"8x256", 8, 256}, {"8x4096", 8, 4096}} {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		b.Run(c.name+"/semaphore", func(b *testing.B) {
			b.ReportAllocs()
			s := semaphore.NewWeighted(int64(c.size))
			loop(b.N, c.workers, func(int) {
				if s.Acquire(ctx, 1) == nil {
					s.Release(1)
				}
			})
		})
		b.Run(c.name+"/turnstile", func(b *testing.B) {
			b.ReportAllocs()
			t := turnstile.New(c.size)
			claims := make([]turnstile.Claim, c.workers)
			for i := range claims {
				claims[i] = turnstile.NewClaim(0)
			}
			loop(b.N, c.workers, func(i int) {
				if p, ok := t.WaitTurn(ctx, claims[i]); ok {
					p.Return()
				}
			})
		})
	}
}
