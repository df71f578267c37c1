package turnstile

import (
	"context"
	"time"
)

// state is where a waiter is. It changes under mu only:
//
//	          +-> granted -> collected     (a Place's; a caller of WaitTurn is granted and reads the pass)
//	waiting --+-> passedOver
//	          +-> shutOut
//	          +-> left          granted -> left as well: the pass goes on to the next
//
// A waiter that leaves waiting gets one token on its channel, sent after mu is released, unless it left by itself.
type state uint8

const (
	waiting state = iota
	granted
	collected
	passedOver
	shutOut
	left
)

// waiter is one who is in line, or was.
type waiter struct {
	at    int           // index in the run or in the heap of the line, while waiting
	inRun bool          // which of the two
	token chan struct{} // capacity 1: a waiter is sent one token at most, so sending never blocks
	next  *waiter       // in a chain or in the pool

	claim   Claim
	arrival uint64
	entered time.Duration // on the scale of now
	until   time.Duration // on the scale of now, if ends
	ends    bool
	useful  bool // may be passed over when too little is left

	state     state
	grantedAt time.Duration // on the scale of now; of a Place only
	slot      *slot
	gen       uint64
	shared    bool // belongs to the pool, not to a Place
}

// chain is the waiters to wake, in order, once mu is released.
type chain struct{ first, last *waiter }

func (c *chain) add(w *waiter) { c.append(chain{w, w}) }

func (c *chain) append(d chain) {
	switch {
	case d.first == nil:
		return
	case c.first == nil:
		c.first = d.first
	default:
		c.last.next = d.first
	}
	c.last = d.last
}

// notify wakes them. It must be called without mu: whoever wakes often needs it at once.
func (c chain) notify() {
	for w := c.first; w != nil; {
		next := w.next
		w.next = nil // before the token: the woken one may give w away
		w.token <- struct{}{}
		w = next
	}
}

// take is WaitTurn past the first attempt. With a job it is the turn of a context: counted, and never passed over.
func (t *Turnstile) take(ctx context.Context, claim Claim, j *job) (Pass, bool) {
	if pass := t.tryTake(); pass.slot != nil {
		return pass, true
	}
	t.mustBeMade()
	end, ends := endOf(ctx)
	at, entered := placeOf(claim, t.headStart), now()
	t.mu.Lock()
	if pass, ok := t.admitLocked(); ok {
		t.mu.Unlock()
		return pass, pass.slot != nil
	}
	w := t.waiterLocked()
	w.claim, w.entered, w.until, w.ends, w.useful = claim, entered, end, ends, j == nil
	t.joinLocked(w, at)
	if j != nil && j.held.Load() > 0 {
		t.counts.nested++
	}
	t.mu.Unlock()

	select {
	case <-w.token:
	case <-ctx.Done():
		if !t.leave(w) {
			return Pass{}, false
		}
		// The grant was decided before we could leave; its token is on the way.
		<-w.token
	}
	return t.collect(ctx, w)
}

// admitLocked decides what happens to a newcomer that need not queue: a free pass, or none because it is closed. ok is false
// if it must queue; then the word is guarded.
func (t *Turnstile) admitLocked() (pass Pass, ok bool) {
	switch {
	case t.closed:
		return Pass{}, true
	case t.line.len() > 0:
		return Pass{}, false
	case t.reserve > 0:
		return t.takeReserveLocked(), true
	}
	t.guardLocked()
	if pass = t.takeLocked(); pass.slot != nil {
		t.openLocked()
		return pass, true
	}
	return Pass{}, false
}

// endOf is the end of ctx on the scale of now.
func endOf(ctx context.Context) (end time.Duration, ends bool) {
	d, ends := ctx.Deadline()
	if !ends {
		return 0, false
	}
	return offset(d), true
}

// joinLocked puts w in line at that place, behind its equals.
func (t *Turnstile) joinLocked(w *waiter, at place) {
	t.arrivals++
	at.arrival = t.arrivals
	w.arrival, w.state = at.arrival, waiting
	t.line.push(at, w)
}

// leave takes w, whose context is done, out of the line. It reports false if w has left, and true if it was too late: w has been
// told its outcome, or is about to be.
//
// This is the race of a cancellation with a grant. Both are decided under mu, and state says who won. If the grant won, the
// caller takes the token and gives the pass back by the ordinary way, so that it goes to whoever is best by then: it is
// neither kept by one who no longer wants it nor lost.
func (t *Turnstile) leave(w *waiter) (late bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.state != waiting {
		return true
	}
	t.line.remove(w)
	t.counts.cancelled++
	t.recycleLocked(w)
	t.openLocked()
	return false
}

// collect reads the outcome of a caller of WaitTurn that has its token. No lock: nobody changes w after that token until its
// pass has been returned.
func (t *Turnstile) collect(ctx context.Context, w *waiter) (Pass, bool) {
	cancelled := ctx.Err() != nil
	switch {
	case w.state == granted && !cancelled:
		return Pass{slot: w.slot, gen: w.gen, waited: now() - w.entered}, true
	case w.state == granted:
		// Granted and cancelled at the same instant: cancelled wins, so that one rule holds at every moment.
		t.mu.Lock()
		t.counts.cancelled++
		t.mu.Unlock()
		Pass{slot: w.slot, gen: w.gen}.Return()
	case w.state == passedOver && !cancelled:
		return Pass{slot: &passedOverSlot}, false
	}
	return Pass{}, false
}

// settleLocked decides who gets slot l, which has just been given back or added: a debt, the best claim in line that still has
// use for it, or nobody.
func (t *Turnstile) settleLocked(l *slot) (wake chain) {
	if t.debt > 0 {
		t.debt--
		t.retireLocked(l)
		t.openLocked()
		return wake
	}
	if w := t.nextLocked(&wake); w != nil {
		t.grantLocked(w, l)
		wake.add(w)
	} else {
		t.freeLocked(l)
	}
	t.openLocked()
	return wake
}

// nextLocked takes the best waiter out of the line. Those with too little time left are taken out on the way.
func (t *Turnstile) nextLocked(wake *chain) *waiter {
	if t.minUseful == 0 {
		return t.line.pop()
	}
	at := now()
	for {
		w := t.line.pop()
		if w == nil || !w.useful || !w.ends || w.until-at >= t.minUseful {
			return w
		}
		w.state = passedOver
		t.counts.doomed++
		wake.add(w)
	}
}

func (t *Turnstile) grantLocked(w *waiter, l *slot) {
	if l.last != nil {
		t.recycleLocked(l.last)
		l.last = nil
	}
	if w.shared {
		l.last = w
	} else {
		w.grantedAt = now()
	}
	w.state, w.slot, w.gen = granted, l, l.genLocked()
	t.counts.queued++
}

// maxPooled bounds the waiters kept for later. A line in motion needs few: those who are in it have theirs.
const maxPooled = 256

// waiterLocked is a waiter of the pool. The pool is the turnstile's own: a channel made inside a testing/synctest bubble must
// not be used outside it, which a pool of the package could not promise.
func (t *Turnstile) waiterLocked() *waiter {
	w := t.pool
	if w == nil {
		return &waiter{token: make(chan struct{}, 1), shared: true}
	}
	t.pool, w.next = w.next, nil
	t.pooled--
	return w
}

func (t *Turnstile) recycleLocked(w *waiter) {
	if t.pooled >= maxPooled {
		return
	}
	w.next, t.pool = t.pool, w
	w.claim = Claim{} // it may hold on to a location
	t.pooled++
}
