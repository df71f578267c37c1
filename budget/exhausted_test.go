package budget

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// cause waits for the end of ctx and returns its Exhausted.
func cause(t *testing.T, ctx context.Context) *Exhausted {
	t.Helper()
	<-ctx.Done()
	var e *Exhausted
	if !errors.As(context.Cause(ctx), &e) {
		t.Fatalf("Cause = %v, want an Exhausted", context.Cause(ctx))
	}
	return e
}

// A34, A60
func TestB8ExhaustedIsTheCauseAndSaysEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), 2*time.Second)
		defer cancel()
		line := From(ctx).Phase("line")
		time.Sleep(time.Second)
		line()
		refused := errors.New("connection refused")
		From(ctx).Note(fmt.Errorf("attempt: %w", refused))
		waking, wake := Phase(ctx, "wake")
		probe := From(waking).Phase("probe")
		<-ctx.Done()
		probe() // before anybody asks
		wake()
		time.Sleep(time.Second)

		e := cause(t, ctx)
		if !errors.Is(e, context.DeadlineExceeded) || !errors.Is(e, refused) || errors.Is(e, context.Canceled) {
			t.Errorf("%v is not both DeadlineExceeded and the real error", e)
		}
		if ctx.Err() != context.DeadlineExceeded {
			t.Errorf("Err() = %v, want the standard one", ctx.Err())
		}
		if got := e.Phases(); !slices.Equal(got, []string{"wake", "probe"}) {
			t.Errorf("Phases() = %q, want wake, probe", got)
		}
		if _, _, ok := e.Refused(); ok {
			t.Error("Refused() says that something was refused")
		}
		if l := e.Ledger(); l.Spent != 2*time.Second || l.Limit != 2*time.Second || len(l.Phases) != 3 {
			t.Errorf("Ledger() = %+v", l)
		}
		want := "budget: 2s spent in wake/probe (line 1s, wake 1s (probe 1s) of 2s); last error: attempt: connection refused"
		if e.Error() != want {
			t.Errorf("Error() = %q\n      want %q", e, want)
		}
		var timeout net.Error
		if !errors.As(error(e), &timeout) || !timeout.Timeout() {
			t.Error("it is no net.Error that timed out")
		}
	})
}

func TestB8PhasesSideBySideAreAllNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), time.Second)
		defer cancel()
		for _, board := range []string{"ashby", "lever"} {
			ctx, end := Phase(ctx, board)
			defer end()
			defer From(ctx).Phase("attempt")()
			time.Sleep(time.Millisecond)
		}
		e := cause(t, ctx)
		if got := e.Phases(); !slices.Equal(got, []string{"ashby", "attempt", "lever", "attempt"}) {
			t.Errorf("Phases() = %q", got)
		}
		want := "budget: 1s spent in ashby/attempt, lever/attempt (ashby 1s (attempt 1s), lever 999ms (attempt 999ms) of 1s)"
		if e.Error() != want {
			t.Errorf("Error() = %q\n      want %q", e, want)
		}
	})
}

func TestB8ItIsFrozenByTheFirstWhoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		end := From(ctx).Phase("attempt")
		<-ctx.Done()
		// Not yet asked: what is recorded late still counts.
		From(ctx).Record("line", start, time.Now())
		first := cause(t, ctx).Error()
		From(ctx).Record("wake", start, time.Now())
		From(ctx).Note(errors.New("too late"))
		end()
		From(ctx).Phase("cleanup")()
		if second := cause(t, ctx).Error(); second != first {
			t.Errorf("it changed from\n%q to\n%q", first, second)
		}
		if want := "budget: 1s spent in attempt, line (attempt 1s, line 1s of 1s)"; first != want {
			t.Errorf("Error() = %q, want %q", first, want)
		}
	})
}

func TestB8EveryoneWhoAsksAtOnceHearsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		said := make([]string, 8)
		for i := range said {
			end := From(ctx).Phase(fmt.Sprint("board", i))
			all.Go(func() {
				defer end()
				<-ctx.Done()
				said[i] = context.Cause(ctx).Error()
			})
		}
		all.Wait()
		if same := slices.Compact(said); len(same) != 1 {
			t.Errorf("%d answers: %q", len(same), same)
		}
	})
}

