package budget

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// hands is a pair of clocks that a test moves one by one.
type hands struct {
	wall, mono time.Time
	wallReads  int
	edgeReads  int
}

// takeHands replaces the package's clocks for the length of the test.
func takeHands(t *testing.T) *hands {
	now := time.Now()
	h := &hands{wall: now.Round(0), mono: now}
	oldRead, oldSince := readClocks, since
	readClocks = func() (time.Time, time.Time) {
		h.wallReads++
		return h.wall, h.mono
	}
	since = func(start time.Time) time.Duration {
		h.edgeReads++
		return h.mono.Sub(start)
	}
	t.Cleanup(func() { readClocks, since = oldRead, oldSince })
	return h
}

// pass lets time go by on both clocks.
func (h *hands) pass(d time.Duration) {
	h.wall, h.mono = h.wall.Add(d), h.mono.Add(d)
}

// step sets the wall clock by whole seconds, as ntp or an operator does. The reading of the monotonic clock comes with the
// stepped wall time too, as that of time.Now does; package time has no way to say so, hence the look into its layout: the
// seconds are bits 30 to 62 of the first word.
func (h *hands) step(d time.Duration) {
	h.wall = h.wall.Add(d)
	*(*uint64)(unsafe.Pointer(&h.mono)) += uint64(int64(d/time.Second)) << 30
}

func TestHandsStepTheWallAlone(t *testing.T) {
	h := takeHands(t)
	before := h.mono
	h.step(-time.Hour)
	if h.mono.Sub(before) != 0 || h.mono.Round(0).Sub(before.Round(0)) != -time.Hour || !h.mono.Round(0).Equal(h.wall) {
		t.Errorf("stepped from %v to %v and %v", before, h.mono, h.wall)
	}
}

// The standard library compares a wall-only deadline with the wall part of another, and that of the outermost start is stale.
func TestB12AnInnerBudgetAfterAStepStillHasItsTimer(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		h := takeHands(t)
		outer, cancel := For(t.Context(), 10*time.Hour)
		defer cancel()
		h.step(step)
		foreign := wallDeadline{outer, h.wall.Add(30 * time.Minute)}
		inner, cancelInner := For(foreign, 10*time.Minute)
		defer cancelInner()
		if std := fmt.Sprint(inner.(*budgetCtx).Context); !strings.Contains(std, ".WithDeadline(") {
			t.Errorf("after a step of %v the inner budget has no timer: %s", step, std[max(0, len(std)-60):])
		}
		deadline, _ := inner.Deadline()
		if end, _ := From(inner).End(); end != deadline || deadline.Sub(h.mono) != 10*time.Minute {
			t.Errorf("after a step of %v: End() = %v, Deadline() = %v", step, end, deadline)
		}
		late, cancelLate := For(foreign, time.Hour)
		defer cancelLate()
		if got := From(late).Remaining(); got != 30*time.Minute {
			t.Errorf("after a step of %v a foreign deadline in 30m leaves %v", step, got)
		}
	}
}

func TestB12AStepOfTheWallClockChangesNothing(t *testing.T) {
	for _, step := range []time.Duration{-24 * time.Hour, -time.Minute, time.Minute, 24 * time.Hour} {
		h := takeHands(t)
		ctx, cancel := Start(context.Background(), h.wall.Add(time.Hour))
		defer cancel()
		if h.wallReads != 1 {
			t.Errorf("Start read the wall clock %d times, want 1", h.wallReads)
		}
		b := From(ctx)
		before, _ := b.End()
		end := b.Phase("line")
		h.pass(20 * time.Minute)
		h.step(step)
		if got := b.Remaining(); got != 40*time.Minute {
			t.Errorf("after a step of %v: Remaining() = %v, want 40m", step, got)
		}
		if got := b.Spent(); got != 20*time.Minute {
			t.Errorf("after a step of %v: Spent() = %v, want 20m", step, got)
		}
		if after, _ := b.End(); !after.Equal(before) {
			t.Errorf("after a step of %v the end moved from %v to %v", step, before, after)
		}
		if err := b.Afford(40 * time.Minute); err != nil {
			t.Errorf("after a step of %v: Afford(40m) = %v", step, err)
		}
		if err := Wait(ctx, 40*time.Minute); err == nil {
			t.Errorf("after a step of %v: Wait(40m) = nil, want a refusal", step)
		}
		end()
		if got := b.Ledger().Phases[0].Elapsed; got != 20*time.Minute {
			t.Errorf("after a step of %v: the phase took %v, want 20m", step, got)
		}
		out := map[string][]string{}
		if err := WriteHeaders(ctx, out); err != nil || out["Operation-Timeout"][0] != "2400000ms" {
			t.Errorf("after a step of %v: WriteHeaders = %v, %v", step, out, err)
		}
		if ctx.Err() != nil {
			t.Errorf("after a step of %v: ctx.Err() = %v", step, ctx.Err())
		}
		if h.wallReads != 1 {
			t.Errorf("the wall clock was read %d times in the operation, want once at its start", h.wallReads)
		}
	}
}

