package router

import (
	"sync"
	"time"

	"layover/budget"
	"layover/parking"
	"layover/turnstile"
)

// rememberedRecords is how many past requests are kept of those that were
// served, and of those that were not: what is looked for is mostly one of the
// latter, and would not last for seconds among the others.
const rememberedRecords = 200

// Record is one request that has its answer.
type Record struct {
	ID      string
	At      time.Time // arrival
	Method  string
	Host    string // as the client sent it
	Path    string // without the query, which may have secrets
	Route   string // empty when none matched
	Actor   string
	Instead string // the actor that was asked for, if Actor is its fallback
	Band    int
	Wait           // its Wake is empty when it was refused before it could wait
	Reason  Reason // empty: the actor answered, or MovedOn
	MovedOn bool   // a waiting page was the answer, up to where its browser asks the actor again
	Status  int
	Took    time.Duration // arrival to the final response header
	Detail  string        // of a refusal, for the operator
	Budget  budget.Budget // its ledger says where the time went
}

// history remembers the last records and counts all of them.
type history struct {
	mu              sync.Mutex
	served, refused recordRing
	n               uint64 // how many there were, to put them in order
	totals          Totals
}

// recordRing has the last records of one kind.
type recordRing struct {
	last   [rememberedRecords]Record
	number [rememberedRecords]uint64 // of each among all
	n      uint64
}

func (r *recordRing) add(rec Record, number uint64) {
	r.last[r.n%rememberedRecords], r.number[r.n%rememberedRecords] = rec, number
	r.n++
}

// back returns the i-th last record, from 1 on, and its number; 0: there is none.
func (r *recordRing) back(i uint64) (*Record, uint64) {
	if i > min(r.n, rememberedRecords) {
		return nil, 0
	}
	at := (r.n - i) % rememberedRecords
	return &r.last[at], r.number[at]
}

// recentLocked returns what is remembered, newest first.
func (h *history) recentLocked() (recent []Record) {
	served, refused := uint64(1), uint64(1)
	for {
		a, aNumber := h.served.back(served)
		b, bNumber := h.refused.back(refused)
		switch {
		case a == nil && b == nil:
			return recent
		case aNumber > bNumber:
			recent = append(recent, *a)
			served++
		default:
			recent = append(recent, *b)
			refused++
		}
	}
}

// Totals counts the requests that have their answer, since the start.
type Totals struct {
	Served    uint64            `json:"served"`    // the actor answered
	Parked    uint64            `json:"parked"`    // held a spot, whatever came of it
	Triggered uint64            `json:"triggered"` // served after beginning a wake-up
	Joined    uint64            `json:"joined"`    // served after joining one
	Spared    uint64            `json:"spared"`    // answered with the state of an actor that was not awake
	MovedOn   uint64            `json:"moved_on"`  // answered with a waiting page whose browser asked again
	Refused   map[Reason]uint64 `json:"refused"`
}

// Record notes a request that has its answer. Fronts call it exactly once per
// request.
func (r *Router) Record(rec Record) {
	r.history.add(rec)
	if r.observe != nil {
		r.observe(rec)
	}
}

func (h *history) add(rec Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	if rec.Reason == "" {
		h.served.add(rec, h.n)
	} else {
		h.refused.add(rec, h.n)
	}
	if rec.Parked {
		h.totals.Parked++
	}
	if rec.Reason != "" {
		if h.totals.Refused == nil {
			h.totals.Refused = make(map[Reason]uint64)
		}
		h.totals.Refused[rec.Reason]++
		return
	}
	if rec.Wake == WakeSpared {
		h.totals.Spared++
		return
	}
	if rec.MovedOn {
		h.totals.MovedOn++
		return
	}
	h.totals.Served++
	switch rec.Wake {
	case WakeTriggered:
		h.totals.Triggered++
	case WakeJoined:
		h.totals.Joined++
	}
}

// Snapshot is the router at one moment.
type Snapshot struct {
	Lot    parking.LotSnapshot
	Plane  PlaneSnapshot
	Totals Totals
	Recent []Record // newest first: the last 200 that were served, and the last 200 that were not
}

// lookAtPlane returns the plane's snapshot with the actors of its lines. It
// looks at the crowds before and after, because a claim may change in between.
func (r *Router) lookAtPlane() PlaneSnapshot {
	actors := make(map[turnstile.Claim]string)
	r.crowds.inLine(actors)
	s := r.plane.Snapshot()
	r.crowds.inLine(actors)
	for _, pool := range s.Pools {
		for i := range pool.Line {
			pool.Line[i].Actor = actors[pool.Line[i].Claim]
		}
	}
	return s
}

// Snapshot returns what the status page shows. It is not for the hot path: it
// copies every actor's state.
func (r *Router) Snapshot() Snapshot {
	s := Snapshot{Lot: r.lot.Snapshot(), Plane: r.lookAtPlane()}
	r.gates.show(s.Plane.Actors)
	h := &r.history
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Totals = h.totals
	s.Totals.Refused = make(map[Reason]uint64, len(h.totals.Refused))
	for reason, n := range h.totals.Refused {
		s.Totals.Refused[reason] = n
	}
	s.Recent = h.recentLocked()
	return s
}
