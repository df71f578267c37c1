package extproc

import (
	"context"
	"sync"
)

// open counts the streams that Envoy has here.
type open struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n falls to 0; nil: nobody waits for that
}

func (o *open) enter() {
	o.mu.Lock()
	o.n++
	o.mu.Unlock()
}

func (o *open) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n--; o.n == 0 && o.none != nil {
		close(o.none)
		o.none = nil
	}
}

func (o *open) wait(ctx context.Context) error {
	o.mu.Lock()
	if o.n == 0 {
		o.mu.Unlock()
		return nil
	}
	if o.none == nil {
		o.none = make(chan struct{})
	}
	none := o.none
	o.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
