package crew

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"layover/turnstile"
)

func TestC1AnIdleWorkerHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Options{Min: 2})
		r.want(2, 2, 0, 0)
		r.wantFree(2, 0)
		r.close()
	})
}

func TestC1NoWorkIsTakenBeforeTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0, Options{})
		r.add(1)
		r.want(1, 0, 1, 0)
		r.wantTaken()
		r.put(2)
		r.mu.Lock()
		r.pieces[0], r.pieces[1] = r.pieces[1], r.pieces[0] // something better came while it waited
		r.mu.Unlock()
		r.set.Resize(0, 1)
		r.wantTaken(2)
		r.close()
	})
}

func TestC1TakeAndProcessRunOnTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, Options{})
		r.duringTake(func() {
			if a, _ := r.set.Turnstile(0).Snapshot(); a != 0 {
				t.Errorf("%d passes free during Take; want 0", a)
			}
		})
		r.add(1)
		r.wantFree(0, 1) // the reserve looks whether there is more
		r.release(1)
		r.wantFree(1, 0)
		r.close()
	})
}

func TestC1AJobInProgressGoesBeforeAnyWorkerThatCameSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, Options{})
		r.add(1)
		r.finish(1)
		r.add(2)
		time.Sleep(time.Second)
		r.release(2)
		r.add(3, 4)
		r.want(3, 0, 1, 2) // 3 holds the pass, and the reserve waits for it
		var mine turnstile.Pass
		r.order(2, func(j *job) { mine = turnstile.WaitTurn(j.ctx) })
		r.wantFree(0, 2)
		time.Sleep(time.Second)
		r.release(3)
		if mine.Waited() != time.Second {
			t.Errorf("the job's second turn waited %v; want 1s", mine.Waited())
		}
		r.wantTaken(1, 2, 3)
		mine.Return()
		r.wantTaken(1, 2, 3, 4)
		r.close()
	})
}

func TestC1TheClaimIsStampedAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0, Options{})
		came := time.Now()
		r.add(1)
		time.Sleep(time.Minute)
		r.set.Resize(0, 1)
		synctest.Wait()
		claim, ok := turnstile.ClaimFrom(r.job(1).ctx)
		if !ok || !claim.Since.Equal(came) {
			t.Errorf("claim since %v (%v); want %v", claim.Since, ok, came)
		}
		r.close()
	})
}

func TestC1WorkOfACrewInsideAJobHasTheAgeOfThatJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := turnstile.NewSet()
		set.Resize(0, 1)
		ctx := turnstile.Begin(t.Context(), 3)
		began, _ := turnstile.ClaimFrom(ctx)
		time.Sleep(time.Second)
		var got turnstile.Claim
		left := 2
		c := Start(ctx, set.Gate(1), 0, Duty[int]{
			Take:     func(context.Context) (int, bool) { left--; return left, left >= 0 },
			Process:  func(job context.Context, _ int, _ func()) { got, _ = turnstile.ClaimFrom(job) },
			Panicked: func(_ context.Context, value any, _ []byte) { t.Error(value) },
		}, Options{})
		synctest.Wait()
		began.Priority = 1 // the gate's
		if got != began {
			t.Errorf("claim = %v; want %v", got, began)
		}
		c.Drain(t.Context())
	})
}

func TestC2ATakeThatLeavesNobodyIdleAddsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 9, Options{})
		for n := range 5 {
			r.want(n+1, 1, 0, n)
			r.add(n)
		}
		r.want(6, 1, 0, 5)
		if s := r.crew.Stats(); s.Grown != 5 {
			t.Errorf("Grown = %d; want 5", s.Grown)
		}
		r.close()
	})
}

func TestC2ATakeThatLeavesSomebodyIdleAddsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 9, Options{Min: 4})
		r.add(1, 2, 3)
		r.want(4, 1, 0, 3)
		r.add(4)
		r.want(5, 1, 0, 4)
		r.close()
	})
}

func TestC2SaturationDoesNotGrowTheCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Options{}, upTo(100)...)
		r.want(3, 0, 1, 2)
		for range 1000 {
			r.crew.Wake()
		}
		time.Sleep(time.Hour)
		r.want(3, 0, 1, 2)
		r.wantFree(0, 1)
		r.finish(0, 1)
		r.want(3, 0, 1, 2)
		r.wantTaken(0, 1, 2, 3)
		r.close()
	})
}

