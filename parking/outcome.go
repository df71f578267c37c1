package parking

import (
	"context"
	"errors"
	"time"
)

// ErrLotFull is the error of a caller that was shed: its flight is parked and
// the lot had no spot for it.
var ErrLotFull = errors.New("parking: lot full")

// A Result is how one caller's wait ended.
type Result uint8

// The results of a wait. The zero Result is none of them.
const (
	Served          Result = iota + 1 // the flight function returned a value
	Shed                              // no spot in the lot: ErrLotFull
	BudgetExhausted                   // the caller's context ended by its deadline
	Canceled                          // the caller's context ended otherwise
	Failed                            // the flight function returned an error
)

// String returns the result as a metric label.
func (r Result) String() string {
	switch r {
	case Served:
		return "served"
	case Shed:
		return "shed"
	case BudgetExhausted:
		return "budget_exhausted"
	case Canceled:
		return "canceled"
	case Failed:
		return "error"
	}
	return "unknown"
}

// An Outcome tells how one caller's wait went.
type Outcome struct {
	Leader    bool          // this caller began the flight
	Parked    bool          // it held a spot
	ParkedFor time.Duration // how long it held the spot
	Reason    string        // why the flight parked, "" if it had not
	Result    Result
	Stage     string // innermost phase open when the caller left the flight, "" for none
	Phases    []Span // the flight's phases in the order they began, clipped to this caller's presence
}

// A Span is one phase of a flight as one caller saw it: From is not before the
// caller joined, To not after it left.
type Span struct {
	Name     string
	From, To time.Time
}

// ended classifies a caller's context that is done.
func ended(ctx context.Context) (Result, error) {
	cause := context.Cause(ctx)
	// A budget cancels with a cause that is DeadlineExceeded; a std deadline may
	// carry any cause of its own. Both are the end of the caller's time.
	if errors.Is(cause, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return BudgetExhausted, cause
	}
	return Canceled, cause
}

// A view is how a flight looked at one moment: all that a caller who leaves it at
// that moment needs for its Outcome. It is not changed once made.
type view struct {
	at     time.Time
	reason string
	stage  string
	spans  []Span // open phases end at `at`
}

// outcome is v seen by c. The caller's spot must have been freed or refused.
func (v view) outcome(c *caller, r Result) *Outcome {
	o := &Outcome{Leader: c.leader, Reason: v.reason, Result: r, Stage: v.stage}
	if !c.spot.since.IsZero() {
		o.Parked, o.ParkedFor = true, v.at.Sub(c.spot.since)
	}
	for _, s := range v.spans {
		if !s.To.After(c.joined) && s.From.Before(c.joined) {
			continue // over when the caller came
		}
		if s.From.Before(c.joined) {
			s.From = c.joined
		}
		o.Phases = append(o.Phases, s)
	}
	return o
}

// maxPhases bounds what a flight remembers. A flight that tries again every
// 100 ms for an hour would otherwise keep, and copy to every caller, megabytes.
const maxPhases = 128

// A phase is a named part of a flight; open while to is zero.
type phase struct {
	name     string
	from, to time.Time
}

// phases are those of one flight in the order they began.
type phases []*phase

func (ps *phases) begin(name string, now time.Time) *phase {
	if len(*ps) >= maxPhases {
		ps.forgetOldest()
	}
	p := &phase{name: name, from: now}
	*ps = append(*ps, p)
	return p
}

// forgetOldest drops the oldest phase that is over.
func (ps *phases) forgetOldest() {
	for i, p := range *ps {
		if !p.to.IsZero() {
			*ps = append((*ps)[:i], (*ps)[i+1:]...)
			return
		}
	}
}

// innermost is the name of the open phase that began last.
func (ps phases) innermost() string {
	for i := len(ps) - 1; i >= 0; i-- {
		if ps[i].to.IsZero() {
			return ps[i].name
		}
	}
	return ""
}

func (ps phases) spans(now time.Time) []Span {
	if len(ps) == 0 {
		return nil
	}
	spans := make([]Span, len(ps))
	for i, p := range ps {
		spans[i] = Span{p.name, p.from, p.to}
		if p.to.IsZero() {
			spans[i].To = now
		}
	}
	return spans
}
