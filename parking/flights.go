package parking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"
)

// errGoexit is the error of a flight whose function left by runtime.Goexit.
var errGoexit = errors.New("parking: flight function called runtime.Goexit")

// Options are the settings of a [Flights].
type Options struct {
	// Linger is how long a flight that is not committed outlives its last caller:
	// whoever joins in that time revives it, and it can still commit. So clients
	// with short time-outs that ask again do not lose their place in a line. The
	// time counts from when the last caller left. Default 0: it is abandoned at
	// once.
	Linger time.Duration

	// Identity returns the context whose values a flight sees, given the leader's.
	// Only its values are used: a deadline or cancellation of it does not reach
	// the flight. It should copy what names the trace and nothing that belongs to
	// one caller, such as its time. It runs in the flight's goroutine. Default
	// nil: a flight sees no values.
	Identity func(caller context.Context) context.Context
}

// Flights keeps at most one flight per key. Make it with [NewFlights]; the zero
// Flights is not usable. It may be used by many goroutines.
type Flights[K comparable, V any] struct {
	tower    tower
	identity func(context.Context) context.Context
	registry map[K]*entry[K, V] // guarded by tower.mu
}

// An entry is a flight with what depends on its type.
type entry[K comparable, V any] struct {
	Flight
	val V // guarded like Flight.err
}

// FlightSnapshot is the state of one flight at one moment.
type FlightSnapshot[K comparable] struct {
	Key       K
	Callers   int           // present now
	Parked    bool          // has parked: each of them holds a spot
	Reason    string        // why it parked
	Committed bool          // an attempt is under way that is not cut off
	Stage     string        // the innermost open phase, "" for none
	Age       time.Duration // since it began
}

// NewFlights returns Flights whose parked callers take their spots in lot, which
// may be shared. It panics if lot is nil.
func NewFlights[K comparable, V any](lot *Lot, o Options) *Flights[K, V] {
	if lot == nil {
		panic("parking: NewFlights needs a lot")
	}
	return &Flights[K, V]{
		tower:    tower{lot: lot, linger: o.Linger},
		identity: o.Identity,
		registry: make(map[K]*entry[K, V]),
	}
}

// Join waits for the flight of key, which it begins with fly if there is none,
// and returns what the flight function returned. It waits until ctx is done at
// most; then, or if ctx is done already, the error is context.Cause(ctx). If the
// flight is parked and the lot full it is [ErrLotFull]. The outcome is never nil.
//
// fly runs in a goroutine of its own with the handle of the flight and a context
// that is detached from every caller and cancelled once fly has returned. A
// panic in it becomes a panic of every caller present, with the original stack;
// if there is none it panics where it is. If fly calls runtime.Goexit every
// caller gets an error.
//
// When ctx ends at the moment the flight lands, whichever came first counts: a
// result that was there before the caller left is returned.
func (fs *Flights[K, V]) Join(ctx context.Context, key K, fly func(ctx context.Context, f *Flight) (V, error)) (V, *Outcome, error) {
	// The frames below a waiting caller decide whether its stack doubles, and
	// there can be ten thousand of them. So what comes before and after the wait
	// is in functions of its own, and an Outcome is passed by pointer.
	var none V
	e, c, o, err := fs.board(ctx, key, fly)
	if e == nil {
		return none, o, err
	}
	o, fate := e.await(c)
	return e.finish(c, o, fate)
}

// board gets the caller into the flight of key. Without an entry, the wait is
// over with the outcome and the error.
//
//go:noinline
func (fs *Flights[K, V]) board(ctx context.Context, key K, fly func(context.Context, *Flight) (V, error)) (*entry[K, V], *caller, *Outcome, error) {
	if ctx.Err() != nil {
		r, err := ended(ctx)
		return nil, nil, &Outcome{Result: r}, err
	}
	c := &caller{ctx: ctx}
	_ = map[K]struct{}(nil)[key] // a key that cannot be hashed panics here, not under the lock
	t := &fs.tower
	t.mu.Lock()
	e := fs.registry[key]
	if e == nil {
		e, flightCtx := fs.beginLocked(key, c)
		t.mu.Unlock()
		go fs.run(e, flightCtx, ctx, fly) // Wait waits for it
		return e, c, nil, nil
	}
	if !e.boardLocked(c) {
		v := view{reason: e.reason, stage: e.phases.innermost()}
		t.mu.Unlock()
		return nil, nil, v.outcome(c, Shed), ErrLotFull
	}
	t.mu.Unlock()
	return e, c, nil, nil
}

