package parking

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errAbandoned is the cause of a flight context that was cancelled because
// nobody was left.
var errAbandoned = errors.New("parking: every caller left")

// A state is where a flight is. All changes of it are in this file.
//
//	          Join                   Commit
//	(none) ─────────▶ waiting ────────────────────▶ committed
//	                   │   ▲  ◀────────────────────  ▲    │
//	  last caller goes │   │ Join     Uncommit       │    │ Uncommit,
//	                   ▼   │           Commit        │    │ nobody present
//	                 lingering ──────────────────────┘    │
//	                   │   ▲                              │
//	    Linger is over │   └──────────────────────────────┘
//	                   ▼
//	                 abandoned
//
//	any state ── the flight function returns ──▶ landed
//
// Callers go by leaving or by being shed. Linger counts from when the last one
// went; when it is over by then, as it always is if it is 0, lingering is passed
// through at once.
//
//	            callers   in the registry   flight's context
//	waiting     ≥ 1       yes               live
//	committed   ≥ 0       yes               live
//	lingering   0         yes               live
//	abandoned   0         no                cancelled
//	landed      0         no                cancelled
//
// Hence at most one flight per key is committed: a committed flight is in the
// registry, and an abandoned one can only land.
//
// Being parked is apart from the state: set once, by Park, never unset.
type state uint8

const (
	waiting state = iota
	committed
	lingering
	abandoned
	landed
)

// A tower is what all flights of one Flights share.
type tower struct {
	lot    *Lot
	linger time.Duration

	mu      sync.Mutex // guards the fields below, the registry, and every flight and caller
	running int        // flight functions that have not returned
	idle    chan struct{}
}

// whenIdle returns a channel that is closed once no flight function runs, or nil
// if none does.
func (t *tower) whenIdle() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running == 0 {
		return nil
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	return t.idle
}

// A Flight is one run of a function for all callers that want the same key, as
// that function sees it. It is made by [Flights.Join]; the zero Flight is not
// usable. Its methods may be called from any goroutine. After the function has
// returned they change nothing for anybody.
type Flight struct {
	tower  *tower
	forget func() // deletes it from the registry; with tower.mu held
	cancel context.CancelCauseFunc
	begun  time.Time

	// Guarded by tower.mu.
	state       state
	parked      bool
	reason      string
	first, last *caller // those present, in join order
	present     int
	emptySince  time.Time   // when the last of them went
	timer       *time.Timer // ends lingering; nil until first needed
	phases      phases

	// Callers wait on news. If Park sheds anyone it closes news to wake them, and
	// those it kept go on waiting on later; else later stays nil. What land closes
	// is the one they wait on last. One channel, since each costs every waiter.
	news  chan struct{}
	later chan struct{} // written before news is closed

	// Each written before the channel is closed that tells of it.
	shedView view
	doneView view
	err      error
	panicked *flightPanic
}

// A caller is one Join that waits.
type caller struct {
	ctx        context.Context
	prev, next *caller
	joined     time.Time
	spot       spot // held while the flight is parked and the caller present
	leader     bool
	gone       bool // has left, or was shed; set by Park or by the caller itself
}

// Park is the park transition: the flight has learned that its callers have to
// wait. In one step the callers present get spots in the order they joined, and
// those for whom there is none are shed; whoever joins later needs a spot at
// once. The first call counts, with its reason; later ones do nothing. If it
// sheds everybody and the flight is not committed, the flight is abandoned as if
// they had left.
func (f *Flight) Park(reason string) {
	t := f.tower
	t.mu.Lock()
	if f.parked {
		t.mu.Unlock()
		return
	}
	f.parked, f.reason = true, reason
	shed := f.parkLocked()
	t.mu.Unlock()
	if shed {
		close(f.news)
	}
}

// parkLocked hands out the spots and reports whether anyone was shed.
func (f *Flight) parkLocked() (shed bool) {
	lot := f.tower.lot
	// One lock for all of them: a spot freed in between would go to a later
	// caller after an earlier one was shed.
	lot.mu.Lock()
	now := time.Now()
	for c := f.first; c != nil; {
		next := c.next
		if lot.admitLocked() {
			lot.linkLocked(&c.spot, now)
		} else {
			shed = true
			f.removeLocked(c, now)
		}
		c = next
	}
	lot.mu.Unlock()
	if shed {
		f.shedView, f.later = f.viewLocked(now), make(chan struct{})
		f.emptiedLocked(now)
	}
	return shed
}

// Commit begins an attempt that must not be cut off: until [Flight.Uncommit], or
// until the flight function returns, the flight stays joinable and its context
// is not cancelled though every caller leaves. False means that everybody has
// left and the flight is over: stop. In a committed flight it does nothing and
// reports true.
func (f *Flight) Commit() bool {
	f.tower.mu.Lock()
	defer f.tower.mu.Unlock()
	switch f.state {
	case lingering:
		f.timer.Stop()
		f.state = committed
	case waiting:
		f.state = committed
	}
	return f.state == committed
}

// Uncommit says that the committed attempt ended without a result and the flight
// waits again. False means that everybody has left, [Options].Linger ago or
// longer, and the flight is over: stop.
func (f *Flight) Uncommit() bool {
	f.tower.mu.Lock()
	defer f.tower.mu.Unlock()
	if f.state == committed {
		f.state = waiting
		f.emptiedLocked(time.Now())
	}
	return f.state == waiting || f.state == lingering
}

// Phase begins a named part of the flight and returns the function that ends it;
// only its first call counts. Phases may nest and overlap; what is open when the
// flight function returns ends then. Callers find the phases in their
// [Outcome], from their own join on. A flight remembers its last 128 phases.
func (f *Flight) Phase(name string) (end func()) {
	t := f.tower
	t.mu.Lock()
	defer t.mu.Unlock()
	p := f.phases.begin(name, time.Now())
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if p.to.IsZero() {
			p.to = time.Now()
		}
	}
}

// boardLocked adds c to a flight that is in the registry; false if it was shed.
func (f *Flight) boardLocked(c *caller) bool {
	switch {
	case !f.parked:
		c.joined = time.Now()
	case f.tower.lot.take(&c.spot):
		c.joined = c.spot.since
	default:
		return false
	}
	if c.prev = f.last; c.prev == nil {
		f.first = c
	} else {
		c.prev.next = c
	}
	f.last = c
	f.present++
	if f.state == lingering {
		f.timer.Stop()
		f.state = waiting
	}
	return true
}

// A fate is how a caller's wait ended.
type fate int

const (
	served fate = iota // the flight landed, with a value or an error
	refused
	left
)

// await waits for the flight, a refusal, or the end of the caller's context. The
// outcome is set only for a caller that left.
func (f *Flight) await(c *caller) (*Outcome, fate) {
	news := f.news
	for {
		select {
		case <-news:
			if !c.gone && f.later != nil && news != f.later {
				news = f.later // others were shed
				continue
			}
		case <-c.ctx.Done():
			if o := f.leave(c); o != nil {
				return o, left
			}
		}
		// Whatever woke it: one that was shed stays so when the flight lands before
		// it runs again.
		if c.gone {
			return nil, refused
		}
		return nil, served
	}
}

// leave takes c out of the flight and frees its spot. Nil means that it was too
// late: the flight had landed, or c had been shed.
//
//go:noinline
func (f *Flight) leave(c *caller) *Outcome {
	t := f.tower
	t.mu.Lock()
	if c.gone || f.state == landed {
		t.mu.Unlock()
		return nil
	}
	now := time.Now()
	v := f.viewLocked(now)
	f.removeLocked(c, now)
	if f.parked {
		t.lot.free(&c.spot)
	}
	f.emptiedLocked(now)
	t.mu.Unlock()
	r, _ := ended(c.ctx)
	return v.outcome(c, r)
}

func (f *Flight) removeLocked(c *caller, now time.Time) {
	if c.prev == nil {
		f.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		f.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next, c.gone = nil, nil, true
	f.present--
	if f.present == 0 {
		f.emptySince = now
	}
}

// emptiedLocked applies the rule of the last leaver: a flight that waits for
// nobody lingers, for as long as Linger has left since the last one went, or is
// abandoned.
func (f *Flight) emptiedLocked(now time.Time) {
	if f.present > 0 || f.state != waiting {
		return
	}
	left := f.emptySince.Add(f.tower.linger).Sub(now)
	if left <= 0 {
		f.abandonLocked()
		return
	}
	f.state = lingering
	if f.timer == nil {
		f.timer = time.AfterFunc(left, f.lingerOver)
		return
	}
	f.timer.Reset(left)
}

// lingerOver runs when the timer fires. A timer that could not be stopped any
// more may find the flight revived, or lingering anew.
func (f *Flight) lingerOver() {
	f.tower.mu.Lock()
	defer f.tower.mu.Unlock()
	if f.state == lingering && time.Since(f.emptySince) >= f.tower.linger {
		f.abandonLocked()
	}
}

// abandonLocked removes and cancels the flight. Cancelling under the lock makes
// it one step, and runs nobody's code: the context's parent is the background,
// and context.AfterFunc functions get goroutines of their own.
func (f *Flight) abandonLocked() {
	f.state = abandoned
	f.forget()
	f.cancel(errAbandoned)
}

// land publishes what the flight function left in f, frees every spot and then
// wakes the callers. It reports whether there was a caller.
func (f *Flight) land() (anyone bool) {
	t := f.tower
	t.mu.Lock()
	if f.state != abandoned {
		f.forget()
	}
	if f.timer != nil {
		f.timer.Stop()
	}
	if f.parked {
		f.freeAllLocked()
	}
	f.doneView = f.viewLocked(time.Now())
	anyone = f.present > 0
	f.state, f.first, f.last, f.present = landed, nil, nil, 0
	t.running--
	if t.running == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
	last := f.news
	if f.later != nil {
		last = f.later
	}
	t.mu.Unlock()
	f.cancel(nil)
	close(last)
	return anyone
}

func (f *Flight) freeAllLocked() {
	lot := f.tower.lot
	lot.mu.Lock()
	defer lot.mu.Unlock()
	for c := f.first; c != nil; c = c.next {
		lot.freeLocked(&c.spot)
	}
}

func (f *Flight) viewLocked(now time.Time) view {
	return view{now, f.reason, f.phases.innermost(), f.phases.spans(now)}
}
