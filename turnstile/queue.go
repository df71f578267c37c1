package turnstile

import (
	"iter"
	"math"
	"math/bits"
	"time"
)

// anchor is the origin of the one scale on which ages are compared. Since.Sub(anchor) is monotonic for a Since that has such a
// reading and wall time for one that has none; either way it is a number, fixed when it is taken. So equal times stay equal
// and the order is transitive in any mixture, which neither time.Time.Compare nor a conversion against "now" gives.
var anchor = time.Now()

// offset places x on the scale.
func offset(x time.Time) time.Duration { return x.Sub(anchor) }

// now is the present on the scale.
func now() time.Duration { return time.Since(anchor) }

// place is where a claim stands: the lexicographic order of its four fields, never equal for two waiters.
type place struct {
	major, minor int64
	seq          uint32
	arrival      uint64
}

// placeOf is where claim stands but for its arrival: by band and then age, or with a head start by age moved by the band and then
// band.
func placeOf(claim Claim, headStart time.Duration) place {
	age, band := int64(offset(claim.Since)), int64(claim.Priority)
	p := place{major: band, minor: age, seq: claim.Seq}
	if headStart > 0 {
		p.major, p.minor = saturatingAdd(age, saturatingMul(band, int64(headStart))), band
	}
	return p
}

func (p *place) before(q *place) bool {
	switch {
	case p.major != q.major:
		return p.major < q.major
	case p.minor != q.minor:
		return p.minor < q.minor
	case p.seq != q.seq:
		return p.seq < q.seq
	}
	return p.arrival < q.arrival
}

func saturatingAdd(a, b int64) int64 {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	}
	return sum
}

// saturatingMul is a*b for b > 0.
func saturatingMul(a, b int64) int64 {
	abs := uint64(a)
	if a < 0 {
		abs = -abs
	}
	hi, lo := bits.Mul64(abs, uint64(b))
	switch {
	case hi == 0 && lo <= math.MaxInt64 && a >= 0:
		return int64(lo)
	case hi == 0 && lo <= math.MaxInt64:
		return -int64(lo)
	case a < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

// line is a heap of the waiters: the child of i are 4i+1 to 4i+4. Four children instead of two halve the depth, and the places
// lie in the slice itself, so that a comparison reads no waiter.
type line []entry

type entry struct {
	place
	w *waiter
}

const arity = 4

func (l *line) push(p place, w *waiter) {
	*l = append(*l, entry{p, w})
	w.at = len(*l) - 1
	l.up(w.at)
}

// pop removes the first waiter, nil if there is none.
func (l *line) pop() *waiter {
	if len(*l) == 0 {
		return nil
	}
	w := (*l)[0].w
	l.remove(0)
	return w
}

func (l *line) remove(i int) {
	h := *l
	n := len(h) - 1
	last := h[n]
	h[n] = entry{}
	*l = h[:n]
	if i == n {
		return
	}
	h[i] = last
	last.w.at = i
	l.fix(i)
}

// move gives the waiter at i a new place.
func (l *line) move(i int, p place) {
	(*l)[i].place = p
	l.fix(i)
}

func (l *line) fix(i int) {
	if !l.down(i) {
		l.up(i)
	}
}

func (l *line) up(i int) {
	h := *l
	e := h[i]
	for i > 0 {
		parent := (i - 1) / arity
		if !e.before(&h[parent].place) {
			break
		}
		h[i] = h[parent]
		h[i].w.at = i
		i = parent
	}
	h[i] = e
	e.w.at = i
}

// down reports whether it moved anything.
func (l *line) down(i int) bool {
	h := *l
	e, start := h[i], i
	for {
		first := arity*i + 1
		if first >= len(h) {
			break
		}
		best := first
		for c := first + 1; c < min(first+arity, len(h)); c++ {
			if h[c].before(&h[best].place) {
				best = c
			}
		}
		if !h[best].before(&e.place) {
			break
		}
		h[i] = h[best]
		h[i].w.at = i
		i = best
	}
	h[i] = e
	e.w.at = i
	return i != start
}

// drain empties the line in order.
func (l *line) drain() iter.Seq[*waiter] {
	return func(yield func(*waiter) bool) {
		for w := l.pop(); w != nil && yield(w); w = l.pop() {
		}
	}
}
