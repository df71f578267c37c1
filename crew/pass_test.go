package crew

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"layover/turnstile"
)

// Each test ends with rig.close, which checks that every pass is back and that none was given back twice. Row ids are of the
// cases from the field.

func TestC4APassIsBackAfterEveryEndOfAJob(t *testing.T) { // A1, A3, A5
	for name, end := range map[string]func(r *rig, piece int){
		"returns":                   func(r *rig, piece int) { r.finish(piece) },
		"releases, returns":         func(r *rig, piece int) { r.release(piece); r.finish(piece) },
		"releases twice, returns":   func(r *rig, piece int) { r.release(piece, piece); r.finish(piece) },
		"panics":                    func(r *rig, piece int) { r.panic(piece, "ouch") },
		"releases, panics":          func(r *rig, piece int) { r.release(piece); r.panic(piece, "ouch") },
		"ends its goroutine":        func(r *rig, piece int) { r.goexit(piece) },
		"releases after it is over": func(r *rig, piece int) { j := r.job(piece); r.finish(piece); j.release() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1, Options{}, 1)
				r.wantFree(0, 1)
				end(r, 1)
				r.wantFree(1, 0)
				for piece := 2; piece < 5; piece++ { // and the crew goes on
					r.add(piece)
					end(r, piece)
				}
				r.wantTaken(1, 2, 3, 4)
				r.wantFree(1, 0)
				r.close()
			})
		})
	}
}

func TestC4APassIsBackAfterEveryTakeThatFindsNothing(t *testing.T) {
	for name, take := range map[string]func(){
		"finds nothing":      func() {},
		"panics":             func() { panic("ouch") },
		"ends its goroutine": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1, Options{Max: 1})
				r.duringTake(take)
				for range 3 {
					r.crew.Wake()
					r.wantFree(1, 0)
				}
				r.duringTake(nil)
				r.add(1)
				r.wantTaken(1)
				r.close()
			})
		})
	}
}

func TestC4ThePassIsBackBeforePanickedIsCalled(t *testing.T) { // A5
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, Options{})
		slow := make(chan struct{})
		r.crew.duty.Panicked = func(context.Context, any, []byte) { <-slow }
		r.add(1)
		r.panic(1, "ouch")
		r.wantFree(1, 0)
		r.add(2)
		r.wantTaken(1, 2)
		close(slow)
		r.close()
	})
}

func TestC4ALateReleaseOfOneJobTakesNothingFromTheNext(t *testing.T) { // A3, A9, A10
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, Options{}, 1, 2)
		first := r.job(1)
		r.finish(1)
		r.wantTaken(1, 2)
		first.release()
		first.release()
		r.wantFree(0, 1)
		r.close()
	})
}

func TestC4ReleasesAtOnceAreOne(t *testing.T) { // A9
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, Options{}, 1, 2, 3)
		j := r.job(1)
		for range 8 {
			go j.release()
		}
		r.wantTaken(1, 2)
		r.want(3, 0, 1, 2)
		r.close()
	})
}

// A drain and a grant at one instant: the pass goes to neither a worker that leaves nor to nobody.
func TestC4AGrantThatRacesADrainIsNotLost(t *testing.T) { // A4, A6
	for name, race := range map[string]func(r *rig){
		"grant first": func(r *rig) { r.set.Resize(0, 1); r.crew.roster.stop() },
		"drain first": func(r *rig) { r.crew.roster.stop(); r.set.Resize(0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 0, Options{Min: 3}, 1, 2, 3)
				r.wantFree(0, 3)
				race(r)
				r.want(0, 0, 0, 0)
				r.wantFree(1, 0)
				r.wantTaken()
				r.close()
			})
		})
	}
}

func TestC4AGrantThatRacesTheEndOfStartsContextIsNotLost(t *testing.T) { // A6
	for _, grantFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 0, Options{}, 1)
			if grantFirst {
				r.set.Resize(0, 1)
				r.end(errEnough)
			} else {
				r.end(errEnough)
				r.set.Resize(0, 1)
			}
			r.want(0, 0, 0, 0)
			r.wantFree(1, 0)
			r.close()
		})
	}
}

func TestC4AClosedGateEndsTheCrew(t *testing.T) { // A28
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Options{Min: 6}, 1, 2)
		r.release(1)
		r.want(6, 4, 0, 2)
		r.set.Resize(0, 0)
		r.add(3, 4)
		r.want(6, 2, 2, 2)
		r.set.Close()
		r.want(2, 0, 0, 2) // those at the gate have gone, and those that were parked with them
		if err := r.job(1).ctx.Err(); err != nil {
			t.Errorf("context of a job in progress: %v; want none", err)
		}
		r.finish(1, 2)
		r.want(0, 0, 0, 0)
		r.wantTaken(1, 2)
		r.close()
	})
}

func TestC4AGateClosedBeforeTheWaitEndsTheCrew(t *testing.T) { // A28
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Options{Min: 3})
		r.set.Close()
		r.want(3, 3, 0, 0) // nobody comes to the gate
		r.crew.Wake()
		r.want(0, 0, 0, 0)
		r.close()
	})
}

func TestC4ShutdownDoesNotHangOnWorkersAtTheGate(t *testing.T) { // A28
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0, Options{Min: 100})
		began := time.Now()
		if err := r.crew.Drain(t.Context()); err != nil {
			t.Errorf("Drain() = %v; want nil", err)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("it took %v; want no time", d)
		}
		r.close()
	})
}

// A job that waits for a turn on top of the one it holds is seen, and a Drain whose context ends lets it go.
func TestC4AJobThatWaitsBeforeItReleasesIsCountedAndCanBeEnded(t *testing.T) { // A20, A29, A30
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, Options{}, 1)
		r.order(1, func(j *job) { turnstile.WaitTurn(j.ctx).Return() })
		synctest.Wait()
		if s := r.set.Turnstile(0).Stats(); s.Nested != 1 {
			t.Errorf("Nested = %d; want 1", s.Nested)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errEnough)
		defer cancel()
		if err := r.crew.Drain(ctx); err != errEnough {
			t.Errorf("Drain() = %v; want %v", err, errEnough)
		}
		r.want(1, 0, 0, 1) // it is out of the line, and goes on
		r.wantFree(0, 0)
		r.close()
	})
}

func TestC4AJobThatReleasesForABackOffLeavesRoom(t *testing.T) { // A22
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, Options{}, 1, 2)
		r.order(1, func(j *job) {
			j.release()
			time.Sleep(time.Second)
			turnstile.WaitTurn(j.ctx).Return()
		})
		r.wantTaken(1, 2)
		r.finish(2)
		time.Sleep(time.Second)
		r.wantFree(1, 0)
		r.close()
	})
}
