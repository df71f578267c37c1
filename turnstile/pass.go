package turnstile

import "time"

// A Pass is a turn: what WaitTurn grants and Return gives back. It must enclose the use of the resource for as long as that is
// held. It is a small value and may be copied; it and its copies are one turn. The zero Pass is no turn.
type Pass struct {
	// Four words: the compiler keeps a struct of up to four fields in registers, and copies a larger one through memory.
	slot   *slot // nil for the zero Pass, &passedOverSlot for one that was passed over
	gen    uint64
	waited time.Duration
	job    *job // whose turn it is, if a context says
}

// passedOverSlot belongs to no turnstile, so that returning its Pass does nothing.
var passedOverSlot slot

// Return gives the pass back; the best claim in line has it before Return returns. The second return of a pass, that of a copy
// of a returned one and that of the zero Pass do nothing. It may be called from any goroutine.
func (p Pass) Return() {
	l := p.slot
	if l == nil || l.t == nil {
		return
	}
	if p.job == nil && l.i == 0 && l.t.tryGiveFirst(p.gen) {
		return
	}
	p.give()
}

// give is Return for a pass of a turnstile.
func (p Pass) give() {
	l := p.slot
	var live bool
	switch {
	case l.i == 0:
		live = l.t.giveFirst(p.gen)
	case l.i < fastSlots:
		live = l.t.giveFast(l, p.gen)
	default:
		live = l.t.giveGuarded(l, p.gen)
	}
	switch {
	case !live:
		l.t.stray.Add(1)
	case p.job != nil:
		p.job.held.Add(-1)
	}
}

// Waited is the time the turn spent in line: zero for a pass that was free.
func (p Pass) Waited() time.Duration { return p.waited }

// Doomed reports whether there is no pass because too little of the caller's time was left when its turn came; see
// Options.MinUseful.
func (p Pass) Doomed() bool { return p.slot == &passedOverSlot }
