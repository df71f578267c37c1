package parking

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

func newFlights(capacity int) (*Lot, *Flights[string, int]) {
	lot := NewLot(capacity)
	return lot, NewFlights[string, int](lot, Options{})
}

func TestP2OneFlightPerKeyServesAllItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(0)
		a, b := new(cockpit), new(cockpit)
		first := board(t.Context(), fs, "a", a)
		second := board(t.Context(), fs, "a", new(cockpit))
		other := board(t.Context(), fs, "b", b)
		wantLen(t, fs, 2)
		a.land(1)
		first.want(t, "leader", Served, nil)
		second.want(t, "joiner", Served, nil)
		other.wantWaiting(t, "caller of the other key")
		if first.v != 1 || second.v != 1 || !first.o.Leader || second.o.Leader {
			t.Fatalf("leader %v %+v, joiner %v %+v; want 1 for both, one leader", first.v, first.o, second.v, second.o)
		}
		b.land(2)
		other.want(t, "caller of the other key", Served, nil)
	})
}

func TestP2ParkHandsSpotsInJoinOrderAndShedsTheRestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lot, fs := newFlights(2)
		cp := new(cockpit)
		var ps []*passenger
		for range 5 {
			ps = append(ps, board(t.Context(), fs, "a", cp))
			time.Sleep(time.Second)
		}
		ps[1].leave()
		wantActive(t, lot, 0)
		cp.Park("asleep")
		ps[0].wantWaiting(t, "first")
		ps[2].wantWaiting(t, "third")
		ps[3].want(t, "fourth", Shed, ErrLotFull)
		ps[4].want(t, "fifth", Shed, ErrLotFull)
		if s := lot.Snapshot(); s.Active != 2 || s.Rejected != 2 {
			t.Fatalf("%+v, want 2 held and 2 refused", s)
		}
		if n := len(cp.callers()); n != 2 {
			t.Fatalf("%d callers present, want 2: the shed are not", n)
		}
		cp.land(1)
		ps[2].want(t, "third", Served, nil)
		wantActive(t, lot, 0)
	})
}

func TestP2ParkCountsOnceWithItsFirstReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lot, fs := newFlights(2)
		cp := new(cockpit)
		p := board(t.Context(), fs, "a", cp)
		cp.Park("no worker")
		cp.Park("starting")
		wantActive(t, lot, 1)
		cp.land(1)
		cp.Park("late")
		if p.o.Reason != "no worker" {
			t.Fatalf("Reason = %q, want the first one", p.o.Reason)
		}
	})
}

func TestP2CommitAndUncommitInEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(0)
		cp := new(cockpit)
		p := board(t.Context(), fs, "a", cp)
		call := func(name string, got, want bool) {
			t.Helper()
			if got != want {
				t.Fatalf("%s = %v, want %v", name, got, want)
			}
		}
		call("Uncommit before Commit", cp.Uncommit(), true)
		call("Commit", cp.Commit(), true)
		call("Commit again", cp.Commit(), true)
		call("Uncommit", cp.Uncommit(), true)
		p.leave()
		call("Commit when abandoned", cp.Commit(), false)
		call("Uncommit when abandoned", cp.Uncommit(), false)
		cp.land(1)
		call("Commit after landing", cp.Commit(), false)
		call("Uncommit after landing", cp.Uncommit(), false)
	})
}

func TestP2UncommitWithNobodyLeftIsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(0)
		cp := new(cockpit)
		p := board(t.Context(), fs, "a", cp)
		cp.Commit()
		p.leave()
		wantLen(t, fs, 1)
		if cp.Uncommit() || !cp.cancelled() {
			t.Fatal("a flight without callers waits on")
		}
		wantLen(t, fs, 0)
		cp.land(1)
	})
}

func TestP3CallerOfAFlightThatNeverParksNeedsNoSpot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lot, fs := newFlights(0)
		cp := new(cockpit)
		p := board(t.Context(), fs, "a", cp)
		q := board(t.Context(), fs, "a", cp)
		cp.land(1)
		p.want(t, "leader", Served, nil)
		q.want(t, "joiner", Served, nil)
		if s := lot.Snapshot(); s.Rejected != 0 {
			t.Fatalf("the lot was asked: %+v", s)
		}
	})
}

