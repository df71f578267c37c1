package substrate

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"layover/internal/router"
	"layover/internal/substrate/ateapi"
	"layover/turnstile"
)

// Resume implements [router.Plane].
func (p *Plane) Resume(ctx context.Context, actor string, f *router.Flight) (router.Target, error) {
	ref, err := ParseRef(actor)
	if err != nil {
		return router.Target{}, err
	}
	w := &wakeUp{plane: p, flight: f, ref: ref}
	defer w.end()
	w.enter(router.PhaseWake)
	if target, over, err := w.attempt(ctx); over {
		return target, err
	}
	if p.o.FailFast {
		return w.insist(ctx)
	}
	return w.wait(ctx)
}

// wakeUp is one run of Resume.
type wakeUp struct {
	plane  *Plane
	flight *router.Flight
	ref    Ref

	code    codes.Code // of the last answer
	refused time.Time  // the last one that said that there is no worker
	pauses  *backoff.ExponentialBackOff

	mu       sync.Mutex // before the flight's and a turnstile's; guards the fields below
	calling  bool
	asks     bool // an attempt from the line is under way, and has pass
	pass     turnstile.Pass
	phase    string
	endPhase func()
}

// enter begins a phase, which ends the one before.
func (w *wakeUp) enter(phase string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.enterLocked(phase)
}

func (w *wakeUp) enterLocked(phase string) {
	if phase == w.phase {
		return
	}
	if w.endPhase != nil {
		w.endPhase()
	}
	w.phase, w.endPhase = phase, w.flight.Phase(phase)
}

func (w *wakeUp) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endPhase()
}

// slow is called when a call lasts longer than a refusal does: the actor has a
// worker and is waking. The ledger says so from then on, and the next in line
// can ask, because what this one waits for is no worker.
func (w *wakeUp) slow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.calling {
		return
	}
	w.enterLocked(router.PhaseWake)
	if w.asks {
		w.asks = false
		w.pass.Return()
	}
}

func (w *wakeUp) startAsking(pass turnstile.Pass) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asks, w.pass = true, pass
}

// stopAsking reports whether w still has its pass.
func (w *wakeUp) stopAsking() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := w.asks
	w.asks = false
	return kept
}

func (w *wakeUp) setCalling(calling bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calling = calling
}

// attempt asks the control plane once. It reports whether that ends the flight,
// with a target or an error; if not, w.code says why another attempt makes sense,
// and the flight is parked.
func (w *wakeUp) attempt(ctx context.Context) (router.Target, bool, error) {
	if !w.flight.Commit() {
		return router.Target{}, true, context.Cause(ctx)
	}
	resp, err := w.call(ctx)
	if err == nil {
		target, err := w.plane.target(w.ref, resp.GetActor())
		if err == nil && !resp.GetResumed() {
			w.flight.Awake()
		}
		return target, true, err
	}
	w.code = status.Code(err)
	trouble := refusal(w.ref, err)
	if !retryable(w.code, w.plane.o.FailFast) {
		return router.Target{}, true, trouble
	}
	w.flight.Trouble(trouble)
	if w.code == codes.ResourceExhausted {
		w.refused = time.Now()
	}
	if !w.plane.o.FailFast {
		w.flight.Park(string(trouble.Reason))
	}
	if !w.flight.Uncommit() {
		return router.Target{}, true, context.Cause(ctx)
	}
	return router.Target{}, false, trouble
}

// call sends ResumeActor. While the flight is committed its context does not
// end, so the call is bounded by its own ceiling alone.
func (w *wakeUp) call(ctx context.Context) (*ateapi.ResumeActorResponse, error) {
	o := &w.plane.o
	ctx, cancel := context.WithTimeout(ctx, o.AttemptTimeout)
	defer cancel()
	w.setCalling(true)
	defer w.setCalling(false)
	defer time.AfterFunc(o.Interval, w.slow).Stop() // not at once: refusals are so many that they would fill the ledger
	return w.plane.client.ResumeActor(ctx, &ateapi.ResumeActorRequest{Actor: w.ref.wire()})
}

