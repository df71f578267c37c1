package crew

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"layover/turnstile"
)

// The naive baseline is a fixed pool: as many goroutines as there are passes, each of which takes work off a channel. It has
// neither order nor growth, so what a crew costs beside it is the price of those.

// contender processes pieces given by put, and runs a function for each.
type contender struct {
	name  string
	start func(passes int, process func()) (put func(), stop func())
}

var contenders = []contender{{"crew", startCrew}, {"pool", startPool}}

const benchQueue = 1024

func startCrew(passes int, process func()) (put func(), stop func()) {
	set := turnstile.NewSet()
	set.Resize(0, passes)
	work := make(chan struct{}, benchQueue)
	c := Start(context.Background(), set.Gate(0), 0, Duty[struct{}]{
		Take: func(context.Context) (struct{}, bool) {
			select {
			case w := <-work:
				return w, true
			default:
				return struct{}{}, false
			}
		},
		Process:  func(context.Context, struct{}, func()) { process() },
		Panicked: func(_ context.Context, value any, stack []byte) { panic(fmt.Sprintf("%v\n%s", value, stack)) },
	}, Options{})
	put = func() { work <- struct{}{}; c.Wake() }
	return put, func() { c.Drain(context.Background()) }
}

func startPool(passes int, process func()) (put func(), stop func()) {
	work := make(chan struct{}, benchQueue)
	var all sync.WaitGroup
	for range passes {
		all.Go(func() {
			for range work {
				process()
			}
		})
	}
	return func() { work <- struct{}{} }, func() { close(work); all.Wait() }
}

// One piece at a time, from its arrival to its end.
func BenchmarkOneAfterAnother(b *testing.B) {
	for _, c := range contenders {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			done := make(chan struct{})
			put, stop := c.start(4, func() { done <- struct{}{} })
			for b.Loop() {
				put()
				<-done
			}
			stop()
		})
	}
}

// As many pieces as passes at once, over and over: ns/op is per burst of that many.
func BenchmarkBurst(b *testing.B) {
	for _, passes := range []int{1, 8, 64} {
		for _, c := range contenders {
			b.Run(fmt.Sprintf("%s/passes=%d", c.name, passes), func(b *testing.B) {
				b.ReportAllocs()
				var all sync.WaitGroup
				put, stop := c.start(passes, all.Done)
				for b.Loop() {
					all.Add(passes)
					for range passes {
						put()
					}
					all.Wait()
				}
				stop()
			})
		}
	}
}

// A backlog that is always there: ns/op is per job.
func BenchmarkBacklog(b *testing.B) {
	for _, passes := range []int{1, 8, 64} {
		for _, c := range contenders {
			b.Run(fmt.Sprintf("%s/passes=%d", c.name, passes), func(b *testing.B) {
				b.ReportAllocs()
				var all sync.WaitGroup
				put, stop := c.start(passes, all.Done)
				for b.Loop() {
					all.Add(1)
					put()
				}
				all.Wait()
				stop()
			})
		}
	}
}

// Wake while nobody is parked.
func BenchmarkWake(b *testing.B) {
	set := turnstile.NewSet()
	set.Resize(0, 1)
	began, end := make(chan struct{}), make(chan struct{})
	left := 1
	c := Start(context.Background(), set.Gate(0), 0, Duty[int]{
		Take: func(context.Context) (int, bool) { left--; return left, left >= 0 },
		Process: func(context.Context, int, func()) {
			close(began)
			<-end
		},
		Panicked: func(context.Context, any, []byte) {},
	}, Options{Max: 1})
	<-began
	b.ReportAllocs()
	for b.Loop() {
		c.Wake()
	}
	close(end)
	c.Drain(context.Background())
}
