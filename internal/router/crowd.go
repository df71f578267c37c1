package router

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"layover/budget"
	"layover/parking"
	"layover/turnstile"
)

// crowds are the requests that wait for actors, by actor.
type crowds struct {
	mu    sync.Mutex
	of    map[string]*crowd
	empty *crowd // one to use again, so that a lone request makes none; may be nil
}

// crowd is everybody who waits for one actor. While the actor's flight stands
// in a pool's line, its place there has the best claim and the latest end of
// the crowd: each who comes or goes corrects it, in O(log n).
type crowd struct {
	users int // members, and flights that may use it; guarded by crowds.mu

	mu      sync.Mutex // held across place.Set, so that the last change wins; before the turnstile's lock
	line    *turnstile.Turnstile
	place   *turnstile.Place // nil: nobody stands in line for the crowd
	byClaim members          // a heap while there is a place: the best claim first
	byEnd   members          // a heap while there is a place: the latest end first

	shown turnstile.Claim // what the place has
	until time.Time
	alone bool // everybody had left since the place was entered

	trouble *Error         // what keeps the last flight; nil: nothing is known
	phases  []parking.Span // of the flight, the last mostPhases; To of one that goes on is zero
}

// mostPhases bounds what is kept of a flight that tries again and again.
const mostPhases = 16

// member is one request of a crowd.
type member struct {
	claim turnstile.Claim
	end   time.Time // zero: it has none
	at    [2]int    // its index in byClaim and byEnd

	id     string
	budget budget.Budget
}

// members is a list of members that can be a heap.
type members struct {
	list  []*member
	which int // its index in member.at
	less  func(a, b *member) bool
}

func (m *members) Len() int           { return len(m.list) }
func (m *members) Less(i, j int) bool { return m.less(m.list[i], m.list[j]) }
func (m *members) Swap(i, j int) {
	m.list[i], m.list[j] = m.list[j], m.list[i]
	m.list[i].at[m.which], m.list[j].at[m.which] = i, j
}
func (m *members) Push(x any) {
	mb := x.(*member)
	mb.at[m.which] = len(m.list)
	m.list = append(m.list, mb)
}
func (m *members) Pop() any {
	n := len(m.list) - 1
	mb := m.list[n]
	m.list[n] = nil
	m.list = m.list[:n]
	return mb
}

// enter returns the crowd of actor with one more user.
func (cs *crowds) enter(actor string) *crowd {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.of[actor]
	if c == nil {
		if c, cs.empty = cs.empty, nil; c == nil {
			c = &crowd{byEnd: members{which: 1, less: endsLater}}
		}
		if cs.of == nil {
			cs.of = make(map[string]*crowd)
		}
		cs.of[actor] = c
	}
	c.users++
	return c
}

// leave ends one use of actor's crowd. It takes crowds.mu before crowd.mu.
func (cs *crowds) leave(actor string, c *crowd) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.users--; c.users == 0 {
		delete(cs.of, actor)
		if cap(c.byClaim.list) <= 64 {
			c.startOver()
			cs.empty = c
		}
	}
}

// inLine returns the actor of each claim that a crowd shows in a line. Of the
// requests of one job for several actors, it knows one. It takes crowds.mu
// before crowd.mu.
func (cs *crowds) inLine(into map[turnstile.Claim]string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for actor, c := range cs.of {
		c.mu.Lock()
		if c.place != nil {
			into[c.shown] = actor
		}
		c.mu.Unlock()
	}
}

func endsLater(a, b *member) bool {
	if a.end.IsZero() || b.end.IsZero() {
		return a.end.IsZero() && !b.end.IsZero()
	}
	return a.end.After(b.end)
}

func (c *crowd) join(m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.place == nil { // order them when somebody stands in line
		c.byClaim.Push(m)
		c.byEnd.Push(m)
		return
	}
	heap.Push(&c.byClaim, m)
	heap.Push(&c.byEnd, m)
	c.showLocked()
}

func (c *crowd) remove(m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.place == nil {
		for _, of := range []*members{&c.byClaim, &c.byEnd} {
			of.Swap(m.at[of.which], of.Len()-1)
			of.Pop()
		}
		c.shown = m.claim // if it was the last one: what a flight that lingers stands in line with
		return
	}
	heap.Remove(&c.byClaim, m.at[0])
	heap.Remove(&c.byEnd, m.at[1])
	c.showLocked()
}

// stand takes a place in t's line for the crowd, unless the flight that stands
// is over: then the crowd may have a successor's place, which must stay.
func (c *crowd) stand(t *turnstile.Turnstile, over <-chan struct{}) *turnstile.Place {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-over: // it was before a successor began, so before that one could stand here
		return t.Enter(turnstile.NewClaim(0), time.Time{})
	default:
	}
	c.line = t
	c.byClaim.less = func(a, b *member) bool { return t.Before(a.claim, b.claim) }
	heap.Init(&c.byClaim)
	heap.Init(&c.byEnd)
	c.until, c.alone = time.Time{}, c.byClaim.Len() == 0
	if !c.alone {
		c.shown, c.until = c.bestLocked()
	}
	c.place = t.Enter(c.shown, c.until)
	return c.place
}

// step ends the crowd's care for place.
func (c *crowd) step(place *turnstile.Place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.place == place { // else a later flight has another one
		c.place = nil
	}
}

// showLocked corrects what the place has.
func (c *crowd) showLocked() {
	if c.byClaim.Len() == 0 {
		c.alone = true
		return
	}
	claim, until := c.bestLocked()
	if claim != c.shown || !until.Equal(c.until) {
		c.shown, c.until = claim, until
		c.place.Set(claim, until)
	}
}

// bestLocked returns the best claim of the crowd and its latest end, zero if
// one has none. A crowd that came after everybody had left inherits their age,
// so that clients with short time-outs that try again do not begin at the end
// of the line, but not their band: that was theirs.
func (c *crowd) bestLocked() (turnstile.Claim, time.Time) {
	best := c.byClaim.list[0].claim
	if c.alone {
		inherited := best
		inherited.Since, inherited.Seq = c.shown.Since, c.shown.Seq
		if c.line.Before(inherited, best) {
			best = inherited
		} else {
			c.alone = false
		}
	}
	return best, c.byEnd.list[0].end
}

// startOver forgets what is known of the last flight.
func (c *crowd) startOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble, c.phases = nil, c.phases[:0]
}

// enterPhase ends the phase that the flight is in, and begins another one unless
// its name is empty.
func (c *crowd) enterPhase(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.phaseLocked() != "" {
		c.phases[len(c.phases)-1].To = now
	}
	if name == "" {
		return
	}
	if len(c.phases) == mostPhases {
		c.phases = slices.Delete(c.phases, 0, 1)
	}
	c.phases = append(c.phases, parking.Span{Name: name, From: now})
}

// phaseLocked returns the phase that the flight is in; empty: none.
func (c *crowd) phaseLocked() string {
	if n := len(c.phases); n > 0 && c.phases[n-1].To.IsZero() {
		return c.phases[n-1].Name
	}
	return ""
}

// blame notes what keeps the crowd's flight.
func (c *crowd) blame(e *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble = e
}

// blamed returns what keeps the crowd's flight, or kept its last one: a caller
// whose leaving ends a flight asks after that end.
func (c *crowd) blamed() *Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trouble
}
