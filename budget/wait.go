package budget

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Wait waits d, as long as ctx lives. If d is not less than the time that ctx has left, by its budget or by an earlier
// deadline of its own, it does not wait at all and returns an [*Exhausted] that says what was asked and what was left.
// When ctx ends meanwhile, the error is its cause, together with ctx.Err() if the cause does not say as much. After the wait the
// clock is asked again, so a nil error means that d has passed and that the end has not. d of zero or less only asks.
func Wait(ctx context.Context, d time.Duration) error {
	if err := over(ctx); err != nil || d <= 0 {
		return err
	}
	if left, limited := remaining(ctx); limited && d >= left {
		return From(ctx).refusal(d, left)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return over(ctx)
}

// over says why ctx has ended, asking the clock where its timer may be late.
func over(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return because(err, context.Cause(ctx))
	}
	if a := scopeOf(ctx).acct; a != nil && a.left(since(a.root.start)) <= 0 {
		return &a.ender.spent
	}
	return nil
}

// because is cause, and err too if a reader of cause alone could not tell a cancel from an end of time.
func because(err, cause error) error {
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// remaining is the time that ctx has left: its budget's, or less if ctx has an earlier deadline.
func remaining(ctx context.Context) (left time.Duration, limited bool) {
	b := From(ctx)
	left = b.Remaining()
	end, limited := b.End()
	deadline, ok := ctx.Deadline()
	if !ok || limited && deadline.Equal(end) {
		return left, limited
	}
	now := time.Now()
	if limited && monotonic(now) && !monotonic(deadline) {
		return left, true // a foreign wall time: asking the wall again would let a clock step into the operation
	}
	return min(left, deadline.Sub(now)), true
}
