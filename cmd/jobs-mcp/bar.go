package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"layover/budget"
	"layover/internal/jobs/search"
)

// bar shows on a terminal how far an operation is.
type bar struct {
	out *os.File // nil: no terminal, nothing is shown

	mu     sync.Mutex
	counts search.Progress
}

// newBar is a bar on f, which shows nothing if f is no terminal.
func newBar(f *os.File) *bar {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return &bar{}
	}
	return &bar{out: f}
}

func (b *bar) tell(p search.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts = p
}

// start shows the bar until the function that it returns is called.
func (b *bar) start(ctx context.Context) (stop func()) {
	if b.out == nil {
		return func() {}
	}
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				fmt.Fprint(b.out, "\r\x1b[K")
				return
			case <-tick.C:
				fmt.Fprint(b.out, "\r\x1b[K"+b.line(ctx))
			}
		}
	}()
	return func() { close(ended); <-stopped }
}

func (b *bar) line(ctx context.Context) string {
	b.mu.Lock()
	p := b.counts
	b.mu.Unlock()
	const width = 20
	done := 0
	if p.Sources > 0 {
		done = width * p.Answered / p.Sources
	}
	return fmt.Sprintf("[%s%s] %d of %d sources, %d pages, %d postings, %d match, %.0f s left", strings.Repeat("=", done),
		strings.Repeat(" ", width-done), p.Answered, p.Sources, p.Pages, p.Received, p.Matched, budget.From(ctx).Remaining().Seconds())
}