func TestP3JoinerOfAParkedFlightTakesASpotAtOnceOrIsShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lot, fs := newFlights(2)
		cp := new(cockpit)
		p := board(t.Context(), fs, "a", cp)
		cp.Phase("line")
		cp.Park("no worker")
		q := board(t.Context(), fs, "a", cp)
		wantActive(t, lot, 2)
		r := board(t.Context(), fs, "a", cp)
		r.want(t, "third", Shed, ErrLotFull)
		if r.o.Parked || r.o.Reason != "no worker" || r.o.Stage != "line" || r.o.Phases != nil {
			t.Fatalf("outcome of the shed joiner: %+v", r.o)
		}
		p.leave()
		board(t.Context(), fs, "a", cp).wantWaiting(t, "fourth")
		cp.land(1)
		q.want(t, "second", Served, nil)
		wantActive(t, lot, 0)
	})
}

func TestP3SpotsAreFreeBeforeCallersWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lot, fs := newFlights(1)
		cp := new(cockpit)
		var after LotSnapshot
		go func() {
			fs.Join(t.Context(), "a", cp.fly)
			after = lot.Snapshot()
		}()
		synctest.Wait()
		cp.Park("asleep")
		cp.land(1)
		if after.Active != 0 {
			t.Fatalf("a served caller still held its spot: %+v", after)
		}
	})
}

func TestP4LeavingFreesTheSpotAndDisturbsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lot, fs := newFlights(3)
		cp := new(cockpit)
		leader := board(t.Context(), fs, "a", cp)
		mid := board(t.Context(), fs, "a", cp)
		last := board(t.Context(), fs, "a", cp)
		cp.Park("asleep")
		mid.leave()
		mid.want(t, "the one in the middle", Canceled, context.Canceled)
		wantActive(t, lot, 2)
		leader.leave()
		wantActive(t, lot, 1)
		if cp.cancelled() {
			t.Fatal("leaving cancelled the flight of the others")
		}
		cp.land(1)
		last.want(t, "the one that stayed", Served, nil)
	})
}

func TestP5EachCallerWaitsToItsOwnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(Unlimited)
		cp := new(cockpit)
		until := func(d time.Duration) *passenger {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return board(ctx, fs, "a", cp)
		}
		first := until(10 * time.Second)
		cp.Park("asleep")
		time.Sleep(6 * time.Second)
		late := until(10 * time.Second)
		time.Sleep(time.Minute)
		for _, p := range []*passenger{first, late} {
			p.want(t, "caller", BudgetExhausted, context.DeadlineExceeded)
			if p.took != 10*time.Second || p.o.ParkedFor != 10*time.Second {
				t.Fatalf("waited %v, parked %v, want 10s", p.took, p.o.ParkedFor)
			}
		}
		cp.land(1)
	})
}

type ctxKey string

func TestP5FlightContextIsDetachedFromEveryCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := NewFlights[string, int](NewLot(0), Options{Identity: func(caller context.Context) context.Context {
			kept := context.WithValue(caller, ctxKey("trace"), "t1") // careless: derived from the caller's
			return context.WithValue(kept, ctxKey("claim"), nil)
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		cp := new(cockpit)
		leader := board(ctx, fs, "a", cp)
		joiner := board(t.Context(), fs, "a", cp)
		if _, ok := cp.ctx.Deadline(); ok {
			t.Fatal("the flight has a deadline")
		}
		time.Sleep(2 * time.Second)
		leader.want(t, "leader", BudgetExhausted, context.DeadlineExceeded)
		if cp.cancelled() {
			t.Fatal("the leader's end cancelled the flight")
		}
		if got := cp.ctx.Value(ctxKey("trace")); got != "t1" {
			t.Fatalf("trace identity = %v, want t1", got)
		}
		child, cancelChild := context.WithCancel(cp.ctx)
		defer cancelChild()
		joiner.leave()
		if child.Err() == nil {
			t.Fatal("a context derived from the flight's was not cancelled with it")
		}
		if cause := context.Cause(cp.ctx); cause != errAbandoned {
			t.Fatalf("cause = %v, want %v", cause, errAbandoned)
		}
		cp.land(1)
	})
}

