package budget

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestB1TheEndIsTheEarlierOfTheDeadlineAndTheParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for _, c := range []struct {
			name        string
			parent, own time.Duration // parent 0: none
			want        time.Duration
		}{
			{"no parent", 0, time.Minute, time.Minute},
			{"an earlier parent", time.Second, time.Minute, time.Second},
			{"a later parent", time.Hour, time.Minute, time.Minute},
			{"an equal parent", time.Minute, time.Minute, time.Minute},
			{"a parent one nanosecond earlier", time.Minute - 1, time.Minute, time.Minute - 1},
			{"a past deadline", 0, -time.Minute, 0},
			{"a past parent", -time.Minute, time.Minute, 0},
			{"more than a century", 0, 1<<63 - 1, century},
		} {
			for _, foreign := range []bool{true, false} {
				ctx, cancelParent := context.Background(), context.CancelFunc(func() {})
				switch {
				case c.parent == 0:
				case foreign:
					ctx, cancelParent = context.WithDeadline(ctx, now.Add(c.parent))
				default:
					ctx, cancelParent = Start(ctx, now.Add(c.parent))
				}
				for _, way := range []string{"Start", "For"} {
					got, cancel := For(ctx, c.own)
					if way == "Start" {
						got, cancel = Start(ctx, now.Add(c.own))
					}
					if left := From(got).Remaining(); left != c.want {
						t.Errorf("%s (foreign %v), %s: Remaining() = %v, want %v", c.name, foreign, way, left, c.want)
					}
					if end, _ := got.Deadline(); !end.Equal(now.Add(c.want)) {
						t.Errorf("%s (foreign %v), %s: Deadline() is %v away, want %v", c.name, foreign, way, end.Sub(now), c.want)
					}
					if done := got.Err() != nil; done != (c.want == 0) {
						t.Errorf("%s (foreign %v), %s: Err() = %v", c.name, foreign, way, got.Err())
					}
					cancel()
				}
				cancelParent()
			}
		}
	})
}

func TestB1TheEndComesExactlyThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := Start(t.Context(), start.Add(time.Minute).UTC())
		defer cancel()
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		if ctx.Err() != nil || From(ctx).Remaining() != 1 {
			t.Errorf("1ns before the end: Err() = %v, Remaining() = %v", ctx.Err(), From(ctx).Remaining())
		}
		<-ctx.Done()
		if got := time.Since(start); got != time.Minute {
			t.Errorf("done after %v, want 1m", got)
		}
		if ctx.Err() != context.DeadlineExceeded {
			t.Errorf("Err() = %v, want DeadlineExceeded", ctx.Err())
		}
		time.Sleep(time.Second)
		if got, spent := From(ctx).Remaining(), From(ctx).Spent(); got != 0 || spent != time.Minute+time.Second {
			t.Errorf("after the end: Remaining() = %v, Spent() = %v, want 0 and 1m1s", got, spent)
		}
	})
}

func TestB2DoneAndErrAreTheStandardOnes(t *testing.T) {
	ctx, cancel := For(t.Context(), time.Hour)
	defer cancel()
	std := ctx.(*budgetCtx).Context
	if ctx.Done() != std.Done() {
		t.Error("Done() is not the standard context's channel")
	}
	cancel()
	if ctx.Err() != context.Canceled || context.Cause(ctx) != context.Canceled {
		t.Errorf("after cancel: Err() = %v, Cause = %v, want Canceled", ctx.Err(), context.Cause(ctx))
	}
}

func TestB2AndB9ChildrenCostNoGoroutine(t *testing.T) {
	foreign, cancelForeign := context.WithTimeout(context.Background(), time.Minute)
	defer cancelForeign()
	before := runtime.NumGoroutine()
	var cancels []context.CancelFunc
	keep := func(ctx context.Context, cancel context.CancelFunc) context.Context {
		cancels = append(cancels, cancel)
		return ctx
	}
	for range 100 {
		ctx := keep(For(context.Background(), time.Hour))
		ctx, _ = Phase(ctx, "wake")
		ctx = keep(context.WithCancel(ctx))
		ctx = keep(context.WithTimeout(ctx, time.Minute))
		ctx = keep(For(ctx, time.Second))
		context.AfterFunc(ctx, func() {})
		keep(context.WithCancel(keep(For(foreign, time.Hour))))
		keep(context.WithCancel(Detach(ctx)))
	}
	if got := runtime.NumGoroutine() - before; got > 0 {
		t.Errorf("700 contexts hold %d goroutines, want none", got)
	}
	for _, cancel := range cancels {
		cancel()
	}
}

