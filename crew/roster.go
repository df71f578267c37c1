package crew

import (
	"context"
	"slices"
	"sync"
	"time"
)

// state is where a worker is. It changes under mu only:
//
//	             may be more
//	  +-------------------------------------------+
//	  |                                           |
//	  |    +---> looking ----> taking ----> busy -+
//	  v    |      ^   |          |
//	ready -+      |   |          |  found nothing, or was not needed
//	       |      |   v          v
//	       +---> parked <--------+
//
// A worker whose job has panicked is busy until Panicked has returned, and then looks or parks without a stop at ready. A call
// takes a worker from parked to looking; one whose empty take a Wake has overtaken goes there at once. To gone it goes from
// parked when there is one to spare for long, and from any state once the crew stops, as soon as it holds nothing.
//
// All but busy are idle. Invariants, whenever mu is not held and no take runs:
//
//	workers >= min && busy < workers || busy = workers = max       (one in reserve), until the crew stops
//	workers <= max(min, 1 + the most that were ever busy)
//	there may be work => somebody is ready or looking || busy = workers = max || a Take panicked since the last Wake
//	spare = the least of: parked, workers beyond min, idle beyond one; len(spares) = max(0, spare)
//
// "There may be work" is wakes > dry: a take finds what was there when it began, so an empty one answers every Wake up to its
// beginning, and only those. That needs no count of the pieces and loses no Wake that arrives while a take runs.
type state uint8

const (
	ready   state = iota // is about to settle: was just added, or is done with a job
	parked               // waits on its token
	looking              // waits at the gate, or is on its way there
	taking               // has a turn
	busy                 // has work
	gone
	states
)

// worker is one worker. A goroutine carries it, another one after a callback has called runtime.Goexit.
type worker struct {
	// token gets one token each time the worker is called out of parked. It takes that before it parks again, so capacity 1 is
	// enough for call never to block.
	token chan struct{}

	// Guarded by the roster's mu.
	state  state
	cancel context.CancelCauseFunc // ends its present round; nil before the first
	seen   uint64                  // wakes when its take began
}

// call wakes w, if there is one. It must be called without mu: w often needs that at once.
func (w *worker) call() {
	if w != nil {
		w.token <- struct{}{}
	}
}

// roster is who works and in what state. It decides; it runs no callback and no worker.
type roster struct {
	min, max int
	linger   time.Duration
	done     chan struct{} // closed when the crew has stopped and every goroutine has ended

	mu       sync.Mutex
	all      map[*worker]struct{} // those that are not gone
	in       [states]int
	alive    int       // workers whose goroutine has not ended: those of all, and some that are gone
	parked   []*worker // the last to park is the last, and the first to be called
	wakes    uint64    // calls of Wake, and one for the start
	dry      uint64    // the wakes that an empty take has answered
	stopping bool

	// spares[k] is since when the crew has had more than k workers to spare without a break. It is a stack: the last to
	// become spare is the first that is needed again.
	spares []time.Time
	timer  *time.Timer // runs dismiss; armed while there is anything in spares, for a time not after the first's end
	armed  bool

	doneJobs, empty, panics, grown, left uint64
}

// begin hires the first workers.
func (r *roster) begin(o Options) []*worker {
	r.min = max(1, o.Min)
	if r.max = max(0, o.Max); r.max > 0 {
		r.max = max(r.max, r.min)
	}
	if r.linger = max(0, o.Linger); o.Linger == 0 {
		r.linger = 10 * time.Second
	}
	r.done = make(chan struct{})
	r.all = make(map[*worker]struct{}, r.min)
	r.wakes = 1
	first := make([]*worker, r.min)
	for i := range first {
		first[i] = r.hireLocked()
	}
	return first
}

func (r *roster) hireLocked() *worker {
	w := &worker{token: make(chan struct{}, 1)}
	r.all[w] = struct{}{}
	r.in[ready]++
	r.alive++
	return w
}

// moveLocked moves w to a state. Whoever moves a worker out of parked takes it off the list first.
func (r *roster) moveLocked(w *worker, to state) {
	r.setLocked(w, to)
	r.trackSparesLocked()
}

// setLocked is every change of state.
func (r *roster) setLocked(w *worker, to state) {
	if w.state == busy {
		r.doneJobs++
	}
	r.in[w.state]--
	r.in[to]++
	w.state = to
	switch to {
	case parked:
		r.parked = append(r.parked, w)
	case gone:
		delete(r.all, w)
		r.left++
	}
}

func (r *roster) trackSparesLocked() {
	spare := min(len(r.parked), len(r.all)-r.min, len(r.all)-r.in[busy]-1)
	if spare < len(r.spares) {
		r.spares = r.spares[:max(0, spare)]
		return
	}
	for len(r.spares) < spare {
		r.spares = append(r.spares, time.Now())
	}
	if spare > 0 && !r.armed {
		r.armLocked(r.linger)
	}
}

func (r *roster) armLocked(d time.Duration) {
	r.armed = true
	if r.timer == nil {
		r.timer = time.AfterFunc(d, r.dismiss)
		return
	}
	r.timer.Reset(d)
}

