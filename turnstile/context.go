package turnstile

import (
	"context"
	"sync/atomic"
	"time"
)

type stampKey struct{}

// stamp is what a context knows of its job. It is made by this package only, so nobody picks their own place in line.
type stamp struct {
	claim Claim
	t     *Turnstile // nil: no turnstile is known
	job   *job
}

// job is shared by all contexts of one job.
type job struct{ held atomic.Int64 } // passes its turns hold now

var (
	jobs      atomic.Uint32
	unordered atomic.Uint64
)

func stampOf(ctx context.Context) *stamp {
	s, _ := ctx.Value(stampKey{}).(*stamp)
	return s
}

// restamp is ctx with the claim of its job, or of a new one, in that band and with that turnstile.
func restamp(ctx context.Context, priority int, t *Turnstile) context.Context {
	next := &stamp{t: t}
	if s := stampOf(ctx); s != nil {
		next.claim, next.job = s.claim, s.job
		next.claim.Priority = priority
	} else {
		next.claim, next.job = NewClaim(priority), new(job)
	}
	return context.WithValue(ctx, stampKey{}, next)
}

// NewClaim is the claim of a job that begins now: the present time and the next job number of this process.
func NewClaim(priority int) Claim {
	return Claim{Priority: priority, Since: time.Now(), Seq: jobs.Add(1)}
}

// Begin is ctx with the claim of a job that begins now. It names no turnstile yet; Set.ContextWithPriority and Gate.Acquire do,
// and keep the job's age. In the context of a job that has begun, it changes the band only.
func Begin(ctx context.Context, priority int) context.Context {
	var t *Turnstile
	if s := stampOf(ctx); s != nil {
		t = s.t
	}
	return restamp(ctx, priority, t)
}

// ClaimFrom is the claim of ctx's job. ok is false if no job has begun.
func ClaimFrom(ctx context.Context) (claim Claim, ok bool) {
	s := stampOf(ctx)
	if s == nil {
		return Claim{}, false
	}
	return s.claim, true
}

// WaitTurn waits for a turn at the turnstile that ctx names, with ctx's claim. It never refuses: if ctx names no turnstile, is
// done, or its turnstile is closed, it returns the zero Pass at once and the caller goes on out of order. Such turns are
// counted: by the turnstile in Stats, and by Unordered if there is none. Check ctx if that matters to you.
func WaitTurn(ctx context.Context) Pass {
	s := stampOf(ctx)
	if s == nil || s.t == nil {
		unordered.Add(1)
		return Pass{}
	}
	if ctx.Err() != nil {
		s.t.unordered.Add(1)
		return Pass{}
	}
	pass, ok := s.t.take(ctx, s.claim, s.job)
	if !ok {
		s.t.unordered.Add(1)
		return Pass{}
	}
	pass.job = s.job
	s.job.held.Add(1)
	return pass
}

// Unordered is how many times WaitTurn, in this process, was called with a context that names no turnstile: no job began, or its
// shard had none. A number that grows means work that nothing bounds or orders.
func Unordered() uint64 { return unordered.Load() }
