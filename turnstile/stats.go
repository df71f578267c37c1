package turnstile

import (
	"math/bits"
	"slices"
	"time"
)

// Stats is one look at a turnstile. The gauges are of that moment; the counters are since it was made.
type Stats struct {
	Size      int // passes there are
	Available int // passes that are free; negative while more are held than Size
	Held      int // passes that are out
	Waiting   int // in line

	Granted   uint64 // passes issued, from the line or not
	Queued    uint64 // passes issued from the line
	Cancelled uint64 // left the line because their context was done
	Doomed    uint64 // passed over for having too little time left
	Unordered uint64 // turns of the package's WaitTurn and of Gate that got no pass here
	Nested    uint64 // waits in this line of a job that held a pass, of this turnstile or of another, by its context
	Stray     uint64 // returns that gave nothing back: second ones, and those of old copies
	Closed    bool
}

// counts are the counters that change under mu only.
type counts struct{ queued, cancelled, doomed, nested uint64 }

// Stats is the present state, taken under one lock. Passes that are given back during the call may be counted either way.
func (t *Turnstile) Stats() Stats {
	t.mustBeMade()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Stats{
		Size:      t.size,
		Available: t.availableLocked(),
		Waiting:   t.line.len(),
		Queued:    t.counts.queued,
		Cancelled: t.counts.cancelled,
		Doomed:    t.counts.doomed,
		Unordered: t.unordered.Load(),
		Nested:    t.counts.nested,
		Stray:     t.stray.Load(),
		Closed:    t.closed,
	}
	s.Held = s.Size - s.Available
	// A slot's generation counts the passes of that slot that have been returned: the free path needs no counter.
	s.Granted = uint64(s.Held)
	for i := range t.fast {
		s.Granted += t.fast[i].genLocked()
	}
	for _, l := range t.rest {
		s.Granted += l.genLocked()
	}
	return s
}

func (t *Turnstile) availableLocked() int {
	return bits.OnesCount64(t.word.Load()&freeMask) + t.reserve - t.debt
}

// A Waiter is one in line, as Line saw it.
type Waiter struct {
	Claim     Claim
	Age       time.Duration // since it entered the line
	Remaining time.Duration // until its end, if Ends; negative once that is over
	Ends      bool
}

// Line is who waits, in the order in which they would be served, at most max of them. It copies the line under the lock and sorts
// outside it.
func (t *Turnstile) Line(max int) []Waiter {
	t.mustBeMade()
	if max <= 0 {
		return nil
	}
	type seen struct {
		place
		Waiter
	}
	at := now()
	t.mu.Lock()
	all := make([]seen, 0, t.line.len())
	for e := range t.line.all() {
		w := e.w
		all = append(all, seen{e.place, Waiter{Claim: w.claim, Age: at - w.entered, Remaining: w.until - at, Ends: w.ends}})
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b seen) int {
		if a.before(&b.place) {
			return -1
		}
		return 1
	})
	out := make([]Waiter, 0, min(len(all), max))
	for _, s := range all[:cap(out)] {
		if !s.Ends {
			s.Remaining = 0
		}
		out = append(out, s.Waiter)
	}
	return out
}
