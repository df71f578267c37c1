package extproc

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"
)

// An actor's socket is looked at lookEvery at most, and lookTime long: whether
// it refuses is known at once, and nothing else is asked.
const (
	lookEvery = time.Second
	lookTime  = time.Second
	fewLooks  = 1024 // below that, old ones are left where they are
)

// reach finds out which actors refuse connections, because Envoy does not tell
// what becomes of its own. Its zero value finds nothing out.
type reach struct {
	dial func(ctx context.Context, addr string) error

	mu    sync.Mutex
	looks map[string]look // by address
}

type look struct {
	at      time.Time
	refused bool
}

// refused reports whether addr refused a connection when it was last looked at,
// and looks if that is long ago. While one caller looks, what was seen before
// is true for the others: a ride that ends must not make an actor that is gone
// look well, nor wait.
func (r *reach) refused(addr string) bool {
	if r.dial == nil {
		return false
	}
	now := time.Now()
	r.mu.Lock()
	last, known := r.looks[addr]
	fresh := known && now.Sub(last.at) < lookEvery
	if !fresh {
		r.keepLocked(addr, look{at: now, refused: last.refused})
	}
	r.mu.Unlock()
	if fresh {
		return last.refused
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	refused := errors.Is(r.dial(ctx, addr), syscall.ECONNREFUSED)
	r.mu.Lock()
	r.keepLocked(addr, look{at: now, refused: refused})
	r.mu.Unlock()
	return refused
}

func (r *reach) keepLocked(addr string, l look) {
	if r.looks == nil {
		r.looks = make(map[string]look)
	}
	if len(r.looks) >= fewLooks {
		for old, was := range r.looks {
			if l.at.Sub(was.at) >= lookEvery {
				delete(r.looks, old)
			}
		}
	}
	r.looks[addr] = l
}
