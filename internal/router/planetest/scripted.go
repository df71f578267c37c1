// Package planetest has the conformance suite that every plane passes, and a
// scripted plane for tests of what stands on one.
package planetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"layover/internal/router"
	"layover/turnstile"
)

// Scripted is a plane without a world behind it: an actor wakes when the
// script says so. It keeps every rule of a real plane that knows its actors'
// state, and records what it did. All methods may be called from any
// goroutine, also in a synctest bubble.
type Scripted struct {
	pool *turnstile.Turnstile

	// Start stands for starting the actor; its context ends with the start
	// ceiling, not with any caller. Default: returns nil at once. Set it before
	// the first request.
	Start func(ctx context.Context, actor string) error
	// Ceiling bounds Start. Default: none.
	Ceiling time.Duration
	// KeepIdle leaves idle actors awake although a flight waits in line; then
	// only Sleep frees a worker. Set it before the first request.
	KeepIdle bool

	mu     sync.Mutex
	actors map[string]*scriptedActor
	grants []Grant
}

// Grant is one hand-over of a worker to a flight.
type Grant struct {
	Actor string
	At    time.Time
}

type scriptedActor struct {
	name     string
	state    router.State
	since    time.Time
	lastUsed time.Time
	wanted   int
	inFlight int
	wakes    uint64
	refused  int // connections to the target, since one was taken
	target   router.Target
	pass     turnstile.Pass
	slept    chan struct{} // closed when going to sleep has ended
}

// NewScripted returns a plane of one pool, with all actors asleep.
func NewScripted(workers int, actors ...string) *Scripted {
	s := &Scripted{pool: turnstile.New(workers), actors: make(map[string]*scriptedActor)}
	for _, name := range actors {
		s.actors[name] = &scriptedActor{name: name, state: router.Asleep, since: time.Now()}
	}
	return s
}

// Pool returns the turnstile in front of the workers.
func (s *Scripted) Pool() *turnstile.Turnstile { return s.pool }

// Grants returns the hand-overs of workers so far, in their order.
func (s *Scripted) Grants() []Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.grants)
}

// Wakes returns how many times actor has begun to wake.
func (s *Scripted) Wakes(actor string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.actors[actor].wakes
}

// BeginSleep makes an awake actor go to sleep, whoever uses it, and returns
// the function that ends that and frees its worker.
func (s *Scripted) BeginSleep(actor string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.actors[actor]
	if a.state != router.Awake {
		panic(fmt.Sprintf("planetest: %s cannot go to sleep: it is %s", actor, a.state))
	}
	a.enterLocked(router.GoingToSleep)
	a.slept = make(chan struct{})
	return func() {
		s.mu.Lock()
		pass := a.sleepLocked()
		s.mu.Unlock()
		pass.Return()
	}
}

// Sleep puts an awake actor to sleep at once.
func (s *Scripted) Sleep(actor string) { s.BeginSleep(actor)() }

func (a *scriptedActor) enterLocked(state router.State) {
	a.state, a.since = state, time.Now()
}

func (a *scriptedActor) sleepLocked() turnstile.Pass {
	a.enterLocked(router.Asleep)
	a.inFlight, a.refused = 0, 0
	if a.slept != nil {
		close(a.slept)
		a.slept = nil
	}
	pass := a.pass
	a.pass = turnstile.Pass{}
	return pass
}

// evict puts the least recently used idle actor to sleep if a flight waits.
func (s *Scripted) evict() {
	if s.KeepIdle {
		return
	}
	s.mu.Lock()
	var oldest *scriptedActor
	if available, waiting := s.pool.Snapshot(); available <= 0 && waiting > 0 {
		for _, a := range s.actors {
			if a.state == router.Awake && a.wanted+a.inFlight == 0 && (oldest == nil || a.lastUsed.Before(oldest.lastUsed)) {
				oldest = a
			}
		}
	}
	var pass turnstile.Pass
	if oldest != nil {
		pass = oldest.sleepLocked()
	}
	s.mu.Unlock()
	pass.Return()
}

// Want implements [router.Plane].
func (s *Scripted) Want(actor string) (router.Use, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.actors[actor]
	if a == nil {
		return nil, router.Fail(router.UnknownActor, "not in the script", nil)
	}
	a.wanted++
	return &scriptedUse{plane: s, actor: a}, nil
}

// Glance implements [router.Plane].
func (s *Scripted) Glance(actor string) (router.Target, router.Use, router.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.actors[actor]
	switch {
	case a == nil:
		return router.Target{}, nil, "", router.Fail(router.UnknownActor, "not in the script", nil)
	case a.state != router.Awake:
		return router.Target{}, nil, a.state, nil
	}
	a.inFlight++
	return a.target, &scriptedUse{plane: s, actor: a, with: a.target.Wake, glance: true, late: a.refused > 0}, a.state, nil
}

type scriptedUse struct {
	plane *Scripted
	actor *scriptedActor

	// Guarded by plane.mu.
	with   uint64 // number of the wake that the request is with; 0: none
	glance bool
	late   bool // it began after connections were refused
	failed bool // one of its own was
	done   bool
}

