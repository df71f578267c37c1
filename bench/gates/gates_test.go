package gates

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"layover/turnstile"
)

var arms = []Arm{Semaphore, Channel, Bulkhead, Turnstile, FreshClaims, Ballast}

// The comparison is fair only if every arm keeps the promise that is compared.
func TestEveryArmBoundsHowManyAreInside(t *testing.T) {
	for _, arm := range arms {
		t.Run(arm.Name, func(t *testing.T) {
			const size, workers = 3, 20
			g := arm.New(size)
			var inside, most atomic.Int64
			var all sync.WaitGroup
			for range workers {
				all.Go(func() {
					for range 50 {
						pass, ok := g.Take(t.Context(), turnstile.NewClaim(0))
						if !ok {
							t.Error("refused although the context had not ended")
							return
						}
						now := inside.Add(1)
						for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
						}
						Waiting(time.Microsecond)()
						inside.Add(-1)
						g.Give(pass)
					}
				})
			}
			all.Wait()
			if most.Load() > size {
				t.Errorf("%d were inside at once, want at most %d", most.Load(), size)
			}
		})
	}
}

func TestEveryArmsWaitEndsWithItsContext(t *testing.T) {
	for _, arm := range arms {
		synctest.Test(t, func(t *testing.T) {
			g := arm.New(1)
			pass, _ := g.Take(t.Context(), turnstile.NewClaim(0))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			if _, ok := g.Take(ctx, turnstile.NewClaim(0)); ok || time.Since(start) != time.Second {
				t.Errorf("%s: Take = %v after %v, want false after 1s", arm.Name, ok, time.Since(start))
			}
			g.Give(pass)
			if _, ok := g.Take(t.Context(), turnstile.NewClaim(0)); !ok {
				t.Errorf("%s: the pass is lost after a wait that was given up", arm.Name)
			}
		})
	}
}

func TestResizeChangesTheBound(t *testing.T) {
	for _, arm := range []Arm{Ballast, Turnstile} {
		synctest.Test(t, func(t *testing.T) {
			g := arm.New(4)
			for _, size := range []int{1, 3, 2} {
				g.Resize(size)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				var passes []turnstile.Pass
				for {
					pass, ok := g.Take(ctx, turnstile.NewClaim(0))
					if !ok {
						break
					}
					passes = append(passes, pass)
				}
				cancel()
				if len(passes) != size {
					t.Errorf("%s of size %d let %d in", arm.Name, size, len(passes))
				}
				for _, pass := range passes {
					g.Give(pass)
				}
			}
		})
	}
}

func TestRunTakesEveryTurnOnce(t *testing.T) {
	for _, arm := range arms[:5] {
		var turns atomic.Int64
		l := Load{Size: 2, Workers: 4, Turns: 400, Hold: func() { turns.Add(1) }, Deadline: time.Hour}
		if cost := l.Run(arm.New(l.Size)); turns.Load() != 400 || cost.Time <= 0 {
			t.Errorf("%s: %d turns in %v, want 400 in some time", arm.Name, turns.Load(), cost.Time)
		}
	}
}
