package parking

import (
	"fmt"
	"sync"
	"time"
)

// Unlimited is the capacity of a [Lot] that refuses nobody.
const Unlimited = -1

// A Lot is a bounded count of spots. It never makes anyone wait: a spot is free
// now or it is refused. The zero Lot has no capacity and admits nobody. A Lot
// may be used by many goroutines and shared by several [Flights]; it must not be
// copied.
type Lot struct {
	mu       sync.Mutex
	capacity int
	active   int
	rejected uint64
	first    *spot // the held spots in the order they were taken,
	last     *spot // so that the longest wait is always that of the first
}

// A spot is one place, linked into its lot while it is held. It is never used
// twice, so a stale [Spot] cannot free another caller's.
type spot struct {
	prev, next *spot
	since      time.Time // when it was taken; kept after it was freed
	held       bool      // guarded by Lot.mu
}

// LotSnapshot is the state of a [Lot] at one moment.
type LotSnapshot struct {
	Active   int           // spots held now; may exceed Capacity after a Resize
	Capacity int           // spots in all, or Unlimited
	Rejected uint64        // refusals since the lot was made
	Longest  time.Duration // the longest wait of those parked right now, 0 for none
}

// NewLot returns a lot with capacity spots: 0 admits nobody, [Unlimited]
// everybody. It panics if capacity is negative otherwise.
func NewLot(capacity int) *Lot {
	l := new(Lot)
	l.Resize(capacity)
	return l
}

// Resize changes the number of spots. Spots held stay held: a lot made smaller
// than what is held admits nobody until enough of them are freed. It panics like
// [NewLot].
func (l *Lot) Resize(capacity int) {
	if capacity < Unlimited {
		panic(fmt.Sprintf("parking: capacity %d is negative and not Unlimited", capacity))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.capacity = capacity
}

// Take takes a spot, which is held until it is freed, or reports false at once
// and counts the refusal.
func (l *Lot) Take() (Spot, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.admitLocked() {
		return Spot{}, false
	}
	s := new(spot)
	l.linkLocked(s, time.Now())
	return Spot{l, s}, true
}

// Snapshot returns the state of the lot in constant time.
func (l *Lot) Snapshot() LotSnapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := LotSnapshot{Active: l.active, Capacity: l.capacity, Rejected: l.rejected}
	if l.first != nil {
		s.Longest = time.Since(l.first.since)
	}
	return s
}

// A Spot is one place taken in a [Lot]. The zero Spot is no place.
type Spot struct {
	lot *Lot
	s   *spot
}

// Free gives the spot back. Only the first call does anything, whichever copy it
// is made on; freeing the zero Spot does nothing.
func (s Spot) Free() {
	if s.lot != nil {
		s.lot.free(s.s)
	}
}

// take is Take with the spot of the caller.
func (l *Lot) take(s *spot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.admitLocked() {
		return false
	}
	l.linkLocked(s, time.Now())
	return true
}

func (l *Lot) free(s *spot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.freeLocked(s)
}

// admitLocked reports whether there is room, and counts the refusal if not.
func (l *Lot) admitLocked() bool {
	if l.capacity == Unlimited || l.active < l.capacity {
		return true
	}
	l.rejected++
	return false
}

// linkLocked makes s the last spot held. It was never held before, and now was
// read under mu, so that the list is in the order of the times.
func (l *Lot) linkLocked(s *spot, now time.Time) {
	l.active++
	s.held, s.since, s.prev = true, now, l.last
	if l.last == nil {
		l.first = s
	} else {
		l.last.next = s
	}
	l.last = s
}

// freeLocked unlinks s if it is held.
func (l *Lot) freeLocked(s *spot) {
	if !s.held {
		return
	}
	l.active--
	s.held = false
	if s.prev == nil {
		l.first = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		l.last = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
}
