package crew

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"layover/turnstile"
)

var errEnough = errors.New("enough")

func TestC3DrainTakesNothingMoreAndWaitsForWhatIsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Options{}, 1, 2, 3, 4)
		r.want(3, 0, 1, 2)
		began := time.Now()
		drained := make(chan error, 1)
		go func() { drained <- r.crew.Drain(t.Context()) }()
		r.want(2, 0, 0, 2)
		r.wantFree(0, 0) // the one at the gate has left the line
		r.finish(1)
		r.want(1, 0, 0, 1)
		time.Sleep(time.Second)
		if err := r.job(2).ctx.Err(); err != nil {
			t.Errorf("context of a job in progress: %v; want none", err)
		}
		r.finish(2)
		if err, d := <-drained, time.Since(began); err != nil || d != time.Second {
			t.Errorf("Drain() = %v after %v; want nil after 1s", err, d)
		}
		r.wantTaken(1, 2)
		r.add(5)
		r.wantTaken(1, 2)
		r.close()
	})
}

func TestC3DrainOfACrewAtRestTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := newRig(t, 2, Options{Min: 5})
		for range 2 {
			if err := r.crew.Drain(t.Context()); err != nil {
				t.Errorf("Drain() = %v; want nil", err)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			if err := r.crew.Drain(ended); err != nil {
				t.Fatalf("Drain() = %v when there is nobody left; want nil", err)
			}
		}
		if s := r.set.Turnstile(0).Stats(); s.Unordered != 0 {
			t.Errorf("the parked took %d turns out of order to leave; want 0", s.Unordered)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("it took %v; want no time", d)
		}
		r.close()
	})
}

func TestC3ADrainThatEndsEndsTheJobsContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Options{}, 1)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errEnough)
		defer cancel()
		began := time.Now()
		if err, d := r.crew.Drain(ctx), time.Since(began); err != errEnough || d != time.Second {
			t.Errorf("Drain() = %v after %v; want %v after 1s", err, d, errEnough)
		}
		if cause := context.Cause(r.job(1).ctx); cause != errEnough {
			t.Errorf("cause of the job's context: %v; want %v", cause, errEnough)
		}
		r.want(1, 0, 0, 1) // it has its own mind
		r.close()          // waits for it, by another Drain
	})
}

func TestC3DrainWithAnEndedContextStopsTheCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Options{}, 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errEnough)
		if err := r.crew.Drain(ctx); err != errEnough {
			t.Errorf("Drain() = %v; want %v", err, errEnough)
		}
		r.add(2)
		r.want(1, 0, 0, 1)
		r.wantTaken(1)
		r.close()
	})
}

func TestC3WorkThatATakeFindsDuringADrainIsProcessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Options{})
		slow := make(chan struct{})
		r.duringTake(func() { <-slow })
		r.add(1, 2)
		drained := make(chan error, 1)
		go func() { drained <- r.crew.Drain(t.Context()) }()
		synctest.Wait()
		close(slow)
		r.want(1, 0, 0, 1)
		r.finish(1)
		if err := <-drained; err != nil {
			t.Errorf("Drain() = %v; want nil", err)
		}
		r.wantTaken(1)
		r.close()
	})
}

func TestC3DrainFromACallbackWaitsForTheCallbackToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Options{}, 1)
		var err error
		r.order(1, func(j *job) {
			ctx, cancel := context.WithTimeoutCause(j.ctx, time.Second, errEnough)
			defer cancel()
			err = r.crew.Drain(ctx)
		})
		time.Sleep(time.Second)
		synctest.Wait()
		if err != errEnough {
			t.Errorf("Drain() = %v; want %v", err, errEnough)
		}
		r.close()
	})
}

func TestC3TheEndOfStartsContextStopsTheCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Options{Min: 4}, 1)
		r.want(4, 3, 0, 1)
		r.end(errEnough)
		r.want(1, 0, 0, 1)
		if cause := context.Cause(r.job(1).ctx); cause != errEnough {
			t.Errorf("cause of the job's context: %v; want %v", cause, errEnough)
		}
		if !r.crew.Stats().Stopped {
			t.Error("Stats().Stopped = false; want true")
		}
		r.close()
	})
}

func TestC3StartsContextEndsWhileAWorkerIsAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0, Options{}, 1)
		r.want(1, 0, 1, 0)
		r.end(errEnough)
		r.want(0, 0, 0, 0)
		r.wantTaken()
		r.close()
	})
}

func TestC3StartWithAnEndedContextTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Options{Min: 3})
		r.close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.put(1)
		r.crew = Start(ctx, r.set.Gate(0), 0, r.crew.duty, Options{Min: 3})
		r.want(0, 0, 0, 0)
		r.wantTaken()
		r.close()
	})
}

