package parking

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

func BenchmarkLotTakeFree(b *testing.B) {
	lot := NewLot(1)
	b.ReportAllocs()
	for b.Loop() {
		s, _ := lot.Take()
		s.Free()
	}
}

func BenchmarkLotRefuse(b *testing.B) {
	lot := NewLot(0)
	b.ReportAllocs()
	for b.Loop() {
		lot.Take()
	}
}

func fly(context.Context, *Flight) (int, error) { return 1, nil }

func BenchmarkJoinAlone(b *testing.B) {
	fs := NewFlights[int, int](NewLot(0), Options{})
	b.ReportAllocs()
	for b.Loop() {
		fs.Join(b.Context(), 0, fly)
	}
}

func BenchmarkJoinAloneParallel(b *testing.B) {
	fs := NewFlights[int, int](NewLot(0), Options{})
	b.ReportAllocs()
	key := make(chan int, 1)
	key <- 0
	b.RunParallel(func(pb *testing.PB) {
		mine := <-key
		key <- mine + 1
		for pb.Next() {
			fs.Join(b.Context(), mine, fly)
		}
	})
}

// BenchmarkShed is what a caller costs that a full lot turns away.
func BenchmarkShed(b *testing.B) {
	fs := NewFlights[int, int](NewLot(0), Options{})
	parked, land := make(chan struct{}), make(chan struct{})
	var leader sync.WaitGroup
	leader.Go(func() {
		fs.Join(b.Context(), 0, func(_ context.Context, f *Flight) (int, error) {
			f.Commit()
			f.Park("asleep")
			close(parked)
			<-land
			return 0, nil
		})
	})
	<-parked
	b.ReportAllocs()
	for b.Loop() {
		fs.Join(b.Context(), 0, fly)
	}
	b.StopTimer()
	close(land)
	leader.Wait()
}

// BenchmarkPark is one flight with its callers: all board, park, and are served.
// It reports what one parked caller holds in memory, its goroutine included.
func BenchmarkPark(b *testing.B) {
	for _, n := range []int{1, 64, 1024, 10_000} {
		b.Run(fmt.Sprintf("callers=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			var heap, stacks float64
			for b.Loop() {
				b.StopTimer()
				runtime.GC()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				b.StartTimer()
				park(b, n, func() {
					b.StopTimer()
					runtime.GC()
					runtime.ReadMemStats(&after)
					b.StartTimer()
				})
				heap = float64(after.HeapAlloc-before.HeapAlloc) / float64(n)
				stacks = float64(after.StackInuse-before.StackInuse) / float64(n)
			}
			b.ReportMetric(heap, "heap-B/caller")
			b.ReportMetric(stacks, "stack-B/caller")
		})
	}
}

// park has n callers parked in one flight when it calls atRest.
func park(b *testing.B, n int, atRest func()) {
	lot := NewLot(n)
	fs := NewFlights[int, int](lot, Options{})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	land := make(chan struct{})
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			fs.Join(ctx, 0, func(_ context.Context, f *Flight) (int, error) {
				f.Park("asleep")
				<-land
				return 0, nil
			})
		})
	}
	for lot.Snapshot().Active < n {
		runtime.Gosched()
	}
	atRest()
	close(land)
	all.Wait()
}
