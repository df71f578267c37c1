package turnstile

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What went wrong in other gates, and the test here that would fail if it went wrong in this one. Where the case is a rule's
// own, the rule's test is named; the others follow.
//
//	A1   every exit after the take gives back           TestT7_PassesAreConserved, ExampleTurnstile
//	A2   leaving the wait leaves the queue              TestA2_ATimedOutWaiterIsHandedNothing
//	A3   exactly one release per grant                  TestT7_ACopyReturnedAtOnceGivesBackOnce
//	A4   take and ownership are one step                TestT7_GrantedUnderTheLockThenCancelledBeforeTheToken
//	A6   a racing cancel returns the resource           TestT7_CancelledFirstThenGranted and the tests beside it
//	A7   a cancelled head does not park the others      TestA7_ACancelledHeadLeavesTheRestMoving
//	A8   a done context loses to nothing                TestT6_ADoneContextIsRefusedEvenIfAPassIsFree
//	A9   a second return is detected and reported       TestStatsCountEveryPass
//	A10  a stray return never raises the limit          TestT7_AnOldCopyDoesNotEndAnotherTurn
//	A11  a bounded wait by order                        TestA11_AWaitIsBoundedByTheLineAhead
//	A12  hand-over keeps the place                      TestT3_ReleaserPicksTheWinner
//	A14  a long holder does not starve short ones       TestA14_AHolderThatComesBackAtOnceQueues
//	A15  the order is a stated choice                   TestT1_LowerBandThenOlderJobThenJobNumber
//	A16  the thousandth call of a job                   TestA16_AJobMayGiveItsLaterCallsAWorseBand
//	A17  the doomed are shed first                      TestA17_UsefulWorkUnderOverload
//	A18  a low band runs                                TestT15_ABandCannotStarveAnotherForEver
//	A19  shares under full load                         TestA19_UnderFullLoadTheBetterBandIsServedFirst
//	A20  a call through the gate from inside            TestT11_NestedWaitsOfOneJobAreCountedNotRefused
//	A21  a waiter leaves on its own clock               TestT6_AWaiterLeavesAtItsDeadlineExactly
//	A23  check and increment are one step               TestT7_PassesAreConserved
//	A24  options are honoured by every constructor      TestA24_ASetGivesItsOptionsToEveryTurnstile
//	A26  resize with outstanding claims                 TestT4_AShrinkBelowWhatIsHeldAdmitsNobodyUntilEnoughReturn
//	A27  what can never be granted                      TestA27_AtSizeZeroTheWaitEndsWithTheContext
//	A28  Close wakes all                                TestT5_CloseReleasesEveryWaiterAndAdmitsNobodyEver
//	A29  holders that ask for one more                  TestA29_HoldersThatAskForOneMoreAreCounted
//	A65  waits are durable in a bubble                  every test in a bubble

func TestA2_ATimedOutWaiterIsHandedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(1)
		pass := take(t, ts)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		gone := callWith(ctx, func(ctx context.Context) (Pass, bool) { return ts.WaitTurn(ctx, claimAt(0, 0)) })
		time.Sleep(time.Second + 1)
		pass.Return()
		if !gone.refused() {
			t.Fatal("a waiter that had timed out was handed the pass")
		}
		wantSnapshot(t, ts, 1, 0)
	})
}

func TestA11_AWaitIsBoundedByTheLineAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(2)
		var worst atomic.Int64
		for range 20 {
			go func() {
				pass, _ := ts.WaitTurn(t.Context(), NewClaim(0))
				worst.Store(max(worst.Load(), int64(pass.Waited())))
				time.Sleep(time.Second)
				pass.Return()
			}()
		}
		time.Sleep(time.Minute)
		if got := time.Duration(worst.Load()); got != 9*time.Second {
			t.Errorf("20 turns of 1s, two at a time: the longest wait is %v, want 9s", got)
		}
	})
}

func TestA14_AHolderThatComesBackAtOnceQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(1)
		hog := take(t, ts)
		waiter := queue(ts, claimAt(0, 0))
		hog.Return()
		again := queue(ts, claimAt(0, 1))
		if !waiter.served() || !again.waits() {
			t.Fatal("a holder that came back at once got the pass before one who waited")
		}
		wantOrder(t, waiter.pass, again)
	})
}