func TestB3AnInnerBudgetEndsEarlierAndSpendsTheOuterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, cancel := For(t.Context(), time.Minute)
		defer cancel()
		time.Sleep(10 * time.Second)
		inner, cancelInner := For(outer, 20*time.Second)
		defer cancelInner()
		late, cancelLate := For(outer, time.Hour)
		defer cancelLate()
		end := From(inner).Phase("attempt")
		<-inner.Done()
		end()
		if got := From(outer).Remaining(); got != 30*time.Second {
			t.Errorf("outer Remaining() = %v, want 30s", got)
		}
		if outer.Err() != nil {
			t.Errorf("the inner end ended the outer budget: %v", outer.Err())
		}
		if got := From(late).Remaining(); got != 30*time.Second {
			t.Errorf("an inner budget of 1h has %v, want the outer one's 30s", got)
		}
		for _, c := range []struct {
			name  string
			ctx   context.Context
			first time.Duration
		}{{"outer", outer, 10 * time.Second}, {"inner", inner, 0}} {
			p := From(c.ctx).Ledger().Phases
			if len(p) != 1 || p[0].Name != "attempt" || p[0].Elapsed != 20*time.Second || p[0].First != c.first {
				t.Errorf("%s ledger: %+v, want one attempt of 20s from %v on", c.name, p, c.first)
			}
		}
		if p := From(late).Ledger().Phases; len(p) != 0 {
			t.Errorf("a sibling's ledger has %+v, want nothing", p)
		}
	})
}

func TestB3AnInnerBudgetWithTheOuterEndHasNoTimerOfItsOwn(t *testing.T) {
	outer, cancel := For(t.Context(), time.Minute)
	defer cancel()
	inner, cancelInner := For(outer, time.Hour)
	defer cancelInner()
	if std := fmt.Sprint(inner.(*budgetCtx).Context); !strings.HasSuffix(std, ".WithCancel") {
		t.Errorf("the inner context is %s, want a plain WithCancel", std)
	}
}

func TestB3ABudgetFromAnUncancelledContextKeepsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, cancel := For(t.Context(), time.Minute)
		defer cancel()
		inner, cancelInner := For(context.WithoutCancel(outer), time.Hour)
		defer cancelInner()
		start := time.Now()
		<-inner.Done()
		if got := time.Since(start); got != time.Minute {
			t.Errorf("the inner budget ended after %v, want the outer one's 1m", got)
		}
	})
}

func TestB4WithoutABudgetEverythingIsUnlimited(t *testing.T) {
	ctx := context.Background()
	for _, b := range []Budget{From(ctx), {}} {
		if _, ok := b.End(); ok {
			t.Error("End() says that there is one")
		}
		if got := b.Remaining(); got != century {
			t.Errorf("Remaining() = %v, want 100 years", got)
		}
		if got := b.Spent(); got != 0 {
			t.Errorf("Spent() = %v, want 0", got)
		}
		if err := b.Afford(1<<63 - 1); err != nil {
			t.Errorf("Afford() = %v, want nil", err)
		}
		b.Phase("line")()
		b.Record("wake", time.Now(), time.Now())
		b.Note(errors.New("x"))
		if l := b.Ledger(); len(l.Phases) != 0 || l.Limit != 0 {
			t.Errorf("Ledger() = %+v, want none", l)
		}
	}
	same, end := Phase(ctx, "line")
	end()
	if same != ctx {
		t.Error("Phase without a budget made a context")
	}
	if err := Wait(ctx, time.Nanosecond); err != nil {
		t.Errorf("Wait() = %v, want nil", err)
	}
}

func TestB4DetachKeepsValuesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := For(context.WithValue(t.Context(), key{}, "trace"), time.Second)
		ctx, _ = Phase(ctx, "wake")
		free := Detach(ctx)
		cancel()
		if free.Value(key{}) != "trace" {
			t.Error("the value is gone")
		}
		if _, ok := free.Deadline(); ok || free.Err() != nil || free.Done() != nil {
			t.Error("the detached context can end")
		}
		child, cancelChild := context.WithCancel(free)
		defer cancelChild()
		if _, ok := From(child).End(); ok {
			t.Error("the detached context has a budget")
		}
		From(child).Phase("shared")()
		for _, p := range From(ctx).Ledger().Phases {
			if p.Name == "shared" {
				t.Error("the detached context books in the ledger")
			}
		}
		again, cancelAgain := For(free, time.Hour)
		defer cancelAgain()
		if got := From(again).Remaining(); got != time.Hour {
			t.Errorf("a budget on the detached context has %v, want 1h", got)
		}
	})
}

