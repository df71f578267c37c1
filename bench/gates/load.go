package gates

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// A Load is a number of goroutines at a gate of a size.
type Load struct {
	Name          string
	Size, Workers int
	Turns         int           // per run, of all workers
	Hold          func()        // nil: the pass is given back at once
	Deadline      time.Duration // of each worker's context; 0: one context for all, without a deadline
	Bound         float64       // what turnstile/semaphore may be at most, if promised
}

// T17 is the loads for which the turnstile promises to be as fast as a semaphore. In those with a line the holder yields once: on
// a few cores, workers that never yield hardly meet.
var T17 = []Load{
	{Name: "alone", Size: 8, Workers: 1, Turns: 400_000, Bound: 0.65},
	{Name: "2 goroutines, passes free", Size: 8, Workers: 2, Turns: 1_000_000, Bound: 1.5},
	{Name: "8 passes, 256 goroutines", Size: 8, Workers: 256, Turns: 60_000, Hold: runtime.Gosched, Bound: 1.0},
	{Name: "8 passes, 4096 goroutines", Size: 8, Workers: 4096, Turns: 60_000, Hold: runtime.Gosched, Bound: 1.0},
}

// A Cost is what a run took, all workers together.
type Cost struct {
	Time   time.Duration
	Bytes  uint64 // allocated
	Allocs uint64
}

// Run lets the workers take their turns at g.
func (l Load) Run(g Gate) Cost {
	shared, cancel := context.WithCancel(context.Background())
	defer cancel()
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	ready.Add(l.Workers)
	for range l.Workers {
		done.Go(func() {
			ctx := shared
			if l.Deadline > 0 {
				own, cancel := context.WithTimeout(context.Background(), l.Deadline)
				defer cancel()
				own.Done() // made on first use: not a cost of the gate
				ctx = own
			}
			ready.Done()
			<-begin
			g.Turns(ctx, max(1, l.Turns/l.Workers), l.Hold)
		})
	}
	ready.Wait()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	close(begin)
	done.Wait()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return Cost{took, after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs}
}

// Waiting returns a hold of about d that gives the processor to others meanwhile, as one does who waits for something outside.
// Timers are too coarse for this: a sleep of 100 us can last a millisecond. Zero: nil, it gives back at once.
func Waiting(d time.Duration) func() {
	if d == 0 {
		return nil
	}
	return func() {
		for start := time.Now(); time.Since(start) < d; {
			runtime.Gosched()
		}
	}
}
