package crew

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"layover/turnstile"
)

// Everything at once, in parallel: work that arrives, jobs that end in every way, a gate that is resized. What must hold at the
// end: every piece was processed once, as none is lost or taken by two, and every pass is back. While it runs, no more of the first
// turns are held than there were ever passes.
func TestStormLosesNoWorkAndNoPass(t *testing.T) {
	seed := *modelSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-crew.seed=%d", seed)
	for round := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { storm(t, seed, round) })
	}
}

func storm(t *testing.T, seed, round uint64) {
	const producers, each, most = 4, 100, 6
	var (
		mu        sync.Mutex
		pieces    []int
		processed = map[int]int{}
		reports   int
		on, peak  int // first turns held, and the most
	)
	set := turnstile.NewSet()
	set.Resize(0, 1)
	locked := func(f func()) {
		mu.Lock()
		defer mu.Unlock()
		f()
	}
	c := Start(t.Context(), set.Gate(0), 0, Duty[int]{
		Take: func(context.Context) (piece int, ok bool) {
			locked(func() {
				if ok = len(pieces) > 0; ok {
					piece, pieces = pieces[0], pieces[1:]
					on++
					peak = max(peak, on)
				}
			})
			return piece, ok
		},
		Process: func(job context.Context, piece int, release func()) {
			locked(func() { processed[piece]++; on-- })
			switch piece % 6 {
			case 0:
				panic(piece)
			case 1:
				runtime.Goexit()
			case 2:
				release()
				turnstile.WaitTurn(job).Return()
			case 3:
				release()
				time.Sleep(time.Duration(piece))
			case 4:
				go release()
			}
		},
		Panicked: func(context.Context, any, []byte) { locked(func() { reports++ }) },
	}, Options{Linger: 50, Max: int(round % 4 * 5)})

	var all sync.WaitGroup
	for p := range producers {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, round*producers+uint64(p)))
			for n := range each {
				locked(func() { pieces = append(pieces, p*each+n) })
				c.Wake()
				switch rnd.IntN(8) {
				case 0:
					time.Sleep(time.Duration(rnd.IntN(100)))
				case 1:
					set.Resize(0, 1+rnd.IntN(most))
				}
			}
		})
	}
	all.Wait()
	time.Sleep(time.Second)
	if s := c.Stats(); s.Workers != 1 || s.Parked != 1 || s.Done != producers*each || s.Panics != uint64(reports) {
		t.Errorf("after the storm %+v, %d reports; want one worker, parked, and %d done", s, reports, producers*each)
	}
	if err := c.Drain(t.Context()); err != nil {
		t.Errorf("Drain() = %v; want nil", err)
	}
	synctest.Wait()
	for piece := range producers * each {
		if processed[piece] != 1 {
			t.Errorf("piece %d was processed %d times", piece, processed[piece])
		}
	}
	if peak > most {
		t.Errorf("%d first turns at once; there were at most %d passes", peak, most)
	}
	if s := set.Turnstile(0).Stats(); s.Available != s.Size || s.Waiting != 0 || s.Stray != 0 || s.Unordered != 0 {
		t.Errorf("gate at the end: %+v; want every pass free, no stray and no turn out of order", s)
	}
}
