package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/router"
	"layover/parking"
)

func TestAWakeTakesAsLongAsTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.wantState("a", router.Asleep)
		ride := s.ride("a", time.Second)
		s.wantState("a", router.Awake)
		s.visit("a", 0)
		ride.Done()
		ride.Done()
		if got := s.plane.Snapshot().Actors[0]; got.InFlight != 0 || got.Wanted != 0 || got.Wakes != 1 || got.LastWake != time.Second {
			t.Errorf("after two requests: %+v", got)
		}
	})
}

func TestG2_R15_ARequestDuringSleepDownWaitsForItsEndAndWakesItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.script("a", script{start: time.Second, stop: 3 * time.Second})
		s.visit("a", time.Second)
		go s.plane.Sleep(t.Context(), "a")
		synctest.Wait()
		s.wantState("a", router.GoingToSleep)
		a := <-s.ask("a", time.Hour)
		if a.took != 4*time.Second {
			t.Fatalf("served after %v (%v), want 3 s of going to sleep and 1 s of waking", a.took, a.err)
		}
		a.ride.Done()
		s.wantEvents("0s start a", "4s end a", "4s start a")
	})
}

func TestG2_WhileItDrainsNewRequestsWaitAndThoseWithItFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		first := s.ride("a", time.Second)
		go s.plane.Sleep(t.Context(), "a")
		synctest.Wait()
		second := s.ask("a", time.Hour)
		time.Sleep(5 * time.Second)
		s.wantState("a", router.GoingToSleep)
		s.wantEvents("0s start a")
		first.Done()
		if got := <-second; got.err != nil || got.took != 6*time.Second || got.ride.Target == first.Target {
			t.Fatalf("the second request: %+v, want another target after 6 s", got)
		} else {
			got.ride.Done()
		}
		s.wantEvents("0s start a", "6s end a", "6s start a")
	})
}

func TestR16_TheNextActorStartsAtTheMomentTheLastOnesExitIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("b"))
		defer s.close()
		s.script("a", script{start: time.Second, stop: 2500 * time.Millisecond})
		s.visit("a", time.Second)
		s.visit("b", 3500*time.Millisecond)
		s.wantEvents("0s start a", "3.5s end a", "3.5s start b")
	})
}

func TestR59_AnActorThatIgnoresTermIsKilledAfterItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("b"))
		defer s.close()
		s.script("a", script{start: time.Second, stop: -1})
		s.visit("a", time.Second)
		s.visit("b", 11*time.Second)
		s.wantEvents("0s start a", "11s kill end a", "11s start b")
	})
}

func TestTheLeastRecentlyUsedIdleActorIsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 3, fake("a"), fake("b"), fake("c"), fake("d"), fake("e"))
		defer s.close()
		s.visit("a", time.Second)
		s.visit("b", time.Second)
		s.visit("c", time.Second)
		time.Sleep(time.Second)
		s.visit("a", 0)
		busy := s.ride("b", 0)
		s.visit("d", time.Second) // for c: a was used later, b is in use
		s.wantEvents("0s start a", "1s start b", "2s start c", "4s end c", "4s start d")
		s.visit("e", time.Second)
		s.wantState("a", router.Asleep)
		busy.Done()
	})
}

func TestAsManyEvictionsAsFlightsInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 3, fake("a"), fake("b"), fake("c"), fake("x"), fake("y"))
		defer s.close()
		for _, name := range []string{"a", "b", "c"} {
			s.script(name, script{start: time.Second, stop: 5 * time.Second})
			s.visit(name, time.Second)
		}
		x, again, y := s.ask("x", time.Hour), s.ask("x", time.Hour), s.ask("y", time.Hour)
		synctest.Wait()
		s.wantState("a", router.GoingToSleep)
		s.wantState("b", router.GoingToSleep)
		s.wantState("c", router.Awake)
		for _, c := range []<-chan answer{x, again, y} {
			if got := <-c; got.err != nil || got.took != 6*time.Second {
				t.Errorf("%v after %v, want a ride after 6 s", got.err, got.took)
			} else {
				got.ride.Done()
			}
		}
	})
}

