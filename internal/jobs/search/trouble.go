package search

import (
	"context"
	"errors"
	"fmt"

	"layover/budget"
	"layover/internal/jobs/board"
)

var (
	errEnough = errors.New("search: enough was found")
	errLate   = errors.New("search: the time for requests is over")
)

// late reports whether no request may begin on ctx any more: from the clock,
// because timers may be late.
func late(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if budget.From(ctx).Remaining() <= 0 {
		return errLate
	}
	return nil
}

// guard makes an error of a panic: a board whose reading panics is broken, and
// that is not the others' loss.
func guard(err *error) {
	if r := recover(); r != nil {
		*err = &board.Trouble{Verdict: board.Malformed, Detail: fmt.Sprintf("reading its answer panicked: %v", r)}
	}
}

// blurred reports whether err may be just how the end of a context looked to
// somebody: that makes all kinds of errors.
func blurred(err error) bool {
	var t *board.Trouble
	if !errors.As(err, &t) {
		return true
	}
	return t.Verdict == board.Unavailable || t.Verdict == board.Cancelled || t.Verdict == board.Deadline
}

// troubleOf says what an error of a request on ctx means.
func troubleOf(ctx context.Context, err error) board.Trouble {
	out := board.Trouble{Verdict: board.Unavailable, Detail: err.Error()}
	var t *board.Trouble
	if errors.As(err, &t) {
		out = *t
	}
	if !blurred(err) {
		return out
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.DeadlineExceeded), err == errLate,
		cause == nil && t == nil && errors.Is(err, context.DeadlineExceeded):
		out.Verdict = board.Deadline
		out.Detail = "it had not answered when the time for requests was over; it may be slow rather than down"
	case cause != nil:
		out.Verdict, out.Detail = board.Cancelled, "the caller did not wait for its answer"
	}
	return out
}

// final verdicts will be the same when the board is asked again.
func final(v Verdict) bool {
	switch v {
	case board.Empty, board.UnknownBoard, board.EmptyOrUnknown, board.Gone:
		return true
	}
	return false
}