// wait attempts again until that ends the flight.
func (w *wakeUp) wait(ctx context.Context) (router.Target, error) {
	key, known := "", false
	for {
		if w.code != codes.ResourceExhausted { // not for want of a worker
			w.enter(router.PhaseRetry)
			if err := sleep(ctx, w.pause()); err != nil {
				return router.Target{}, err
			}
		}
		w.enter(router.PhaseLine)
		if !known {
			key, known = w.lineKey(ctx)
		}
		if target, over, err := w.probe(ctx, key); over {
			return target, err
		}
	}
}

// lineKey asks which workers the actor can have. It reports whether there was
// an answer.
func (w *wakeUp) lineKey(ctx context.Context) (string, bool) {
	ctx, cancel := context.WithTimeout(ctx, keyTimeout)
	defer cancel()
	a, err := w.plane.client.GetActor(ctx, &ateapi.GetActorRequest{Actor: w.ref.wire()})
	if err != nil {
		return sharedLine, false // if it matters, the next attempt has the same trouble
	}
	return lineKey(a), true
}

// probe stands in the line of key and attempts when it is at its head, as long
// as there is no worker. It reports whether that ends the flight.
func (w *wakeUp) probe(ctx context.Context, key string) (router.Target, bool, error) {
	l := w.plane.lines.enter(key)
	defer w.plane.lines.leave(key, l)
	place := w.flight.Enter(l.turns)
	alone := place.Granted()
	pass, ok := place.Wait(ctx)
	defer func() { pass.Return() }()
	if ok && alone {
		l.due = later(l.due, w.refused.Add(w.plane.o.Interval))
	}
	for ok {
		now := time.Now()
		if early := l.due.Sub(now); early > 0 {
			// Somebody with a better claim may come meanwhile. Who stands in line when
			// he gives his pass back loses it only to such a one.
			place = w.flight.Enter(l.turns)
			if err := sleep(ctx, early); err != nil {
				place.Leave()
				return router.Target{}, true, err
			}
			pass.Return()
			pass, ok = place.Wait(ctx)
			continue
		}
		before := w.refused
		w.startAsking(pass)
		target, over, err := w.attempt(ctx)
		kept := w.stopAsking()
		if kept && w.refused != before { // else the line is another's, or the next may find a worker
			l.due = w.refused.Add(w.interval())
		}
		if over || !kept || w.code != codes.ResourceExhausted {
			return target, over, err
		}
	}
	return router.Target{}, true, context.Cause(ctx)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// insist attempts again as long as another operation is under way, with parking
// off.
func (w *wakeUp) insist(ctx context.Context) (router.Target, error) {
	w.enter(router.PhaseRetry)
	for {
		if err := sleep(ctx, w.pause()); err != nil {
			return router.Target{}, err
		}
		if target, over, err := w.attempt(ctx); over {
			return target, err
		}
	}
}

// pause is the next of the flight's own pauses.
func (w *wakeUp) pause() time.Duration {
	if w.pauses == nil {
		o := &w.plane.o
		w.pauses = &backoff.ExponentialBackOff{
			InitialInterval: o.Interval, Multiplier: o.Factor, RandomizationFactor: o.Jitter,
			MaxInterval: max(o.Interval, longestPause),
		}
	}
	return w.pauses.NextBackOff()
}

// interval is the wait between two attempts of a line. It does not grow: there
// is one who asks, and all behind him wait for what he finds.
func (w *wakeUp) interval() time.Duration {
	o := &w.plane.o
	b := backoff.ExponentialBackOff{InitialInterval: o.Interval, Multiplier: 1, RandomizationFactor: o.Jitter, MaxInterval: o.Interval}
	return b.NextBackOff()
}

// sleep returns after d, or with the cause when ctx ends sooner.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
