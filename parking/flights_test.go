package parking

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestJoinReturnsTheValueOfTheFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := NewFlights[string, int](NewLot(0), Options{})
		v, o, err := fs.Join(t.Context(), "a", func(context.Context, *Flight) (int, error) { return 7, nil })
		if v != 7 || err != nil || !o.Leader || o.Parked || o.Result != Served {
			t.Fatalf("Join = %v, %+v, %v; want 7 served to the leader", v, o, err)
		}
		if n := fs.Len(); n != 0 {
			t.Fatalf("Len = %d after the flight landed, want 0", n)
		}
	})
}
