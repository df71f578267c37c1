// Package gates gives the turnstile and its rivals one shape, so that a benchmark compares the same promise: at most so many
// inside at once, and a wait that ends when its context does.
package gates

import (
	"context"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"golang.org/x/sync/semaphore"

	"layover/turnstile"
)

// A Gate bounds how many are inside. Its functions may be called from several goroutines at once.
type Gate struct {
	// Turns takes and gives back n times; hold, if not nil, runs in between. The loop is the gate's own, so that nothing
	// but the gate is in it.
	Turns func(ctx context.Context, n int, hold func())
	// Take is one turn. The pass is the zero Pass where the rival has no such thing. ok is false when ctx is done.
	Take func(ctx context.Context, claim turnstile.Claim) (pass turnstile.Pass, ok bool)
	Give func(turnstile.Pass)
	// Resize changes the bound. Nil: it cannot.
	Resize func(size int)
}

// An Arm is what is compared: how to make a gate of a size.
type Arm struct {
	Name string
	New  func(size int) Gate
}

// The arms. All but the turnstile's serve in the order of arrival, and so does Turnstile.Turns, whose claims are equal.
var (
	Semaphore = Arm{"semaphore", newSemaphore}
	Channel   = Arm{"channel", newChannel}
	Bulkhead  = Arm{"bulkhead", newBulkhead}
	Turnstile = Arm{"turnstile", func(size int) Gate { return newTurnstile(size, false) }}
	// FreshClaims makes a claim for every turn: what a program does whose jobs take one turn each.
	FreshClaims = Arm{"turnstile, new claim per turn", func(size int) Gate { return newTurnstile(size, true) }}
	// Ballast is a semaphore that is resized in the usual way: it is made large, and what it should not have is taken.
	Ballast = Arm{"semaphore with ballast", newBallast}
)

func newSemaphore(size int) Gate {
	s := semaphore.NewWeighted(int64(size))
	return Gate{
		Turns: func(ctx context.Context, n int, hold func()) {
			for range n {
				if s.Acquire(ctx, 1) != nil {
					panic("semaphore refused")
				}
				if hold != nil {
					hold()
				}
				s.Release(1)
			}
		},
		Take: func(ctx context.Context, _ turnstile.Claim) (turnstile.Pass, bool) {
			return turnstile.Pass{}, s.Acquire(ctx, 1) == nil
		},
		Give: func(turnstile.Pass) { s.Release(1) },
	}
}

func newChannel(size int) Gate {
	ch := make(chan struct{}, size)
	return Gate{
		Turns: func(ctx context.Context, n int, hold func()) {
			for range n {
				select {
				case ch <- struct{}{}:
				case <-ctx.Done():
					panic("channel refused")
				}
				if hold != nil {
					hold()
				}
				<-ch
			}
		},
		Take: func(ctx context.Context, _ turnstile.Claim) (turnstile.Pass, bool) {
			select {
			case ch <- struct{}{}:
				return turnstile.Pass{}, true
			case <-ctx.Done():
				return turnstile.Pass{}, false
			}
		},
		Give: func(turnstile.Pass) { <-ch },
	}
}

func newBulkhead(size int) Gate {
	b := bulkhead.New[any](uint(size))
	return Gate{
		Turns: func(ctx context.Context, n int, hold func()) {
			for range n {
				if b.AcquirePermit(ctx) != nil {
					panic("bulkhead refused")
				}
				if hold != nil {
					hold()
				}
				b.ReleasePermit()
			}
		},
		Take: func(ctx context.Context, _ turnstile.Claim) (turnstile.Pass, bool) {
			return turnstile.Pass{}, b.AcquirePermit(ctx) == nil
		},
		Give: func(turnstile.Pass) { b.ReleasePermit() },
	}
}

func newTurnstile(size int, fresh bool) Gate {
	t := turnstile.New(size)
	same := turnstile.NewClaim(0)
	g := Gate{
		Turns: func(ctx context.Context, n int, hold func()) {
			for range n {
				pass, ok := t.WaitTurn(ctx, same)
				if !ok {
					panic("turnstile refused")
				}
				if hold != nil {
					hold()
				}
				pass.Return()
			}
		},
		Take:   t.WaitTurn,
		Give:   turnstile.Pass.Return,
		Resize: t.Resize,
	}
	if fresh {
		g.Turns = func(ctx context.Context, n int, hold func()) {
			for range n {
				pass, ok := t.WaitTurn(ctx, turnstile.NewClaim(0))
				if !ok {
					panic("turnstile refused")
				}
				if hold != nil {
					hold()
				}
				pass.Return()
			}
		}
	}
	return g
}

// MaxBallast is the largest size that a gate with ballast can be given.
const MaxBallast = 64

func newBallast(size int) Gate {
	s := semaphore.NewWeighted(MaxBallast)
	ballast := int64(0)
	g := Gate{
		Take: func(ctx context.Context, _ turnstile.Claim) (turnstile.Pass, bool) {
			return turnstile.Pass{}, s.Acquire(ctx, 1) == nil
		},
		Give: func(turnstile.Pass) { s.Release(1) },
		Resize: func(size int) { // by one goroutine at a time
			switch more := MaxBallast - int64(size) - ballast; {
			case more > 0:
				s.Acquire(context.Background(), more) // never refused: that context has no end
				ballast += more
			case more < 0:
				s.Release(-more)
				ballast += more
			}
		},
	}
	g.Resize(size)
	return g
}
