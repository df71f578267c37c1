package parking

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestStress runs everything at once on real goroutines, then looks for what is
// left over: spots, flights, flight functions, goroutines.
func TestStress(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	before := runtime.NumGoroutine()
	lot := NewLot(8)
	fs := NewFlights[int, int](lot, Options{Linger: 200 * time.Microsecond})
	var committed [3]atomic.Int32
	var served, shed, gone, twice atomic.Int64
	stop := time.Now().Add(time.Second)
	var all sync.WaitGroup
	for worker := range 32 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(worker)))
			for time.Now().Before(stop) {
				key := r.IntN(len(committed))
				turns, patience := r.IntN(4), time.Duration(r.IntN(300))*time.Microsecond
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				v, o, err := fs.Join(ctx, key, func(ctx context.Context, f *Flight) (int, error) {
					for range turns {
						defer f.Phase("wake")()
						if !f.Commit() {
							return 0, context.Cause(ctx)
						}
						if committed[key].Add(1) > 1 {
							twice.Add(1)
						}
						f.Park("asleep")
						runtime.Gosched()
						committed[key].Add(-1)
						if !f.Uncommit() {
							return 0, context.Cause(ctx)
						}
						runtime.Gosched()
					}
					return key, nil
				})
				cancel()
				switch o.Result {
				case Served:
					served.Add(1)
					if v != key || err != nil {
						t.Errorf("served %d, %v for key %d", v, err, key)
					}
				case Shed:
					shed.Add(1)
				case BudgetExhausted:
					gone.Add(1)
				default: // Failed neither: an abandoned flight has nobody to tell
					t.Errorf("result %v, error %v", o.Result, err)
				}
			}
		})
	}
	all.Go(func() {
		r := rand.New(rand.NewPCG(seed, 1<<32))
		for time.Now().Before(stop) {
			lot.Resize(r.IntN(40) - 1)
			if s, ok := lot.Take(); ok {
				fs.Snapshot()
				s.Free()
			}
			runtime.Gosched()
		}
	})
	all.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := fs.Wait(ctx); err != nil {
		t.Fatalf("Wait = %v with %d flights", err, fs.Len())
	}
	t.Logf("served %d, shed %d, out of time %d", served.Load(), shed.Load(), gone.Load())
	if n := twice.Load(); n != 0 {
		t.Errorf("a key had two committed flights %d times", n)
	}
	if s := lot.Snapshot(); s.Active != 0 || lot.first != nil || lot.last != nil {
		t.Errorf("%+v, want no spot held", s)
	}
	wantNoneLeft(t, before, fs.Len())
}

// TestParkShedsNobodyOlderThanItKeeps opens and closes the lot while a flight
// parks: those who keep a place must be the oldest.
func TestParkShedsNobodyOlderThanItKeeps(t *testing.T) {
	for range 8 {
		r, p := newRig(t, 0)
		ps := []*rigged{p}
		for range 5000 {
			ps = append(ps, r.board())
		}
		var resized atomic.Int64
		var stop atomic.Bool
		var all sync.WaitGroup
		all.Go(func() {
			for !stop.Load() {
				r.lot.Resize(Unlimited)
				r.lot.Resize(0)
				resized.Add(1)
			}
		})
		for resized.Load() == 0 {
			runtime.Gosched()
		}
		r.e.Park("asleep")
		stop.Store(true)
		all.Wait()
		for i := 1; i < len(ps); i++ {
			if ps[i-1].c.gone && !ps[i].c.gone {
				t.Fatalf("caller %d was shed, caller %d was not", i-1, i)
			}
		}
		r.e.land()
	}
}

// wantNoneLeft allows what has returned the instants it takes to be gone.
func wantNoneLeft(t *testing.T, goroutines, flights int) {
	t.Helper()
	if flights != 0 {
		t.Errorf("%d flights left", flights)
	}
	for patience := time.Now().Add(5 * time.Second); time.Now().Before(patience); {
		if runtime.NumGoroutine() <= goroutines {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
}

// TestTenThousandParkedAtOnce parks, serves and cancels at the size the package
// is for. It bounds what a parked caller costs beside its goroutine.
func TestTenThousandParkedAtOnce(t *testing.T) {
	const n = 10_000
	before := runtime.NumGoroutine()
	lot := NewLot(n)
	fs := NewFlights[int, int](lot, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	land := make(chan struct{})
	var results [Failed + 1]atomic.Int64
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			own := ctx
			if i%2 == 0 {
				own = t.Context()
			}
			_, o, _ := fs.Join(own, 0, func(_ context.Context, f *Flight) (int, error) {
				f.Commit()
				f.Park("asleep")
				<-land
				return 0, nil
			})
			results[o.Result].Add(1)
		})
	}
	for lot.Snapshot().Active < n {
		runtime.Gosched()
	}
	cancel()
	for lot.Snapshot().Active > n/2 {
		runtime.Gosched()
	}
	close(land)
	all.Wait()
	if got := results[Canceled].Load(); got != n/2 {
		t.Errorf("%d cancelled, want %d", got, n/2)
	}
	if got := results[Served].Load(); got != n/2 {
		t.Errorf("%d served, want %d", got, n/2)
	}
	wantNoneLeft(t, before, fs.Len())
}
