package router

import (
	"sync"
	"time"

	"layover/budget"
	"layover/parking"
	"layover/turnstile"
)

// rememberedRecords is how many past requests the status page can show.
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
	Reason  Reason // empty: the actor answered
	Status  int
	Took    time.Duration // arrival to the final response header
	Detail  string        // of a refusal, for the operator
	Budget  budget.Budget // its ledger says where the time went
}

// history remembers the last records and counts all of them.
type history struct {
	mu     sync.Mutex
	last   [rememberedRecords]Record
	n      uint64
	totals Totals
}

// Totals counts the requests that have their answer, since the start.
type Totals struct {
	Served    uint64            `json:"served"`    // the actor answered
	Parked    uint64            `json:"parked"`    // held a spot, whatever came of it
	Triggered uint64            `json:"triggered"` // served after beginning a wake-up
	Joined    uint64            `json:"joined"`    // served after joining one
	Spared    uint64            `json:"spared"`    // answered with the state of an actor that was not awake
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
	h.last[h.n%rememberedRecords] = rec
	h.n++
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
	Recent []Record // newest first
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
	for i := uint64(1); i <= min(h.n, rememberedRecords); i++ {
		s.Recent = append(s.Recent, h.last[(h.n-i)%rememberedRecords])
	}
	return s
}
