package proxy

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"layover/internal/router"
)

const (
	// actorIdleTimeout is how long an unused connection to an actor is kept: a
	// little less than the 5 s after which common servers (Node, uvicorn) close
	// it, so that a request does not meet the closing half way.
	actorIdleTimeout = 4 * time.Second
	// maxIdlePerActor bounds the unused connections that are kept per actor.
	maxIdlePerActor = 128
	// maxIdleActors bounds the actors whose connections are kept although they
	// have no request: when there are that many, and again when their number has
	// doubled, all of those are forgotten.
	maxIdleActors = 1024
)

// actors keeps the connections to actors. Those of a target that is not the
// actor's current one any more are never used again.
type actors struct {
	dial dialer

	mu      sync.Mutex
	current map[string]*conns // by actor
	sweepAt int               // how many of them are too many
}

// dialer is the DialContext of a net.Dialer.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// conns are the connections to one target. The fields below target are guarded
// by actors.mu.
type conns struct {
	transport *http.Transport
	actor     string
	target    router.Target
	users     int
	retired   bool // not in current; to be closed when the last user leaves
}

func (a *actors) init(dial dialer) {
	a.dial = dial
	a.current = make(map[string]*conns)
	a.sweepAt = maxIdleActors
}

// take returns the connections to target, which give must be told of.
func (a *actors) take(actor string, target router.Target) *conns {
	a.mu.Lock()
	c := a.current[actor]
	var over []*conns
	if c == nil || c.target != target {
		c, over = a.connectLocked(actor, target, c)
	}
	c.users++
	a.mu.Unlock()
	disconnect(over)
	return c
}

// connectLocked returns new connections in the place of old, which may be nil,
// and those that are over.
func (a *actors) connectLocked(actor string, target router.Target, old *conns) (c *conns, over []*conns) {
	c = &conns{actor: actor, target: target, transport: newTransport(a.dial, target.Protocol)}
	if old != nil && target.Wake < old.target.Wake { // a request that was slow to come here
		c.retired = true
		return c, nil
	}
	if old != nil {
		over = append(over, a.retireLocked(old))
	}
	if len(a.current) >= a.sweepAt {
		for _, unused := range a.current {
			if unused.users == 0 {
				over = append(over, a.retireLocked(unused))
			}
		}
		a.sweepAt = max(maxIdleActors, 2*len(a.current))
	}
	a.current[actor] = c
	return c, over
}

// give ends one use of c.
func (a *actors) give(c *conns) {
	a.mu.Lock()
	c.users--
	over := c.users == 0 && c.retired
	a.mu.Unlock()
	if over {
		disconnect([]*conns{c})
	}
}

func (a *actors) retireLocked(c *conns) *conns {
	c.retired = true
	delete(a.current, c.actor)
	return c
}

// disconnect closes the connections that are not in use, and makes the others
// close when their use ends.
func disconnect(over []*conns) {
	for _, c := range over {
		c.transport.CloseIdleConnections()
	}
}

// close drops all connections that are not in use.
func (a *actors) close() {
	var over []*conns
	a.mu.Lock()
	for _, c := range a.current {
		over = append(over, a.retireLocked(c))
	}
	a.mu.Unlock()
	disconnect(over)
}

func newTransport(dial dialer, protocol string) *http.Transport {
	var protocols http.Protocols
	if protocol == router.ProtocolH2C {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP1(true)
	}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, &dialError{err}
			}
			return c, nil
		},
		Protocols:           &protocols,
		DisableCompression:  true, // what the actor sends is what the client gets
		MaxIdleConnsPerHost: maxIdlePerActor,
		IdleConnTimeout:     actorIdleTimeout,
		// So long the actor may decide between 100 and a final answer; then the
		// body is asked for, because an actor may know nothing of Expect (RFC 9110
		// tells clients not to wait for ever, and curl waits as long).
		ExpectContinueTimeout: time.Second,
	}
}

// dialError is the failure to get a connection: nothing was sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }
