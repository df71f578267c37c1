package crew

import (
	"context"
	"runtime/debug"
	"sync"
)

// run is the life of w. If a callback ends the goroutine, another one carries w on.
func (c *Crew[W]) run(base context.Context, w *worker) {
	left := false
	defer func() {
		if !left {
			go c.run(base, w)
		}
	}()
	for !left {
		left = c.round(base, w)
	}
}

// round is one way through the states: park, look, take, process. It reports whether w has left.
func (c *Crew[W]) round(base context.Context, w *worker) (left bool) {
	ctx, cancel := context.WithCancelCause(base)
	defer cancel(nil)
	switch c.roster.settle(w, cancel) {
	case gone:
		return true
	case parked:
		select {
		case <-w.token:
		case <-ctx.Done():
		}
	}
	// Asked before the gate as well: it does not refuse an ended context, and would count a turn out of order.
	if ctx.Err() != nil {
		c.roundEnded(base)
		return false
	}
	job, give, open := c.gate.Acquire(ctx, c.shard)
	t := &turn{give: give}
	defer t.release()
	switch {
	case !open:
		c.roster.stop()
	case ctx.Err() != nil:
		c.roundEnded(base)
	case c.roster.mayTake(w):
		c.use(base, job, w, t)
	}
	return false
}

// roundEnded is when a round's context ends before there is a job: the worker goes, or the whole crew.
func (c *Crew[W]) roundEnded(base context.Context) {
	if base.Err() != nil {
		c.roster.stop()
	}
}

// use takes work and processes it.
func (c *Crew[W]) use(base, job context.Context, w *worker, t *turn) {
	returned := false
	defer func() {
		if !returned {
			value := recover()
			t.release() // before what may take its time
			c.roster.panicked()
			c.duty.Panicked(job, value, debug.Stack())
		}
	}()
	if work, ok := c.duty.Take(job); ok {
		start, call := c.roster.found(w)
		if start != nil {
			go c.run(base, start)
		}
		call.call()
		c.duty.Process(job, work, t.release)
		c.roster.over(w)
	} else {
		c.roster.foundNothing(w)
	}
	returned = true
}

// turn is a turn at the gate, to be given back once.
type turn struct {
	once sync.Once
	give func()
}

// release gives it back. The gate would allow a second call, but counts it as a mistake.
func (t *turn) release() { t.once.Do(t.give) }
