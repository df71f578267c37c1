package parking

import (
	"context"
	"slices"
	"time"
)

// A reference is the package as its rules read: plain lists, scanned in full, no
// concurrency. Its clock is the bubble's, advanced in steps of half a second,
// which is what every duration of a history is a multiple of.
type reference struct {
	setup
	wrong    string // one of wrongRules, or ""
	now      time.Time
	rejected uint64
	parked   []*refSpot // in the order they were taken
	taken    []*refSpot // by Take
	callers  []*refCaller
	flights  []*refFlight
}

type refSpot struct{ since time.Time }

type refCaller struct {
	flight *refFlight
	joined time.Time
	until  time.Time // zero: until it leaves
	spot   *refSpot

	back bool
	v    int
	o    Outcome
	err  error
}

type refFlight struct {
	id, key    int
	begun      time.Time
	callers    []*refCaller
	parked     bool
	reason     string
	committed  bool
	abandoned  bool
	landed     bool
	hidden     bool // by a wrong rule
	emptySince time.Time
	phases     []*Span // open while To is zero
}

// wrongRules are what the check must be able to see.
var wrongRules = []string{
	"lot admits one too many", "refusals are not counted", "resize evicts", "spot freed twice",
	"park sheds the oldest", "park counts again", "last reason wins", "park does not shed", "late joiner needs no spot",
	"leaver keeps its spot", "served keep their spots", "leaving ends the flight", "committed is cancelled", "abandoned stays joinable",
	"abandoned can commit", "uncommit never ends", "shed stay present", "linger from uncommit", "shed joiner revives",
	"lingering cannot commit", "joiner does not revive", "old landing takes the new flight", "deadline is a cancel",
	"phases are not clipped", "stage is the outermost", "parked since joining",
}

func newReference(s setup, wrong string) *reference {
	return &reference{setup: s, wrong: wrong, now: time.Now()}
}

func (m *reference) is(wrong string) bool { return m.wrong == wrong }

func (m *reference) newSpot() *refSpot {
	room := m.capacity == Unlimited || len(m.parked) < m.capacity
	if m.is("lot admits one too many") {
		room = room || len(m.parked) == m.capacity
	}
	if !room {
		if !m.is("refusals are not counted") {
			m.rejected++
		}
		return nil
	}
	s := &refSpot{m.now}
	m.parked = append(m.parked, s)
	return s
}

func (m *reference) freeSpot(s *refSpot) {
	i := slices.Index(m.parked, s)
	if i < 0 {
		if !m.is("spot freed twice") || s == nil || len(m.parked) == 0 {
			return
		}
		i = 0
	}
	m.parked = slices.Delete(m.parked, i, i+1)
}

func (m *reference) take() bool {
	s := m.newSpot()
	if s != nil {
		m.taken = append(m.taken, s)
	}
	return s != nil
}

func (m *reference) free(i int) { m.freeSpot(m.taken[i]) }

func (m *reference) lotSnapshot() LotSnapshot {
	if m.is("resize evicts") && m.capacity >= 0 && len(m.parked) > m.capacity {
		m.parked = m.parked[:m.capacity]
	}
	s := LotSnapshot{Active: len(m.parked), Capacity: m.capacity, Rejected: m.rejected}
	for _, p := range m.parked {
		s.Longest = max(s.Longest, m.now.Sub(p.since))
	}
	return s
}

// current is the flight that key would join, or nil.
func (m *reference) current(key int) *refFlight {
	for i := len(m.flights) - 1; i >= 0; i-- {
		f := m.flights[i]
		if f.key != key {
			continue
		}
		if m.is("abandoned stays joinable") && !f.landed {
			return f
		}
		if !f.abandoned && !f.landed && !f.hidden {
			return f
		}
	}
	return nil
}

func (m *reference) registry() map[int]FlightSnapshot[int] {
	all := make(map[int]FlightSnapshot[int])
	for key := range keys {
		if f := m.current(key); f != nil {
			all[key] = FlightSnapshot[int]{key, len(f.callers), f.parked, f.reason, f.committed, m.stage(f), m.now.Sub(f.begun)}
		}
	}
	return all
}

func (m *reference) stage(f *refFlight) string {
	stage := ""
	for _, p := range f.phases {
		if p.To.IsZero() {
			if stage = p.Name; m.is("stage is the outermost") {
				break
			}
		}
	}
	return stage
}

func (m *reference) join(key int, stay time.Duration) {
	c := &refCaller{joined: m.now}
	if stay > 0 {
		c.until = m.now.Add(stay)
	}
	m.callers = append(m.callers, c)
	f := m.current(key)
	if f == nil {
		f = &refFlight{id: len(m.flights), key: key, begun: m.now}
		m.flights = append(m.flights, f)
		c.o.Leader = true
	}
	if f.parked && !m.is("late joiner needs no spot") {
		if c.spot = m.newSpot(); c.spot == nil {
			c.back, c.err = true, ErrLotFull
			c.o = Outcome{Reason: f.reason, Result: Shed, Stage: m.stage(f)}
			if m.is("shed joiner revives") {
				f.emptySince = m.now
			}
			return
		}
	}
	c.flight = f
	f.callers = append(f.callers, c)
	if m.is("joiner does not revive") && len(f.callers) == 1 && !c.o.Leader && !f.committed {
		m.abandon(f)
	}
}

