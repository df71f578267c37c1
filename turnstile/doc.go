// Package turnstile bounds how many hold a resource at once, in an exact order of those who wait.
//
// A semaphore answers how many; who is next is left to the order of arrival, in which the last step of a job that is nearly done
// stands behind the first step of one that has just begun. A Turnstile hands each pass to the best Claim in line: the lowest
// band first, and in a band the job that began earliest.
//
//	ts := turnstile.New(10)              // the pool has ten connections
//	claim := turnstile.NewClaim(0)       // once per job, when it begins
//	...
//	err := ts.Do(ctx, claim, func() error { // for each use of a connection
//		return query(ctx, pool)      // rows are closed, the transaction has ended
//	})
//
// WaitTurn is the same for uses that do not fit a function: it returns the Pass, which the caller must Return. Jobs that carry
// their claim in a context use Begin, Set.ContextWithPriority or Gate.Acquire and then the package's WaitTurn. Shared work whose callers come and go stands in line with a Place.
//
// # Order
//
// Priority ascending, then Since, then Seq, then arrival; equal claims are served in the order they came. The releaser picks the
// winner: a pass that is returned belongs to the best claim in line before Return returns, and no newcomer can take it on the
// way. A claim is the job's, so a job in progress goes before a newer one of its band, whatever the number of turns it takes.
//
// Bands are strict: a band is served to exhaustion before the next one gets anything. So a band must not be given to callers
// that can arrive faster than they are served, or those behind it starve; Options.HeadStart makes a band worth a fixed age
// instead, and then everybody's turn comes. A line that is longer than its deadlines serves everyone just too late, the oldest
// first; Options.MinUseful passes over those who can no longer use their turn.
//
// # What a pass encloses
//
// A pass must enclose the use of the resource for as long as the resource is held: until rows are closed, a transaction has
// ended, a body is read. Never take a pass while holding the resource, and hand the pass back before a wait for anything else, a
// retry's back-off for one: if each of N holders waits for one more pass, all stop. A job may lawfully fan out, so such
// waits are not refused; those of jobs in a context are counted in Stats.Nested. Each pass that is not returned makes the
// turnstile smaller by one for good.
//
// # Size
//
// One pass per unit of the resource, by default. More than that trades order for use: a holder is between two uses for a moment
// in which its unit is idle, and a further holder fills it, but those who have a pass and no unit stand in the resource's own
// line, which knows no claims. Measured in simulated time with 4 units, uses of 0.5 to 1.5 ms, 0.2 ms between the end of a use and
// the return of its pass, and 40 workers (TestT11_MorePassesThanUnitsTradeOrderForUse):
//
//	passes   units in use   the best claim waits, on average
//	     4           83 %   0.24 ms
//	     5           95 %   0.29 ms
//	     6           99 %   0.44 ms
//	     8          100 %   0.95 ms
//
// So a multiple is a choice to be measured, for a resource that has a line of its own. Whatever changes the size of the resource
// must call Resize: a shrink takes effect as passes come back, a grow at once. So grow the resource before Resize, and shrink it
// after: not at once, because more than the new size may still be held, but on a turn of the lowest Priority there is, which
// comes only when no more are held than that.
//
// # Concurrency
//
// Everything may be called from any goroutine. The package starts none and keeps no timers. While nobody waits, a pass is taken
// and given back by compare-and-swap, without lock, clock or allocation; word.go draws the states. That holds for the first 24
// passes that are out at once; those beyond take a mutex, like everybody once there is a line. A line of n costs O(log n) for
// each who enters or leaves it, O(1) for those who come in order. Callers wait on channels made by their own turnstile, so they
// can be tested with testing/synctest. A context that is done wins over a pass at every moment; a pass granted at the same
// instant goes on to the next.
package turnstile
