package budget

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A suspended machine's wall clock goes on and its monotonic clock does not, which a step forwards shows as well.
func TestA54_ASuspendIsShownToWhoAsks(t *testing.T) {
	h := takeHands(t)
	ctx, cancel := For(context.Background(), time.Minute)
	defer cancel()
	h.pass(10 * time.Second)
	if got := From(ctx).Ledger().Skew(h.mono); got != 0 {
		t.Errorf("Skew = %v while both clocks went alike, want 0", got)
	}
	h.step(2 * time.Hour)
	h.pass(5 * time.Second)
	inner, cancelInner := For(ctx, time.Minute)
	defer cancelInner()
	h.pass(5 * time.Second)
	for _, b := range []Budget{From(ctx), From(inner)} {
		if got := b.Ledger().Skew(h.mono); got != 2*time.Hour {
			t.Errorf("Skew = %v after a suspend of 2h", got)
		}
		if got := b.Remaining(); got != 40*time.Second {
			t.Errorf("a suspend of 2h leaves %v of 1m after 20s awake, want 40s", got)
		}
	}
	h.step(-3 * time.Hour)
	if got := From(ctx).Ledger().Skew(h.mono); got != -time.Hour {
		t.Errorf("Skew = %v after the clock was set back behind, want -1h", got)
	}
	h.pass(time.Minute)
	var spent *Exhausted
	if err := From(ctx).Afford(1); !errors.As(err, &spent) || spent.Ledger().Skew(h.mono) != -time.Hour {
		t.Errorf("the ledger of %v does not show the skew", err)
	}
	if got := (Ledger{}).Skew(h.mono); got != 0 {
		t.Errorf("Skew = %v without a budget, want 0", got)
	}
}

func TestA55_TheSkewIsOfTheWallAlthoughBothTimesHaveMonotonicReadings(t *testing.T) {
	h := takeHands(t)
	ctx, cancel := For(context.Background(), time.Minute)
	defer cancel()
	h.step(time.Hour)
	l := From(ctx).Ledger()
	if !monotonic(l.Start) || !monotonic(h.mono) || h.mono.Sub(l.Start) != 0 {
		t.Fatalf("from %v to %v, both with a monotonic reading, package time counts %v, want 0", l.Start, h.mono, h.mono.Sub(l.Start))
	}
	if got := l.Skew(h.mono); got != time.Hour {
		t.Errorf("Skew = %v, want 1h", got)
	}
}

// A mutex that a waiter held would stop the time of a bubble for good, so it is asked for without waiting.
func TestA65_NobodyWaitsUnderTheLedgersLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		ended := make(chan time.Duration, 3)
		for _, d := range []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute} {
			go func() {
				ctx, end := Phase(ctx, "retry")
				defer end()
				if err := Wait(ctx, d); err != nil {
					t.Errorf("Wait(%v) on 1h = %v", d, err)
				}
				ended <- time.Since(start)
			}()
		}
		synctest.Wait()
		lock := &scopeOf(ctx).acct.root.mu
		if !lock.TryLock() {
			t.Fatal("the lock is held while everybody waits")
		}
		lock.Unlock()
		want := []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute}
		if got := []time.Duration{<-ended, <-ended, <-ended}; !slices.Equal(got, want) {
			t.Errorf("the waits took %v, want %v", got, want)
		}
	})
}
