package main

import (
	"fmt"
	"slices"
	"strings"

	"layover/bench/chart"
	"layover/bench/gates"
)

// The names of the arms in the records.
var (
	base   = gates.Semaphore.Name
	ours   = gates.Turnstile.Name
	fresh  = gates.FreshClaims.Name
	others = []string{base, gates.Channel.Name, gates.Bulkhead.Name}
	// series is who is in the pictures: each arm has the same colour in all of them. Where the values are ratios to the
	// semaphore's, it is the line at one.
	series = append(slices.Clone(others), ours, fresh)
)

// dotsToBase are the ratios of arms to the semaphore.
func dotsToBase(r *record, cell, metric string, arms ...string) (dots []chart.Dot) {
	for _, arm := range arms {
		dots = append(dots, dot(slices.Index(series, arm), r.ratio(cell, arm, base, metric)))
	}
	return dots
}

func writeSpeed(r *record) (s section) {
	var t table
	t.head("load", "semaphore", "turnstile", "ratio (quartiles)", "promised", "", "new claim per turn", "B per turn")
	broken := 0
	for _, l := range gates.T17 {
		ratio := r.ratio(l.Name, ours, base, "ns")
		verdict := "held"
		if ratio.mid > l.Bound {
			verdict = "**broken**"
			broken++
		}
		t.row(l.Name, ns(r, l.Name, base), ns(r, l.Name, ours), ratioText(ratio), fmt.Sprintf("at most %.2f", l.Bound), verdict,
			ratioText(r.ratio(l.Name, fresh, base, "ns")), number(r.value(l.Name, ours, "bytes").mid))
		s.judge(r, l.Name, ours, "time of a turn", "ns", false, base)
		s.judge(r, l.Name, fresh, "time of a turn with a new claim", "ns", false, base)
	}
	verdict := "All of rule T17 held in this run."
	if broken > 0 {
		verdict = fmt.Sprintf("**%d of the %d bounds of rule T17 did not hold in this run.**", broken, len(gates.T17))
	}
	s.text = t.String() + "\n" + verdict
	return s
}

func ns(r *record, cell, arm string) string {
	return fmt.Sprintf("%s ns", number(r.value(cell, arm, "ns").mid))
}

func writeTurns(r *record) (s section) {
	s.plots = make(map[string]chart.Chart)
	compared := []string{gates.Channel.Name, gates.Bulkhead.Name, ours, fresh}
	var out strings.Builder
	for _, p := range procs {
		var t table
		t.head("", "semaphore", "channel", "bulkhead", "turnstile", fresh)
		c := chart.Chart{
			Title: fmt.Sprintf("Time of a turn, GOMAXPROCS %d", p), Axis: "times the semaphore's, less is better", Series: series, Log: true, Mark: 1,
		}
		for _, h := range holds {
			for _, crowd := range crowds {
				cell := gridCell(p, h.name, crowd.name)
				name := h.name + ", " + crowd.name
				cells := []string{name, ns(r, cell, base)}
				for _, arm := range compared {
					cells = append(cells, ratioText(r.ratio(cell, arm, base, "ns")))
				}
				t.row(cells...)
				c.Rows = append(c.Rows, chart.Row{Name: name, Dots: dotsToBase(r, cell, "ns", compared...)})
				s.judge(r, cell, ours, "time of a turn", "ns", false, others...)
				s.judge(r, cell, fresh, "time of a turn with a new claim", "ns", false, others...)
			}
		}
		file := fmt.Sprintf("turns-%d.svg", p)
		s.plots[file] = c
		fmt.Fprintf(&out, "%s\nGOMAXPROCS %d; the semaphore's time, and times as much as it:\n\n%s\n", picture(c.Title, file), p, t.String())
	}
	fmt.Fprintf(&out, "Bytes allocated per turn, median over the cells of both settings:\n\n%s", bytesTable(r))
	s.text = out.String()
	return s
}

// bytesTable is B per turn by crowd, the median over the other settings.
func bytesTable(r *record) string {
	var t table
	t.head(append([]string{""}, series...)...)
	for _, crowd := range crowds {
		cells := []string{crowd.name}
		for _, arm := range series {
			var all []float64
			for _, p := range procs {
				for _, h := range holds[:3] { // the others have so few turns that the workers' own memory shows
					all = append(all, r.rounds(gridCell(p, h.name, crowd.name), arm, "bytes")...)
				}
			}
			cells = append(cells, number(spreadOf(all).mid))
		}
		t.row(cells...)
	}
	return t.String()
}