func TestP5WithoutIdentityNoValueOfACallerIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(0)
		cp := new(cockpit)
		p := board(context.WithValue(t.Context(), ctxKey("claim"), 1), fs, "a", cp)
		if got := cp.ctx.Value(ctxKey("claim")); got != nil {
			t.Fatalf("the leader's value leaked: %v", got)
		}
		cp.land(1)
		p.want(t, "leader", Served, nil)
	})
}

func TestP6LastLeaverRemovesAndCancelsAnUncommittedFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(1)
		old, anew := new(cockpit), new(cockpit)
		board(t.Context(), fs, "a", old).leave()
		wantLen(t, fs, 0)
		if !old.cancelled() {
			t.Fatal("the abandoned flight was not cancelled")
		}
		p := board(t.Context(), fs, "a", anew)
		if anew.Flight == nil {
			t.Fatal("a caller joined an abandoned flight")
		}
		if old.Commit() {
			t.Fatal("Commit of an abandoned flight = true")
		}
		if !anew.Commit() {
			t.Fatal("Commit of the new flight = false")
		}
		old.Park("late")
		old.land(1) // must not take the new flight out of the registry
		wantLen(t, fs, 1)
		p.wantWaiting(t, "caller of the new flight")
		anew.land(2)
		if p.v != 2 {
			t.Fatalf("value = %d, want that of the new flight", p.v)
		}
	})
}

func TestP6CommittedFlightStaysJoinableWithoutCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(1)
		cp := new(cockpit)
		p := board(t.Context(), fs, "a", cp)
		cp.Commit()
		p.leave()
		if cp.cancelled() {
			t.Fatal("a committed flight was cancelled")
		}
		q := board(t.Context(), fs, "a", new(cockpit))
		cp.land(3)
		if q.v != 3 || q.o.Leader {
			t.Fatalf("joiner got %d, %+v; want the committed flight's 3", q.v, q.o)
		}
	})
}

func TestP6AllShedIsAllLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lot, fs := newFlights(0)
		cp, committed := new(cockpit), new(cockpit)
		p := board(t.Context(), fs, "a", cp)
		cp.Park("asleep")
		p.want(t, "leader", Shed, ErrLotFull)
		if !cp.cancelled() || fs.Len() != 0 {
			t.Fatal("a flight that shed everybody goes on uncommitted")
		}
		q := board(t.Context(), fs, "b", committed)
		committed.Commit()
		committed.Park("starting")
		q.want(t, "leader", Shed, ErrLotFull)
		if committed.cancelled() || fs.Len() != 1 {
			t.Fatal("a committed flight ended because it shed everybody")
		}
		cp.land(1)
		committed.land(1)
		wantActive(t, lot, 0)
	})
}

func lingering10s(capacity int) *Flights[string, int] {
	return NewFlights[string, int](NewLot(capacity), Options{Linger: 10 * time.Second})
}

func TestP6AbandonedFlightLingersExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, cp := lingering10s(0), new(cockpit)
		board(t.Context(), fs, "a", cp).leave()
		time.Sleep(10*time.Second - 1)
		synctest.Wait()
		if wantLen(t, fs, 1); cp.cancelled() {
			t.Fatal("cancelled before Linger was over")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if wantLen(t, fs, 0); !cp.cancelled() || cp.Commit() {
			t.Fatal("not over when Linger was")
		}
		cp.land(1)
	})
}

func TestP6JoinerRevivesALingeringFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, cp := lingering10s(0), new(cockpit)
		board(t.Context(), fs, "a", cp).leave()
		time.Sleep(9 * time.Second)
		p := board(t.Context(), fs, "a", new(cockpit))
		time.Sleep(time.Minute)
		p.wantWaiting(t, "reviver")
		p.leave()
		time.Sleep(10*time.Second - 1)
		if cp.cancelled() {
			t.Fatal("the second lingering is shorter than the first")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !cp.cancelled() {
			t.Fatal("the second lingering does not end")
		}
		cp.land(1)
	})
}