func TestIfNoActorIsIdleTheNextToBecomeSoIsTakenAtThatMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 2, fake("a"), fake("b"), fake("c"))
		defer s.close()
		a, b := s.ride("a", time.Second), s.ride("b", time.Second)
		c := s.ask("c", time.Hour)
		time.Sleep(7 * time.Second)
		s.wantState("b", router.Awake)
		b.Done()
		if got := <-c; got.took != 8*time.Second || got.info == "" {
			t.Errorf("served after %v, %v", got.took, got.err)
		} else {
			got.ride.Done()
		}
		a.Done()
		s.wantEvents("0s start a", "1s start b", "9s end b", "9s start c")
	})
}

func TestAnEvictionOnceBegunIsNotUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("b"))
		defer s.close()
		s.script("a", script{start: time.Second, stop: 3 * time.Second})
		s.visit("a", time.Second)
		s.refusal(<-s.ask("b", time.Second), router.NoWorker, time.Second)
		time.Sleep(time.Minute)
		s.wantState("a", router.Asleep)
		s.wantState("b", router.Asleep)
		s.visit("b", time.Second)
	})
}

func TestIdleActorsSleepAfterIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := fake("a"), fake("b")
		a.Idle, b.Idle, b.MinAwake = 10*time.Second, 10*time.Second, time.Minute
		s := newStage(t, 2, a, b)
		defer s.close()
		s.visit("a", time.Second)
		time.Sleep(9 * time.Second)
		s.visit("a", 0) // begins its idleness anew
		ride := s.ride("a", 0)
		time.Sleep(time.Minute) // in use: not idle
		ride.Done()
		time.Sleep(10*time.Second - 1)
		s.wantState("a", router.Awake)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		s.wantState("a", router.Asleep)

		s.visit("b", time.Second)
		time.Sleep(time.Minute - 1)
		s.wantState("b", router.Awake)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		s.wantState("b", router.Asleep)
	})
}

func TestR24_AnActorThatARequestWantsIsNotPutToSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := fake("a")
		a.Idle = time.Second
		s := newStage(t, 1, a, fake("b"))
		defer s.close()
		use, err := s.plane.Want("a")
		if err != nil {
			t.Fatal(err)
		}
		s.visit("a", time.Second)
		b := s.ask("b", time.Hour)
		time.Sleep(time.Minute)
		s.wantState("a", router.Awake)
		if _, ok := use.Awake(); !ok {
			t.Fatal("the actor that was wanted all the time is not awake")
		}
		use.Done()
		(<-b).ride.Done()
	})
}

func TestG6_AWakeUpOutlivesItsCallersAndThenCountsAsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := fake("a")
		a.Idle = 5 * time.Second
		s := newStage(t, 1, a)
		defer s.close()
		s.refusal(<-s.ask("a", 300*time.Millisecond), router.StillWaking, 300*time.Millisecond)
		time.Sleep(800 * time.Millisecond)
		s.visit("a", 0)
		time.Sleep(5*time.Second + 1)
		s.wantState("a", router.Asleep)
		s.wantEvents("0s start a", "6.1s end a")
	})
}

func TestMinAwakeDelaysAnEvictionExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := fake("a")
		a.MinAwake = 20 * time.Second
		s := newStage(t, 1, a, fake("b"))
		defer s.close()
		s.visit("a", time.Second)
		time.Sleep(5 * time.Second)
		s.visit("b", 15*time.Second+time.Second)
		s.wantEvents("0s start a", "21s end a", "21s start b")
	})
}

func TestR12_MaxHoldDrainsABusyActorWhenSomebodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := fake("a")
		a.MaxHold = 30 * time.Second
		s := newStage(t, 1, a, fake("b"))
		defer s.close()
		ride := s.ride("a", time.Second)
		time.Sleep(10 * time.Second)
		b := s.ask("b", time.Hour) // at 11 s
		time.Sleep(20*time.Second - 1)
		s.wantState("a", router.Awake)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		s.wantState("a", router.GoingToSleep)
		again := s.ask("a", time.Hour) // queues behind b
		time.Sleep(4 * time.Second)
		ride.Done() // at 35 s
		got := <-b
		if got.err != nil || got.took != 25*time.Second {
			t.Fatalf("b: %v after %v", got.err, got.took)
		}
		got.ride.Done()
		if got := <-again; got.err != nil || got.took != 6*time.Second {
			t.Errorf("a again: %v after %v, want 4 s of draining, 1 s of b's wake, 1 s of its own", got.err, got.took)
		} else {
			got.ride.Done()
		}
	})
}

func TestMaxHoldDoesNothingWhileNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := fake("a")
		a.MaxHold = time.Second
		s := newStage(t, 1, a)
		defer s.close()
		ride := s.ride("a", time.Second)
		time.Sleep(time.Hour)
		s.wantState("a", router.Awake)
		ride.Done()
	})
}

func TestADrainThatLastsDoesNotKeepAnIdleActorFromBeingEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := fake("a")
		a.MaxHold = 5 * time.Second
		s := newStage(t, 2, a, fake("b"), fake("c"))
		defer s.close()
		stream, b := s.ride("a", time.Second), s.ride("b", time.Second)
		c := s.ask("c", time.Hour)
		time.Sleep(10 * time.Second)
		s.wantState("a", router.GoingToSleep) // and its stream goes on
		b.Done()
		if got := <-c; got.took != 11*time.Second {
			t.Errorf("served after %v (%v), want 11 s: b was idle after 10", got.took, got.err)
		} else {
			got.ride.Done()
		}
		stream.Done()
	})
}

func TestMaxHoldDrainsNoMoreActorsThanAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := fake("a"), fake("b")
		a.MaxHold, b.MaxHold = 5*time.Second, 5*time.Second
		s := newStage(t, 2, a, b, fake("c"))
		defer s.close()
		first, second := s.ride("a", time.Second), s.ride("b", time.Second)
		c := s.ask("c", time.Hour)
		time.Sleep(time.Minute)
		s.wantState("a", router.GoingToSleep)
		s.wantState("b", router.Awake)
		first.Done()
		(<-c).ride.Done()
		second.Done()
	})
}

func TestWhatACrashLeavesIsGivenNoGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		a := s.plane.actors["a"]
		exited := router.Fail(router.StartFailed, "", errExited)
		for _, test := range []struct {
			what string
			life life
			late bool
			want time.Duration
		}{
			{"evicted", life{why: errEvicted}, false, 10 * time.Second},
			{"crashed", life{why: errCrashed}, false, 0},
			{"exited before it was ready", life{why: errFailed, err: exited}, false, 0},
			{"not ready in time", life{why: errFailed, err: router.Fail(router.StartFailed, "", errNotReady{})}, false, 10 * time.Second},
			{"started too late", life{why: errFailed}, true, 0},
		} {
			if got := s.plane.grace(a, &test.life, test.late); got != test.want {
				t.Errorf("%s: the grace is %v, want %v", test.what, got, test.want)
			}
		}
	})
}

func TestAFlightThatFindsAStartUnderWayIsCommittedToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.script("a", script{start: 10 * time.Second})
		first := s.ask("a", time.Hour)
		synctest.Wait()
		s.router = router.New(s.plane, s.lot, router.Options{}) // knows nothing of the first one's flight
		s.refusal(<-s.ask("a", 2*time.Second), router.StillWaking, 2*time.Second)
		ride := s.ride("a", 8*time.Second)
		if ride.Wake != router.WakeJoined {
			t.Errorf("the wake-up was %s, want it joined: the flight outlives its caller", ride.Wake)
		}
		ride.Done()
		(<-first).ride.Done()
	})
}

func TestAnActorThatCannotBeKilledDoesNotKeepAnIdleOneFromBeingEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 2, fake("stuck"), fake("idle"), fake("c"))
		defer s.close()
		s.script("stuck", script{start: time.Second, stop: -1, undead: time.Hour})
		s.visit("stuck", time.Second)
		s.visit("idle", time.Second)
		asleep := make(chan error, 1)
		go func() { asleep <- s.plane.Sleep(t.Context(), "stuck") }() // received below
		synctest.Wait()
		s.visit("c", 12*time.Second) // 10 s of grace, 1 s for KILL to work, 1 s to start
		s.wantState("idle", router.Asleep)
		s.wantState("stuck", router.GoingToSleep)
		<-asleep
		s.visit("idle", time.Second) // with the worker that came back after all
		s.wantState("c", router.Awake)
	})
}