// part takes c out of its flight with a result.
func (m *reference) part(c *refCaller, r Result, err error) {
	f := c.flight
	c.back, c.err = true, err
	c.o = Outcome{Leader: c.o.Leader, Reason: f.reason, Result: r, Stage: m.stage(f)}
	if c.spot != nil {
		c.o.Parked, c.o.ParkedFor = true, m.now.Sub(c.spot.since)
		if m.is("parked since joining") {
			c.o.ParkedFor = m.now.Sub(c.joined)
		}
	}
	for _, p := range f.phases {
		s := *p
		if s.To.IsZero() {
			s.To = m.now
		}
		seen := !s.From.Before(c.joined) || s.To.After(c.joined)
		if seen && s.From.Before(c.joined) && !m.is("phases are not clipped") {
			s.From = c.joined
		}
		if seen {
			c.o.Phases = append(c.o.Phases, s)
		}
	}
	if !m.is("shed stay present") || r != Shed {
		f.callers = slices.DeleteFunc(f.callers, func(o *refCaller) bool { return o == c })
	}
	if len(f.callers) == 0 {
		f.emptySince = m.now
	}
	keep := m.is("leaver keeps its spot") && (r == Canceled || r == BudgetExhausted) || m.is("served keep their spots") && r == Served
	if c.spot != nil && !keep {
		m.freeSpot(c.spot)
	}
}

// settle applies the rule of the last leaver.
func (m *reference) settle(f *refFlight) {
	if len(f.callers) > 0 || f.landed || f.abandoned {
		return
	}
	if f.committed && !m.is("committed is cancelled") {
		return
	}
	if !m.now.Before(f.emptySince.Add(m.linger)) {
		m.abandon(f)
	}
}

func (m *reference) abandon(f *refFlight) {
	f.abandoned, f.committed = true, false
}

func (m *reference) leave(i int) {
	m.leaveWith(m.callers[i], Canceled, context.Canceled)
}

func (m *reference) leaveWith(c *refCaller, r Result, err error) {
	if c.back {
		return
	}
	m.part(c, r, err)
	m.settle(c.flight)
	if m.is("leaving ends the flight") {
		m.abandon(c.flight)
	}
}

func (m *reference) advance(d time.Duration) {
	for ; d > 0; d -= time.Second / 2 {
		m.now = m.now.Add(time.Second / 2)
		for _, c := range m.callers {
			if c.back || c.until.IsZero() || m.now.Before(c.until) {
				continue
			}
			r := BudgetExhausted
			if m.is("deadline is a cancel") {
				r = Canceled
			}
			m.leaveWith(c, r, context.DeadlineExceeded)
		}
		for _, f := range m.flights {
			m.settle(f)
		}
	}
}

func (m *reference) park(i int, reason string) {
	f := m.flights[i]
	if f.landed || f.abandoned {
		return
	}
	if f.parked && !m.is("park counts again") {
		if m.is("last reason wins") {
			f.reason = reason
		}
		return
	}
	f.parked, f.reason = true, reason
	present := slices.Clone(f.callers)
	if m.is("park sheds the oldest") {
		slices.Reverse(present)
	}
	for _, c := range present {
		if c.spot = m.newSpot(); c.spot == nil && !m.is("park does not shed") {
			m.part(c, Shed, ErrLotFull)
		}
	}
	m.settle(f)
}

func (m *reference) commit(i int) bool {
	f := m.flights[i]
	if f.landed || f.abandoned && !m.is("abandoned can commit") {
		return false
	}
	if m.is("lingering cannot commit") && len(f.callers) == 0 && !f.committed {
		m.abandon(f)
		return false
	}
	f.committed = true
	return true
}

func (m *reference) uncommit(i int) bool {
	f := m.flights[i]
	if m.is("linger from uncommit") && f.committed && len(f.callers) == 0 {
		f.emptySince = m.now
	}
	f.committed = false
	if !m.is("uncommit never ends") {
		m.settle(f)
	}
	return !f.landed && !f.abandoned
}

func (m *reference) phase(i int, name string) {
	f := m.flights[i]
	p := &Span{Name: name, From: m.now}
	if f.landed {
		p.To = m.now
	}
	f.phases = append(f.phases, p)
}

func (m *reference) endPhase(i, n int) {
	if p := m.flights[i].phases[n]; p.To.IsZero() {
		p.To = m.now
	}
}

func (m *reference) land(i int, err error) {
	f := m.flights[i]
	r := Served
	if err != nil {
		r = Failed
	}
	for _, c := range slices.Clone(f.callers) {
		m.part(c, r, err)
		c.v = i
	}
	f.landed, f.committed = true, false
	if cur := m.current(f.key); cur != nil && f.abandoned && m.is("old landing takes the new flight") {
		cur.hidden = true
	}
}
