package router

import (
	"context"
	"fmt"
	"testing"

	"layover/parking"
)

type nobody struct{ Plane }
type noUse struct{}

func (noUse) Awake() (Target, bool)                                    { return Target{}, false }
func (noUse) Take(Target) bool                                         { return true }
func (noUse) Unreachable()                                             {}
func (noUse) Done()                                                    {}
func (nobody) Want(string) (Use, error)                                { return noUse{}, nil }
func (nobody) Resume(context.Context, string, *Flight) (Target, error) { return Target{}, nil }

func TestAFloodOfNamesLeavesNothingBehind(t *testing.T) {
	r := New(nobody{}, parking.NewLot(0), Options{})
	for i := range 10_000 {
		if _, err := r.Route(t.Context(), Ask{Actor: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	r.Wait(context.Background())
	if len(r.crowds.of) != 0 || len(r.wakes.flying) != 0 || r.flights.Len() != 0 {
		t.Errorf("%d crowds, %d clocks, %d flights", len(r.crowds.of), len(r.wakes.flying), r.flights.Len())
	}
}