func TestP7_AStartHasItsOwnCeilingAndItsWaitersFailAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.script("a", script{start: time.Hour, stop: 7 * time.Second})
		waiters := []<-chan answer{s.ask("a", time.Hour), s.ask("a", time.Hour), s.ask("a", time.Minute)}
		for _, w := range waiters {
			e := s.refusal(<-w, router.StartFailed, 30*time.Second)
			if e.RetryAfter != time.Second || len(e.Output) == 0 || e.Detail != "the actor was not ready after 30s" {
				t.Errorf("got %+v", e)
			}
		}
		s.wantState("a", router.GoingToSleep)
		s.refused("a", router.BackingOff, 0)
	})
}

func TestP7_TheCeilingOfAStartCoversWhatTheMachineTakesForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("b"))
		defer s.close()
		s.script("a", script{hangs: 10 * time.Minute, stop: time.Second})
		e := s.refused("a", router.StartFailed, 30*time.Second)
		if e.Detail != "the actor was not ready after 30s" {
			t.Errorf("the detail is %q", e.Detail)
		}
		s.wantState("a", router.GoingToSleep) // what may still start keeps the worker
		s.visit("b", 9*time.Minute+31*time.Second)
		s.wantEvents("10m0s start a", "10m0s kill end a", "10m0s start b")
	})
}

func TestR25_FailedStartsAreBackedOffAndOneAttemptIsMadeAtExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.script("a", script{start: time.Second, fails: errors.New("no")})
		for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			wait *= time.Second
			if e := s.refused("a", router.StartFailed, time.Second); e.RetryAfter != wait {
				t.Fatalf("RetryAfter = %v, want %v", e.RetryAfter, wait)
			}
			synctest.Wait()
			s.wantState("a", router.Failed)
			time.Sleep(wait - 1)
			if e := s.refused("a", router.BackingOff, 0); e.RetryAfter != 1 {
				t.Fatalf("RetryAfter = %v just before expiry, want 1ns", e.RetryAfter)
			}
			time.Sleep(time.Nanosecond)
			s.wantState("a", router.Asleep)
		}
		s.script("a", script{start: time.Second})
		s.visit("a", time.Second)
		if err := s.plane.Sleep(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		s.script("a", script{broken: errors.New("no such program")})
		if e := s.refused("a", router.StartFailed, 0); e.RetryAfter != time.Second {
			t.Errorf("RetryAfter = %v after a success, want 1s again", e.RetryAfter)
		}
	})
}

func TestACrashInMidRequestPutsTheActorToSleepAndTheNextRequestWakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		ride := s.ride("a", time.Second)
		s.host.crash("a")
		synctest.Wait()
		s.wantState("a", router.Asleep)
		next := s.ride("a", time.Second)
		ride.Done() // of the life that is over
		if got := s.plane.Snapshot().Actors[0].InFlight; got != 1 {
			t.Errorf("%d requests are with the new life, want 1", got)
		}
		next.Done()
	})
}

func TestACrashIsLoggedWithLastWordsAndACrashedInstanceStaysAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("preview-*"))
		defer s.close()
		var log bytes.Buffer
		s.plane.log = slog.New(slog.NewTextHandler(&log, nil))
		s.script("preview-7", script{start: time.Second})
		s.visit("preview-7", time.Second)
		time.Sleep(5 * time.Second)
		s.host.crash("preview-7")
		synctest.Wait()
		for _, part := range []string{
			`level=WARN msg="actor exited by itself" actor=preview-7`, `how="exit status 7"`, "words of preview-7",
		} {
			if !strings.Contains(log.String(), part) {
				t.Errorf("no %s in the log:\n%s", part, &log)
			}
		}
		if a := s.plane.Snapshot().Actors[0]; a.State != router.Asleep || a.LastError != "the actor exited: exit status 7; its last line: words of preview-7" || len(a.Output) != 1 {
			t.Errorf("it is shown as %+v", a)
		}
		time.Sleep(time.Minute - 1)
		s.wantState("preview-7", router.Asleep)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		s.wantState("preview-7", "")
	})
}

func TestAnActorThatIsReadyAndExitsBeforeItServesCountsAsAFailedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.refusal(<-s.ask("a", time.Millisecond), router.StillWaking, time.Millisecond)
		time.Sleep(2 * time.Second)
		s.host.crash("a")
		synctest.Wait()
		s.wantState("a", router.Failed)
		if e := s.refused("a", router.BackingOff, 0); e.Detail != "the last start failed; the next one is possible in 1s" {
			t.Errorf("the refusal says %q", e.Detail)
		}
	})
}

func TestAnActorIsFailingUntilAStartSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		want := func(state router.State, failing bool) {
			t.Helper()
			synctest.Wait()
			if a := s.plane.Snapshot().Actors[0]; a.State != state || a.Failing != failing {
				t.Errorf("it is %s, failing %v; want %s, %v", a.State, a.Failing, state, failing)
			}
		}
		want(router.Asleep, false)
		s.script("a", script{fails: errors.New("broken")})
		s.refused("a", router.StartFailed, 0)
		want(router.Failed, true)
		time.Sleep(time.Minute) // the next start is due
		want(router.Asleep, true)
		s.script("a", script{start: time.Second})
		next := s.ask("a", time.Minute)
		want(router.Waking, true)
		(<-next).ride.Done()
		want(router.Awake, false)
		s.host.crash("a")
		want(router.Asleep, false)
	})
}

func TestG10_StopRefusesWhoWaitsAndEndsEveryActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 2, fake("a"), fake("b"), fake("c"))
		s.script("a", script{start: time.Second, stop: 4 * time.Second})
		s.script("b", script{start: time.Hour})
		ride := s.ride("a", time.Second)
		b, c := s.ask("b", time.Hour), s.ask("c", time.Hour)
		synctest.Wait()
		began := time.Now()
		for range 2 {
			if err := s.plane.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("Stop took %v, want a's 4 s", took)
		}
		s.refusal(<-b, router.PlaneUnavailable, 0)
		s.refusal(<-c, router.PlaneUnavailable, 0)
		s.refused("a", router.PlaneUnavailable, 0)
		ride.Done()
		s.close()
	})
}

func TestG10_WhenStopsContextEndsEverythingIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		s.script("a", script{start: time.Second, stop: -1})
		s.visit("a", time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := s.plane.Stop(ctx); err != nil {
			t.Error(err)
		}
		s.wantEvents("0s start a", "4s kill end a")
		s.close()
	})
}

func TestTemplateInstancesAreForgottenWhenAsleepAndUnwanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := fake("preview-*")
		a.Command = []string{"run", "{actor}", "{match}"}
		a.Idle = time.Second
		s := newStage(t, 2, a)
		defer s.close()
		s.script("preview-7", script{start: time.Second})
		ride := s.ride("preview-7", time.Second)
		if got := s.job("preview-7").Command; fmt.Sprint(got) != "[run preview-7 7]" {
			t.Errorf("Command = %v", got)
		}
		ride.Done()
		s.wantState("preview-7", router.Awake)
		time.Sleep(time.Second + 1)
		s.wantState("preview-7", "")

		var flood []<-chan answer
		for i := range 1000 { // most leave before they have a worker
			flood = append(flood, s.ask(fmt.Sprintf("preview-x%d", i), 10*time.Millisecond))
		}
		for _, c := range flood {
			if got := <-c; got.err == nil {
				got.ride.Done()
			}
		}
		for _, name := range []string{"preview-", "preview", "preview-A", "preview-a.b", "other", ""} {
			s.refused(name, router.UnknownActor, 0)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(s.plane.actors); n != 0 {
			t.Errorf("%d instances are remembered after the flood, want none", n)
		}
	})
}

func TestAFloodOfNamesHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 1024
		s := newStage(t, 1, fake("a"), fake("x-*"))
		defer s.close()
		s.router = router.New(s.plane, parking.NewLot(0), router.Options{Linger: 5 * time.Second})
		refused := func(name string) string { return s.refused(name, router.LotFull, 0).Detail }
		refused("a")
		time.Sleep(2 * time.Second)
		ride := s.ride("a", 0)
		for i := range 3 * most { // each leaves a wake-up in line
			if detail := refused(fmt.Sprint("x-", i)); (detail == "too many actors are asked for at once") != (i >= most) {
				t.Fatalf("request %d is refused with %q", i, detail)
			}
		}
		synctest.Wait()
		if pool := s.plane.Snapshot().Pools[0]; pool.Waiting != most || len(s.plane.actors) != 1+most {
			t.Errorf("%d wake-ups are in line for %d actors", pool.Waiting, len(s.plane.actors))
		}
		s.visit("a", 0)
		refused("x-7")
		time.Sleep(5*time.Second + 1)
		synctest.Wait()
		if len(s.plane.actors) != 1 || s.plane.queued != 0 {
			t.Errorf("%d actors are left, %d queued", len(s.plane.actors), s.plane.queued)
		}
		if detail := refused("x-0"); detail == "too many actors are asked for at once" {
			t.Error("there is no room after the flood")
		}
		ride.Done()
	})
}

