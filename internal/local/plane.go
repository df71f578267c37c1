// Package local makes actors routable that are processes of this machine: it
// starts an actor's program when a request wants it, bounds how many run by
// pools of workers, and puts idle ones to sleep for those that wait.
//
//	plane, err := local.New(local.Config{
//		Pools:  []local.Pool{{Name: "small", Workers: 3}},
//		Actors: []local.Actor{{Name: "wiki", Pool: "small", Command: []string{"wiki", "--port", "{port}"}}},
//	}, local.Options{})
//	defer plane.Stop(ctx)
//	r := router.New(plane, parking.NewLot(1000), router.Options{})
//
// What it promises beyond [router.Plane]:
//   - an actor has at most one life at a time, and the next one begins only
//     after the exit of the last one is confirmed, with everything that it
//     started (actor.go);
//   - a worker passes from an actor whose exit is confirmed to the next flight
//     in line without a timer, and no actor is idle while a flight waits for a
//     worker that none is on its way to, but for min_awake; a worker is on its
//     way from when its program is asked to end until one second after it was
//     killed, if even that did not end it (pool.go);
//   - a start has its own ceiling, and is not cut off because its callers left;
//   - after Stop no process is left, and after a crash of the router New ends
//     what is left, by the state folder (state_unix.go).
//
// Decisions are made under one mutex, Plane.mu, and never block; each life has
// one goroutine that carries them out and owns the process. Locks are taken in
// the order Plane.mu, then those of turnstile. All times are monotonic.
//
// A program's processes are known by its group and by the variable
// LAYOVER_ACTOR, which they inherit: one that leaves the group and drops the
// variable gets away.
//
// All of it works on Linux. On other Unixes, processes that leave their group
// are not found, a foreign owner of an actor's port is not noticed, and an
// actor whose router is killed lives on until the next New.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"layover/internal/router"
)

// Options are what may be left out.
type Options struct {
	// Log is told of every wake-up, sleep and failure. Default: nobody is.
	Log *slog.Logger
}

// Plane is the plane of local processes. It is made by New; its methods may be
// called from any goroutine.
type Plane struct {
	host  host
	log   *slog.Logger
	state string // folder, as configured

	patient   context.Context // over: programs are not given time to end by themselves
	impatient context.CancelFunc
	lives     sync.WaitGroup
	stopped   chan struct{} // closed after the last life's end and host's close
	closeErr  error         // of host; set before stopped closes

	mu     sync.Mutex
	pools  map[string]*pool
	defs   definitions
	actors map[string]*actor
	queued int // instances of templates that are asleep and wanted
	wakes  uint64
	closed bool

	followers map[string][]*follower // by actor; an instance of a template may come and go
}

var _ router.Plane = (*Plane)(nil)

// New returns a plane with all actors asleep. It takes the state folder for
// itself and ends what a plane that was killed left in it. Errors: everything
// that is wrong with c, or that another plane has the folder.
func New(c Config, o Options) (*Plane, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h, err := newHost(c.State, o.Log)
	if err != nil {
		return nil, err
	}
	p := newPlane(h, o.Log)
	p.state = c.State
	if _, err := p.Apply(c); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return p, nil
}

func newPlane(h host, log *slog.Logger) *Plane {
	p := &Plane{host: h, log: log, stopped: make(chan struct{}), pools: make(map[string]*pool), actors: make(map[string]*actor), followers: make(map[string][]*follower)}
	p.patient, p.impatient = context.WithCancel(context.Background())
	return p
}

