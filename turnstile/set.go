package turnstile

import (
	"context"
	"maps"
	"sync"
)

// A Set is one turnstile per shard. The turnstiles are independent: each has its own lock and its own line, and a pass returned
// to one never wakes a waiter of another. Make one with NewSet: the zero Set is not usable. All methods may be called from
// several goroutines at once.
type Set struct {
	o Options

	mu         sync.RWMutex // held before any turnstile's
	turnstiles map[int]*Turnstile
	closed     bool
}

// NewSet is a set without turnstiles, of strict bands.
func NewSet() *Set { return NewSetWith(Options{}) }

// NewSetWith is NewSet with options for each of its turnstiles.
func NewSetWith(o Options) *Set { return &Set{o: o, turnstiles: map[int]*Turnstile{}} }

// Resize gives the shard that many passes, and a turnstile if it has none: until then the set issues no pass for it. It gives none
// once the set is closed.
func (s *Set) Resize(shard, concurrency int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.turnstiles[shard]
	switch {
	case t != nil:
		t.Resize(concurrency)
	case !s.closed:
		s.turnstiles[shard] = NewWith(concurrency, s.o)
	}
}

// Turnstile is the shard's turnstile, nil if it has none.
func (s *Set) Turnstile(shard int) *Turnstile {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.turnstiles[shard]
}

// ContextWithPriority is ctx for a job that takes its turns at the shard's turnstile, in that band. If ctx has a job already, it
// is the same job at another turnstile or in another band: its age stays. The turnstile is looked up now, not at each turn.
func (s *Set) ContextWithPriority(ctx context.Context, shard, priority int) context.Context {
	return restamp(ctx, priority, s.Turnstile(shard))
}

// Gate is the way in for jobs of that band.
func (s *Set) Gate(priority int) *Gate { return &Gate{set: s, priority: priority} }

// Snapshot is Turnstile.Snapshot of each shard.
func (s *Set) Snapshot() (available, waiting map[int]int) {
	s.mu.RLock()
	turnstiles := maps.Clone(s.turnstiles)
	s.mu.RUnlock()
	available, waiting = make(map[int]int, len(turnstiles)), make(map[int]int, len(turnstiles))
	for shard, t := range turnstiles {
		available[shard], waiting[shard] = t.Snapshot()
	}
	return available, waiting
}

// Close closes every turnstile of the set. It gets no new ones.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, t := range s.turnstiles {
		t.Close()
	}
}

// Closed reports whether Close was called.
func (s *Set) Closed() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.closed
}

// A Gate takes a job's first turn before the job is picked up, so that a worker holds no job while it waits.
type Gate struct {
	set      *Set
	priority int
}

// Acquire waits for the first turn of a job at the shard's turnstile. The job begins when Acquire is called, unless ctx has one
// already; the context it returns carries the job's claim, and every later turn of the job, by WaitTurn, uses it. release gives
// the first turn back; it may be called twice, is never nil, and normally follows the job's first call. ok is false only if the
// set is closed, before the wait or after it: like WaitTurn, Acquire does not refuse when ctx is done or the shard has no
// turnstile, and then the turn is unordered.
func (g *Gate) Acquire(ctx context.Context, shard int) (job context.Context, release func(), ok bool) {
	job = g.set.ContextWithPriority(ctx, shard, g.priority)
	if g.set.Closed() {
		return job, func() {}, false
	}
	pass := WaitTurn(job)
	if g.set.Closed() {
		pass.Return()
		return job, func() {}, false
	}
	return job, pass.Return, true
}
