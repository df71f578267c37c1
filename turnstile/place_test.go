package turnstile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func wait(p *Place) *caller { return call(p.Wait) }

func TestT14_APassGrantedBeforeWaitIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(1)
		first := take(t, ts)
		place := ts.Enter(claimAt(0, 0), time.Time{})
		if place.Granted() {
			t.Fatal("Granted() in line: true")
		}
		first.Return()
		if !place.Granted() {
			t.Fatal("Granted() after the hand-off: false")
		}
		later := queue(ts, claimAt(-1, 0))
		time.Sleep(time.Hour)
		if !later.waits() {
			t.Fatal("a kept pass was given to somebody else")
		}
		pass, ok := place.Wait(t.Context())
		if !ok || place.Granted() {
			t.Fatalf("Wait: ok %v, still granted %v", ok, place.Granted())
		}
		wantOrder(t, pass, later)
	})
}

func TestT14_AFreePassIsGrantedAtOnce(t *testing.T) {
	ts := New(1)
	place := ts.Enter(claimAt(0, 0), time.Time{})
	if !place.Granted() {
		t.Fatal("Granted() = false with a free pass")
	}
	if pass, ok := place.Wait(t.Context()); !ok || pass.Waited() != 0 {
		t.Fatalf("Wait: ok %v, waited %v, want a pass that did not wait", ok, pass.Waited())
	}
}

func TestT14_ADoneContextBeatsAKeptPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(1)
		place := ts.Enter(claimAt(0, 0), time.Time{})
		next := queue(ts, claimAt(9, 0))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, ok := place.Wait(ctx); ok {
			t.Fatal("Wait(done): ok")
		}
		if !next.served() {
			t.Fatal("the kept pass did not go on to the next")
		}
	})
}

func TestT14_ADoneContextLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(0)
		waiting := wait(ts.Enter(claimAt(0, 0), time.Time{}))
		wantSnapshot(t, ts, 0, 1)
		waiting.cancel()
		if !waiting.refused() {
			t.Fatal("want refused")
		}
		wantSnapshot(t, ts, 0, 0)
	})
}

func TestT14_LeaveBeforeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(0)
		place := ts.Enter(claimAt(0, 0), time.Time{})
		place.Leave()
		place.Leave()
		ts.Resize(1)
		if place.Granted() {
			t.Fatal("a place that was left was granted a pass")
		}
		if !wait(place).refused() {
			t.Fatal("Wait after Leave: want no pass")
		}
		wantSnapshot(t, ts, 1, 0)
	})
}

func TestT14_LeaveDuringWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(0)
		place := ts.Enter(claimAt(0, 0), time.Time{})
		waiting := wait(place)
		place.Leave()
		if !waiting.refused() || waiting.ctx.Err() != nil {
			t.Fatal("want Wait to end without a pass")
		}
		wantSnapshot(t, ts, 0, 0)
	})
}

func TestT14_LeaveAfterAnUncollectedGrantPassesItOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(1)
		place := ts.Enter(claimAt(0, 0), time.Time{})
		next := queue(ts, claimAt(9, 0))
		place.Leave()
		if !next.served() || place.Granted() {
			t.Fatal("want the pass with the next in line")
		}
		if !wait(place).refused() {
			t.Fatal("Wait after Leave: want no pass")
		}
	})
}

func TestT14_LeaveAfterACollectedGrantDoesNothing(t *testing.T) {
	ts := New(1)
	place := ts.Enter(claimAt(0, 0), time.Time{})
	pass, _ := place.Wait(t.Context())
	place.Leave()
	if available, _ := ts.Snapshot(); available != 0 {
		t.Fatal("Leave gave back a pass that was collected")
	}
	pass.Return()
}

func TestT14_ASecondWaitPanics(t *testing.T) {
	place := New(1).Enter(claimAt(0, 0), time.Time{})
	place.Wait(t.Context())
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	place.Wait(t.Context())
}

func TestT14_SetReordersWhileInLineOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(1)
		first := take(t, ts)
		place := ts.Enter(claimAt(5, 0), time.Time{})
		a, b := queue(ts, claimAt(1, 0)), queue(ts, claimAt(3, 0))
		w := wait(place)
		place.Set(claimAt(2, 0), time.Now().Add(time.Minute))
		if l := ts.Line(3); l[1].Claim != claimAt(2, 0) || l[1].Remaining != time.Minute {
			t.Fatalf("Line() = %v after Set", l)
		}
		wantOrder(t, first, a, w, b)
		place.Set(claimAt(0, 0), time.Time{})
		wantSnapshot(t, ts, 1, 0)
	})
}

func TestT14_SetKeepsTheOrderOfArrivalAmongEquals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(1)
		first := take(t, ts)
		place := ts.Enter(claimAt(5, 0), time.Time{})
		later := queue(ts, claimAt(1, 0))
		last := ts.Enter(claimAt(5, 0), time.Time{})
		place.Set(claimAt(1, 0), time.Time{})
		last.Set(claimAt(1, 0), time.Time{})
		wantOrder(t, first, wait(place), later, wait(last))
	})
}

func TestT14_SetChangesTheEndThatMinUsefulLooksAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := NewWith(1, Options{MinUseful: time.Second})
		first := take(t, ts)
		place := ts.Enter(claimAt(0, 0), time.Now().Add(time.Millisecond))
		place.Set(claimAt(0, 0), time.Now().Add(time.Second))
		first.Return()
		if !place.Granted() {
			t.Fatal("want the later end to count")
		}
		place.Leave()
		synctest.Wait()
	})
}
