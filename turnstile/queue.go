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

// line is the waiters. Those that come in order, the rule where jobs take their turns as they begin, stand in a run, a queue at
// whose ends everything happens; the others are in a heap. The first of all is the first of the two. So a line of n costs O(1)
// while it is in order and O(log n) else, and taking somebody out of its middle no more.
type line struct {
	run  run
	heap heap
}

type entry struct {
	place
	w *waiter
}

func (l *line) len() int { return l.run.live + len(l.heap) }

func (l *line) push(p place, w *waiter) {
	if w.inRun = l.run.takes(&p); w.inRun {
		l.run.push(entry{p, w})
		return
	}
	l.heap.push(entry{p, w})
}

// pop removes the first waiter, nil if there is none.
func (l *line) pop() *waiter {
	var w *waiter
	switch r, h := l.run.first(), l.heap; {
	case r == nil && len(h) == 0:
		return nil
	case r == nil, len(h) > 0 && h[0].before(&r.place):
		w = h[0].w
	default:
		w = r.w
	}
	l.remove(w)
	return w
}

func (l *line) remove(w *waiter) {
	if w.inRun {
		l.run.remove(uint(w.at))
		return
	}
	l.heap.remove(w.at)
}

// all is everybody, in no order.
func (l *line) all() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for i := l.run.head; i != l.run.tail; i++ {
			if e := *l.run.at(i); e.w != nil && !yield(e) {
				return
			}
		}
		for _, e := range l.heap {
			if !yield(e) {
				return
			}
		}
	}
}

// maxKept is the length up to which an empty run or heap keeps its memory for the next waiters.
const maxKept = 1024

// run is a queue whose places ascend, in a ring whose length is a power of two: number i is in ring[i%len(ring)], so nothing moves
// when the head goes. One who leaves from the middle leaves a gap, an entry without a waiter.
//
//	head <= i < tail; head and tail-1, if they are not the same number, have waiters
//	live = the numbers from head on that have a waiter
type run struct {
	ring       []entry
	head, tail uint
	live       int
}

func (r *run) at(i uint) *entry { return &r.ring[i&uint(len(r.ring)-1)] }

// takes reports whether p would be the last of the run.
func (r *run) takes(p *place) bool {
	return r.head == r.tail || !p.before(&r.at(r.tail-1).place)
}

func (r *run) push(e entry) {
	if int(r.tail-r.head) == len(r.ring) {
		r.makeRoom()
	}
	e.w.at = int(r.tail)
	*r.at(r.tail) = e
	r.tail++
	r.live++
}

func (r *run) first() *entry {
	if r.live == 0 {
		return nil
	}
	return r.at(r.head)
}

func (r *run) remove(i uint) {
	r.at(i).w = nil
	r.live--
	for r.head != r.tail && r.at(r.head).w == nil {
		r.head++
	}
	for r.head != r.tail && r.at(r.tail-1).w == nil {
		r.tail--
	}
	if r.live == 0 && len(r.ring) > maxKept {
		*r = run{}
	}
}

// makeRoom closes the gaps if they are half of the ring, which is paid for by those who left them, or doubles the ring.
func (r *run) makeRoom() {
	if r.live > len(r.ring)/2 || len(r.ring) == 0 {
		wider := run{ring: make([]entry, max(8, 2*len(r.ring)))}
		for i := r.head; i != r.tail; i++ {
			*wider.at(i) = *r.at(i)
		}
		r.ring = wider.ring
		return
	}
	end := r.head
	for i := r.head; i != r.tail; i++ {
		e := *r.at(i)
		if e.w == nil {
			continue
		}
		r.at(i).w = nil
		e.w.at = int(end)
		*r.at(end) = e
		end++
	}
	r.tail = end
}

// heap has the first at its root; the children of i are 4i+1 to 4i+4. Four instead of two halve the depth, and the places lie in
// the slice itself, so that a comparison reads no waiter.
type heap []entry

const arity = 4

func (l *heap) push(e entry) {
	*l = append(*l, e)
	l.up(len(*l) - 1)
}

func (l *heap) remove(i int) {
	h := *l
	n := len(h) - 1
	last := h[n]
	h[n] = entry{}
	*l = h[:n]
	if i == n {
		if n == 0 && cap(h) > maxKept {
			*l = nil
		}
		return
	}
	h[i] = last
	if !l.down(i) {
		l.up(i)
	}
}

func (l *heap) up(i int) {
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
func (l *heap) down(i int) bool {
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