func TestP6ShedJoinerDoesNotReviveALingeringFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, cp := lingering10s(0), new(cockpit)
		p := board(t.Context(), fs, "a", cp)
		cp.Park("asleep")
		p.want(t, "leader", Shed, ErrLotFull)
		time.Sleep(9 * time.Second)
		board(t.Context(), fs, "a", cp).want(t, "joiner", Shed, ErrLotFull)
		time.Sleep(time.Second)
		synctest.Wait()
		if !cp.cancelled() {
			t.Fatal("a shed caller kept the flight alive")
		}
		cp.land(1)
	})
}

func TestP6LingeringFlightCanCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, cp := lingering10s(0), new(cockpit)
		board(t.Context(), fs, "a", cp).leave()
		time.Sleep(4 * time.Second)
		if !cp.Commit() {
			t.Fatal("Commit within Linger = false")
		}
		time.Sleep(3 * time.Second)
		if !cp.Uncommit() {
			t.Fatal("Uncommit within Linger = false")
		}
		time.Sleep(3*time.Second - 1)
		if cp.cancelled() || !cp.Commit() {
			t.Fatal("over before Linger was")
		}
		time.Sleep(time.Hour)
		if cp.cancelled() {
			t.Fatal("a committed flight was cancelled")
		}
		if cp.Uncommit() || !cp.cancelled() {
			t.Fatal("Uncommit long after the last caller left = true")
		}
		cp.land(1)
	})
}

func TestP6LingerTimerIsStoppedOnEveryExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, cp := lingering10s(0), new(cockpit)
		stopped := func(exit string) {
			t.Helper()
			if cp.timer.Stop() {
				t.Fatalf("the timer runs on after %s", exit)
			}
		}
		board(t.Context(), fs, "a", cp).leave()
		p := board(t.Context(), fs, "a", cp)
		stopped("Join")
		p.leave()
		cp.Commit()
		stopped("Commit")
		cp.Uncommit()
		cp.land(1)
		stopped("landing")
	})
}

func TestP7CeilingOfTheAttemptEndsTheFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(Unlimited)
		ceiling := errors.New("start took too long")
		hang := func(ctx context.Context, f *Flight) (int, error) {
			f.Park("starting")
			f.Commit()
			ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, ceiling)
			defer cancel()
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, o, _ := fs.Join(ctx, "a", hang); o.Result != BudgetExhausted {
			t.Fatalf("leader: %v, want budget_exhausted", o.Result)
		}
		began := time.Now()
		_, o, err := fs.Join(t.Context(), "a", hang)
		if o.Result != Failed || err != ceiling || o.Leader || time.Since(began) != 29*time.Second {
			t.Fatalf("joiner: %+v, %v after %v; want the ceiling after 29s", o, err, time.Since(began))
		}
		wantLen(t, fs, 0)
	})
}

func TestP8CallerThatAsksAgainBeginsANewFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(0)
		flown := 0
		fly := func(context.Context, *Flight) (int, error) { flown++; return flown, nil }
		for want := 1; want <= 3; want++ {
			if v, o, _ := fs.Join(t.Context(), "a", fly); v != want || !o.Leader {
				t.Fatalf("Join = %d, %+v; want %d from its own flight", v, o, want)
			}
		}
	})
}

func TestP8FailureIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(0)
		cp := new(cockpit)
		p, q := board(t.Context(), fs, "a", cp), board(t.Context(), fs, "a", cp)
		cp.fail(errLanding)
		p.want(t, "leader", Failed, errLanding)
		q.want(t, "joiner", Failed, errLanding)
		if v, _, err := fs.Join(t.Context(), "a", func(context.Context, *Flight) (int, error) { return 5, nil }); v != 5 || err != nil {
			t.Fatalf("Join after a failure = %d, %v", v, err)
		}
	})
}

func TestKeyThatCannotBeHashedPanicsWithoutHarm(t *testing.T) {
	fs := NewFlights[any, int](NewLot(0), Options{})
	fly := func(context.Context, *Flight) (int, error) { return 1, nil }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		fs.Join(t.Context(), []int{1}, fly)
	}()
	if v, _, err := fs.Join(t.Context(), 1, fly); v != 1 || err != nil {
		t.Fatalf("Join afterwards = %v, %v", v, err)
	}
}