func TestC2WorkThatArrivesWhileAllAreCommittedGrowsTheCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Options{Linger: linger}, 1, 2)
		r.release(1, 2)
		time.Sleep(2 * linger)
		r.want(3, 1, 0, 2)
		r.add(3)
		r.want(4, 1, 0, 3)
		r.add(4) // and while the passes are all held
		r.want(5, 0, 1, 4)
		r.add(5)
		r.want(5, 0, 1, 4)
		r.release(3)
		r.want(6, 0, 1, 5)
		r.close()
	})
}

// Who is done is idle before the next one gets its pass.
func TestC2JobsThatHandTheirPassOnDoNotGrowTheCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 500
		r := newRig(t, 2, Options{})
		r.crew.duty.Process = func(context.Context, int, func()) {}
		r.put(upTo(n)...)
		r.crew.Wake()
		synctest.Wait()
		if s := r.crew.Stats(); s.Done != n || s.Workers > 3 {
			t.Errorf("%d jobs done, %d workers; want %d, at most 3", s.Done, s.Workers, n)
		}
		r.close()
	})
}

func TestC2ASlowTakeCountsAsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, Options{})
		slow := make(chan struct{})
		r.duringTake(func() { <-slow })
		r.add(1, 2)
		if s := r.crew.Stats(); s.Workers != 1 || s.Taking != 1 {
			t.Fatalf("%d workers, %d taking; want 1, 1", s.Workers, s.Taking)
		}
		close(slow)
		r.want(3, 1, 0, 2)
		r.close()
	})
}

func TestC2ABurstIsMetWithoutDelayOrBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := newRig(t, 200, Options{})
		r.put(upTo(150)...)
		r.crew.Wake() // one for all
		r.want(151, 1, 0, 150)
		if d := time.Since(began); d != 0 {
			t.Errorf("it took %v; want no time", d)
		}
		r.close()
	})
}

func TestC2WorkFromBeforeTheStartIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Options{}, 1)
		r.wantTaken(1)
		r.close()
	})
}

func TestC2JobsOneAfterAnotherNeedTwoWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, Options{Linger: linger})
		for n := range 100 {
			r.add(n)
			time.Sleep(linger / 2)
			r.finish(n)
		}
		r.want(2, 2, 0, 0)
		if s := r.crew.Stats(); s.Grown != 1 || s.Left != 0 || s.Done != 100 {
			t.Errorf("grown %d, left %d, done %d; want 1, 0, 100", s.Grown, s.Left, s.Done)
		}
		r.close()
	})
}

// One look per take, and one that finds the end: not one per worker.
func TestC2NobodyLooksWhereAnotherFoundNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0, Options{Min: 5})
		r.want(5, 0, 5, 0)
		r.set.Resize(0, 1)
		r.want(5, 5, 0, 0)
		if s := r.crew.Stats(); s.Dry != 1 {
			t.Errorf("%d takes found nothing; want 1", s.Dry)
		}
		r.add(1)
		r.finish(1)
		if s := r.crew.Stats(); s.Dry != 2 {
			t.Errorf("%d takes found nothing; want 2", s.Dry)
		}
		r.close()
	})
}

func TestC2AWakeDuringAnEmptyTakeIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, Options{})
		empty, seen := make(chan struct{}), false
		r.crew.duty.Take = func(ctx context.Context) (int, bool) {
			piece, ok := r.take(ctx)
			if !seen { // it has seen that there is nothing, and does not say so yet
				seen = true
				<-empty
			}
			return piece, ok
		}
		r.crew.Wake()
		synctest.Wait()
		r.add(1)
		r.wantTaken()
		close(empty)
		r.wantTaken(1)
		r.close()
	})
}

func TestC2AtMaxWorkWaitsForTheFirstToBeDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 9, Options{Max: 2}, 1, 2, 3)
		r.want(2, 0, 0, 2)
		r.add(4)
		r.wantTaken(1, 2)
		r.finish(2)
		r.wantTaken(1, 2, 3)
		r.finish(1, 3)
		r.wantTaken(1, 2, 3, 4)
		r.want(2, 1, 0, 1)
		r.close()
	})
}

