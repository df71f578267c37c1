package router_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"layover/budget"
	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
)

// BenchmarkRouteAwake is what the router costs a request to an awake actor.
func BenchmarkRouteAwake(b *testing.B) {
	r := router.New(planetest.NewScripted(1, "a"), parking.NewLot(0), router.Options{})
	r.Lot().Resize(parking.Unlimited)
	held, err := r.Route(context.Background(), router.Ask{Actor: "a"})
	if err != nil {
		b.Fatal(err)
	}
	defer held.Done()
	ctx, cancel := budget.For(context.Background(), time.Hour)
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		ride, err := r.Route(ctx, router.Ask{Actor: "a"})
		if err != nil {
			b.Fatal(err)
		}
		ride.Done()
	}
}

// BenchmarkTenThousandInLine is what it takes for ten thousand requests to one
// actor to join a flight that stands in line, and to leave it again.
func BenchmarkTenThousandInLine(b *testing.B) {
	const requests = 10_000
	for b.Loop() {
		r := router.New(planetest.NewScripted(0, "a"), parking.NewLot(parking.Unlimited), router.Options{})
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for range requests {
			all.Go(func() { r.Route(ctx, router.Ask{Actor: "a"}) })
		}
		for r.Lot().Snapshot().Active < requests {
			runtime.Gosched()
		}
		cancel()
		all.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/requests, "us/request")
}
