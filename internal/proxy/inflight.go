package proxy

import (
	"context"
	"sync"
)

// inflight counts the requests that are being handled, tunnels included.
type inflight struct {
	mu   sync.Mutex
	n    int
	all  uint64          // that ever began
	zero []chan struct{} // closed when n is 0
}

func (f *inflight) enter() {
	f.mu.Lock()
	f.n++
	f.all++
	f.mu.Unlock()
}

// begun is how many requests have ever begun.
func (f *inflight) begun() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all
}

func (f *inflight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n--; f.n > 0 {
		return
	}
	for _, zero := range f.zero {
		close(zero)
	}
	f.zero = nil
}

// wait returns when nothing is in flight, or with ctx's error.
func (f *inflight) wait(ctx context.Context) error {
	f.mu.Lock()
	if f.n == 0 {
		f.mu.Unlock()
		return nil
	}
	zero := make(chan struct{})
	f.zero = append(f.zero, zero)
	f.mu.Unlock()
	select {
	case <-zero:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