func TestC2OptionsAreMadeToFit(t *testing.T) {
	for _, c := range []struct{ least, most, wantMin, wantMax int }{
		{0, 0, 1, 0},
		{-3, -3, 1, 0},
		{4, 2, 4, 4},
		{1, 1, 1, 1},
	} {
		var r roster
		r.begin(Options{Min: c.least, Max: c.most})
		if r.min != c.wantMin || r.max != c.wantMax {
			t.Errorf("Min %d, Max %d: counts as %d, %d; want %d, %d", c.least, c.most, r.min, r.max, c.wantMin, c.wantMax)
		}
	}
}

func TestC3ABurstSettlesBackAfterTheLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 60, Options{Linger: linger}, upTo(50)...)
		r.want(51, 1, 0, 50)
		r.finishAll()
		r.want(51, 51, 0, 0)
		time.Sleep(linger - 1)
		r.want(51, 51, 0, 0)
		time.Sleep(time.Nanosecond)
		r.want(1, 1, 0, 0)
		r.add(100) // the one that stayed works
		r.want(2, 1, 0, 1)
		r.close()
	})
}

func TestC3NeverFewerThanMin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 60, Options{Min: 4, Linger: linger}, upTo(20)...)
		r.finishAll()
		time.Sleep(time.Hour)
		r.want(4, 4, 0, 0)
		r.close()
	})
}

func TestC3ReserveStaysWhileOthersProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 60, Options{Linger: linger}, upTo(20)...)
		r.finish(0, 1, 2, 3, 4)
		time.Sleep(linger)
		r.want(16, 1, 0, 15)
		time.Sleep(time.Hour)
		r.want(16, 1, 0, 15)
		r.finishAll()
		time.Sleep(linger)
		r.want(1, 1, 0, 0)
		r.close()
	})
}

func TestC3OneAtTheGateIsReserveEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, Options{Linger: linger}, 0, 1, 2)
		r.finish(0, 1)
		r.want(4, 3, 0, 1)
		r.set.Resize(0, 1) // and it is held
		r.add(3)
		r.want(4, 2, 1, 1)
		time.Sleep(linger)
		r.want(2, 0, 1, 1)
		r.close()
	})
}

func TestC3WorkInTimeKeepsItsWorkerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 9, Options{Linger: linger}, 0, 1, 2, 3)
		r.finishAll()
		r.want(5, 5, 0, 0)
		for n := range 10 {
			time.Sleep(linger * 3 / 4)
			r.add(10 + n)
			r.finish(10 + n)
		}
		r.want(2, 2, 0, 0) // the worker that works, and the reserve it needs then
		r.close()
	})
}

func TestC3ACallAtTheEndOfTheLingerIsAnswered(t *testing.T) {
	for _, callFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("call first %v", callFirst), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 9, Options{Linger: linger}, 0, 1)
				r.finishAll()
				r.want(3, 3, 0, 0)
				// Both at one instant: the mutex, held here, decides after the timer has fired.
				r.crew.roster.mu.Lock()
				time.Sleep(linger)
				r.put(5, 6, 7)
				if callFirst {
					w := r.crew.roster.pickLocked()
					r.crew.roster.wakes++
					r.crew.roster.mu.Unlock()
					w.call()
				} else {
					r.crew.roster.mu.Unlock()
					r.crew.Wake()
				}
				r.wantTaken(0, 1, 5, 6, 7)
				r.want(4, 1, 0, 3)
				r.close()
			})
		})
	}
}

func TestC3DefaultLingerIsTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 9, Options{}, 0, 1)
		r.finishAll()
		time.Sleep(10*time.Second - 1)
		r.want(3, 3, 0, 0)
		time.Sleep(time.Nanosecond)
		r.want(1, 1, 0, 0)
		r.close()
	})
}

func TestC3ANegativeLingerIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 9, Options{Linger: -1}, upTo(5)...)
		r.finishAll()
		r.want(1, 1, 0, 0)
		r.close()
	})
}