func TestAKeptActorInLineThatBecomesAnInstanceLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		ride := s.ride("a", time.Second)
		kept := fake("x-1")
		kept.KeepAwake.Always = true
		s.apply(Config{Pools: s.config.Pools, Actors: []Actor{fake("a"), kept}}) // stands in line
		s.apply(Config{Pools: s.config.Pools, Actors: []Actor{fake("a"), fake("x-*")}})
		ride.Done()
		synctest.Wait()
		if len(s.plane.actors) != 1 || s.plane.queued != 0 {
			t.Errorf("%d actors are left, %d queued", len(s.plane.actors), s.plane.queued)
		}
	})
}

func TestAFailedInstanceIsShownForAMinuteAndRememberedForAsLongAsItsBackoffMatters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("preview-*"))
		defer s.close()
		forgottenAfter := func(d time.Duration) {
			t.Helper()
			time.Sleep(d - 1)
			s.wantState("preview-1", router.Asleep)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			s.wantState("preview-1", "")
		}
		s.script("preview-1", script{fails: errors.New("no")})
		s.refused("preview-1", router.StartFailed, 0)
		time.Sleep(1500 * time.Millisecond)
		if e := s.refused("preview-1", router.StartFailed, 0); e.RetryAfter != 2*time.Second {
			t.Errorf("RetryAfter = %v, want the second step", e.RetryAfter)
		}
		forgottenAfter(time.Minute)
		for range 7 {
			time.Sleep(s.refused("preview-1", router.StartFailed, 0).RetryAfter)
		}
		forgottenAfter(longestBackoff) // as long again as the last one
	})
}

func TestP6_AFlightThatLingersKeepsItsPlaceForWhoComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("b"), fake("c"))
		defer s.close()
		s.router = router.New(s.plane, s.lot, router.Options{Linger: 10 * time.Second})
		ride := s.ride("a", time.Second)
		s.refusal(<-s.ask("b", time.Second), router.NoWorker, time.Second)
		c := s.ask("c", time.Hour)
		time.Sleep(5 * time.Second)
		ride.Done() // for b's flight, which nobody waits for just then
		time.Sleep(300 * time.Millisecond)
		s.visit("b", 700*time.Millisecond)
		if got := <-c; got.err != nil || got.took != 7*time.Second {
			t.Errorf("c: %v after %v, want 5 s of a, 1 s of b's wake and 1 s of its own", got.err, got.took)
		} else {
			got.ride.Done()
		}
	})
}

func TestAWorkerThatIsGrantedToAnActorAsItIsRemovedGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("b"), fake("c"))
		defer s.close()
		ride := s.ride("a", time.Second)
		b := s.ask("b", time.Hour)
		synctest.Wait()
		c := s.ask("c", time.Hour)
		synctest.Wait()
		p := s.plane
		p.mu.Lock() // b's flight has its worker, and cannot look at it yet
		p.pools["pool"].gate.Resize(2)
		p.defs = newDefinitions([]Actor{fake("a"), fake("c")})
		p.applyActorsLocked()
		p.mu.Unlock()
		s.refusal(<-b, router.UnknownActor, 0)
		if got := <-c; got.err != nil || got.took != time.Second {
			t.Errorf("c: %v after %v, want b's worker at once", got.err, got.took)
		} else {
			got.ride.Done()
		}
		ride.Done()
	})
}

func TestMinUsefulRefusesWhoCouldNotUseAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1)
		defer s.close()
		c := s.config
		c.Pools = append(c.Pools, Pool{Name: "picky", Workers: 1, MinUseful: 2 * time.Second})
		a, b := fake("a"), fake("b")
		a.Pool, b.Pool = "picky", "picky"
		c.Actors = []Actor{a, b}
		s.apply(c)
		s.script("a", script{start: time.Second})
		ride := s.ride("a", time.Second)
		late := s.ask("b", 10*time.Second)
		time.Sleep(9 * time.Second) // 1 s is left
		ride.Done()
		s.refusal(<-late, router.NoWorker, 9*time.Second)
		s.wantState("b", router.Asleep)
	})
}
