//go:build unix

package local

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var errNotYet = errors.New("nothing listens")

// probed runs probe against a program that is ready after start, and returns
// when it was tried and how long each pause was.
func probed(ctx context.Context, start time.Duration) (tries, pauses []time.Duration, err error) {
	began := time.Now()
	err = probe(ctx, func(error) error {
		now := time.Since(began)
		if len(tries) > 0 {
			pauses = append(pauses, now-tries[len(tries)-1])
		}
		tries = append(tries, now)
		if now < start {
			return errNotYet
		}
		return nil
	})
	return tries, pauses, err
}

func TestR28_AStartIsNoticedWithinAStepOfAtMost25ms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, start := range []time.Duration{
			0, 1, 500 * time.Microsecond, 10 * time.Millisecond, 63 * time.Millisecond, 100 * time.Millisecond, 777 * time.Millisecond,
			1500 * time.Millisecond, 1599 * time.Millisecond, 3350 * time.Millisecond, 7810 * time.Millisecond, time.Minute,
		} {
			tries, _, err := probed(t.Context(), start)
			late := tries[len(tries)-1] - start
			if most := min(max(start/64, time.Millisecond), 25*time.Millisecond); err != nil || late > most {
				t.Errorf("a start of %v is noticed %v late (%v), want at most %v", start, late, err, most)
			}
		}
	})
}

func TestR28_TheStepsOfProbesGrowWithTheStartAndAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, pauses, _ := probed(t.Context(), 5*time.Second)
		for i, pause := range pauses {
			if want := min(max(tries[i]/64, time.Millisecond), 25*time.Millisecond); pause != want {
				t.Fatalf("the pause after %v is %v, want %v", tries[i], pause, want)
			}
		}
		if first, last := pauses[0], slices.Max(pauses); first != time.Millisecond || last != 25*time.Millisecond {
			t.Errorf("pauses go from %v to %v, want 1 ms to 25 ms", first, last)
		}
	})
}

func TestAProbeEndsWithItsContextAndSaysWhatWasSeenLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, _, err := probed(ctx, time.Hour)
		if took := time.Since(began); !errors.Is(err, errNotYet) || took != time.Second {
			t.Errorf("probe = %v after %v, want %v after 1s", err, took, errNotYet)
		}
	})
}