// quantiles is the table and the picture of a metric that has p50 and p99, in microseconds.
func quantiles(r *record, metric, title, file string) (s section) {
	var t table
	t.head("us, p50 / p99", "semaphore", "channel", "bulkhead", "turnstile", "p50 to the semaphore's", "p99 to the semaphore's")
	c := chart.Chart{
		Title: title, Axis: "p99, times the semaphore's, less is better",
		Series: series[:4], Log: true, Mark: 1,
	}
	for _, cell := range r.cells() {
		cells := []string{cell}
		for _, arm := range series[:4] {
			cells = append(cells, fmt.Sprintf("%s / %s", number(r.value(cell, arm, metric+" p50").mid), number(r.value(cell, arm, metric+" p99").mid)))
		}
		cells = append(cells, ratioText(r.ratio(cell, ours, base, metric+" p50")), ratioText(r.ratio(cell, ours, base, metric+" p99")))
		t.row(cells...)
		c.Rows = append(c.Rows, chart.Row{Name: cell, Dots: dotsToBase(r, cell, metric+" p99", series[1:4]...)})
		for _, q := range []string{"p50", "p99"} {
			s.judge(r, cell, ours, metric+" "+q, metric+" "+q, false, others...)
		}
	}
	s.text = t.String() + "\n" + picture(title, file)
	s.plots = map[string]chart.Chart{file: c}
	return s
}

func writeWaits(r *record) section {
	return quantiles(r, "wait", "Wait in a line of ten times the passes", "waits.svg")
}

func writeResume(r *record) section {
	return quantiles(r, "resume", "From a release to the next in line", "resume.svg")
}

func writeOrder(r *record) (s section) {
	var t table
	t.head(append([]string{"pairs in the wrong order"}, series[:4]...)...)
	for _, cell := range r.cells() {
		cells := []string{cell}
		for _, arm := range series[:4] {
			v := r.value(cell, arm, "inverted")
			cells = append(cells, fmt.Sprintf("%s (%s to %s)", share(v.mid), share(v.low), share(v.high)))
		}
		t.row(cells...)
	}
	s.text = t.String()
	return s
}

func writeStorm(r *record) (s section) {
	var t table
	t.head("per waiter: ns to leave, B of the line", "semaphore", "channel", "bulkhead", "turnstile", "ns to the semaphore's")
	c := chart.Chart{
		Title: "A whole line cancelled at once", Axis: "ns per waiter, from the cancellation until the last has left; less is better",
		Series: series[:4], Log: true,
	}
	for _, cell := range r.cells() {
		cells := []string{cell}
		row := chart.Row{Name: cell}
		for i, arm := range c.Series {
			v := r.value(cell, arm, "ns")
			cells = append(cells, fmt.Sprintf("%s ns, %s B", number(v.mid), number(r.value(cell, arm, "bytes").mid)))
			row.Dots = append(row.Dots, dot(i, v))
		}
		t.row(append(cells, ratioText(r.ratio(cell, ours, base, "ns")))...)
		c.Rows = append(c.Rows, row)
		s.judge(r, cell, ours, "time to leave", "ns", false, others...)
		s.judge(r, cell, ours, "bytes of the line", "bytes", false, others...)
	}
	s.text = t.String() + "\n" + picture(c.Title, "storm.svg")
	s.plots = map[string]chart.Chart{"storm.svg": c}
	return s
}

func writeResize(r *record) (s section) {
	ballast := gates.Ballast.Name
	var t table
	t.head("", "arm", "turns per ms", "call of a shrink, us p50 / p99", "until it is obeyed", "call of a grow")
	for _, cell := range r.cells() {
		for _, arm := range []string{ballast, ours} {
			pair := func(m string) string {
				return fmt.Sprintf("%s / %s", number(r.value(cell, arm, m+" p50").mid), number(r.value(cell, arm, m+" p99").mid))
			}
			t.row(cell, arm, number(r.value(cell, arm, "turns per ms").mid), pair("shrink"), pair("obeyed"), pair("grow"))
		}
		p50 := func(m string) string { return ratioText(r.ratio(cell, ours, ballast, m+" p50")) }
		t.row("", "ratio (quartiles) of the p50", ratioText(r.ratio(cell, ours, ballast, "turns per ms")), p50("shrink"), p50("obeyed"), p50("grow"))
		s.judge(r, cell, ours, "turns per ms", "turns per ms", true, ballast)
		for _, m := range []string{"shrink p50", "shrink p99", "obeyed p50", "obeyed p99", "grow p50", "grow p99"} {
			s.judge(r, cell, ours, m, m, false, ballast)
		}
	}
	s.text = t.String()
	return s
}