func TestB9OneClockReadPerEdge(t *testing.T) {
	h := takeHands(t)
	ctx, cancel := For(t.Context(), time.Hour)
	defer cancel()
	inner, cancelInner := For(ctx, time.Minute)
	defer cancelInner()
	h.edgeReads = 0
	end := From(inner).Phase("line")
	if h.edgeReads != 1 {
		t.Errorf("beginning a phase in two budgets read the clock %d times, want 1", h.edgeReads)
	}
	end()
	if h.edgeReads != 2 {
		t.Errorf("ending it brought the reads to %d, want 2", h.edgeReads)
	}
}

func TestB9ABudgetIsTwoAllocationsMoreThanAContext(t *testing.T) {
	std := testing.AllocsPerRun(100, func() {
		_, cancel := context.WithTimeout(context.Background(), time.Hour)
		cancel()
	})
	ours := testing.AllocsPerRun(100, func() {
		_, cancel := For(context.Background(), time.Hour)
		cancel()
	})
	if ours > std+2 {
		t.Errorf("For allocates %v times, WithTimeout %v, want at most 2 more", ours, std)
	}
}

func TestAForeignDeadlineEndsAsTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Many times, because two timers for one instant would race.
		for range 500 {
			foreign, cancelForeign := context.WithTimeout(t.Context(), time.Second)
			ctx, cancel := For(foreign, time.Minute)
			start := time.Now()
			<-ctx.Done()
			var e *Exhausted
			if !errors.As(context.Cause(ctx), &e) || ctx.Err() != context.DeadlineExceeded || time.Since(start) != time.Second {
				t.Fatalf("after %v: Err() = %v, Cause = %v, want an Exhausted", time.Since(start), ctx.Err(), context.Cause(ctx))
			}
			cancel()
			cancelForeign()
		}
	})
}

func TestAForeignDeadlineDoesNotHideItsOwnersCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quit := errors.New("client left")
		for _, first := range []bool{true, false} {
			cause, cancelCause := context.WithCancelCause(t.Context())
			foreign, cancelForeign := context.WithTimeout(cause, time.Second)
			if first {
				cancelCause(quit)
			}
			ctx, cancel := For(foreign, time.Minute)
			if first && ctx.Err() == nil {
				t.Error("the context of a cancelled parent was not done from the start")
			}
			if !first {
				cancelCause(quit)
			}
			synctest.Wait()
			cancelCause(nil)
			if ctx.Err() != context.Canceled || context.Cause(ctx) != quit {
				t.Errorf("cancelled before (%v): Err() = %v, Cause = %v", first, ctx.Err(), context.Cause(ctx))
			}
			cancel()
			cancelForeign()
		}
	})
}

// early ends before its own deadline says, as a context's timer does when the wall clock was stepped back since.
type early struct{ context.Context }

func (early) Deadline() (time.Time, bool) { return time.Now().Add(time.Minute), true }

func TestAForeignContextThatEndsEarlyEndsTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		std, cancelStd := context.WithTimeout(t.Context(), time.Second)
		defer cancelStd()
		ctx, cancel := For(early{std}, time.Hour)
		defer cancel()
		time.Sleep(time.Second)
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("the budget outlives its parent")
		}
	})
}

func TestABudgetIsSafeForConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, cancel := For(t.Context(), time.Second)
		defer cancel()
		inner, cancelInner := For(outer, 500*time.Millisecond)
		defer cancelInner()
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for j := range 50 {
					ctx, end := Phase(inner, fmt.Sprint("p", i%3))
					From(ctx).Note(fmt.Errorf("try %d", j))
					stop := From(ctx).Phase("attempt")
					Wait(ctx, time.Duration(i+j)*time.Millisecond)
					From(outer).Record("wake", time.Now().Add(-time.Millisecond), time.Now())
					_ = From(outer).Ledger().String()
					stop()
					stop()
					end()
				}
			})
		}
		all.Wait()
		for _, ctx := range []context.Context{inner, outer} {
			<-ctx.Done()
			var e *Exhausted
			if !errors.As(context.Cause(ctx), &e) || e.Last() == nil {
				t.Errorf("Cause = %v, want an Exhausted with a last error", context.Cause(ctx))
			}
		}
	})
}
