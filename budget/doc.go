// Package budget gives a whole operation one end.
//
// The caller's deadline becomes, once, an instant on the monotonic clock. Queues, pacing, pages, retries, server hints and
// attempts all spend the time up to it; nothing inside the operation can mint more; a wait that cannot fit is not begun;
// and a ledger says where the time went.
//
//	ctx, cancel := budget.Start(ctx, deadline)      // or For(ctx, 10*time.Second)
//	defer cancel()
//
//	end := budget.From(ctx).Phase("line")           // one kind of spending
//	... wait in line, selecting on ctx.Done() ...
//	end()
//
//	if err := budget.Wait(ctx, hint); err != nil {  // at once, when hint does not fit
//		return err                              // a *budget.Exhausted, or the caller's cancel
//	}
//
// # Contract
//
// The context of Start and For is a standard one: its Done and Err are those of [context.WithDeadlineCause], and contexts
// derived from it cost no goroutine. Only its Deadline is our own, because the standard constructors lose the monotonic
// reading of a deadline in several ways; with it, everything that reads ctx.Deadline measures against the same end.
//
// A budget begun inside another can only end earlier, and its phases are booked in the outer one too.
//
// Questions are answered from the clock, not from a timer that may be late: once the end has passed, Remaining is 0, and
// Afford and Wait return the budget's one [Exhausted], which is also [context.Cause] of the context.
//
// # Clocks
//
// The wall clock is read when a deadline is converted and never again. A step of the system clock, in either direction,
// changes nothing in an operation that is under way. Budgets count time awake: the monotonic clock of Linux stands still
// while a machine is suspended, so an operation that was given a minute may end hours later by the wall after a suspend.
// [Ledger.Skew] shows that to those whom it matters to. On the wire time travels as what remains, never as a timestamp, because
// hosts' clocks differ.
//
// # Cost and concurrency
//
// A budget is one standard context with one timer and no goroutine, plus a few hundred bytes; under a parent whose own deadline
// comes first and is no budget's it is two, and the parent's cancellation takes a goroutine of its own for a moment. The
// ledger grows by phase name, not by use, so phase names should be kinds ("attempt"), not identities ("attempt 17"). Everything may be called from
// several goroutines at once. Budgets that are nested share one lock, held for one phase edge at a time.
package budget
