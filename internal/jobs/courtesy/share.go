package courtesy

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"layover/budget"
	"layover/internal/jobs/board"
)

// sharing lets operations that want the same answer at the same time share one
// fetch.
//
// A fetch runs in its leader's goroutine, on the leader's budget and claim.
// The others wait, each to its own end, and are told what came of it, unless
// it failed for want of the leader's time: then the longest waiting of those
// who have more of it leads the next fetch, and nobody else notices.
//
// A key is in calls exactly while somebody leads its fetch or has been told to.
type sharing struct {
	mu     sync.Mutex
	calls  map[string]*sharedCall
	shared int // answers that somebody else's fetch brought
}

type sharedCall struct {
	waiting []*joiner // by arrival
}

type joiner struct {
	ctx  context.Context
	turn chan outcome // 1: the one outcome is sent under the lock
}

// outcome is what a joiner is told: how the fetch ended, or that it leads now.
type outcome struct {
	lead   bool
	answer board.Answer
	err    error
}

// errPanicked is the error of a fetch that did not return.
var errPanicked = errors.New("courtesy: fetch did not return")

func newSharing() *sharing { return &sharing{calls: make(map[string]*sharedCall)} }

// do returns what fetch returns, here or where somebody else leads the fetch of
// key. The error is context.Cause(ctx) if ctx ends first; an outcome that was
// there before counts.
func (s *sharing) do(ctx context.Context, key string, fetch func(context.Context) (board.Answer, error)) (board.Answer, error) {
	if err := budget.Wait(ctx, 0); err != nil {
		return board.Answer{}, err
	}
	s.mu.Lock()
	call := s.calls[key]
	if call == nil {
		call = &sharedCall{}
		s.calls[key] = call
		s.mu.Unlock()
		return s.lead(ctx, key, call, fetch)
	}
	j := &joiner{ctx, make(chan outcome, 1)}
	call.waiting = append(call.waiting, j)
	s.mu.Unlock()

	o, ok := s.wait(key, call, j)
	switch {
	case !ok:
		return board.Answer{}, context.Cause(ctx)
	case o.lead:
		return s.lead(ctx, key, call, fetch)
	}
	return o.answer, o.err
}

// wait waits for j's turn; not ok means that its context ended before.
func (s *sharing) wait(key string, call *sharedCall, j *joiner) (o outcome, ok bool) {
	defer budget.From(j.ctx).Phase("shared")()
	select {
	case o = <-j.turn:
	case <-j.ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := slices.Index(call.waiting, j); i >= 0 {
			call.waiting = slices.Delete(call.waiting, i, i+1)
			return o, false
		}
		o = <-j.turn
	}
	return o, true
}

// lead fetches, and tells those who wait.
func (s *sharing) lead(ctx context.Context, key string, call *sharedCall, fetch func(context.Context) (board.Answer, error)) (a board.Answer, err error) {
	err = errPanicked // stands unless fetch returns
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		o := outcome{answer: a, err: err}
		heir := heirOf(ctx, o, call.waiting)
		for _, j := range call.waiting[:heir] {
			j.turn <- o
		}
		s.shared += heir
		s.passLocked(key, call, heir)
	}()
	return fetch(ctx)
}

// heirOf is the index of the one who leads after a fetch ended with o, and
// len(waiting) if that is nobody. A fetch that ended because its leader did is
// passed on. One that failed although a longer budget would have let it go on
// is final for those who wait before the first who has such a budget.
func heirOf(leader context.Context, o outcome, waiting []*joiner) int {
	if o.err == nil {
		return len(waiting)
	}
	t := troubleOf(o.err)
	if t == nil || t.Verdict == board.Deadline || t.Verdict == board.Cancelled {
		return 0
	}
	var needed time.Duration
	switch {
	case !t.RetryAt.IsZero():
		needed = -time.Since(t.RetryAt)
	case errors.Is(t, context.DeadlineExceeded):
		needed = budget.From(leader).Remaining()
	default:
		return len(waiting)
	}
	for i, j := range waiting {
		if budget.From(j.ctx).Remaining() > needed {
			return i
		}
	}
	return len(waiting)
}

// passLocked makes the waiter at index heir the leader; those before it are
// told. If there is none the fetch is over.
func (s *sharing) passLocked(key string, call *sharedCall, heir int) {
	if heir == len(call.waiting) {
		delete(s.calls, key)
		return
	}
	call.waiting[heir].turn <- outcome{lead: true}
	call.waiting = slices.Delete(call.waiting, 0, heir+1)
}

func (s *sharing) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shared
}
