package lane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"layover/budget"
)

// What Do and Pages refuse or stop at, and a caller may want to tell apart. They come wrapped: ask with errors.Is.
var (
	// ErrNoBudget: the operation's context has no budget. Begin the operation with budget.For or budget.Start.
	ErrNoBudget = errors.New("lane: the operation has no budget; begin it with budget.For or budget.Start")
	// ErrDeadline: the context's deadline is not its budget's end. Something between the two has put a time-out of its own
	// around a part of the operation, or taken the operation's away with context.WithoutCancel. Use budget.For for a part that
	// may take less, and budget.Detach for work that is not the operation's.
	ErrDeadline = errors.New("lane: the context's deadline is not its budget's end; limit a part of an operation with budget.For")
	// ErrClientTimeout: Options.Client has a Timeout.
	ErrClientTimeout = errors.New("lane: the http.Client has a Timeout; time is the budget's, so leave it 0")
	// ErrHost: the request is not for a host of the lane.
	ErrHost = errors.New("lane: the request is for another host")
	// ErrRedirect: the answer leads to where the lane does not: another host, from https to http, or too far.
	ErrRedirect = errors.New("lane: the redirect was not followed")
	// ErrTooLarge: the answer is larger than Options.MaxBody, or unpacks to a hundred times its size.
	ErrTooLarge = errors.New("lane: the answer is too large")
	// ErrAttempts: it is worth another attempt, and there is time, but one of the limits of Options.Attempts, Options.Retries
	// and Allow has been reached.
	ErrAttempts = errors.New("lane: no attempt left")
	// ErrRepeated: a page has led back to a page that was there before; see Paging.
	ErrRepeated = errors.New("lane: the pages go round in a circle")
	// ErrCursorExpired is for a Paging's Fetch to return, wrapped or not, when the source no longer knows the page's token.
	ErrCursorExpired = errors.New("lane: the source no longer knows the cursor")
)

// Stop says why something ended. It is a word for output and metrics, of a small set.
type Stop string

const (
	Done        Stop = "done"         // all there is
	Enough      Stop = "enough"       // as much as was asked for
	Deadline    Stop = "deadline"     // the operation's time does not suffice
	RateLimited Stop = "rate_limited" // the host wants to be asked later than the operation has time for, or less often
	SourceCap   Stop = "source_cap"   // the source has more and does not give it
	Cancelled   Stop = "cancelled"    // the caller gave up
	Failed      Stop = "error"        // the host's answer or the way to it
)

// StopOf is why what returned err ended: Done for nil, what an [*Error] says, and else what can be told from err.
func StopOf(err error) Stop {
	var e *Error
	switch {
	case err == nil:
		return Done
	case errors.As(err, &e):
		return e.Stop
	case errors.Is(err, context.Canceled):
		return Cancelled
	case errors.Is(err, context.DeadlineExceeded):
		return Deadline
	}
	return Failed
}

// Error is why Do has no good answer. errors.Is and errors.As see through it to both why it ended, such as
// a [*budget.Exhausted] with the ledger, and to what last went wrong.
type Error struct {
	Host     string
	Method   string
	URL      string // without user, query and fragment, which may be secret
	Attempts int    // how often the request was sent; 0: never
	Stop     Stop
	Response *Response // the last answer, nil if there was none
	RetryAt  time.Time // when asking again makes sense, if host or lane know; zero: they do not. With a monotonic reading.
	Err      error     // why it was not sent (again); nil if the last attempt's outcome was final
	Last     error     // what was wrong with the last attempt that was not cut off; nil if there was none
}

// Status is that of the last answer, 0 if there was none.
func (e *Error) Status() int {
	if e.Response == nil {
		return 0
	}
	return e.Response.Status
}

func (e *Error) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s %s: ", e.Method, e.URL)
	switch {
	case e.Err == nil:
		fmt.Fprint(&s, e.Last)
	case e.Last == nil:
		fmt.Fprint(&s, e.Err)
	default:
		fmt.Fprintf(&s, "%v; then: %v", e.Last, e.Err)
	}
	switch {
	case e.Attempts == 0:
		s.WriteString(" (not sent)")
	case e.Attempts > 1:
		fmt.Fprintf(&s, " (sent %d times)", e.Attempts)
	}
	if !e.RetryAt.IsZero() {
		fmt.Fprintf(&s, " (ask again at %s)", e.RetryAt.UTC().Format(time.RFC3339))
	}
	return s.String()
}

// Unwrap returns Err and Last, those that are not nil.
func (e *Error) Unwrap() (errs []error) {
	for _, err := range []error{e.Err, e.Last} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// statusError is an answer that is not good.
type statusError int

func (s statusError) Error() string {
	if text := http.StatusText(int(s)); text != "" {
		return fmt.Sprintf("status %d %s", int(s), text)
	}
	return fmt.Sprintf("status %d", int(s))
}

// gaveUp is the error of a call that ends with err, or with its last attempt if err is nil. What was permitted and not used goes
// back.
func (l *Lane) gaveUp(ctx context.Context, c *call, err error) error {
	l.refund(c)
	now := time.Now()
	e := &Error{Host: l.host, Method: c.method, URL: c.where, Response: c.answer, Err: err, Last: c.last, Stop: Failed}
	l.mu.Lock()
	e.Attempts = c.attempts
	e.RetryAt = l.paused.end(now)
	l.mu.Unlock()
	if hint := fromNow(c.hintAt, now); hint.After(e.RetryAt) {
		e.RetryAt = hint
	}
	limited := c.fresh && c.answer.Status == http.StatusTooManyRequests
	var spent *budget.Exhausted
	if errors.As(err, &spent) && !e.RetryAt.IsZero() {
		_, _, refused := spent.Refused() // else it ended in something else than a wait for the host's pleasure
		limited = limited || refused
	}
	switch {
	case ctx.Err() == context.Canceled:
		e.Stop = Cancelled
	case limited:
		e.Stop = RateLimited
	case errors.Is(err, context.DeadlineExceeded):
		e.Stop = Deadline
	}
	return e
}
