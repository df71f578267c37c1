package main

import (
	"fmt"
	"strings"
	"time"

	"layover/bench/chart"
)

// describe says what the workers of a shop do.
func (s shop) describe() string {
	var kinds []string
	for i, k := range s.mix {
		part := 1 - s.long
		if i == 1 {
			part = s.long
		}
		kinds = append(kinds, fmt.Sprintf("%.0f %% %s (%d × `pg_sleep` of %v)", 100*part, k.name, k.queries, k.each))
	}
	text := fmt.Sprintf("%d workers, each with a job at all times, on %d connections. Jobs: %s.", s.workers, connections, strings.Join(kinds, ", "))
	if s.deadline > 0 {
		text += fmt.Sprintf(" Each job has %v.", s.deadline)
	}
	return text + fmt.Sprintf(" A round measures the jobs that end within %v, after %v of warm-up.", s.window, s.warmUp.Round(time.Millisecond))
}

func writeJobs(r *record) (s section) {
	arms := []string{poolAlone().name, semaphoreFirst().name}
	for _, n := range multiples {
		arms = append(arms, multipleArm(n))
	}
	arms = append(arms, bandsArm)
	rival := semaphoreFirst().name

	var t, kinds table
	t.head("arm", "queries per s", "connections in use", "jobs in progress", "p50 ms", "p95 ms", "p99 ms", "p99 to the semaphore's", "better claims overtaken per query")
	kinds.head("arm", "short p50 ms", "short p99 ms", "long p50 ms", "long p99 ms", "in progress, all p50 ms")
	took := chart.Chart{Title: "Jobs: from their beginning to their end", Axis: "ms, less is better", Series: []string{"p50", "p95", "p99"}}
	for _, arm := range arms {
		v := func(m string) string { return number(r.value(jobCell, arm, m).mid) }
		t.row(arm, v("queries per s"), share(r.value(jobCell, arm, "connections in use").mid), v("in progress"), v("took all p50 ms"), v("took all p95 ms"),
			v("took all p99 ms"), ratioText(r.ratio(jobCell, arm, rival, "took all p99 ms")), v("overtook"))
		kinds.row(arm, v("took short p50 ms"), v("took short p99 ms"), v("took long p50 ms"), v("took long p99 ms"), v("progress all p50 ms"))
		row := chart.Row{Name: shortName(arm)}
		for i, q := range took.Series {
			row.Dots = append(row.Dots, dot(i, r.value(jobCell, arm, "took all "+q+" ms")))
		}
		took.Rows = append(took.Rows, row)
	}
	multiple := chart.Chart{
		Title: "Passes per connection", Axis: "times the semaphore's", Mark: 1,
		Series: []string{"queries per s", "jobs in progress", "p50 of jobs", "p99 of jobs"},
	}
	for _, n := range multiples {
		row := chart.Row{Name: fmt.Sprintf("%d per connection", n)}
		for i, m := range []string{"queries per s", "in progress", "took all p50 ms", "took all p99 ms"} {
			row.Dots = append(row.Dots, dot(i, r.ratio(jobCell, multipleArm(n), rival, m)))
		}
		multiple.Rows = append(multiple.Rows, row)
	}
	for _, arm := range []string{multipleArm(1), bandsArm} {
		label := func(what string) string { return strings.TrimPrefix(what, "took ") + " (" + arm + ")" }
		for _, m := range []string{"took all p50 ms", "took all p95 ms", "took all p99 ms", "took short p50 ms", "took short p99 ms", "took long p50 ms", "took long p99 ms", "in progress"} {
			s.judge(r, jobCell, arm, label(m), m, false, rival)
		}
		s.judge(r, jobCell, arm, label("queries per s"), "queries per s", true, rival)
	}
	s.text = jobShop.describe() + "\n\n" + t.String() + "\n" + picture(took.Title, "jobs.svg") + "\n" + kinds.String() + "\n" + picture(multiple.Title, "multiples.svg")
	s.plots = map[string]chart.Chart{"jobs.svg": took, "multiples.svg": multiple}
	return s
}

// shortName is the name of an arm where there is little room.
func shortName(arm string) string {
	return strings.NewReplacer(", then pgxpool", "", "short jobs in the better band", "two bands", ", a pass per job", " per job").Replace(arm)
}

func writeDeadlines(r *record) (s section) {
	s.plots = make(map[string]chart.Chart)
	rival := semaphoreFirst().name
	var out strings.Builder
	for _, c := range deadlineCells {
		var t table
		t.head("arm", "jobs in time per s", "to the semaphore's", "short in time", "long in time", "connection time that served jobs in time", "p99 ms of those in time")
		plot := chart.Chart{Title: "Jobs with deadlines: " + c.name, Axis: "per second, more is better", Series: []string{"short jobs in time", "long jobs in time"}}
		for _, a := range c.arms {
			arm := a.name
			v := func(m string) spread { return r.value(c.name, arm, m) }
			t.row(arm, number(v("in time per s").mid), ratioText(r.ratio(c.name, arm, rival, "in time per s")), share(v("short in time share").mid),
				share(v("long in time share").mid), share(v("useful").mid), number(v("took all p99 ms").mid))
			plot.Rows = append(plot.Rows, chart.Row{Name: shortName(arm), Dots: []chart.Dot{dot(0, v("short in time per s")), dot(1, v("long in time per s"))}})
			if strings.HasPrefix(arm, plainTurnstile) {
				s.judge(r, c.name, arm, "jobs in time per s ("+arm+")", "in time per s", true, rival)
				s.judge(r, c.name, arm, "useful connection time ("+arm+")", "useful", true, rival)
				s.judge(r, c.name, arm, "long jobs in time per s ("+arm+")", "long in time per s", true, rival)
			}
		}
		file := "deadlines-" + slug(c.name) + ".svg"
		s.plots[file] = plot
		fmt.Fprintf(&out, "### Of %s\n\n%s\n\n%s\n%s\n", c.name, c.shop.describe(), t.String(), picture(plot.Title, file))
	}
	s.text = out.String()
	return s
}