func (fs *Flights[K, V]) beginLocked(key K, leader *caller) (*entry[K, V], context.Context) {
	e := &entry[K, V]{}
	ctx, cancel := context.WithCancelCause(context.Background())
	e.cancel = cancel
	e.tower = &fs.tower
	e.forget = func() { delete(fs.registry, key) }
	e.news = make(chan struct{})
	leader.leader = true
	e.boardLocked(leader)
	e.begun = leader.joined
	fs.registry[key] = e
	fs.tower.running++
	return e, ctx
}

// run flies e in its own goroutine and lands it, however fly ends.
func (fs *Flights[K, V]) run(e *entry[K, V], ctx, leader context.Context, fly func(context.Context, *Flight) (V, error)) {
	e.err = errGoexit // stands unless fly returns or panics
	defer func() {
		v := recover()
		if v != nil {
			e.panicked = &flightPanic{v, debug.Stack()}
		}
		if !e.land() && v != nil {
			panic(v) // still on top of the frames that panicked
		}
	}()
	if fs.identity != nil {
		ctx = withValues{ctx, fs.identity(leader)}
	}
	e.val, e.err = fly(ctx, &e.Flight)
}

// finish turns the end of c's wait into what Join returns. o is set if c left.
//
//go:noinline
func (e *entry[K, V]) finish(c *caller, o *Outcome, fate fate) (V, *Outcome, error) {
	var none V
	switch fate {
	case left:
		_, err := ended(c.ctx)
		return none, o, err
	case refused:
		return none, e.shedView.outcome(c, Shed), ErrLotFull
	}
	if e.panicked != nil {
		panic(e.panicked)
	}
	if e.err != nil {
		return e.val, e.doneView.outcome(c, Failed), e.err
	}
	return e.val, e.doneView.outcome(c, Served), nil
}

// Len returns the number of flights that can be joined.
func (fs *Flights[K, V]) Len() int {
	fs.tower.mu.Lock()
	defer fs.tower.mu.Unlock()
	return len(fs.registry)
}

// Snapshot returns the flights that can be joined, the oldest first.
func (fs *Flights[K, V]) Snapshot() []FlightSnapshot[K] {
	s := fs.snapshot()
	slices.SortFunc(s, func(a, b FlightSnapshot[K]) int { return cmp.Compare(b.Age, a.Age) })
	return s
}

func (fs *Flights[K, V]) snapshot() []FlightSnapshot[K] {
	fs.tower.mu.Lock()
	defer fs.tower.mu.Unlock()
	now := time.Now()
	s := make([]FlightSnapshot[K], 0, len(fs.registry))
	for key, e := range fs.registry {
		s = append(s, FlightSnapshot[K]{
			Key:       key,
			Callers:   e.present,
			Parked:    e.parked,
			Reason:    e.reason,
			Committed: e.state == committed,
			Stage:     e.phases.innermost(),
			Age:       now.Sub(e.begun),
		})
	}
	return s
}

// Wait waits until no flight function runs, of abandoned flights neither, and
// returns nil at the first such moment; it does not keep new flights from
// beginning. If ctx is done first it returns context.Cause(ctx).
func (fs *Flights[K, V]) Wait(ctx context.Context) error {
	idle := fs.tower.whenIdle()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// withValues is a context with the values of another one.
type withValues struct {
	context.Context
	values context.Context
}

func (c withValues) Value(key any) any {
	// First its own: the context package looks up a context's canceler by a key.
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// A flightPanic is what a flight function panicked with, and where.
type flightPanic struct {
	value any
	stack []byte
}

func (p *flightPanic) Error() string {
	return fmt.Sprintf("parking: flight function panicked: %v\n\n%s", p.value, p.stack)
}

func (p *flightPanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}
