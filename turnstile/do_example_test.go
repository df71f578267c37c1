package turnstile_test

import (
	"context"
	"fmt"

	"layover/turnstile"
)

// What the function begins of the resource, rows or a transaction, it ends; so the pass encloses it.
func ExampleTurnstile_Do() {
	ctx, claim := context.Background(), turnstile.NewClaim(0)
	ts := turnstile.New(1)
	query := func() error {
		available, _ := ts.Snapshot()
		fmt.Println("query, passes free:", available)
		return nil
	}
	fmt.Println(ts.Do(ctx, claim, query))
	ts.Close()
	fmt.Println(ts.Do(ctx, claim, query))
	// Output:
	// query, passes free: 0
	// <nil>
	// turnstile: closed
}
