package budget

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Exhausted is the one error for time that is used up. It comes in two kinds: the end of a budget, which is [context.Cause]
// of its context and the answer of every call after the end; and the refusal of something that no longer fits, see
// Refused. errors.Is finds [context.DeadlineExceeded] in both, and errors.Is and errors.As find the last noted error.
//
// What it says of an end is as of that end, and is frozen by the first who asks for any of it.
type Exhausted struct {
	acct  *account // whose end it is; nil in a refusal
	facts *facts   // nil until somebody asks; guarded by acct.root.mu
}

type facts struct {
	asked, left time.Duration // of a refusal
	open        []string      // leaves, as paths
	names       []string
	ledger      Ledger
	last        error
}

// Phases returns the names of the phases that were open, outermost first; side by side ones in order of their first start.
func (e *Exhausted) Phases() []string { return append([]string(nil), e.ask().names...) }

// Ledger returns where the time went. The caller must not change its slices.
func (e *Exhausted) Ledger() Ledger { return e.ask().ledger }

// Last returns the last real error noted with [Budget.Note], or nil.
func (e *Exhausted) Last() error { return e.ask().last }

// Refused returns what was asked for and what was left when something was refused because it did not fit. ok is false
// when the budget simply ended.
func (e *Exhausted) Refused() (asked, left time.Duration, ok bool) {
	f := e.ask()
	return f.asked, f.left, e.acct == nil
}

// Timeout reports true, as [context.DeadlineExceeded] does: net.Error and url.Error ask for it.
func (e *Exhausted) Timeout() bool { return true }

// Temporary reports true, as [context.DeadlineExceeded] does.
func (e *Exhausted) Temporary() bool { return true }

// Unwrap returns [context.DeadlineExceeded] and the last real error, if any.
func (e *Exhausted) Unwrap() []error {
	if last := e.Last(); last != nil {
		return []error{context.DeadlineExceeded, last}
	}
	return []error{context.DeadlineExceeded}
}

func (e *Exhausted) Error() string {
	f := e.ask()
	var s strings.Builder
	if e.acct == nil {
		fmt.Fprintf(&s, "budget: %v does not fit into the %v left of %v", short(f.asked), short(f.left), short(f.ledger.Limit))
	} else {
		fmt.Fprintf(&s, "budget: %v spent", short(f.ledger.Limit))
	}
	if len(f.open) > 0 {
		fmt.Fprintf(&s, " in %s", strings.Join(f.open, ", "))
	}
	if len(f.ledger.Phases) > 0 {
		fmt.Fprintf(&s, " (%v)", f.ledger)
	}
	if f.last != nil {
		fmt.Fprintf(&s, "; last error: %v", f.last)
	}
	return s.String()
}

func (e *Exhausted) ask() *facts {
	if e.acct == nil {
		return e.facts
	}
	a := e.acct
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	if e.facts == nil {
		e.facts = a.factsLocked(a.end)
	}
	return e.facts
}

// refuse makes the error for d when only left remains at now.
func (b Budget) refuse(d, left time.Duration) error {
	a := b.scope.acct
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	f := a.factsLocked(since(a.root.start)) // under the lock: no edge in the ledger is later
	f.asked, f.left = d, left
	return &Exhausted{facts: f}
}

// refusal is refuse for a budget that may be unlimited, where the limit is some other deadline of the context.
func (b Budget) refusal(d, left time.Duration) error {
	if b.scope.acct != nil {
		return b.refuse(d, left)
	}
	return &Exhausted{facts: &facts{asked: d, left: left, ledger: Ledger{Limit: left}}}
}

// short rounds d to about four digits, for reading.
func short(d time.Duration) time.Duration {
	for unit := time.Second; unit > 1; unit /= 10 {
		if d >= unit*100 {
			return d.Round(unit / 10)
		}
	}
	return d
}
