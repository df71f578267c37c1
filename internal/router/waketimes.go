package router

import (
	"slices"
	"sync"
	"time"
)

// How much the router remembers of past wake-ups. An actor that is not among
// the remembered ones is expected to behave like all others.
const (
	rememberedActors = 4096
	rememberedWakes  = 16
)

// shortestLinger is the linger within which a client can come back at all, at a
// second's precision.
const shortestLinger = 2 * time.Second

// wakeTimes knows the wake-ups under way and what the last ones took, to tell
// a refused request when a retry makes sense.
type wakeTimes struct {
	linger time.Duration // how long a flight in line outlives its last caller

	mu      sync.Mutex
	flying  map[string]*wakeClock
	byActor map[string]*recent
	wake    recent // of all actors
	line    recent // of all flights that stood in line
}

// recent is a ring of the last durations; the zero value is empty.
type recent struct {
	d [rememberedWakes]time.Duration
	n int
}

func (r *recent) add(d time.Duration) {
	r.d[r.n%len(r.d)] = d
	r.n++
}

func (r *recent) median() (d time.Duration, ok bool) {
	if r.n == 0 {
		return 0, false
	}
	sorted := slices.Clone(r.d[:min(r.n, len(r.d))])
	slices.Sort(sorted)
	return sorted[len(sorted)/2], true
}

// wakeClock times one wake-up.
type wakeClock struct {
	times      *wakeTimes // its mu guards what follows
	phase      string
	since      time.Time
	line, wake time.Duration
}

func (t *wakeTimes) begin(actor string) *wakeClock {
	c := &wakeClock{times: t, since: time.Now()}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flying == nil {
		t.flying = make(map[string]*wakeClock)
		t.byActor = make(map[string]*recent)
	}
	t.flying[actor] = c
	return c
}

// begin notes the start of a phase and returns the function that notes its end.
func (c *wakeClock) begin(phase string) (end func()) {
	start := time.Now()
	c.times.mu.Lock()
	c.phase, c.since = phase, start
	c.times.mu.Unlock()
	return func() {
		took := time.Since(start)
		c.times.mu.Lock()
		defer c.times.mu.Unlock()
		switch phase {
		case PhaseLine:
			c.line += took
		case PhaseWake:
			c.wake += took
		}
		if c.phase == phase {
			c.phase, c.since = "", time.Now()
		}
	}
}

func (t *wakeTimes) end(actor string, c *wakeClock, served bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flying[actor] == c { // an abandoned flight may end after its successor began
		delete(t.flying, actor)
	}
	if c.line > 0 {
		t.line.add(c.line)
	}
	if !served || c.wake == 0 {
		return
	}
	t.wake.add(c.wake)
	of := t.byActor[actor]
	if of == nil {
		if len(t.byActor) >= rememberedActors {
			for forgotten := range t.byActor { // any: the map's order is random
				delete(t.byActor, forgotten)
				break
			}
		}
		of = new(recent)
		t.byActor[actor] = of
	}
	of.add(c.wake)
}

// expect returns how long it will probably take until actor is awake, from
// what wake-ups took lately, less what the one under way has behind it. Zero
// when nothing is known.
func (t *wakeTimes) expect(actor string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	wake, ok := t.wakeMedianLocked(actor)
	if !ok {
		return 0
	}
	c := t.flying[actor]
	if c == nil {
		return wake
	}
	switch c.phase {
	case PhaseLine:
		line, _ := t.line.median()
		left := max(line-time.Since(c.since), 0) + wake
		if t.linger >= shortestLinger { // who comes back before the flight is given up keeps his age
			left = min(left, t.linger*4/5) // the answer adds up to a fifth
		}
		return left
	case PhaseWake:
		return max(wake-time.Since(c.since), 0)
	}
	return wake
}

func (t *wakeTimes) wakeMedianLocked(actor string) (time.Duration, bool) {
	if of := t.byActor[actor]; of != nil {
		return of.median()
	}
	return t.wake.median()
}
