package router

import (
	"context"
	"fmt"
	"testing"

	"layover/parking"
)

func TestAFloodOfNamesLeavesNoGates(t *testing.T) {
	r := New(nil, parking.NewLot(0), Options{})
	r.SetLimits(func(string) Limit { return Limit{Concurrent: 1} })
	for i := range 10_000 {
		turn, err := r.gates.enter(context.Background(), fmt.Sprint("x", i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.gates.enter(context.Background(), fmt.Sprint("x", i)); err == nil {
			t.Fatal("two turns of one")
		}
		turn.done()
	}
	if n := len(r.gates.of); n != 0 {
		t.Errorf("%d gates are left", n)
	}
}