func (u *scriptedUse) Awake() (router.Target, bool) {
	u.plane.mu.Lock()
	defer u.plane.mu.Unlock()
	return u.actor.target, u.takeLocked(u.actor.target)
}

func (u *scriptedUse) Take(t router.Target) bool {
	u.plane.mu.Lock()
	defer u.plane.mu.Unlock()
	return u.takeLocked(t)
}

func (u *scriptedUse) takeLocked(t router.Target) bool {
	a := u.actor
	if a.state != router.Awake || a.target != t || u.done {
		return false
	}
	u.with, u.late = t.Wake, a.refused > 0
	a.wanted--
	a.inFlight++
	return true
}

// Unreachable takes the actor for gone at the third refusal without a success.
func (u *scriptedUse) Unreachable() {
	s, a := u.plane, u.actor
	s.mu.Lock()
	var pass turnstile.Pass
	if !u.done && u.with != 0 && a.target.Wake == u.with && a.state == router.Awake {
		u.failed = true
		if a.refused++; a.refused >= 3 {
			pass = a.sleepLocked()
		}
	}
	s.mu.Unlock()
	pass.Return()
}

func (u *scriptedUse) Done() {
	s, a := u.plane, u.actor
	s.mu.Lock()
	switch {
	case u.done:
	case u.with == 0:
		a.wanted--
	case a.target.Wake == u.with && a.inFlight > 0: // else it was put to sleep under the request
		a.inFlight--
		if u.late && !u.failed {
			a.refused = 0
		}
		if !u.glance {
			a.lastUsed = time.Now()
		}
	}
	u.done = true
	s.mu.Unlock()
	s.evict()
}

// Resume implements [router.Plane].
func (s *Scripted) Resume(ctx context.Context, actor string, f *router.Flight) (router.Target, error) {
	s.mu.Lock()
	a := s.actors[actor]
	target, awake, slept := a.target, a.state == router.Awake, a.slept
	s.mu.Unlock()
	if awake { // it woke between the caller's look and this flight
		return target, nil
	}
	if slept != nil {
		f.Park("going to sleep")
		end := f.Phase(router.PhaseSleep)
		select {
		case <-slept:
			end()
		case <-ctx.Done():
			end()
			return router.Target{}, context.Cause(ctx)
		}
	}
	pass, err := s.worker(ctx, a, f)
	if err != nil {
		return router.Target{}, err
	}
	defer f.Phase(router.PhaseWake)()
	if err := s.start(ctx, actor); err != nil {
		s.mu.Lock()
		a.enterLocked(router.Asleep)
		s.mu.Unlock()
		pass.Return()
		return router.Target{}, router.Fail(router.StartFailed, "the script says so", err)
	}
	s.mu.Lock()
	a.enterLocked(router.Awake)
	a.pass = pass
	a.target = router.Target{Addr: actor, Protocol: router.ProtocolH1, Wake: a.wakes}
	target = a.target
	s.mu.Unlock()
	s.evict() // whoever wanted it may have left meanwhile
	return target, nil
}

// worker returns a worker that f is committed to use.
func (s *Scripted) worker(ctx context.Context, a *scriptedActor, f *router.Flight) (turnstile.Pass, error) {
	place := f.Enter(s.pool)
	free := place.Granted()
	if !free {
		s.evict()
		f.Park("no free worker")
		defer f.Phase(router.PhaseLine)()
	}
	pass, ok := place.Wait(ctx)
	if !ok {
		if pass.Doomed() {
			return pass, router.Fail(router.NoWorker, "not enough time left for a worker to be of use", nil)
		}
		return pass, context.Cause(ctx)
	}
	if !f.Commit() {
		pass.Return()
		return turnstile.Pass{}, context.Cause(ctx)
	}
	s.mu.Lock()
	a.enterLocked(router.Waking)
	a.wakes++
	s.grants = append(s.grants, Grant{Actor: a.name, At: time.Now()})
	s.mu.Unlock()
	if free {
		f.Park("starting")
	}
	return pass, nil
}

func (s *Scripted) start(ctx context.Context, actor string) error {
	if s.Start == nil {
		return nil
	}
	if s.Ceiling > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.Ceiling, fmt.Errorf("start ceiling of %v", s.Ceiling))
		defer cancel()
	}
	return s.Start(ctx, actor)
}

// Snapshot implements [router.Plane].
func (s *Scripted) Snapshot() router.PlaneSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	var snap router.PlaneSnapshot
	for _, a := range s.actors {
		snap.Actors = append(snap.Actors, router.ActorSnapshot{
			Name: a.name, Pool: "scripted", State: a.state, Since: a.since, LastUsed: a.lastUsed,
			InFlight: a.inFlight, Wanted: a.wanted, Wakes: a.wakes, Addr: a.target.Addr,
		})
	}
	slices.SortFunc(snap.Actors, func(x, y router.ActorSnapshot) int {
		if x.Name < y.Name {
			return -1
		}
		return 1
	})
	available, waiting := s.pool.Snapshot()
	snap.Pools = []router.PoolSnapshot{{
		Name: "scripted", Workers: s.pool.Size(), Used: s.pool.Size() - available, Waiting: waiting, Line: router.Line(s.pool),
	}}
	return snap
}
