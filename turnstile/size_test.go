package turnstile

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestT11_MorePassesThanUnitsTradeOrderForUse is the measurement of the package comment, in the bubble's time.
func TestT11_MorePassesThanUnitsTradeOrderForUse(t *testing.T) {
	for _, c := range []struct {
		passes   int
		use      float64
		min, max time.Duration
	}{
		{4, 0.83, 190 * time.Microsecond, 290 * time.Microsecond},
		{5, 0.95, 240 * time.Microsecond, 340 * time.Microsecond},
		{6, 0.99, 370 * time.Microsecond, 500 * time.Microsecond},
		{8, 1.00, 850 * time.Microsecond, 1050 * time.Microsecond},
	} {
		use, wait := simulate(t, c.passes)
		t.Logf("%d passes: units in use %.2f, the best claim waits %v", c.passes, use, wait)
		if math.Abs(use-c.use) > 0.015 || wait < c.min || wait > c.max {
			t.Errorf("%d passes: use %.2f, wait %v, want %.2f, %v to %v", c.passes, use, wait, c.use, c.min, c.max)
		}
	}
}

// simulate keeps 40 workers on a resource of 4 units for 4 seconds, and asks now and then with the best claim. It reports the part
// of the units' time that is used, and how long the best claim waits for a unit on average.
func simulate(t *testing.T, passes int) (use float64, wait time.Duration) {
	const units, between, span = 4, 200 * time.Microsecond, 4 * time.Second
	synctest.Test(t, func(t *testing.T) {
		ts := New(passes)
		unit := make(chan struct{}, units)
		used := make(chan time.Duration)
		ctx, cancel := context.WithTimeout(t.Context(), span)
		defer cancel()
		turn := func(claim Claim, use time.Duration) (waited time.Duration, ok bool) {
			start := time.Now()
			pass, ok := ts.WaitTurn(ctx, claim)
			if !ok {
				return 0, false
			}
			unit <- struct{}{}
			waited = time.Since(start)
			time.Sleep(use)
			<-unit
			time.Sleep(between)
			pass.Return()
			return waited, true
		}
		for i := range 40 {
			r := rand.New(rand.NewPCG(uint64(i), 0))
			go func() {
				sum := time.Duration(0)
				for {
					d := 500*time.Microsecond + time.Duration(r.IntN(1_000_000))
					if _, ok := turn(NewClaim(1), d); !ok {
						used <- sum
						return
					}
					sum += d
				}
			}()
		}
		r, asked := rand.New(rand.NewPCG(0, 1)), 0
		for {
			time.Sleep(5*time.Millisecond + time.Duration(r.IntN(10_000_000)))
			waited, ok := turn(NewClaim(0), time.Millisecond)
			if !ok {
				break
			}
			wait += waited
			asked++
		}
		sum := time.Duration(asked) * time.Millisecond
		for range 40 {
			sum += <-used
		}
		use = float64(sum) / float64(units*span)
		wait /= time.Duration(asked)
	})
	return use, wait
}