// A flight that never parks does not even ask the lot: here it would hang.
func TestP3LotIsNotTouchedWithoutParking(t *testing.T) {
	lot, fs := newFlights(0)
	lot.mu.Lock()
	defer lot.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	fs.Join(ctx, "a", func(_ context.Context, f *Flight) (int, error) {
		f.Commit()
		cancel()
		for len(f.callers()) > 0 {
			runtime.Gosched()
		}
		return 1, nil
	})
	if err := fs.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestCallersAreInJoinOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(0)
		cp := new(cockpit)
		var ps []*passenger
		for i := range 4 {
			ps = append(ps, board(context.WithValue(t.Context(), ctxKey("n"), i), fs, "a", cp))
		}
		ps[2].leave()
		var got []any
		for _, ctx := range cp.callers() {
			got = append(got, ctx.Value(ctxKey("n")))
		}
		if want := []any{0, 1, 3}; !slices.Equal(got, want) {
			t.Fatalf("callers = %v, want %v", got, want)
		}
		cp.land(1)
		if n := len(cp.callers()); n != 0 {
			t.Fatalf("%d callers after landing", n)
		}
	})
}

func TestSnapshotListsTheOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(5)
		a, b := new(cockpit), new(cockpit)
		board(t.Context(), fs, "a", a)
		time.Sleep(time.Second)
		board(t.Context(), fs, "b", b)
		board(t.Context(), fs, "b", b)
		b.Park("no worker")
		b.Commit()
		b.Phase("line")
		time.Sleep(time.Second)
		want := []FlightSnapshot[string]{
			{Key: "a", Callers: 1, Age: 2 * time.Second},
			{Key: "b", Callers: 2, Parked: true, Reason: "no worker", Committed: true, Stage: "line", Age: time.Second},
		}
		if got := fs.Snapshot(); !slices.Equal(got, want) {
			t.Fatalf("Snapshot = %+v, want %+v", got, want)
		}
		a.land(1)
		b.land(1)
	})
}

func TestWaitReturnsWhenNoFlightFunctionRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(0)
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if err := fs.Wait(done); err != nil {
			t.Fatalf("Wait with nothing running = %v", err)
		}
		old, cp := new(cockpit), new(cockpit)
		board(t.Context(), fs, "a", old).leave() // abandoned, and still running
		board(t.Context(), fs, "a", cp)
		var waited [2]error
		var back [2]bool
		for i := range waited {
			go func() { waited[i] = fs.Wait(t.Context()); back[i] = true }()
		}
		cp.land(1)
		if back[0] || back[1] {
			t.Fatal("Wait returned while an abandoned flight function runs")
		}
		why := errors.New("no time left")
		short, stop := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer stop()
		if err := fs.Wait(short); err != why {
			t.Fatalf("Wait = %v, want the cause of its context", err)
		}
		old.land(1)
		if !back[0] || !back[1] || waited[0] != nil || waited[1] != nil {
			t.Fatalf("Waits are back: %v, errors %v; want both, without", back, waited)
		}
	})
}

func TestNewFlightsWithoutALotPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("NewFlights(nil) did not panic")
		}
	}()
	NewFlights[string, int](nil, Options{})
}

func TestResultsAreMetricLabels(t *testing.T) {
	for r, want := range map[Result]string{0: "unknown", Served: "served", Shed: "shed", BudgetExhausted: "budget_exhausted", Canceled: "canceled", Failed: "error"} {
		if r.String() != want {
			t.Errorf("Result(%d) = %q, want %q", r, r, want)
		}
	}
}

func TestCallerRecordIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(caller{}); size > 112 {
		t.Fatalf("a caller costs %d bytes, want at most 112", size)
	}
}

func TestP4LeavingIsConstantTime(t *testing.T) {
	// Not timed: leaving from the middle must not walk the list, so a list whose
	// links beyond the neighbours are cut does not matter to it.
	r, _ := newRig(t, Unlimited)
	ps := make([]*rigged, 7)
	for i := range ps {
		ps[i] = r.board()
	}
	ps[0].c.next, ps[0].c.prev = nil, nil
	ps[6].c.next, ps[6].c.prev = nil, nil
	r.wantLeft(ps[3])
	if ps[2].c.next != ps[4].c || ps[4].c.prev != ps[2].c || r.e.present != 7 {
		t.Fatal("leaving did not link the neighbours")
	}
}
