package turnstile

import (
	"context"
	"time"
)

// A Place is a place in line that is taken now and waited for later, or by nobody for a while: what a shared piece of work has,
// whose callers come and go. A pass may be granted before Wait and is kept for it. Every Place must end in a Wait or a Leave,
// or its pass is lost. Its methods may be called from several goroutines at once.
type Place struct {
	t *Turnstile
	w waiter // guarded by t.mu

	waits bool // Wait was called; guarded by t.mu
}

// Enter takes a place in line. until is the end of whoever wants the turn, for Options.MinUseful and Line; the zero time means
// none. It does not end the wait.
func (t *Turnstile) Enter(claim Claim, until time.Time) *Place {
	t.mustBeMade()
	p := &Place{t: t, w: waiter{token: make(chan struct{}, 1), useful: true}}
	w := &p.w
	pass, ok := t.tryTake(), true
	if pass.slot == nil {
		w.entered = now()
		t.mu.Lock()
		if pass, ok = t.admitLocked(); !ok {
			w.set(claim, until)
			t.joinLocked(w, placeOf(claim, t.headStart))
		}
		t.mu.Unlock()
	}
	switch {
	case !ok:
		return p
	case pass.slot == nil:
		w.state = shutOut
	default:
		w.state, w.slot, w.gen, w.grantedAt = granted, pass.slot, pass.gen, w.entered
	}
	w.token <- struct{}{}
	return p
}

func (w *waiter) set(claim Claim, until time.Time) {
	w.claim, w.ends, w.until = claim, !until.IsZero(), 0
	if w.ends {
		w.until = offset(until)
	}
}

// Set gives the place another claim and another end while it waits: those of the callers still present. It does nothing once the
// wait is over.
func (p *Place) Set(claim Claim, until time.Time) {
	t, w := p.t, &p.w
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.state != waiting {
		return
	}
	w.set(claim, until)
	at := placeOf(claim, t.headStart)
	at.arrival = w.arrival
	t.line.remove(w)
	t.line.push(at, w)
}

// Wait waits for the pass, or collects the one kept for it. ok is false, and there is no pass, when ctx is done, also if a pass
// was granted at that moment; when the place was left; when the turnstile is closed; and when the place was passed over, which
// Pass.Doomed tells. When it returns, the place is over. A second call panics.
func (p *Place) Wait(ctx context.Context) (pass Pass, ok bool) {
	t, w := p.t, &p.w
	t.mu.Lock()
	again := p.waits
	p.waits = true
	t.mu.Unlock()
	if again {
		panic("turnstile: Wait called twice on one Place")
	}
	select {
	case <-w.token:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		p.leave(true)
		return Pass{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch w.state {
	case granted:
		w.state = collected
		return Pass{slot: w.slot, gen: w.gen, waited: w.grantedAt - w.entered}, true
	case passedOver:
		return Pass{slot: &passedOverSlot}, false
	}
	return Pass{}, false
}

// Leave gives the place up. Before or during Wait: Wait returns no pass. If a pass is kept for the place, it goes on to the next
// in line. After Wait, and the second time, it does nothing.
func (p *Place) Leave() { p.leave(false) }

func (p *Place) leave(cancelled bool) {
	t, w := p.t, &p.w
	var wake chain
	t.mu.Lock()
	was := w.state
	switch was {
	case waiting:
		t.line.remove(w)
		t.openLocked()
		wake.add(w)
		w.state = left
	case granted:
		w.state = left
	}
	if cancelled && w.state == left {
		t.counts.cancelled++
	}
	t.mu.Unlock()
	wake.notify()
	if was == granted {
		Pass{slot: w.slot, gen: w.gen}.Return()
	}
}

// Granted reports whether a pass is kept for Wait right now: false while in line, and once the place was left, passed over, shut
// out or collected.
func (p *Place) Granted() bool {
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	return p.w.state == granted
}