// A59
func TestB8AnswersComeFromTheClockWhenTheTimerIsLate(t *testing.T) {
	h := takeHands(t)
	ctx, cancel := For(t.Context(), time.Hour)
	defer cancel()
	b := From(ctx)
	end := b.Phase("line")
	h.pass(time.Hour)
	if ctx.Err() != nil {
		t.Fatal("the timer is not late")
	}
	if got := b.Remaining(); got != 0 {
		t.Errorf("Remaining() = %v, want 0", got)
	}
	afford, wait, write := b.Afford(0), Wait(ctx, 0), WriteHeaders(ctx, map[string][]string{})
	if afford == nil || afford != wait || afford != write {
		t.Errorf("Afford = %v, Wait = %v, WriteHeaders = %v, want one error", afford, wait, write)
	}
	b.Phase("after")()
	end()
	var e *Exhausted
	if !errors.As(wait, &e) || !slices.Equal(e.Phases(), []string{"line"}) || len(e.Ledger().Phases) != 1 {
		t.Errorf("the error is %v, want the line alone", wait)
	}
}

func TestB8ACancelStaysACancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), time.Second)
		cancel()
		time.Sleep(time.Minute)
		if ctx.Err() != context.Canceled || context.Cause(ctx) != context.Canceled || Wait(ctx, 0) != context.Canceled {
			t.Errorf("Err() = %v, Cause = %v, Wait = %v, want Canceled", ctx.Err(), context.Cause(ctx), Wait(ctx, 0))
		}
	})
}

// A40
func TestB8OneEndHasOneError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deadline := time.Now().Add(time.Second)
		outer, cancel := Start(t.Context(), deadline)
		defer cancel()
		inner, cancelInner := Start(outer, deadline)
		defer cancelInner()
		innermost, cancelInnermost := For(inner, time.Hour)
		defer cancelInnermost()
		child, cancelChild := context.WithTimeout(innermost, time.Minute)
		defer cancelChild()
		want := cause(t, outer)
		for _, ctx := range []context.Context{inner, innermost, child} {
			if got := cause(t, ctx); got != want {
				t.Errorf("Cause = %p, want the outer one's %p", got, want)
			}
			if got := From(ctx).Afford(0); got != error(want) {
				t.Errorf("Afford = %v, want the outer one's", got)
			}
		}
	})
}

func TestNoteKeepsWhatReallyWentWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		real, worse := errors.New("503"), errors.New("502")
		timeout := fmt.Errorf("read: %w", context.DeadlineExceeded)
		for _, c := range []struct {
			name  string
			notes []error
			want  error
		}{
			{"nothing", nil, nil},
			{"nil", []error{nil}, nil},
			{"the last", []error{real, worse}, worse},
			{"not nil", []error{real, nil}, real},
			{"not a cancel", []error{real, fmt.Errorf("read: %w", context.Canceled)}, real},
			{"not a time-out, when there is better", []error{real, timeout}, real},
			{"a time-out, when there is nothing else", []error{timeout}, timeout},
			{"a real error after a time-out", []error{timeout, real}, real},
		} {
			outer, cancel := For(t.Context(), time.Second)
			inner, cancelInner := For(outer, time.Millisecond)
			for _, err := range c.notes {
				From(inner).Note(err)
			}
			for _, ctx := range []context.Context{inner, outer} {
				if got := cause(t, ctx).Last(); got != c.want {
					t.Errorf("%s: Last() = %v, want %v", c.name, got, c.want)
				}
			}
			cancelInner()
			cancel()
		}
	})
}

func TestNoteNeverMakesARingOfErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, cancel := For(t.Context(), time.Second)
		defer cancel()
		one, cancelOne := For(outer, time.Millisecond)
		defer cancelOne()
		two, cancelTwo := For(outer, time.Millisecond)
		defer cancelTwo()
		eOne, eTwo := cause(t, one), cause(t, two)
		// None of them has been asked for anything yet.
		From(one).Note(fmt.Errorf("two: %w", eTwo))
		From(two).Note(errors.Join(errors.New("and"), fmt.Errorf("one: %w", eOne)))
		From(one).Note(eOne)
		From(outer).Note(eOne)
		eOuter := cause(t, outer)
		From(one).Note(eOuter)
		From(outer).Note(eOuter)
		for _, e := range []*Exhausted{eOne, eTwo, eOuter} {
			if errors.Is(e, net.ErrClosed) { // walks the whole tree
				t.Errorf("%v is something that nobody noted", e)
			}
			_ = e.Error()
		}
		if eOuter.Last() == nil {
			t.Error("the inner budget's end was not kept as the outer one's last error")
		}
	})
}

func TestAnExhaustedSurvivesWrappingByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), time.Second)
		defer cancel()
		err := fmt.Errorf("get page 3: %w", cause(t, ctx))
		var e *Exhausted
		if !errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v lost its kind", err)
		}
	})
}
