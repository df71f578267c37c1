package cli

import (
	"context"
	"errors"
	"os"
	"time"
)

// SameStop is how soon after a first signal a second one is still part of it:
// timeout(1), for one, signals its child and then the child's group.
const SameStop = 200 * time.Millisecond

// ErrCutOff is the end of a stop that a second signal did not let finish.
var ErrCutOff = errors.New("a second signal: stopped at once, requests were cut off")

// Another returns the next signal that is not part of the one at first, or nil
// when ctx ends.
func Another(ctx context.Context, first time.Time, again <-chan os.Signal) os.Signal {
	for {
		select {
		case <-ctx.Done():
			return nil
		case got := <-again:
			if time.Since(first) >= SameStop {
				return got
			}
		}
	}
}

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
