package budget

import (
	"slices"
	"time"
)

const (
	keptSpans = 64 // spans that a phase keeps for a waterfall
	keptCover = 64 // separate stretches of a phase that can still grow together
)

// node is what the ledger holds of one phase. Times count from the root's start.
//
//	elapsed   = length of the union of all closed spans before opened
//	opened    = start of the stretch in progress, while running > 0
//	cover     = the latest stretches of that union: sorted, apart, none reaching past opened
type node struct {
	name  string
	outer *node // the same phase in the budget outside
	kids  *node
	next  *node

	count   int
	running int
	overran int // ended, but not before the budget's end

	first, last time.Duration
	sum         time.Duration // of closed spans
	starts      time.Duration // sum of the starts of running spans
	opened      time.Duration
	elapsed     time.Duration
	settled     time.Duration // nothing before it is added to elapsed any more

	cover []stretch
	spans []stretch // in the order booked; to < from: running
}

type stretch struct{ from, to time.Duration }

const unfinished = -1

func (n *node) open(from time.Duration) {
	if n.running == 0 {
		n.opened = from
	}
	n.running++
	n.starts += from
	n.book(from, unfinished)
}

func (n *node) close(from, to time.Duration, overran bool) {
	n.running--
	n.starts -= from
	n.sum += to - from
	n.last = max(n.last, to)
	if overran {
		n.overran++
	}
	if n.running == 0 {
		n.add(n.opened, to)
	}
	for i := len(n.spans) - 1; i >= 0; i-- {
		if s := &n.spans[i]; s.from == from && s.to == unfinished {
			s.to = to
			break
		}
	}
}

func (n *node) record(from, to time.Duration, overran bool) {
	n.book(from, to)
	n.sum += to - from
	n.last = max(n.last, to)
	if overran {
		n.overran++
	}
	if n.running > 0 {
		to = min(to, n.opened) // the stretch in progress has the rest
	}
	n.add(from, to)
}

func (n *node) book(from, to time.Duration) {
	if n.count == 0 || from < n.first {
		n.first = from
	}
	n.count++
	if len(n.spans) < keptSpans {
		n.spans = append(n.spans, stretch{from, to})
	}
}

// add puts [from, to] into the union. Spans end in about the order of time, so the search begins at the back. The union is
// exact as long as a late record reaches back over no more than keptCover stretches; beyond, elapsed is too small, never
// too large.
func (n *node) add(from, to time.Duration) {
	from = max(from, n.settled)
	if to <= from {
		return
	}
	i := len(n.cover)
	for i > 0 && n.cover[i-1].to >= from {
		i--
	}
	j := i
	for ; j < len(n.cover) && n.cover[j].from <= to; j++ {
		from, to = min(from, n.cover[j].from), max(to, n.cover[j].to)
		n.elapsed -= n.cover[j].to - n.cover[j].from
	}
	n.elapsed += to - from
	n.cover = slices.Replace(n.cover, i, j, stretch{from, to})
	if len(n.cover) > keptCover {
		n.settled = n.cover[0].to
		n.cover = slices.Delete(n.cover, 0, 1)
	}
}