// Apply puts another configuration into force and returns what changed, a line
// each. All of c is checked first; after an error nothing has changed. What is
// the same in both keeps running. A changed or removed actor that is awake
// finishes its requests and sleeps, one that is waking is stopped; requests
// that wait for it wait for the new definition, or are refused as unknown.
// What changed only in its times (start_timeout, grace, idle, min_awake,
// max_hold, max_drain, keep_awake) keeps running too. Back-offs after failed starts end, also when
// nothing changed: whoever applies a configuration may have mended the cause.
func (p *Plane) Apply(c Config) (changes []string, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var errs []error
	for _, a := range c.Actors {
		if err := p.host.check(a); err != nil {
			errs = append(errs, fmt.Errorf("local: actor %q: %w", a.Name, err))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("local: the plane is stopped")
	}
	if c.State != p.state {
		errs = append(errs, fmt.Errorf("local: the state folder cannot change from %q to %q while running: restart", p.state, c.State))
	}
	for _, pl := range p.pools { // a flight that left with a worker told nobody
		p.forgetPoolLocked(pl)
	}
	for _, cp := range c.Pools {
		if pl := p.pools[cp.Name]; pl != nil && (pl.HeadStart != cp.HeadStart || pl.MinUseful != cp.MinUseful) {
			errs = append(errs, fmt.Errorf("local: pool %q: head_start and min_useful cannot change while running: restart", cp.Name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	was := p.defs.templates
	p.defs = newDefinitions(c.Actors)
	changes = append(p.applyPoolsLocked(c.Pools), templateChanges(was, p.defs.templates)...)
	changes = append(changes, p.applyActorsLocked()...)
	for _, a := range p.actors {
		p.keepLocked(a)
	}
	for _, pl := range p.pools {
		p.evictLocked(pl)
	}
	return changes, nil
}

func (p *Plane) applyPoolsLocked(configured []Pool) (changes []string) {
	for name, pl := range p.pools {
		if slices.ContainsFunc(configured, func(c Pool) bool { return c.Name == name }) {
			continue
		}
		if !pl.removed {
			changes = append(changes, fmt.Sprintf("pool %q removed", name))
		}
		pl.removed, pl.Workers = true, 0
		pl.gate.Resize(0)
		p.forgetPoolLocked(pl)
	}
	for _, c := range configured {
		pl := p.pools[c.Name]
		switch {
		case pl == nil:
			p.pools[c.Name] = newPool(c)
			changes = append(changes, fmt.Sprintf("pool %q added with %d workers", c.Name, c.Workers))
		case pl.Workers != c.Workers:
			changes = append(changes, fmt.Sprintf("pool %q has %d workers, before %d", c.Name, c.Workers, pl.Workers))
			p.resizeLocked(pl, c.Workers)
		}
	}
	slices.Sort(changes)
	return changes
}

func (p *Plane) applyActorsLocked() (changes []string) {
	note := func(name, what string) { changes = append(changes, fmt.Sprintf("actor %q %s", name, what)) }
	for name := range p.defs.exact {
		if p.actors[name] == nil {
			def, _ := p.defs.of(name)
			p.actors[name] = &actor{name: name, def: def, state: router.Asleep, since: time.Now()}
			note(name, "added")
		}
	}
	for name, a := range p.actors {
		def, ok := p.defs.of(name)
		if !ok {
			if !a.removed {
				note(name, "removed")
			}
			a.removed = true
			p.scheduleLocked(a)
			a.leaveLineLocked()
			p.dismissLocked(a, errRemoved)
			p.forgetLocked(a)
			continue
		}
		_, exact := p.defs.exact[name]
		a.template = !exact
		if a.removed {
			a.removed = false
			note(name, "added again")
		}
		if a.retryAt.After(time.Now()) {
			note(name, "may start again at once")
		}
		a.failures, a.retryAt = 0, time.Time{}
		was := a.def
		a.def = def
		p.scheduleLocked(a)
		switch {
		case was.equal(def):
		case was.sameProgram(def):
			note(name, "has other times")
			p.settleLocked(a)
			p.drainLocked(a)
		default:
			note(name, "changed")
			a.lastError, a.failing = "", false // of what it was
			a.leaveLineLocked()
			p.dismissLocked(a, errChanged)
		}
		p.forgetLocked(a)
	}
	slices.Sort(changes)
	return changes
}

// templateChanges compares what actors were and will be made of.
func templateChanges(was, are []Actor) (changes []string) {
	note := func(name, what string) { changes = append(changes, fmt.Sprintf("actor %q %s", name, what)) }
	old := make(map[string]Actor)
	for _, a := range was {
		old[a.Name] = a
	}
	for _, a := range are {
		before, had := old[a.Name]
		delete(old, a.Name)
		switch {
		case !had:
			note(a.Name, "added")
		case before.equal(a):
		case before.sameProgram(a):
			note(a.Name, "has other times")
		default:
			note(a.Name, "changed")
		}
	}
	for name := range old {
		note(name, "removed")
	}
	slices.Sort(changes)
	return changes
}

// leaveLineLocked sends the flights of a that wait for a worker to look again
// at what a is now.
func (a *actor) leaveLineLocked() {
	for place := range a.places {
		place.Leave()
	}
}

// Sleep puts an actor to sleep as soon as the requests that are with it are
// done; if it is waking, at once. It returns when its worker is free, also if
// it was asleep already, or with ctx's cause. One that is kept awake is started
// again then. The error is an *router.Error of reason UnknownActor if no
// definition has the name.
func (p *Plane) Sleep(ctx context.Context, name string) error {
	p.mu.Lock()
	a := p.actors[name]
	if a == nil || a.life == nil {
		_, known := p.defs.of(name)
		p.mu.Unlock()
		if a == nil && !known {
			return router.Fail(router.UnknownActor, "there is no actor of this name", nil)
		}
		return nil
	}
	gone := a.life.gone
	p.dismissLocked(a, errAsked)
	p.mu.Unlock()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lastResort is how long Stop waits for processes that were sent KILL.
const lastResort = 5 * time.Second

// Stop ends every actor, whoever uses it, and gives the state folder up: TERM,
// each actor's grace, KILL. When ctx ends, all are killed at once. When it
// returns nil, no process is left. From its first call on, requests are
// refused. It may be called again.
func (p *Plane) Stop(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		for _, pl := range p.pools {
			pl.gate.Close()
		}
		for _, a := range p.actors {
			if a.alarm != nil {
				a.alarm.Stop()
			}
			if a.life != nil {
				p.stopLocked(a, a.life, errShutdown)
			}
		}
		go p.finish() // the caller, or one that calls again, waits for it
	}
	p.mu.Unlock()
	select {
	case <-p.stopped:
		return p.closeErr
	case <-ctx.Done():
	}
	p.impatient()
	limit := time.NewTimer(lastResort)
	defer limit.Stop()
	select {
	case <-p.stopped:
		return p.closeErr
	case <-limit.C:
		return fmt.Errorf("local: processes are still there %v after they were killed", lastResort)
	}
}

func (p *Plane) finish() {
	p.lives.Wait()
	p.closeErr = p.host.close()
	p.impatient() // frees the context
	close(p.stopped)
}

// Snapshot implements [router.Plane].
func (p *Plane) Snapshot() router.PlaneSnapshot {
	var snap router.PlaneSnapshot
	outputs := make(map[string]program)
	p.mu.Lock()
	seen := make([]router.ActorSnapshot, 0, len(p.actors))
	for _, a := range p.actors {
		seen = append(seen, a.snapshotLocked())
		if a.life != nil && a.life.program != nil {
			outputs[a.name] = a.life.program
		}
	}
	pools := slices.Collect(maps.Values(p.pools))
	p.mu.Unlock()
	for _, pl := range pools { // outside the lock: a long line is sorted for it
		snap.Pools = append(snap.Pools, pl.snapshot())
	}
	snap.Actors = byName(seen)
	for i := range snap.Actors {
		s := &snap.Actors[i]
		program := outputs[s.Name]
		if program == nil {
			continue
		}
		s.Output = program.output(shownLines)
		if lacks := program.lacks(); lacks != nil && s.State == router.Waking {
			s.Lacks = lacks.Error()
		}
	}
	slices.SortFunc(snap.Pools, func(a, b router.PoolSnapshot) int { return cmp.Compare(a.Name, b.Name) })
	return snap
}

// byName sorts actors. It moves each only once: they are large, and can be many.
func byName(actors []router.ActorSnapshot) []router.ActorSnapshot {
	order := make([]*router.ActorSnapshot, len(actors))
	for i := range actors {
		order[i] = &actors[i]
	}
	slices.SortFunc(order, func(a, b *router.ActorSnapshot) int { return cmp.Compare(a.Name, b.Name) })
	sorted := make([]router.ActorSnapshot, len(actors))
	for i, a := range order {
		sorted[i] = *a
	}
	return sorted
}

func (a *actor) snapshotLocked() router.ActorSnapshot {
	s := router.ActorSnapshot{
		Name: a.name, Pool: a.def.Pool, Kept: a.keeping, State: a.state, Since: a.since, Wanted: a.wanted, LastUsed: a.lastUsed,
		Wakes: a.wakes, LastWake: a.lastWake, Failing: a.failing, LastError: a.lastError, Output: shown(a.lastWords),
	}
	if a.state == router.Asleep && !a.retryAt.IsZero() && a.retryAt.After(time.Now()) {
		s.State, s.RetryAt = router.Failed, a.retryAt
	}
	if l := a.life; l != nil {
		s.InFlight, s.Addr = l.inFlight, l.target.Addr
		if l.program != nil {
			s.PID = l.program.pid()
		}
	}
	return s
}

// snapshot is the pool as the status page shows it.
func (pl *pool) snapshot() router.PoolSnapshot {
	stats := pl.gate.Stats()
	return router.PoolSnapshot{
		Name: pl.Name, Workers: stats.Size, Used: stats.Held, Waiting: stats.Waiting, Line: router.Line(pl.gate),
	}
}

func (p *Plane) logAwake(name string, l *life) {
	if l.awakeAt.IsZero() {
		return
	}
	p.log.Info("actor awake", "actor", name, "wake", l.number, "took", l.awakeAt.Sub(l.began),
		"addr", l.target.Addr, "pid", l.program.pid())
}

func (p *Plane) logFailed(name string, l *life) {
	p.mu.Lock()
	err := l.err
	p.mu.Unlock()
	if err != nil {
		p.log.Warn("actor did not start", "actor", name, "wake", l.number, "err", err.Err, "retry_after", err.RetryAfter, "output", err.Output)
	}
}
