package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"layover/internal/router"
)

// slack is how late something may be, and still count as on time: a little,
// and what this machine did to a timer during the same run.
func (d *demo) slack() time.Duration {
	d.watch.mu.Lock()
	defer d.watch.mu.Unlock()
	return 100*time.Millisecond + 3*d.watch.late
}

// How far apart two wake-ups may be, and still be of the same moment.
const sameMoment = 50 * time.Millisecond

// outcome is a request of the demo, seen from both ends.
type outcome struct {
	shot
	rec router.Record
}

// joined returns every request with its record, and how many have none or more
// than one.
func (f *facts) joined() (all []outcome, odd int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.shots {
		recs := f.records[s.id]
		if len(recs) != 1 {
			odd++
			continue
		}
		all = append(all, outcome{s, recs[0]})
	}
	return all, odd
}

func of(all []outcome, parts ...string) []outcome {
	var some []outcome
	for _, o := range all {
		if slices.Contains(parts, o.part) {
			some = append(some, o)
		}
	}
	return some
}

// quantile returns the q-th smallest of what of says about the outcomes.
func quantile(all []outcome, q float64, of func(outcome) time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	values := make([]time.Duration, len(all))
	for i, o := range all {
		values[i] = of(o)
	}
	slices.Sort(values)
	return values[min(int(q*float64(len(values))), len(values)-1)]
}

func didPark(o outcome) bool { return o.rec.Parked }

func took(o outcome) time.Duration   { return o.took }
func parked(o outcome) time.Duration { return o.rec.ParkedFor }
func woke(o outcome) time.Duration   { return phase(o, router.PhaseWake) }

func phase(o outcome, name string) time.Duration {
	for _, e := range o.rec.Budget.Ledger().Phases {
		if e.Depth == 0 && e.Name == name {
			return e.Elapsed
		}
	}
	return 0
}

// claim prints one line and returns whether it holds.
func (d *demo) claim(holds bool, text string) bool {
	mark := "✓"
	if !holds {
		mark = "✗ NOT SO:"
	}
	fmt.Fprintf(d.out, "  %s %s\n", mark, text)
	return holds
}

// report prints what was measured. It reports whether all of it is as it
// should be.
func (d *demo) report() bool {
	all, odd := d.facts.joined()
	d.table(all)
	d.watch.mu.Lock()
	fmt.Fprintf(d.out, "  a timer of 2 ms was late by %s at most: so busy is this machine\n", round(max(d.watch.late, 0)))
	d.watch.mu.Unlock()
	held := []bool{
		d.reportWait(all, odd),
		d.reportOrder(all),
		d.reportEnd(all),
	}
	fmt.Fprintln(d.out, "\nAnd after it")
	held = append(held, d.claim(d.quiet(), "nobody waits, every spot in the lot is free, nothing is in use"))
	return !slices.Contains(held, false)
}

func (d *demo) table(all []outcome) {
	fmt.Fprintln(d.out, "                        sent  served  parked  refused   parked p50    p99   wake p50")
	for _, row := range []struct{ name, part string }{
		{"ams, asleep", "cold"}, {"ams, kept busy", "hold"}, {"ams, awake", "warm"}, {"ams, the lot full", "full"}, {"burst, now", "now"},
		{"burst, later", "later"}, {"with too little time", "short"}, {"more than fit", "overflow"},
		{"zrh, with time enough", "after"}, {"all", ""},
	} {
		some := all
		if row.part != "" {
			some = of(all, row.part)
		}
		served := count200(some)
		waited := slices.DeleteFunc(slices.Clone(some), func(o outcome) bool { return !didPark(o) })
		fmt.Fprintf(d.out, "  %-21s %4d %7d %7d %8d", row.name, len(some), served, len(waited), len(some)-served)
		if len(waited) > 0 {
			fmt.Fprintf(d.out, "   %10s %6s", round(quantile(waited, .5, parked)), round(quantile(waited, .99, parked)))
		}
		if len(waited) > 0 && served > 0 {
			fmt.Fprintf(d.out, "   %8s", round(quantile(waited, .5, woke)))
		}
		fmt.Fprintln(d.out)
	}
}

func count200(all []outcome) (n int) {
	for _, o := range all {
		if o.status == http.StatusOK {
			n++
		}
	}
	return n
}

func (d *demo) reportWait(all []outcome, odd int) bool {
	fmt.Fprintln(d.out, "\nMust it wait?")
	warm, full, over := of(all, "warm", "full"), of(all, "full"), of(all, "overflow")
	neverParked := !slices.ContainsFunc(warm, func(o outcome) bool {
		return didPark(o) || o.rec.Wake != router.WakeNone || o.status != http.StatusOK
	})
	shed := slices.DeleteFunc(slices.Clone(over), func(o outcome) bool { return o.rec.Reason != router.LotFull })
	told := !slices.ContainsFunc(shed, func(o outcome) bool { return o.status != http.StatusServiceUnavailable || o.retry == "" })
	d.watch.mu.Lock()
	most := d.watch.parked
	d.watch.mu.Unlock()
	slack := d.slack()
	return allOf(
		d.claim(neverParked && len(full) > 0, fmt.Sprintf("%d requests to an awake actor, %d of them while the lot was full: none parked; p50 %s, p99 %s",
			len(warm), len(full), round(quantile(warm, .5, took)), round(quantile(warm, .99, took)))),
		d.claim(told && len(shed) > 0 && quantile(shed, 1, took) < slack && most == demoSpots, fmt.Sprintf("never more than %d parked; %d that found the lot full had their 503 and Retry-After in at most %s",
			most, len(shed), round(quantile(shed, 1, took)))),
		d.claim(odd == 0 && d.facts.sent == len(all) && d.counted() == len(all), fmt.Sprintf("%d requests sent, %d answered, %d counted: each exactly once", d.facts.sent, len(all), d.counted())),
	)
}

