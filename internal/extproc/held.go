package extproc

import (
	"context"
	"sync"
)

// held counts the requests that wait for their answer.
type held struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n falls to 0; nil: nobody waits for that
}

func (h *held) enter() {
	h.mu.Lock()
	h.n++
	h.mu.Unlock()
}

func (h *held) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n--; h.n == 0 && h.none != nil {
		close(h.none)
		h.none = nil
	}
}

func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

func (h *held) wait(ctx context.Context) error {
	h.mu.Lock()
	if h.n == 0 {
		h.mu.Unlock()
		return nil
	}
	if h.none == nil {
		h.none = make(chan struct{})
	}
	none := h.none
	h.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
