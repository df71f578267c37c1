package proxy

import (
	"container/list"
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
	// maxIdleActors bounds the actors without a request whose connections are
	// kept.
	maxIdleActors = 1024
)

// actors keeps the connections to actors. Those of a target that is not the
// actor's current one any more are never used again.
type actors struct {
	dialer *net.Dialer

	mu      sync.Mutex
	current map[string]*conns // by actor
	unused  list.List         // of *conns without a user, the longest unused first
}

// conns are the connections to one target. The fields below target are guarded
// by actors.mu.
type conns struct {
	transport *http.Transport
	actor     string
	target    router.Target
	users     int
	retired   bool          // not in current; to be closed when the last user leaves
	unused    *list.Element // set when it is in actors.unused
}

func (a *actors) init(dialer *net.Dialer) {
	a.dialer = dialer
	a.current = make(map[string]*conns)
}

// take returns the connections to target, which give must be told of.
func (a *actors) take(actor string, target router.Target) *conns {
	a.mu.Lock()
	c := a.current[actor]
	var old *conns
	switch {
	case c != nil && c.target == target:
		if c.unused != nil {
			a.unused.Remove(c.unused)
			c.unused = nil
		}
	case c != nil && target.Wake < c.target.Wake: // a request that was slow to come here
		c = a.connect(actor, target)
		c.retired = true
	default:
		old = c
		if old != nil {
			a.retireLocked(old)
		}
		c = a.connect(actor, target)
		a.current[actor] = c
	}
	c.users++
	a.mu.Unlock()
	if old != nil {
		old.transport.CloseIdleConnections()
	}
	return c
}

// give ends one use of c.
func (a *actors) give(c *conns) {
	a.mu.Lock()
	var over *conns
	if c.users--; c.users == 0 {
		if c.retired {
			over = c
		} else {
			c.unused = a.unused.PushBack(c)
			if a.unused.Len() > maxIdleActors {
				over = a.unused.Front().Value.(*conns)
				a.retireLocked(over)
			}
		}
	}
	a.mu.Unlock()
	if over != nil {
		over.transport.CloseIdleConnections()
	}
}

func (a *actors) retireLocked(c *conns) {
	c.retired = true
	delete(a.current, c.actor)
	if c.unused != nil {
		a.unused.Remove(c.unused)
		c.unused = nil
	}
}

// close drops all connections that are not in use.
func (a *actors) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.current {
		a.retireLocked(c)
		go c.transport.CloseIdleConnections()
	}
}

func (a *actors) connect(actor string, target router.Target) *conns {
	return &conns{actor: actor, target: target, transport: newTransport(a.dialer, target.Protocol)}
}

func newTransport(dialer *net.Dialer, protocol string) *http.Transport {
	var protocols http.Protocols
	if protocol == router.ProtocolH2C {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP1(true)
	}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, &dialError{err}
			}
			return c, nil
		},
		Protocols:           &protocols,
		DisableCompression:  true, // what the actor sends is what the client gets
		MaxIdleConnsPerHost: maxIdlePerActor,
		IdleConnTimeout:     actorIdleTimeout,
		// The actor decides between 100 and a final answer, however long it
		// takes: with a time-out here the body would be sent unasked.
		ExpectContinueTimeout: 24 * time.Hour,
	}
}

// dialError is the failure to get a connection: nothing was sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }
