package turnstile

import "time"

// A Pass is a turn: what WaitTurn grants and Return gives back. It must enclose the use of the resource for as long as that is
// held. It is a small value and may be copied; it and its copies are one turn. The zero Pass is no turn.
type Pass struct {
	t      *Turnstile
	gen    uint64
	waited time.Duration
	job    *job
	slot   uint32
	doomed bool
}

// Return gives the pass back; the best claim in line has it before Return returns. The second return of a pass, that of a copy
// of a returned one and that of the zero Pass do nothing. It may be called from any goroutine.
func (p Pass) Return() {
	t := p.t
	if t == nil {
		return
	}
	var live bool
	switch {
	case p.slot == 0:
		live = t.giveFirst(p.gen)
	case p.slot < fastSlots:
		live = t.giveFast(p.slot, p.gen)
	default:
		live = t.giveGuarded(p.slot, p.gen)
	}
	if !live {
		t.stray.Add(1)
		return
	}
	if p.job != nil {
		p.job.held.Add(-1)
	}
}

// Waited is the time the turn spent in line: zero for a pass that was free.
func (p Pass) Waited() time.Duration { return p.waited }

// Doomed reports whether there is no pass because too little of the caller's time was left when its turn came; see
// Options.MinUseful.
func (p Pass) Doomed() bool { return p.doomed }
