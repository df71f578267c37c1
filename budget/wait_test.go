package budget

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestB6WaitTakesExactlyThatLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if err := Wait(ctx, time.Minute-1); err != nil {
			t.Errorf("Wait(1m - 1ns) on 1m = %v, want nil", err)
		}
		if got := time.Since(start); got != time.Minute-1 {
			t.Errorf("it took %v, want 1m - 1ns", got)
		}
	})
}

// A31, A37, A52, A60
func TestB6AWaitThatDoesNotFitIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{time.Minute, time.Minute + 1, time.Hour, 1<<63 - 1} {
			ctx, cancel := For(t.Context(), time.Minute)
			ctx, _ = Phase(ctx, "retry")
			busy := errors.New("503 from the board")
			From(ctx).Note(busy)
			start := time.Now()
			err := Wait(ctx, d)
			if took := time.Since(start); took != 0 {
				t.Errorf("Wait(%v) on 1m took %v, want no time", d, took)
			}
			var e *Exhausted
			if !errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, busy) {
				t.Fatalf("Wait(%v) = %v, want an Exhausted with the last real error", d, err)
			}
			if asked, left, ok := e.Refused(); asked != d || left != time.Minute || !ok {
				t.Errorf("Refused() = %v, %v, %v, want %v, 1m, true", asked, left, ok, d)
			}
			for _, part := range []string{"1m0s left of 1m0s", "in retry", busy.Error()} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("Error() = %q does not say %q", err, part)
				}
			}
			if ctx.Err() != nil {
				t.Errorf("a refusal ended the operation: %v", ctx.Err())
			}
			cancel()
		}
	})
}

// A32
func TestB6WaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		err := Wait(ctx, 30*time.Second)
		if err != context.Canceled || time.Since(start) != time.Second {
			t.Errorf("Wait = %v after %v, want Canceled after 1s", err, time.Since(start))
		}
	})
}

// A46
func TestB6WaitReportsTheCauseOfACancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quit := errors.New("client left")
		ctx, cancelCause := context.WithCancelCause(t.Context())
		ctx, cancel := For(ctx, time.Minute)
		defer cancel()
		time.AfterFunc(time.Second, func() { cancelCause(quit) })
		err := Wait(ctx, 30*time.Second)
		if !errors.Is(err, quit) || !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait = %v, want both Canceled and its cause", err)
		}
	})
}

// A39
func TestB6AnAttemptsOwnTimeOutIsNotTheBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), time.Minute)
		defer cancel()
		slow := errors.New("attempt took too long")
		attempt, cancelAttempt := context.WithTimeoutCause(ctx, time.Second, slow)
		defer cancelAttempt()
		time.Sleep(time.Second)
		synctest.Wait()
		err := Wait(attempt, time.Second)
		var e *Exhausted
		if !errors.Is(err, slow) || !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &e) {
			t.Errorf("Wait = %v, want the attempt's own cause", err)
		}
		if err := Wait(ctx, time.Second); err != nil {
			t.Errorf("the budget ended with the attempt: %v", err)
		}
	})
}

func TestB6WaitKnowsAnEarlierDeadlineOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, cancel := For(t.Context(), time.Minute)
		defer cancel()
		for _, parent := range []context.Context{t.Context(), outer} {
			ctx, cancelTimeout := context.WithTimeout(parent, time.Second)
			defer cancelTimeout()
			start := time.Now()
			err := Wait(ctx, 2*time.Second)
			var e *Exhausted
			if !errors.As(err, &e) || time.Since(start) != 0 {
				t.Fatalf("Wait = %v after %v, want a refusal at once", err, time.Since(start))
			}
			if _, left, ok := e.Refused(); left != time.Second || !ok {
				t.Errorf("Refused() says %v left, want 1s", left)
			}
		}
	})
}

func TestB6AWaitOfNothingOnlyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), time.Second)
		for _, d := range []time.Duration{0, -1} {
			if err := Wait(ctx, d); err != nil {
				t.Errorf("Wait(%v) = %v, want nil", d, err)
			}
		}
		cancel()
		if err := Wait(ctx, 0); err != context.Canceled {
			t.Errorf("Wait(0) after cancel = %v, want Canceled", err)
		}
	})
}

func TestB6TheClockIsAskedAgainAfterTheWait(t *testing.T) {
	h := takeHands(t)
	ctx, cancel := For(t.Context(), time.Minute)
	defer cancel()
	read := since
	asked := 0
	since = func(start time.Time) time.Duration {
		if asked++; asked == 3 { // before the wait, to see what is left, and now after it
			h.pass(time.Hour)
		}
		return read(start)
	}
	if err := Wait(ctx, time.Nanosecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait = %v, want the end that has passed meanwhile", err)
	}
}

// A53: time.Timer has no counter; a goroutine or a callback left behind would show.
func TestB9AWaitLeavesNothingBehind(t *testing.T) {
	ctx, cancel := For(context.Background(), time.Hour)
	cancel()
	before := runtime.NumGoroutine()
	for range 1000 {
		Wait(ctx, time.Minute)
	}
	if got := runtime.NumGoroutine() - before; got > 0 {
		t.Errorf("1,000 waits left %d goroutines", got)
	}
	live, cancelLive := For(context.Background(), time.Hour)
	defer cancelLive()
	if got := testing.AllocsPerRun(100, func() { Wait(live, time.Nanosecond) }); got > 4 {
		t.Errorf("a wait allocates %v times, want one timer", got)
	}
}

// A38
func TestB7AffordRefusesWhatCannotFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), time.Minute)
		defer cancel()
		b := From(ctx)
		time.Sleep(20 * time.Second)
		for _, d := range []time.Duration{-1, 0, time.Second, 40 * time.Second} {
			if err := b.Afford(d); err != nil {
				t.Errorf("Afford(%v) with 40s left = %v, want nil", d, err)
			}
		}
		var e *Exhausted
		if err := b.Afford(40*time.Second + 1); !errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Afford(40s + 1ns) with 40s left = %v, want a refusal", err)
		}
		if asked, left, ok := e.Refused(); asked != 40*time.Second+1 || left != 40*time.Second || !ok {
			t.Errorf("Refused() = %v, %v, %v", asked, left, ok)
		}
		<-ctx.Done()
		if err := b.Afford(0); err != context.Cause(ctx) {
			t.Errorf("Afford(0) after the end = %v, want the cause of the context", err)
		}
	})
}

// A35, A36, A33: attempts have their own, shorter time; the end outlives them all and comes once.
func TestRetriesDoNotMoveTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), 10*time.Second)
		defer cancel()
		start, attempts := time.Now(), 0
		var err error
		for err == nil {
			attempts++
			attempt, cancelAttempt := For(ctx, 2*time.Second)
			end := From(attempt).Phase("attempt")
			<-attempt.Done()
			end()
			cancelAttempt()
			wait, endWait := Phase(ctx, "retry")
			err = Wait(wait, time.Second)
			endWait()
		}
		// 2+1, 2+1, 2+1, and 1 of the fourth attempt
		if attempts != 4 || time.Since(start) != 10*time.Second {
			t.Errorf("%d attempts in %v, want 4 in 10s", attempts, time.Since(start))
		}
		if err != context.Cause(ctx) {
			t.Errorf("the loop ended with %v, want the budget's cause %v", err, context.Cause(ctx))
		}
		for range 3 {
			if again := Wait(ctx, time.Second); again != err {
				t.Errorf("Wait after the end = %v, want the same error", again)
			}
		}
		if got, want := From(ctx).Ledger().String(), "attempt 7s, retry 3s of 10s"; got != want {
			t.Errorf("Ledger() = %q, want %q", got, want)
		}
	})
}
