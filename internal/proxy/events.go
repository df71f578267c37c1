package proxy

import "sync/atomic"

// event is something about clients that no request's record tells.
type event uint8

const (
	eventMalformed event = iota
	eventHeaderTooLarge
	eventHeaderTimeout
	eventTLS
	eventWaited
	eventIdleClosed
	eventStreamIdle
	numEvents
)

var eventNames = [numEvents]string{
	eventMalformed:      "malformed",
	eventHeaderTooLarge: "header_too_large",
	eventHeaderTimeout:  "header_timeout",
	eventTLS:            "tls_handshake",
	eventWaited:         "waited_for_room",
	eventIdleClosed:     "idle_closed_for_room",
	eventStreamIdle:     "stream_idle",
}

// events counts them.
type events [numEvents]atomic.Uint64

func (e *events) count(what event) { e[what].Add(1) }

// Stats are what no request's record tells.
type Stats struct {
	// Connections of clients are open, over all listeners.
	Connections int
	// Events are counts since New, by name. Each name is always there:
	//
	//	malformed             a request that cannot be read, or can be in two ways; its answer is 400
	//	header_too_large      its answer is 431
	//	header_timeout        a header that was not whole, or not begun, in time; the connection was closed
	//	tls_handshake         a TLS handshake that failed
	//	waited_for_room       a connection that had to wait, because of MaxConnections
	//	idle_closed_for_room  one without a request that was closed for another one
	//	stream_idle           a response or tunnel that the route's stream_idle cut off
	Events map[string]uint64
}

// Stats returns the counts of now.
func (p *Proxy) Stats() Stats {
	p.clients.mu.Lock()
	s := Stats{Connections: p.clients.n, Events: make(map[string]uint64, numEvents)}
	p.clients.mu.Unlock()
	for what, name := range eventNames {
		s.Events[name] = p.events[what].Load()
	}
	return s
}