// counted returns the requests that the router says it had.
func (d *demo) counted() int {
	totals := d.server.router.Snapshot().Totals
	n := totals.Served
	for _, refused := range totals.Refused {
		n += refused
	}
	return int(n)
}

func allOf(held ...bool) bool { return !slices.Contains(held, false) }

func (d *demo) reportOrder(all []outcome) bool {
	fmt.Fprintln(d.out, "\nWho is next?")
	starts, most, twice := lives(d.events())
	started := make(map[string]bool)
	for _, e := range d.events() {
		started[e.name] = true
	}
	d.watch.mu.Lock()
	served, overtook, used := d.watch.served, d.watch.overtook, d.watch.used
	d.watch.mu.Unlock()
	at := wakeTimes(all)
	burst := slices.SortedFunc(maps.Keys(at), func(a, b string) int { return at[a].Compare(at[b]) })
	fmt.Fprintf(d.out, "    asked for   %s\n", strings.Join(slices.Compact(slices.Concat(burstLater, []string{" then, now:"}, burstNow)), " "))
	fmt.Fprintf(d.out, "    started     %s\n", strings.Join(burst, " "))
	return allOf(
		d.claim(overtook == 0 && served == len(burstOrder)-2, fmt.Sprintf("%d times a worker became free and went to the head of the line, %d times to another", served, overtook)),
		d.claim(inOrder(burst, at), "now before later, then by age; lis, asked for by both, went with now"),
		d.claim(used == demoWorkers && most <= demoWorkers, fmt.Sprintf("never more than %d workers in use, by the router and by the processes themselves", max(used, most))),
		d.claim(!twice && len(started) == len(demoActors), fmt.Sprintf("%d starts of %d actors, never one of an actor that was still there", starts, len(started))),
	)
}

// lives reads the events: how many starts there were, how many actors lived at
// once at most, and whether one was started while it lived.
func lives(events []event) (starts, most int, twice bool) {
	alive := make(map[string]bool)
	for _, e := range events {
		if e.what == "stop" {
			delete(alive, e.name)
			continue
		}
		twice = twice || alive[e.name]
		alive[e.name] = true
		most = max(most, len(alive))
		starts++
	}
	return starts, most, twice
}

// wakeTimes returns when each actor of the burst began to wake, as the ledgers
// of its requests say.
func wakeTimes(all []outcome) map[string]time.Time {
	times := make(map[string]time.Time)
	for _, o := range of(all, "now", "later") {
		ledger := o.rec.Budget.Ledger()
		for _, e := range ledger.Phases {
			at := ledger.Start.Add(e.First)
			if e.Name == router.PhaseWake && (times[o.actor].IsZero() || at.Before(times[o.actor])) {
				times[o.actor] = at
			}
		}
	}
	return times
}

// inOrder reports whether the order is the right one, but for wake-ups of the
// same moment: of two workers that become free together, either may be quicker
// to begin.
func inOrder(order []string, at map[string]time.Time) bool {
	place := func(name string) int { return slices.Index(burstOrder, name) }
	for i, later := range order {
		for _, earlier := range order[:i] {
			if place(earlier) > place(later) && at[later].Sub(at[earlier]) > sameMoment {
				return false
			}
		}
	}
	return len(order) == len(burstOrder)
}

func (d *demo) reportEnd(all []outcome) bool {
	fmt.Fprintln(d.out, "\nWhen does it end?")
	short, slack := of(all, "short"), d.slack()
	late := func(o outcome) time.Duration { return o.took - shortBudget }
	onTime := !slices.ContainsFunc(short, func(o outcome) bool {
		return o.status != http.StatusServiceUnavailable || o.rec.Reason != router.NoWorker || late(o) < -time.Millisecond || late(o) > slack
	})
	cold := of(all, "cold", "now", "later", "after")
	unexplained := quantile(cold, 1, func(o outcome) time.Duration { return o.rec.Took - explained(o) })
	slowest := slices.MaxFunc(cold, func(a, b outcome) int { return cmp.Compare(a.took, b.took) })
	return allOf(
		d.claim(onTime && len(short) == shortCount, fmt.Sprintf("%d had %v, which was too little: 503 no_worker %s to %s after its end, never before",
			len(short), shortBudget, round(max(quantile(short, 0, late), 0)), round(max(quantile(short, 1, late), 0)))),
		d.claim(count200(cold) == len(cold), fmt.Sprintf("%d with time enough were all served; the slowest, %s, after %s", len(cold), slowest.actor, round(slowest.took))),
		d.claim(unexplained < slack, fmt.Sprintf("the ledgers say where it went: %s; at most %s of any request is not in them", ledgerLine(slowest), round(unexplained))),
	)
}

// explained returns how much of a request its ledger accounts for.
func explained(o outcome) (d time.Duration) {
	for _, e := range o.rec.Budget.Ledger().Phases {
		if e.Depth == 0 {
			d += e.Elapsed
		}
	}
	return d
}

func ledgerLine(o outcome) string {
	var parts []string
	for _, e := range o.rec.Budget.Ledger().Phases {
		if e.Depth == 0 {
			parts = append(parts, e.Name+" "+round(e.Elapsed))
		}
	}
	return strings.Join(parts, " + ")
}

// round writes a duration as people compare it.
func round(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
