package turnstile

import (
	"testing"
	"time"
)

func TestBeforeIsTheOrderOfTheLine(t *testing.T) {
	start := time.Now()
	at := func(band int, age time.Duration) Claim { return Claim{Priority: band, Since: start.Add(-age)} }
	strict, ageing := New(1), NewWith(1, Options{HeadStart: 10 * time.Second})
	for _, c := range []struct {
		a, b           Claim
		strict, ageing bool
	}{
		{at(0, 0), at(1, 0), true, true},
		{at(0, 0), at(1, 9*time.Second), true, true},
		{at(0, 0), at(1, 11*time.Second), true, false},
		{at(1, time.Second), at(1, 0), true, true},
		{Claim{Since: start, Seq: 1}, Claim{Since: start, Seq: 2}, true, true},
	} {
		if got := strict.Before(c.a, c.b); got != c.strict {
			t.Errorf("strict bands: Before(%v, %v) = %v, want %v", c.a, c.b, got, c.strict)
		}
		if got := ageing.Before(c.a, c.b); got != c.ageing {
			t.Errorf("head start of 10s: Before(%v, %v) = %v, want %v", c.a, c.b, got, c.ageing)
		}
		if strict.Before(c.b, c.a) == c.strict || strict.Before(c.a, c.a) {
			t.Errorf("strict bands: not an order for %v and %v", c.a, c.b)
		}
	}
}
