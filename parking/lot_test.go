package parking

import (
	"testing"
	"testing/synctest"
	"time"
)

func take(t *testing.T, l *Lot) Spot {
	t.Helper()
	s, ok := l.Take()
	if !ok {
		t.Fatalf("Take refused with %+v", l.Snapshot())
	}
	return s
}

func TestP1LotAdmitsUpToItsCapacity(t *testing.T) {
	for _, tt := range []struct{ capacity, admitted int }{{0, 0}, {1, 1}, {3, 3}, {Unlimited, 10}} {
		l, admitted := NewLot(tt.capacity), 0
		for range 10 {
			if _, ok := l.Take(); ok {
				admitted++
			}
		}
		s := l.Snapshot()
		if admitted != tt.admitted || s.Active != admitted || s.Rejected != uint64(10-admitted) || s.Capacity != tt.capacity {
			t.Errorf("NewLot(%d): admitted %d of 10, want %d; snapshot %+v", tt.capacity, admitted, tt.admitted, s)
		}
	}
}

func TestP1ZeroLotAdmitsNobody(t *testing.T) {
	var l Lot
	if _, ok := l.Take(); ok {
		t.Fatal("the zero Lot admitted somebody")
	}
}

func TestP1NegativeCapacityPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("NewLot(-2) did not panic")
		}
	}()
	NewLot(-2)
}

func TestP1SpotIsFreedOnce(t *testing.T) {
	l := NewLot(2)
	a := take(t, l)
	copied := a
	a.Free()
	take(t, l)
	take(t, l)
	a.Free()
	copied.Free()
	Spot{}.Free()
	if _, ok := l.Take(); ok || l.Snapshot().Active != 2 {
		t.Fatalf("a spot freed again made room: %+v", l.Snapshot())
	}
}

func TestP1ResizeKeepsSpotsHeld(t *testing.T) {
	l := NewLot(Unlimited)
	a, b := take(t, l), take(t, l)
	l.Resize(1)
	if s := l.Snapshot(); s.Active != 2 || s.Capacity != 1 {
		t.Fatalf("after Resize(1): %+v, want 2 of 1 held", s)
	}
	a.Free()
	if _, ok := l.Take(); ok {
		t.Fatal("admitted with 1 of 1 held")
	}
	b.Free()
	take(t, l)
	l.Resize(2)
	take(t, l)
	l.Resize(Unlimited)
	take(t, l)
	l.Resize(0)
	if _, ok := l.Take(); ok {
		t.Fatal("a lot resized to 0 admitted somebody")
	}
}

func TestP1LongestIsTheWaitOfTheOldestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLot(Unlimited)
		longest := func(want time.Duration) {
			t.Helper()
			if got := l.Snapshot().Longest; got != want {
				t.Fatalf("Longest = %v, want %v", got, want)
			}
		}
		longest(0)
		a := take(t, l)
		time.Sleep(3 * time.Second)
		b := take(t, l)
		time.Sleep(2 * time.Second)
		c := take(t, l)
		time.Sleep(time.Second)
		longest(6 * time.Second)
		b.Free() // out of the middle
		longest(6 * time.Second)
		a.Free()
		longest(time.Second)
		c.Free()
		longest(0)
		d := take(t, l)
		time.Sleep(time.Second)
		longest(time.Second)
		d.Free()
	})
}
