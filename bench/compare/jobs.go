package main

import (
	"context"
	"fmt"
	"time"
)

// jobShop is jobs of several queries, more of them at once than there are connections, and none with a deadline that counts.
var jobShop = shop{
	workers: 16 * connections,
	mix:     [2]kind{{"short", 2, time.Millisecond, 0}, {"long", 20, 3 * time.Millisecond, 1}},
	long:    0.2,
	warmUp:  1500 * time.Millisecond,
	window:  3 * time.Second,
}

const jobCell = "jobs of several queries"

// multiples are the passes per connection that are compared.
var multiples = []int{1, 2, 4, 8, 12}

func multipleArm(times int) string { return fmt.Sprintf("turnstile %dx, then pgxpool", times) }

const bandsArm = "turnstile 1x, short jobs in the better band"

func bandsFirst() dbArm {
	a := turnstileFirst(bandsArm, 1, 0)
	a.bands = true
	return a
}

func jobs(r *record) error {
	arms := []dbArm{poolAlone(), semaphoreFirst()}
	for _, n := range multiples {
		arms = append(arms, turnstileFirst(multipleArm(n), n, 0))
	}
	arms = append(arms, bandsFirst())
	return withDatabase(func(ctx context.Context, url string) error {
		return measureShop(ctx, r, url, jobCell, jobShop, 5, arms)
	})
}

// measureShop runs every arm in every round. The jobs of a round are the same for all arms.
func measureShop(ctx context.Context, r *record, url, cell string, s shop, n int, arms []dbArm) error {
	if short {
		n, s.warmUp, s.window = 1, s.warmUp/3, s.window/3
	}
	log := newJobLog()
	for round := range n {
		for i := range arms {
			a := arms[(i+round)%len(arms)]
			all, w, err := s.run(ctx, url, a, uint64(round+1))
			if err != nil {
				return err
			}
			s.count(r, cell, a.name, round, all, w)
			log.add(cell, a.name, round, w.from, all)
		}
	}
	return writeCSV(r.file("-"+slug(cell)+".csv"), log.rows)
}

// count adds what became of the jobs that ended while w counted.
func (s shop) count(r *record, cell, arm string, round int, all []job, w *watch) {
	var took, progress [3][]time.Duration // by kind, and all
	var useful, inProgress time.Duration
	var ok, ended [2]int
	for _, j := range all {
		if !j.first.IsZero() {
			inProgress += overlap(j.first, j.ended, w.from, w.to)
		}
		if j.ended.Before(w.from) || j.ended.After(w.to) {
			continue
		}
		ended[j.kind]++
		if !j.ok {
			continue
		}
		useful += j.used
		ok[j.kind]++
		for _, k := range []int{j.kind, 2} {
			took[k] = append(took[k], j.ended.Sub(j.began))
			progress[k] = append(progress[k], j.ended.Sub(j.first))
		}
	}
	seconds := s.window.Seconds()
	for k, name := range []string{s.mix[0].name, s.mix[1].name, "all"} {
		for _, q := range []float64{0.5, 0.95, 0.99} {
			metric := fmt.Sprintf("%s p%.0f ms", name, q*100)
			r.add(cell, arm, "took "+metric, round, quantileMillis(took[k], q))
			r.add(cell, arm, "progress "+metric, round, quantileMillis(progress[k], q))
		}
	}
	for k, m := range s.mix {
		r.add(cell, arm, m.name+" in time per s", round, float64(ok[k])/seconds)
		r.add(cell, arm, m.name+" in time share", round, float64(ok[k])/float64(ended[k]))
	}
	r.add(cell, arm, "in time per s", round, float64(ok[0]+ok[1])/seconds)
	r.add(cell, arm, "in progress", round, inProgress.Seconds()/seconds)
	r.add(cell, arm, "queries per s", round, float64(w.queries)/seconds)
	r.add(cell, arm, "connections in use", round, w.used.Seconds()/seconds/connections)
	r.add(cell, arm, "useful", round, useful.Seconds()/seconds/connections)
	r.add(cell, arm, "overtook", round, float64(w.overtook)/float64(w.queries))
}

// overlap is how much of a to b lies within from to to.
func overlap(a, b, from, to time.Time) time.Duration {
	if a.Before(from) {
		a = from
	}
	if b.After(to) {
		b = to
	}
	return max(0, b.Sub(a))
}

// deadlineCells: jobs of one query, which is what Options.MinUseful is for, and jobs of several, for which it takes more thought. In
// both, there is about twice as much work as the deadlines allow.
var deadlineCells = []struct {
	name string
	shop shop
	arms []dbArm
}{
	{"jobs of one query", shop{
		workers:  25 * connections,
		mix:      [2]kind{{"short", 1, 4 * time.Millisecond, 0}, {"long", 1, 24 * time.Millisecond, 1}},
		long:     0.2,
		deadline: 100 * time.Millisecond,
		warmUp:   time.Second,
		window:   2 * time.Second,
	}, []dbArm{
		poolAlone(), semaphoreFirst(), turnstileFirst(plainTurnstile, 1, 0),
		turnstileFirst("turnstile, MinUseful 6ms", 1, 6*time.Millisecond),
		turnstileFirst("turnstile, MinUseful 30ms", 1, 30*time.Millisecond),
	}},
	{"jobs of several queries", shop{
		workers:  32 * connections,
		mix:      jobShop.mix,
		long:     jobShop.long,
		deadline: 250 * time.Millisecond,
		warmUp:   time.Second,
		window:   2 * time.Second,
	}, []dbArm{
		poolAlone(), semaphoreFirst(), turnstileFirst(plainTurnstile, 1, 0),
		turnstileFirst("turnstile, MinUseful 5ms", 1, 5*time.Millisecond),
		turnstileFirst("turnstile, MinUseful 120ms", 1, 120*time.Millisecond),
		bandsFirst(),
		wholeFirst("turnstile, a pass per job, MinUseful 120ms", 120*time.Millisecond),
	}},
}

const plainTurnstile = "turnstile"

func wholeFirst(name string, minUseful time.Duration) dbArm {
	a := turnstileFirst(name, 1, minUseful)
	a.whole = true
	return a
}

// deadlines measures jobs with more work than their deadlines allow.
func deadlines(r *record) error {
	return withDatabase(func(ctx context.Context, url string) error {
		for _, c := range deadlineCells {
			if err := measureShop(ctx, r, url, c.name, c.shop, 5, c.arms); err != nil {
				return err
			}
		}
		return nil
	})
}
