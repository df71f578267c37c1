package turnstile

import (
	"context"
	"errors"
	"fmt"
)

// ErrClosed is the error of Do at a turnstile that is or gets closed.
var ErrClosed = errors.New("turnstile: closed")

// ErrDoomed is the error of Do for one who was passed over; see Options.MinUseful. It is a context.DeadlineExceeded too.
var ErrDoomed = fmt.Errorf("turnstile: too little time left for a turn: %w", context.DeadlineExceeded)

// Do waits for the claim's turn and runs use on it. The pass encloses use: it is given back when use returns, panics or ends
// its goroutine. The error is that of use. If there is no turn, use does not run, and the error is the cause of ctx's end,
// ErrClosed or ErrDoomed; it is never nil, as ctx.Err would be for the last two.
func (t *Turnstile) Do(ctx context.Context, claim Claim, use func() error) error {
	pass, ok := t.WaitTurn(ctx, claim)
	switch {
	case ok:
		defer pass.Return()
		return use()
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case pass.Doomed():
		return ErrDoomed
	}
	return ErrClosed
}
