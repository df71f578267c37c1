package proxy

import (
	"sync"
	"time"

	"layover/internal/router"
)

// handoverTime is how long a ride is kept for the browser that was sent on to its
// actor: several round trips of a slow line.
const handoverTime = 5 * time.Second

// handover keeps the rides of requests whose waiting page has moved on, until
// their browsers ask again.
type handover struct {
	mu     sync.Mutex
	kept   map[handoverKey][]*keptRide
	closed bool
}

// handoverKey is what a browser's next request has in common with the one before
// it. Two browsers that have the same may have each other's rides: they want the
// same of the same actor, and each gets one.
type handoverKey struct{ actor, host, target, agent string }

// handed is a ride that changes hands.
type handed struct {
	ride           *router.Ride
	actor, instead string // as in exchange
}

type keptRide struct {
	handed
	timer *time.Timer
}

func (x *exchange) handoverKey() handoverKey {
	return handoverKey{x.asked(), x.in.Host, x.in.RequestURI, x.in.Header.Get("User-Agent")}
}

// leave keeps a ride for who takes it within handoverTime; then, or once it is
// withdrawn, it is done. In a stop it does not stay: it is done at once.
func (h *handover) leave(key handoverKey, left handed) (withdraw func(), stays bool) {
	kept := &keptRide{handed: left}
	withdraw = func() {
		if h.remove(key, kept) {
			left.ride.Done()
		}
	}
	stays = h.add(key, kept, withdraw)
	if !stays {
		left.ride.Done()
	}
	return withdraw, stays
}

func (h *handover) add(key handoverKey, kept *keptRide, late func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	if h.kept == nil {
		h.kept = make(map[handoverKey][]*keptRide)
	}
	kept.timer = time.AfterFunc(handoverTime, late)
	h.kept[key] = append(h.kept[key], kept)
	return true
}

// take returns a ride that was left under key, if there is one.
func (h *handover) take(key handoverKey) (handed, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.kept[key]
	if len(all) == 0 {
		return handed{}, false
	}
	first := all[0]
	h.removeLocked(key, first)
	return first.handed, true
}

func (h *handover) remove(key handoverKey, kept *keptRide) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.removeLocked(key, kept)
}

func (h *handover) removeLocked(key handoverKey, kept *keptRide) bool {
	for i, k := range h.kept[key] {
		if k != kept {
			continue
		}
		k.timer.Stop()
		h.kept[key] = append(h.kept[key][:i], h.kept[key][i+1:]...)
		if len(h.kept[key]) == 0 {
			delete(h.kept, key)
		}
		return true
	}
	return false
}

// close ends the rides that are kept, and keeps no more.
func (h *handover) close() {
	h.mu.Lock()
	all := h.kept
	h.kept, h.closed = nil, true
	h.mu.Unlock()
	for _, list := range all {
		for _, kept := range list {
			kept.timer.Stop()
			kept.ride.Done()
		}
	}
}

// over reports whether a stop has begun: a page that moves on would send its
// browser to nobody.
func (h *handover) over() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// takeOver gets the ride that the waiting page before this request had. A
// request that has it is never shown a page: it is with the actor, or asks for it
// again like any other, so an actor that dies on it makes no browser go round in
// circles.
//
//go:noinline
func (x *exchange) takeOver() bool {
	if x.route.WaitingPage == 0 || !navigates(x.in) {
		return false
	}
	got, ok := x.proxy.handover.take(x.handoverKey())
	if !ok {
		return false
	}
	x.ride, x.actor, x.instead = got.ride, got.actor, got.instead
	x.wait.Add(router.Wait{Wake: router.WakeNone, FellBack: got.instead != ""})
	return true
}
