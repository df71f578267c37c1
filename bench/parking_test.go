package bench

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/singleflight"

	"layover/parking"
)

// Flights and singleflight both run one function for all who ask at once.
// Flights pays for what singleflight lacks: a function that outlives its leader,
// callers that leave by their own context, outcomes. The rounds of the two are
// interleaved, and the ratio is the median over the pairs.

// A sharer calls fn under the one key both rivals share.
type sharer func(fn func())

func newFlights() sharer {
	fs := parking.NewFlights[string, int](parking.NewLot(0), parking.Options{})
	ctx := context.Background()
	return func(fn func()) {
		fs.Join(ctx, "a", func(context.Context, *parking.Flight) (int, error) { fn(); return 0, nil })
	}
}

func newGroup() sharer {
	var g singleflight.Group
	return func(fn func()) {
		g.Do("a", func() (any, error) { fn(); return nil, nil })
	}
}

func newGroupChan() sharer {
	var g singleflight.Group
	ctx := context.Background()
	return func(fn func()) {
		select {
		case <-g.DoChan("a", func() (any, error) { fn(); return nil, nil }):
		case <-ctx.Done():
		}
	}
}

// alone is a batch of calls that nobody shares.
func alone(share sharer) (flights int) {
	for range 1000 {
		share(func() { flights++ })
	}
	return flights
}

// crowd is 64 callers that ask at once; the function runs until all have come.
func crowd(share sharer) (flights int) {
	const callers = 64
	var arrived, flown atomic.Int32
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			arrived.Add(1)
			share(func() {
				flown.Add(1)
				for arrived.Load() < callers {
					runtime.Gosched()
				}
			})
		})
	}
	all.Wait()
	return int(flown.Load())
}

func BenchmarkParking(b *testing.B) {
	for _, load := range []struct {
		name string
		run  func(sharer) int
	}{{"alone", alone}, {"share64", crowd}} {
		for _, rival := range []struct {
			name  string
			share func() sharer
		}{{"singleflight.Do", newGroup}, {"singleflight.DoChan", newGroupChan}} {
			b.Run(load.name+"/"+rival.name, func(b *testing.B) {
				pairs(b, load.run, newFlights(), rival.share())
			})
		}
	}
}

// pairs runs one round of each per iteration, changing which goes first.
func pairs(b *testing.B, run func(sharer) int, ours, theirs sharer) {
	var ratios, our, their []float64
	var ourFlights, theirFlights, rounds int
	timed := func(s sharer, flights *int) float64 {
		began := time.Now()
		*flights += run(s)
		return float64(time.Since(began).Nanoseconds())
	}
	for b.Loop() {
		var o, t float64
		if rounds%2 == 0 {
			o, t = timed(ours, &ourFlights), timed(theirs, &theirFlights)
		} else {
			t, o = timed(theirs, &theirFlights), timed(ours, &ourFlights)
		}
		our, their, ratios = append(our, o), append(their, t), append(ratios, o/t)
		rounds++
	}
	b.ReportMetric(median(our), "ours-ns/round")
	b.ReportMetric(median(their), "theirs-ns/round")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(float64(ourFlights)/float64(rounds), "ours-flights/round")
	b.ReportMetric(float64(theirFlights)/float64(rounds), "theirs-flights/round")
}

func median(xs []float64) float64 {
	xs = slices.Clone(xs)
	slices.Sort(xs)
	return xs[len(xs)/2]
}
