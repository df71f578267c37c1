package main

import (
	"fmt"
	"strings"
	"time"

	"layover/budget"
	"layover/internal/jobs/board"
	"layover/internal/jobs/search"
)

// marks are how phases are drawn. Of two at one place, the later one counts.
var marks = []struct {
	phase string
	mark  byte
	means string
}{
	{"line", 'l', "in line"}, {"pace", '-', "pace"}, {"pause", 'p', "pause"}, {"retry", 'w', "waiting to try again"}, {"attempt", '#', "request"},
}

// draw shows the ledger of the listing as a waterfall.
func (d *demo) draw() {
	const width = 60
	ledger := d.first.Ledger
	fmt.Fprintf(d.out, "\n%-26s|%-*s| %v\n", "", width, "0 s", ledger.Limit)
	for _, r := range d.first.Reports {
		row := []byte(strings.Repeat(" ", width))
		for _, m := range marks {
			for _, e := range ledger.Phases {
				if strings.HasPrefix(e.Path, r.Board+"/") && e.Name == m.phase {
					paint(row, e.Spans, ledger.Limit, m.mark)
				}
			}
		}
		fmt.Fprintf(d.out, "%-26s|%s| %s\n", r.Source, row, verdict(r))
	}
	var legend []string
	for _, m := range marks {
		legend = append(legend, fmt.Sprintf("%c %s", m.mark, m.means))
	}
	fmt.Fprintf(d.out, "%-26s %s\n", "", strings.Join(legend, ", "))
	fmt.Fprintf(d.out, "%d jobs after %.2f s; complete: %v; stopped by: %s; %d found more than once\n",
		len(d.first.Items), d.ended.Sub(d.begun).Seconds(), d.first.Complete, d.first.Stop, d.first.Duplicates)
}

func paint(row []byte, spans []budget.Span, limit time.Duration, mark byte) {
	at := func(t time.Duration) int { return min(int(int64(len(row))*int64(t)/int64(limit)), len(row)-1) }
	for _, s := range spans {
		for i := at(s.From); i <= at(s.To); i++ {
			row[i] = mark
		}
	}
}

func verdict(r search.Report) string {
	text := fmt.Sprintf("%s, %d jobs", r.Status, r.Matched)
	if r.Reason != "" {
		text = fmt.Sprintf("%s (%s), %d jobs", r.Status, r.Reason, r.Matched)
	}
	if !r.RetryAt.IsZero() {
		text += ", again from " + r.RetryAt.Local().Format(time.TimeOnly)
	}
	return text
}

// claims checks what the demo is to show, and says of each whether it held.
func (d *demo) claims() bool {
	fmt.Fprintln(d.out)
	held := true
	claim := func(ok bool, format string, args ...any) {
		mark := "held   "
		if !ok {
			mark, held = "BROKEN ", false
		}
		fmt.Fprintf(d.out, "%s%s\n", mark, fmt.Sprintf(format, args...))
	}
	took := d.ended.Sub(d.begun)
	claim(took <= demoLimit, "the answer came within %v: after %.3f s", demoLimit, took.Seconds())

	well := map[string]bool{"greenhouse": true, "recruitee": true, "smartrecruiters": true, "himalayas": true}
	found, expected := 0, 0
	for _, r := range d.first.Reports {
		if well[r.Board] && r.Status == board.OK && !r.More {
			found += r.Matched
		}
	}
	for b := range well {
		expected += d.listed(b)
	}
	claim(found == expected, "boards in trouble cost the others nothing: %d of their %d jobs", found, expected)

	want := map[string]board.Verdict{"workday": board.RateLimited, "ashby": board.Deadline, "hn": board.Blocked}
	named := 0
	for _, r := range d.first.Reports {
		if v := want[r.Board]; v != "" && (r.Status == v || r.Status == search.Some && r.Reason == v) {
			named++
		}
	}
	claim(named == len(want) && !d.first.Complete, "the answer is not called complete, and says of each what is missing: %d of %d", named, len(want))

	late, sore := 0, 0
	for _, s := range d.asked {
		if s.At.Sub(d.begun) > demoLimit {
			late++
		}
		if s.Board == "workday" {
			sore++
		}
	}
	claim(late == 0, "no request began after the deadline: %d of %d did", late, len(d.asked))
	claim(sore == 2, "who asked for a pause was left alone: it got its first page's request, the refused one, and %d more", sore-2)

	items, same, twice := d.everything()
	all := 0
	for _, s := range demoSources {
		name, _, _ := strings.Cut(s, ":")
		all += d.listed(name)
	}
	claim(items+same == all, "in the end all is there: %d jobs, and %d that are the same job on another board, of the boards' %d", items, same, all)
	claim(twice == 0, "and nothing was given twice: %d were", twice)
	return held
}

// listed is how many jobs a board shows.
func (d *demo) listed(name string) (n int) {
	for _, c := range d.world.Boards[name] {
		for _, j := range c.Jobs {
			if !j.Unlisted {
				n++
			}
		}
	}
	return n
}

// everything counts the items of all answers, the jobs that are no items because
// another board had them, and the ids that came in more than one item.
func (d *demo) everything() (items, same, twice int) {
	seen := make(map[string]bool)
	for _, r := range append([]search.Result{d.first}, d.rest...) {
		items += len(r.Items)
		same += r.Duplicates
		for _, item := range r.Items {
			for _, s := range item.Sources {
				if seen[s.ID] {
					twice++
				}
				seen[s.ID] = true
			}
		}
	}
	return items, same, twice
}
