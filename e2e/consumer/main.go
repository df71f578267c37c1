// Command consumer uses the three libraries from another module, as a program
// of somebody else would.
package main

import (
	"context"
	"fmt"
	"time"

	"layover/budget"
	"layover/parking"
	"layover/turnstile"
)

func main() {
	ctx, cancel := budget.For(context.Background(), time.Second)
	defer cancel()
	ctx = turnstile.Begin(ctx, 0)

	gate := turnstile.New(1)
	lot := parking.NewLot(10)
	flights := parking.NewFlights[string, string](lot, parking.Options{})
	greeting, outcome, err := flights.Join(ctx, "world", func(ctx context.Context, f *parking.Flight) (string, error) {
		f.Park("asleep")
		pass, ok := gate.WaitTurn(ctx, turnstile.NewClaim(0))
		if !ok || !f.Commit() {
			return "", context.Cause(ctx)
		}
		defer pass.Return()
		return "hello, world", nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(greeting, outcome.Parked, budget.From(ctx).Remaining() > 0)
}
