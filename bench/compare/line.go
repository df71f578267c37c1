package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"layover/bench/gates"
	"layover/turnstile"
)

func withHour() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), anHour)
}

func newClaim() turnstile.Claim { return turnstile.NewClaim(0) }

func mustHave(ok bool) {
	if !ok {
		panic("a gate refused although its context had not ended")
	}
}

// A line is goroutines that wait at a gate whose passes are all held.
type line struct {
	claims []turnstile.Claim
	done   sync.WaitGroup
}

// stand lets a goroutine for each claim enter the line and returns when all wait. then runs in each of them when its wait is
// over.
func (l *line) stand(ctx context.Context, g gates.Gate, then func(claim turnstile.Claim, pass turnstile.Pass, ok bool)) {
	var entering atomic.Int64
	for _, c := range l.claims {
		l.done.Go(func() {
			entering.Add(1)
			pass, ok := g.Take(ctx, c)
			then(c, pass, ok)
		})
	}
	// The rivals do not tell how many wait, so those who are about to get time to do it.
	for entering.Load() < int64(len(l.claims)) {
		runtime.Gosched()
	}
	time.Sleep(5*time.Millisecond + time.Duration(len(l.claims))*200*time.Nanosecond)
}

// shuffledClaims are of n jobs in three bands, in no order.
func shuffledClaims(n int, seed uint64) []turnstile.Claim {
	claims := make([]turnstile.Claim, n)
	for i := range claims {
		claims[i] = turnstile.NewClaim(i % 3)
	}
	rand.New(rand.NewPCG(seed, 1)).Shuffle(n, func(i, j int) { claims[i], claims[j] = claims[j], claims[i] })
	return claims
}

// before reports whether a is to be served before b.
func before(a, b turnstile.Claim) bool {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.Since.Compare(b.Since), cmp.Compare(a.Seq, b.Seq)) < 0
}

// order counts the pairs of a line that are served in the wrong order: the better claim after the worse one.
func order(r *record) error {
	const n = 1000
	arms := []gates.Arm{gates.Semaphore, gates.Channel, gates.Bulkhead, gates.Turnstile}
	interleave(rounds(11), arms, func(round int, arm gates.Arm) {
		g := arm.New(1)
		ctx, cancel := withHour()
		defer cancel()
		pass, _ := g.Take(ctx, newClaim())
		var served []turnstile.Claim // guarded by the pass
		l := line{claims: shuffledClaims(n, uint64(round+2))}
		l.stand(ctx, g, func(claim turnstile.Claim, pass turnstile.Pass, ok bool) {
			mustHave(ok)
			served = append(served, claim)
			g.Give(pass)
		})
		g.Give(pass)
		l.done.Wait()
		if round < 0 {
			return
		}
		wrong := 0
		for i := range served {
			for _, later := range served[i+1:] {
				if before(later, served[i]) {
					wrong++
				}
			}
		}
		r.add(fmt.Sprintf("%d in line, 3 bands", n), arm.Name, "inverted", round, float64(wrong)/(n*(n-1)/2))
	})
	return nil
}

// storm cancels a whole line at once.
func storm(r *record) error {
	arms := []gates.Arm{gates.Semaphore, gates.Channel, gates.Bulkhead, gates.Turnstile}
	sizes := []int{1000, 10_000, 50_000}
	if short {
		sizes = sizes[:2]
	}
	for _, p := range procs {
		runtime.GOMAXPROCS(p)
		for _, n := range sizes {
			cell := fmt.Sprintf("GOMAXPROCS %d, %d in line", p, n)
			interleave(rounds(9), arms, func(round int, arm gates.Arm) {
				took, bytes := cancelAll(arm.New(1), n, uint64(round+2))
				if round >= 0 {
					r.add(cell, arm.Name, "ns", round, float64(took.Nanoseconds())/float64(n))
					r.add(cell, arm.Name, "bytes", round, float64(bytes)/float64(n))
				}
			})
		}
	}
	return nil
}

// cancelAll is the time from the cancellation until all have left, and the bytes that were allocated for the line, goroutines
// included. The pass must have survived.
func cancelAll(g gates.Gate, n int, seed uint64) (took time.Duration, bytes uint64) {
	ctx, cancel := withHour()
	defer cancel()
	ctx.Done() // made on first use: not a cost of the line
	pass, _ := g.Take(ctx, newClaim())
	l := line{claims: shuffledClaims(n, seed)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l.stand(ctx, g, func(_ turnstile.Claim, pass turnstile.Pass, ok bool) {
		if ok {
			panic("there was no pass to have")
		}
	})
	runtime.ReadMemStats(&after)
	start := time.Now()
	cancel()
	l.done.Wait()
	took = time.Since(start)
	g.Give(pass)
	again, cancel := withHour()
	defer cancel()
	_, ok := g.Take(again, newClaim())
	mustHave(ok)
	return took, after.TotalAlloc - before.TotalAlloc
}

// resize changes the bound between few and many while workers take their turns.
func resize(r *record) error {
	arms := []gates.Arm{gates.Ballast, gates.Turnstile}
	for _, p := range procs {
		runtime.GOMAXPROCS(p)
		for _, h := range holds[2:] {
			cell := fmt.Sprintf("GOMAXPROCS %d, %s", p, h.name)
			interleave(rounds(11), arms, func(round int, arm gates.Arm) {
				s := resizing{gate: arm.New(many)}
				turnsPerMilli := s.run(h.hold)
				if round < 0 {
					return
				}
				r.addQuantiles(cell, arm.Name, "shrink", round, s.shrinks)
				r.addQuantiles(cell, arm.Name, "obeyed", round, s.obeyed)
				r.addQuantiles(cell, arm.Name, "grow", round, s.grows)
				r.add(cell, arm.Name, "turns per ms", round, turnsPerMilli)
			})
		}
	}
	return nil
}

const few, many = 2, 16 // passes

// resizing is a gate that is resized back and forth.
type resizing struct {
	gate gates.Gate

	inside  atomic.Int64
	shrinks []time.Duration // how long the calls took
	obeyed  []time.Duration // from the call of a shrink until no more than few were inside
	grows   []time.Duration
}

// run lets workers take their turns while the bound changes, about once in a millisecond.
func (s *resizing) run(hold func()) (turnsPerMilli float64) {
	const workers = 64
	var stop atomic.Bool
	var turns atomic.Int64
	began := time.Now()
	together(workers+1, func(i int) {
		if i == workers {
			s.resize(150 * time.Millisecond)
			stop.Store(true)
			return
		}
		ctx, cancel := withHour()
		defer cancel()
		for !stop.Load() {
			pass, ok := s.gate.Take(ctx, newClaim())
			mustHave(ok)
			s.inside.Add(1)
			hold()
			s.inside.Add(-1)
			s.gate.Give(pass)
			turns.Add(1)
		}
	})
	return float64(turns.Load()) / (time.Since(began).Seconds() * 1000)
}

// resize changes the bound for about that long. It leaves many.
func (s *resizing) resize(long time.Duration) {
	pause := gates.Waiting(time.Millisecond)
	for start := time.Now(); time.Since(start) < long; {
		call := time.Now()
		s.gate.Resize(few)
		s.shrinks = append(s.shrinks, time.Since(call))
		for s.inside.Load() > few {
			runtime.Gosched()
		}
		s.obeyed = append(s.obeyed, time.Since(call))
		pause()
		call = time.Now()
		s.gate.Resize(many)
		s.grows = append(s.grows, time.Since(call))
		pause()
	}
}
