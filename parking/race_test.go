package parking

import (
	"context"
	"testing"
)

// These tests force both orders of each race on the steps themselves: what is
// decided under the lock first counts, whatever the waiting caller sees first.

// A rig is a flight whose callers are records that wait when the test says so.
type rig struct {
	t   *testing.T
	lot *Lot
	fs  *Flights[string, int]
	e   *entry[string, int]
	ctx context.Context
}

func newRig(t *testing.T, capacity int) (*rig, *rigged) {
	lot := NewLot(capacity)
	r := &rig{t: t, lot: lot, fs: NewFlights[string, int](lot, Options{})}
	first := r.caller()
	r.e, r.ctx = r.fs.beginLocked("a", first.c)
	return r, first
}

type rigged struct {
	c      *caller
	cancel context.CancelFunc
}

func (r *rig) caller() *rigged {
	ctx, cancel := context.WithCancel(r.t.Context())
	return &rigged{&caller{ctx: ctx}, cancel}
}

func (r *rig) board() *rigged {
	r.t.Helper()
	p := r.caller()
	if !r.e.boardLocked(p.c) {
		r.t.Fatal("shed at boarding")
	}
	return p
}

// wantFate awaits with everything that can end the wait already done, often
// enough for select to have taken every ready case.
func (r *rig) wantFate(p *rigged, want fate) {
	r.t.Helper()
	for range 50 {
		if _, got := r.e.await(p.c); got != want {
			r.t.Fatalf("fate = %v, want %v", got, want)
		}
	}
}

func (r *rig) wantLeft(p *rigged) {
	r.t.Helper()
	p.cancel()
	if _, got := r.e.await(p.c); got != left {
		r.t.Fatalf("fate = %v, want left", got)
	}
}

func TestRacePublishThenCancelIsServed(t *testing.T) {
	r, p := newRig(t, 1)
	if !r.e.land() {
		t.Fatal("landed without a caller")
	}
	p.cancel()
	r.wantFate(p, served)
}

func TestRaceCancelThenPublishHasLeft(t *testing.T) {
	r, p := newRig(t, 2)
	q := r.board()
	r.e.Park("test")
	r.wantLeft(p)
	wantActive(t, r.lot, 1)
	r.e.land()
	r.wantFate(q, served)
	wantActive(t, r.lot, 0)
}

func TestRaceLeaveThenParkGivesTheSpotToTheNext(t *testing.T) {
	r, p := newRig(t, 1)
	q := r.board()
	r.wantLeft(p)
	r.e.Park("test")
	wantActive(t, r.lot, 1)
	r.e.land()
	r.wantFate(q, served)
	wantActive(t, r.lot, 0)
}

func TestRaceParkThenLeaveFreesTheSpotAndShedsTheNext(t *testing.T) {
	r, p := newRig(t, 1)
	q := r.board()
	r.e.Park("test")
	r.wantLeft(p)
	wantActive(t, r.lot, 0)
	r.wantFate(q, refused)
}

func TestRaceShedThenCancelIsShed(t *testing.T) {
	r, _ := newRig(t, 1)
	q := r.board()
	r.e.Park("test")
	q.cancel()
	r.wantFate(q, refused)
	r.e.land()
	r.wantFate(q, refused)
}

func TestRaceCancelThenShedHasLeft(t *testing.T) {
	r, _ := newRig(t, 1)
	q := r.board()
	r.wantLeft(q)
	r.e.Park("test")
	if s := r.lot.Snapshot(); s.Rejected != 0 || s.Active != 1 {
		t.Fatalf("%+v after Park without the caller that left, want 1 held and none refused", s)
	}
}

func TestRaceLastLeaverThenCommitIsOver(t *testing.T) {
	r, p := newRig(t, 1)
	r.wantLeft(p)
	if r.e.Commit() || r.ctx.Err() == nil || r.fs.Len() != 0 {
		t.Fatalf("after the last caller left: context %v, %d flights", r.ctx.Err(), r.fs.Len())
	}
}

func TestRaceCommitThenLastLeaverFliesOn(t *testing.T) {
	r, p := newRig(t, 1)
	if !r.e.Commit() {
		t.Fatal("Commit = false with a caller present")
	}
	r.wantLeft(p)
	if r.ctx.Err() != nil || r.fs.Len() != 1 {
		t.Fatalf("committed flight after the last caller left: context %v, %d flights", r.ctx.Err(), r.fs.Len())
	}
}

func TestRaceJoinThenPublishIsServedForNothing(t *testing.T) {
	r, p := newRig(t, 0)
	q := r.board()
	r.e.land()
	r.wantFate(p, served)
	r.wantFate(q, served)
	if s := r.lot.Snapshot(); s.Rejected != 0 {
		t.Fatalf("the lot was asked: %+v", s)
	}
}

func TestRacePublishThenJoinBeginsAnew(t *testing.T) {
	r, _ := newRig(t, 0)
	r.e.land()
	v, o, err := r.fs.Join(t.Context(), "a", func(context.Context, *Flight) (int, error) { return 2, nil })
	if v != 2 || !o.Leader || err != nil {
		t.Fatalf("Join after publish = %v, %+v, %v; want its own flight", v, o, err)
	}
}

func TestRaceParkAfterPublishDoesNothing(t *testing.T) {
	r, p := newRig(t, 0)
	r.e.land()
	r.e.Park("late")
	r.wantFate(p, served)
	if s := r.lot.Snapshot(); s.Rejected != 0 {
		t.Fatalf("the lot was asked: %+v", s)
	}
}

func TestRaceTimerThatCouldNotBeStoppedIsIgnored(t *testing.T) {
	r, p := newRig(t, 0)
	r.fs.tower.linger = 1 << 40
	r.wantLeft(p)
	r.e.lingerOver() // as a timer of an earlier lingering
	if r.e.state != lingering {
		t.Fatalf("state = %v, want lingering", r.e.state)
	}
	r.board()
	r.e.lingerOver()
	if r.e.state != waiting || r.ctx.Err() != nil {
		t.Fatalf("state = %v, context %v; want a revived flight", r.e.state, r.ctx.Err())
	}
	r.e.land()
}

func TestRaceLateTimerDoesNotEndACommittedFlight(t *testing.T) {
	r, p := newRig(t, 0)
	r.fs.tower.linger = 1 << 40
	r.wantLeft(p)
	r.e.Commit()
	r.fs.tower.linger = 0 // as if the timer had fired before Commit could stop it
	r.e.lingerOver()
	if r.e.state != committed || r.ctx.Err() != nil {
		t.Fatalf("state = %v, context %v; want committed", r.e.state, r.ctx.Err())
	}
	r.e.land()
}