func TestB12AFollowingStartSeesTheSteppedWallClock(t *testing.T) {
	h := takeHands(t)
	deadline := h.wall.Add(time.Hour)
	ctx, cancel := Start(context.Background(), deadline)
	defer cancel()
	h.step(30 * time.Minute)
	inner, cancelInner := Start(ctx, deadline) // a wall time that was 1h away, and is 30m away
	defer cancelInner()
	if got := From(inner).Remaining(); got != 30*time.Minute {
		t.Errorf("Remaining() of the inner budget = %v, want 30m", got)
	}
	if got := From(ctx).Remaining(); got != time.Hour {
		t.Errorf("Remaining() of the outer budget = %v, want 1h", got)
	}
}

func TestB12ADeadlineWithAMonotonicReadingIsConvertedByIt(t *testing.T) {
	h := takeHands(t)
	deadline := h.mono.Add(time.Hour)
	h.step(30 * time.Minute)
	ctx, cancel := Start(context.Background(), deadline)
	defer cancel()
	if got := From(ctx).Remaining(); got != time.Hour {
		t.Errorf("Remaining() = %v, want 1h", got)
	}
}

// These run outside a bubble: inside, times have no monotonic reading.
func TestB2DeadlineHasAMonotonicReading(t *testing.T) {
	wallOnly := func(d time.Duration) (context.Context, context.CancelFunc) {
		return context.WithDeadline(context.Background(), time.Now().Add(d).Round(0))
	}
	year9999 := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, c := range []struct {
		name  string
		begin func() (context.Context, context.CancelFunc)
		want  time.Duration
	}{
		{"a wall deadline", func() (context.Context, context.CancelFunc) {
			return Start(context.Background(), time.Now().Add(time.Hour).Round(0))
		}, time.Hour},
		{"an earlier wall-only parent", func() (context.Context, context.CancelFunc) {
			ctx, _ := wallOnly(time.Minute)
			return For(ctx, time.Hour)
		}, time.Minute},
		{"a later wall-only parent", func() (context.Context, context.CancelFunc) {
			ctx, _ := wallOnly(2 * time.Hour)
			return For(ctx, time.Hour)
		}, time.Hour},
		{"the year 9999", func() (context.Context, context.CancelFunc) {
			return Start(context.Background(), year9999)
		}, century},
		{"a parent in the year 9999", func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithDeadline(context.Background(), year9999)
			t.Cleanup(cancel)
			return For(ctx, 1<<63-1)
		}, century},
		{"a child with a later time-out", func() (context.Context, context.CancelFunc) {
			ctx, _ := For(context.Background(), time.Minute)
			return context.WithTimeout(ctx, time.Hour)
		}, time.Minute},
		{"a budget inside", func() (context.Context, context.CancelFunc) {
			ctx, _ := For(context.Background(), time.Minute)
			return For(ctx, time.Hour)
		}, time.Minute},
		{"a phase", func() (context.Context, context.CancelFunc) {
			ctx, cancel := For(context.Background(), time.Minute)
			ctx, _ = Phase(ctx, "wake")
			return ctx, cancel
		}, time.Minute},
	} {
		ctx, cancel := c.begin()
		deadline, ok := ctx.Deadline()
		if !ok || !monotonic(deadline) {
			t.Errorf("%s: Deadline() = %v, %v, want a monotonic reading", c.name, deadline, ok)
		}
		if left := time.Until(deadline); left > c.want || left < c.want-time.Minute/2 {
			t.Errorf("%s: the deadline is %v away, want %v", c.name, left, c.want)
		}
		if end, ok := From(ctx).End(); !ok || end != deadline {
			t.Errorf("%s: End() = %v, %v, want Deadline() %v", c.name, end, ok, deadline)
		}
		cancel()
	}
}

func TestB2TheDeadlineIsTheSameForWhoeverReadsIt(t *testing.T) {
	ctx, cancel := Start(context.Background(), time.Now().Add(time.Hour).Round(0))
	defer cancel()
	first, _ := ctx.Deadline()
	child, cancelChild := context.WithCancel(ctx)
	defer cancelChild()
	if second, _ := child.Deadline(); second != first {
		t.Errorf("a child's Deadline() = %v, want the parent's %v", second, first)
	}
}

// wallDeadline has a deadline without a monotonic reading, and no timer.
type wallDeadline struct {
	context.Context
	at time.Time
}

func (c wallDeadline) Deadline() (time.Time, bool) { return c.at.Round(0), true }

func TestB12AForeignWallDeadlineIsNotAskedInAnOperation(t *testing.T) {
	ctx, cancel := For(t.Context(), time.Hour)
	defer cancel()
	soon := time.Now().Add(time.Minute)
	if left, ok := remaining(wallDeadline{ctx, soon}); left < 59*time.Minute || !ok {
		t.Errorf("remaining in a budget of 1h = %v, %v, want the budget's", left, ok)
	}
	if left, ok := remaining(wallDeadline{t.Context(), soon}); left > time.Minute || !ok {
		t.Errorf("remaining without a budget = %v, %v, want 1m", left, ok)
	}
}