func TestC3AJobsContextEndsWithTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Options{}, 1)
		j := r.job(1)
		r.finish(1)
		if !errors.Is(j.ctx.Err(), context.Canceled) {
			t.Errorf("context of a job that is over: %v; want canceled", j.ctx.Err())
		}
		r.close()
	})
}

func TestC3APanicCostsOneJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Options{}, 1, 2)
		r.panic(1, "ouch")
		r.wantReports("ouch")
		r.want(3, 2, 0, 1) // no worker was lost and none had to be added
		if s := r.crew.Stats(); s.Panics != 1 || s.Done != 1 || s.Grown != 2 {
			t.Errorf("panics %d, done %d, grown %d; want 1, 1, 2", s.Panics, s.Done, s.Grown)
		}
		r.add(3)
		r.wantTaken(1, 2, 3)
		r.close()
	})
}

func TestC3ANilPanicAndAGoexitAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, Options{}, 1, 2)
		r.panic(1, nil)
		r.goexit(2)
		r.mu.Lock()
		defer r.close()
		defer r.mu.Unlock()
		if len(r.reports) != 2 || r.reports[0] == nil || r.reports[1] != nil {
			t.Errorf("Panicked heard %v; want an error, then nil", r.reports)
		}
	})
}

func TestC3AGoexitCostsOneJobAndNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, Options{Max: 1}, 1, 2)
		r.goexit(1)
		r.wantTaken(1, 2)
		r.want(1, 0, 0, 1)
		r.goexit(2)
		r.want(1, 1, 0, 0)
		r.close()
	})
}

func TestC3AGoexitDuringADrainEndsTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, Options{}, 1)
		drained := make(chan error, 1)
		go func() { drained <- r.crew.Drain(t.Context()) }()
		synctest.Wait()
		r.goexit(1)
		if err := <-drained; err != nil {
			t.Errorf("Drain() = %v; want nil", err)
		}
		r.close()
	})
}

func TestC3APanicHasItsStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, Options{})
		var at []byte
		r.crew.duty.Panicked = func(_ context.Context, _ any, stack []byte) { at = stack }
		r.duringTake(explode)
		r.add(1)
		if !strings.Contains(string(at), "crew.explode") {
			t.Errorf("the stack does not name the function that panicked:\n%s", at)
		}
		r.close()
	})
}

func explode() { panic("ouch") }

func TestC3AnotherOneLooksAfterAPanicOfTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, Options{}, 1)
		takes := 0
		r.duringTake(func() {
			takes++
			panic(takes)
		})
		r.add(2)
		time.Sleep(time.Hour)
		r.wantReports(1) // it does not spin
		r.want(2, 1, 0, 1)
		r.finish(1) // whoever is done looks: nobody has found that there is nothing
		r.wantReports(1, 2)
		r.duringTake(nil)
		r.crew.Wake()
		r.wantTaken(1, 2)
		r.close()
	})
}

func TestC3AWakeThatComesWhileATakePanicsIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, Options{})
		r.crew.duty.Panicked = func(context.Context, any, []byte) {
			r.duringTake(nil)
			r.put(1)
			r.crew.Wake()
		}
		r.duringTake(explode)
		r.crew.Wake()
		r.wantTaken(1)
		r.close()
	})
}

func TestC3StatsCountsAreOfTheCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, Options{Linger: linger}, 1, 2)
		r.finish(1)
		time.Sleep(linger)
		synctest.Wait()
		got := r.crew.Stats()
		want := Stats{Workers: 2, Parked: 1, Busy: 1, Done: 1, Dry: 1, Grown: 2, Left: 1}
		if got != want {
			t.Errorf("Stats() = %+v; want %+v", got, want)
		}
		r.close()
	})
}

func TestMisusePanics(t *testing.T) {
	gate := turnstile.NewSet().Gate(0)
	duty := Duty[int]{
		Take:     func(context.Context) (int, bool) { return 0, false },
		Process:  func(context.Context, int, func()) {},
		Panicked: func(context.Context, any, []byte) {},
	}
	without := func(change func(*Duty[int])) Duty[int] {
		d := duty
		change(&d)
		return d
	}
	for name, f := range map[string]func(){
		"no gate":     func() { Start(t.Context(), nil, 0, duty, Options{}) },
		"no Take":     func() { Start(t.Context(), gate, 0, without(func(d *Duty[int]) { d.Take = nil }), Options{}) },
		"no Process":  func() { Start(t.Context(), gate, 0, without(func(d *Duty[int]) { d.Process = nil }), Options{}) },
		"no Panicked": func() { Start(t.Context(), gate, 0, without(func(d *Duty[int]) { d.Panicked = nil }), Options{}) },
		"zero Wake":   func() { new(Crew[int]).Wake() },
		"zero Drain":  func() { new(Crew[int]).Drain(t.Context()) },
		"zero Stats":  func() { new(Crew[int]).Stats() },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}
