// Package parking lets many callers wait for one shared piece of work, in a
// bounded room that a caller enters only once the work turns out to be slow.
//
// A [Flight] is one run of a function on behalf of everyone who wants the same
// key; [Flights] keeps at most one per key. A [Lot] is a bounded count of spots.
// Callers board a flight for nothing. When the flight learns that it cannot be
// served at once it calls [Flight.Park]: from then on each of its callers needs
// a spot, those who find none are shed with [ErrLotFull], and a flight that
// never parks never touches the lot, however small or full it is.
//
//	lot := parking.NewLot(1000)
//	flights := parking.NewFlights[string, Addr](lot, parking.Options{})
//	addr, outcome, err := flights.Join(ctx, name, func(ctx context.Context, f *parking.Flight) (Addr, error) {
//		f.Park("asleep")      // spots in join order, the rest are shed
//		if !f.Commit() {      // everybody left: do not begin
//			return Addr{}, context.Cause(ctx)
//		}
//		return start(ctx, name) // not cut off when callers leave
//	})
//
// # Whose clock
//
// Each caller waits to the end of its own context; a late joiner has its own
// full time. The flight has no end: its context carries no deadline, no
// cancellation and no value of any caller (see [Options]). While the function
// runs it is cancelled only when nobody is left who wants an attempt that has
// not begun; what is to outlive the function must not hang on it. An attempt
// that was committed runs on without callers, so it needs a ceiling of its own,
// which the flight function sets (context.WithTimeoutCause): a committed
// attempt that hangs for ever would keep its key unreachable for ever.
//
// # Concurrency
//
// All methods may be called from any number of goroutines. One goroutine runs
// per flight, it ends when the flight function returns, and [Flights.Wait]
// waits for all of them. A caller costs neither goroutine nor timer: it waits in
// its own goroutine. No function of a user runs under a lock of this package.
//
// Everything that may happen to a flight is decided under the one lock of its
// Flights: a caller that leaves while the flight lands, parks or sheds has
// either left before or was served, parked or shed before, never both.
//
// Lock order: Flights before Lot. Both are held at once where a flight hands
// out or takes back spots; the Lot never calls a flight.
package parking
