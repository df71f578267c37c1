package parking_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"layover/parking"
)

// A flight that needs its callers to wait says so, and then begins an attempt
// that is not cut off though they leave.
func Example() {
	lot := parking.NewLot(100)
	flights := parking.NewFlights[string, string](lot, parking.Options{})

	wake := func(ctx context.Context, f *parking.Flight) (string, error) {
		f.Park("asleep")
		defer f.Phase("wake")()
		if !f.Commit() {
			return "", context.Cause(ctx)
		}
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // the attempt's own ceiling
		defer cancel()
		return start(ctx, "greeter")
	}

	addr, outcome, err := flights.Join(context.Background(), "greeter", wake)
	fmt.Println(addr, err)
	fmt.Println(outcome.Result, outcome.Parked, outcome.Reason, outcome.Phases[0].Name)
	fmt.Println(lot.Snapshot().Active, "spots held")
	// Output:
	// greeter:8080 <nil>
	// served true asleep wake
	// 0 spots held
}

func start(_ context.Context, name string) (string, error) { return name + ":8080", nil }

// With a lot of 0 nobody waits, yet what a caller asked for is begun.
func ExampleFlights_Join_shed() {
	flights := parking.NewFlights[string, string](parking.NewLot(0), parking.Options{})
	done := make(chan struct{})
	_, outcome, err := flights.Join(context.Background(), "greeter", func(ctx context.Context, f *parking.Flight) (string, error) {
		defer close(done)
		f.Commit()
		f.Park("asleep")
		return start(ctx, "greeter")
	})
	<-done
	fmt.Println(outcome.Result, errors.Is(err, parking.ErrLotFull))
	// Output: shed true
}

// A spot can be taken without a flight, for whoever waits otherwise.
func ExampleLot() {
	lot := parking.NewLot(1)
	spot, ok := lot.Take()
	_, second := lot.Take()
	fmt.Println(ok, second, lot.Snapshot().Rejected)
	spot.Free()
	spot.Free() // does nothing
	fmt.Println(lot.Snapshot().Active)
	// Output:
	// true false 1
	// 0
}