func TestA16_AJobMayGiveItsLaterCallsAWorseBand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := NewSet()
		set.Resize(0, 1)
		ts := set.Turnstile(0)
		turn := func(ctx context.Context) *caller {
			return callWith(ctx, func(ctx context.Context) (Pass, bool) { return WaitTurn(ctx), true })
		}
		bulk := set.ContextWithPriority(t.Context(), 0, 0)
		time.Sleep(time.Second)
		small := set.ContextWithPriority(t.Context(), 0, 0)
		pass := take(t, ts)
		late := turn(set.ContextWithPriority(bulk, 0, 1))
		early := turn(small)
		wantOrder(t, pass, early, late)
	})
}

// TestA17 has twice the work that can be done, all of it with a deadline.
func TestA17_UsefulWorkUnderOverload(t *testing.T) {
	useful := func(o Options) (n int) {
		synctest.Test(t, func(t *testing.T) {
			ts := NewWith(1, o)
			var done atomic.Int64
			for range 200 {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					pass, ok := ts.WaitTurn(ctx, NewClaim(0))
					if !ok {
						return
					}
					time.Sleep(time.Second) // the work does not look at its context
					pass.Return()
					if ctx.Err() == nil {
						done.Add(1)
					}
				}()
				time.Sleep(500 * time.Millisecond)
			}
			time.Sleep(time.Minute)
			n = int(done.Load())
		})
		return n
	}
	without, with := useful(Options{}), useful(Options{MinUseful: 1001 * time.Millisecond})
	t.Logf("done in time: %d without MinUseful, %d with it", without, with)
	if with < 90 || with < 4*without {
		t.Errorf("%d of about 100 possible turns were useful, %d without MinUseful", with, without)
	}
}

func TestA19_UnderFullLoadTheBetterBandIsServedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(2)
		var turns [2]atomic.Int64
		var worst atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		// Three of the better band want 3 passes but leave some of the time: each works 1s and is away 1s.
		for band, workers := range []int{3, 10} {
			for range workers {
				go func() {
					for {
						pass, ok := ts.WaitTurn(ctx, NewClaim(band))
						if !ok {
							return
						}
						turns[band].Add(1)
						if band == 0 {
							worst.Store(max(worst.Load(), int64(pass.Waited())))
						}
						time.Sleep(time.Second)
						pass.Return()
						if band == 0 {
							time.Sleep(time.Second)
						}
					}
				}()
			}
		}
		time.Sleep(102 * time.Second)
		if total := turns[0].Load() + turns[1].Load(); total < 198 || total > 202 {
			t.Errorf("%d turns in 100s of two passes, want about 200: no pass idles", total)
		}
		// Turns are not interrupted: the three of the better band wait for both passes to come back at worst, whoever
		// has them, and one of the three for another of them.
		if got := time.Duration(worst.Load()); got > 2*time.Second {
			t.Errorf("the better band waited up to %v, want at most 2s", got)
		}
		synctest.Wait()
	})
}

func TestA24_ASetGivesItsOptionsToEveryTurnstile(t *testing.T) {
	o := Options{HeadStart: time.Second, MinUseful: time.Minute}
	set := NewSetWith(o)
	set.Resize(0, 1)
	set.Resize(7, 1)
	set.Resize(7, 2)
	for _, shard := range []int{0, 7} {
		if ts := set.Turnstile(shard); ts.headStart != o.HeadStart || ts.minUseful != o.MinUseful {
			t.Errorf("shard %d: %v, %v, want %+v", shard, ts.headStart, ts.minUseful, o)
		}
	}
	if ts := NewWith(1, Options{HeadStart: -1, MinUseful: -1}); ts.headStart != 0 || ts.minUseful != 0 {
		t.Error("negative options do not count as 0")
	}
}

func TestA27_AtSizeZeroTheWaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, ok := ts.WaitTurn(ctx, claimAt(0, 0)); ok || time.Since(start) != time.Second {
			t.Fatalf("WaitTurn at size 0: ok %v after %v, want refused after 1s", ok, time.Since(start))
		}
	})
}

func TestA29_HoldersThatAskForOneMoreAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := NewSet()
		set.Resize(0, 3)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 3 {
			go func() {
				job := set.ContextWithPriority(ctx, 0, 0)
				outer := WaitTurn(job)
				time.Sleep(time.Second)
				WaitTurn(job).Return()
				outer.Return()
			}()
		}
		time.Sleep(2 * time.Second)
		if st := set.Turnstile(0).Stats(); st.Nested != 3 || st.Waiting != 3 || st.Held != 3 {
			t.Errorf("Stats() = %+v, want 3 held, 3 waiting, 3 nested: a standstill that can be seen", st)
		}
		time.Sleep(time.Hour) // their contexts end it
		wantSnapshot(t, set.Turnstile(0), 3, 0)
	})
}
