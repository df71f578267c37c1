package main

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"layover/bench/gates"
)

// anHour is the deadline of those that are to have one but not to reach it.
const anHour = time.Hour

// speed measures the loads of rule T17.
func speed(r *record) error {
	arms := []gates.Arm{gates.Semaphore, gates.Turnstile, gates.FreshClaims}
	for _, l := range gates.T17 {
		if short {
			l.Turns /= 10
		}
		interleave(rounds(31), arms, func(round int, arm gates.Arm) {
			addCost(r, l.Name, arm.Name, round, l, l.Run(arm.New(l.Size)))
		})
	}
	return nil
}

func addCost(r *record, cell, arm string, round int, l gates.Load, c gates.Cost) {
	if round < 0 {
		return
	}
	n := float64(max(1, l.Turns/l.Workers) * l.Workers)
	r.add(cell, arm, "ns", round, float64(c.Time.Nanoseconds())/n)
	r.add(cell, arm, "bytes", round, float64(c.Bytes)/n)
}

func rounds(n int) int {
	if short {
		return 3
	}
	return n
}

var rivals = []gates.Arm{gates.Semaphore, gates.Channel, gates.Bulkhead, gates.Turnstile, gates.FreshClaims}

const passes = 8

// crowds are how many workers meet at the passes.
var crowds = []struct {
	name    string
	workers int
}{{"passes free", passes / 2}, {"exactly full", passes}, {"10x oversubscribed", 10 * passes}}

// holds are how long a pass is held. One that yields gives the processor away once.
var holds = []struct {
	name  string
	hold  func()
	turns int // that take some 15 ms on an ordinary machine
}{
	{"held 0", nil, 200_000},
	{"held for a yield", runtime.Gosched, 40_000},
	{"held 1 us", gates.Waiting(time.Microsecond), 15_000},
	{"held 100 us", gates.Waiting(100 * time.Microsecond), 1_600},
}

// procs are the settings of GOMAXPROCS.
var procs = []int{1, 2}

// turns measures the time of a turn over the grid of processors, holds and crowds.
func turns(r *record) error {
	for _, p := range procs {
		runtime.GOMAXPROCS(p)
		for _, h := range holds {
			for _, c := range crowds {
				l := gates.Load{Size: passes, Workers: c.workers, Turns: h.turns, Hold: h.hold, Deadline: anHour}
				cell := gridCell(p, h.name, c.name)
				interleave(rounds(11), rivals, func(round int, arm gates.Arm) {
					addCost(r, cell, arm.Name, round, l, l.Run(arm.New(l.Size)))
				})
			}
		}
	}
	return nil
}

func gridCell(procs int, hold, crowd string) string {
	return fmt.Sprintf("GOMAXPROCS %d, %s, %s", procs, hold, crowd)
}

// waits measures how long one waits in a line of ten times the passes.
func waits(r *record) error {
	arms := []gates.Arm{gates.Semaphore, gates.Channel, gates.Bulkhead, gates.Turnstile}
	for _, p := range procs {
		runtime.GOMAXPROCS(p)
		for _, h := range holds[1:] {
			cell := fmt.Sprintf("GOMAXPROCS %d, %s", p, h.name)
			interleave(rounds(15), arms, func(round int, arm gates.Arm) {
				waited := waitsOf(arm.New(passes), 10*passes, max(h.turns, 4000), h.hold)
				if round >= 0 {
					r.addQuantiles(cell, arm.Name, "wait", round, waited)
				}
			})
		}
	}
	return nil
}

// waitsOf is what each turn waited. The claims are as old as the turns.
func waitsOf(g gates.Gate, workers, turns int, hold func()) []time.Duration {
	each := make([][]time.Duration, workers)
	together(workers, func(i int) {
		ctx, cancel := withHour()
		defer cancel()
		waited := make([]time.Duration, 0, turns/workers)
		for range turns / workers {
			claim := newClaim()
			before := time.Now()
			pass, ok := g.Take(ctx, claim)
			waited = append(waited, time.Since(before))
			mustHave(ok)
			hold()
			g.Give(pass)
		}
		each[i] = waited
	})
	return slices.Concat(each...)
}

// resume measures the time from a release to the moment at which the next in line runs on with the pass. There is one pass: it
// guards the time of the release.
func resume(r *record) error {
	arms := []gates.Arm{gates.Semaphore, gates.Channel, gates.Bulkhead, gates.Turnstile}
	for _, p := range procs {
		runtime.GOMAXPROCS(p)
		for _, line := range []int{10, 1000} {
			cell := fmt.Sprintf("GOMAXPROCS %d, %d in line", p, line)
			interleave(rounds(15), arms, func(round int, arm gates.Arm) {
				took := resumesOf(arm.New(1), line, 20_000)
				if round >= 0 {
					r.addQuantiles(cell, arm.Name, "resume", round, took)
				}
			})
		}
	}
	return nil
}

func resumesOf(g gates.Gate, workers, turns int) []time.Duration {
	var released time.Time // guarded by the pass, as is took
	took := make([]time.Duration, 0, turns)
	together(workers, func(int) {
		ctx, cancel := withHour()
		defer cancel()
		for range turns / workers {
			pass, ok := g.Take(ctx, newClaim())
			now := time.Now()
			mustHave(ok)
			if !released.IsZero() {
				took = append(took, now.Sub(released))
			}
			runtime.Gosched() // so that the others stand in line
			released = time.Now()
			g.Give(pass)
		}
	})
	return took
}

// together runs the workers and returns when all are done. None begins before all are there.
func together(workers int, work func(i int)) {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	ready.Add(workers)
	for i := range workers {
		done.Go(func() {
			ready.Done()
			<-begin
			work(i)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
}