// dismiss lets those go that the crew could spare all the time for as long as linger, the longest parked first.
func (r *roster) dismiss() {
	for _, w := range r.spared() {
		w.cancel(nil) // it finds itself gone
	}
}

func (r *roster) spared() []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed = false
	n := 0
	for n < len(r.spares) && time.Since(r.spares[n]) >= r.linger {
		n++
	}
	going := slices.Clone(r.parked[:n])
	r.parked = slices.Delete(r.parked, 0, n)
	// Each that goes is one less to spare. The others have been so for a shorter time.
	r.spares = slices.Delete(r.spares, 0, n)
	for _, w := range going {
		r.setLocked(w, gone)
	}
	if len(r.spares) > 0 {
		r.armLocked(r.linger - time.Since(r.spares[0]))
	}
	return going
}

func (r *roster) mayHaveWorkLocked() bool { return r.wakes > r.dry }

// nobodyLooksLocked reports whether no take is bound to begin.
func (r *roster) nobodyLooksLocked() bool { return r.in[ready]+r.in[looking] == 0 }

// settle begins a round of w: it says what w is to do, look or park. gone means that its goroutine is to end.
// cancel ends the round.
func (r *roster) settle(w *worker, cancel context.CancelCauseFunc) state {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping || w.state == gone {
		r.leaveLocked(w)
		return gone
	}
	again := r.mayHaveWorkLocked()
	if w.state == taking {
		// It found nothing, or panicked and would most likely do so again, for ever. A Wake that came since is answered by one
		// look: its own, unless another is on its way.
		again = again && r.wakes > w.seen && r.nobodyLooksLocked()
	}
	w.cancel = cancel
	if again {
		r.moveLocked(w, looking)
	} else {
		r.moveLocked(w, parked)
	}
	return w.state
}

// leaveLocked is the end of w's goroutine.
func (r *roster) leaveLocked(w *worker) {
	if w.state != gone {
		r.moveLocked(w, gone)
	}
	r.alive--
	if r.stopping && r.alive == 0 {
		close(r.done)
	}
}

// wake returns the worker to call, if one is parked.
func (r *roster) wake() *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakes++
	return r.pickLocked()
}

// pickLocked is the worker that parked last, now looking; nil if none is parked. So the others stay spare.
func (r *roster) pickLocked() *worker {
	n := len(r.parked)
	if n == 0 {
		return nil
	}
	w := r.parked[n-1]
	r.parked = slices.Delete(r.parked, n-1, n)
	r.moveLocked(w, looking)
	return w
}

// mayTake reports whether w, which has its turn, is to use it: not if the crew has stopped, nor if another has found since that
// there is nothing.
func (r *roster) mayTake(w *worker) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping || !r.mayHaveWorkLocked() {
		return false
	}
	r.moveLocked(w, taking)
	w.seen = r.wakes
	return true
}

// found is after a take that found work. It returns the worker to start if nobody was left idle, else the one to call if there
// may be more work and nobody looks for it.
func (r *roster) found(w *worker) (start, call *worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moveLocked(w, busy)
	switch {
	case r.stopping:
	case r.in[busy] == len(r.all) && (r.max == 0 || len(r.all) < r.max):
		r.grown++
		return r.hireLocked(), nil
	case r.mayHaveWorkLocked() && r.nobodyLooksLocked():
		return nil, r.pickLocked()
	}
	return nil, nil
}

// foundNothing is after a take that found nothing.
func (r *roster) foundNothing(w *worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.empty++
	r.dry = max(r.dry, w.seen)
}

// over is the end of w's job. It comes before the job's pass is given back: whoever gets that pass must find w idle, or it would
// add a worker for want of one.
func (r *roster) over(w *worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moveLocked(w, ready)
}

func (r *roster) panicked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.panics++
}

// stop ends the rounds of those who hold nothing; the others end theirs themselves.
func (r *roster) stop() {
	r.mu.Lock()
	r.stopping = true
	for w := r.pickLocked(); w != nil; w = r.pickLocked() {
	}
	var cancels []context.CancelCauseFunc
	for w := range r.all {
		if w.state == looking {
			cancels = append(cancels, w.cancel)
		}
	}
	if r.armed {
		r.timer.Stop()
	}
	r.mu.Unlock()
	for _, cancel := range cancels {
		cancel(nil)
	}
}

// cancelAll ends all rounds and returns how many goroutines there are.
func (r *roster) cancelAll(cause error) int {
	r.mu.Lock()
	alive := r.alive
	cancels := make([]context.CancelCauseFunc, 0, len(r.all))
	for w := range r.all {
		if w.cancel != nil {
			cancels = append(cancels, w.cancel)
		}
	}
	r.mu.Unlock()
	for _, cancel := range cancels {
		cancel(cause)
	}
	return alive
}

func (r *roster) stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{
		Workers: len(r.all),
		Parked:  r.in[parked],
		AtGate:  r.in[ready] + r.in[looking],
		Taking:  r.in[taking],
		Busy:    r.in[busy],
		Done:    r.doneJobs,
		Dry:     r.empty,
		Panics:  r.panics,
		Grown:   r.grown,
		Left:    r.left,
		Stopped: r.stopping,
	}
}
