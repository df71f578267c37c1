package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"layover/budget"
	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
	"layover/turnstile"
)

// handOff measures the time from a worker's release to its hand-over to the
// best flight in line, and counts the pairs that were served in the wrong
// order. 100 flights are in line at all times.
func handOff(r *report) error {
	const (
		inLine   = 100
		handOffs = 10_000
	)
	names := make([]string, inLine+1)
	for i := range names {
		names[i] = fmt.Sprint("actor-", i)
	}
	plane := planetest.NewScripted(1, names...)
	plane.KeepIdle = true
	rt := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	type served struct {
		actor string
		claim turnstile.Claim
	}
	rides := make(chan served, inLine)
	claims := make(map[string]turnstile.Claim) // of the flights in line
	enter := func(actor string) {
		claim := turnstile.NewClaim(rand.IntN(5))
		waits := make(chan struct{})
		go func() {
			ctx, cancel := budget.For(ctx, time.Hour)
			defer cancel()
			ctx = turnstile.Begin(ctx, claim.Priority)
			claim, _ := turnstile.ClaimFrom(ctx)
			ride, err := rt.Route(ctx, router.Ask{Actor: actor, OnWait: func(string) func() {
				claims[actor] = claim // enter waits for it
				close(waits)
				return func() {}
			}})
			if err != nil {
				return // the run is over
			}
			ride.Done()
			rides <- served{actor, claim}
		}()
		<-waits
	}
	enter(names[0])
	awake := (<-rides).actor
	delete(claims, awake)
	for _, name := range names[1:] {
		enter(name)
	}
	lined := func() bool { _, waiting := plane.Pool().Snapshot(); return waiting == inLine }

	var took samples
	inversions := 0
	for range handOffs {
		waitFor(lined)
		released := time.Now()
		plane.Sleep(awake)
		next := <-rides
		grants := plane.Grants()
		took.add(grants[len(grants)-1].At.Sub(released))
		delete(claims, next.actor)
		for _, other := range claims {
			if other.Priority < next.claim.Priority || other.Priority == next.claim.Priority && other.Seq < next.claim.Seq {
				inversions++
			}
		}
		enter(awake)
		awake = next.actor
	}
	r.figure("hand-off, 100 flights in line: inversions of %d grants", float64(inversions), atMost, 0, handOffs)
	r.duration("hand-off, release to grant: p50 of %d", took.quantile(0.50), 0, handOffs)
	r.duration("hand-off, release to grant: p99 of %d", took.quantile(0.99), time.Millisecond, handOffs)
	return nil
}
