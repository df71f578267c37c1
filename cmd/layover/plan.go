package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"layover/internal/cli"
	"layover/parking"
)

// plan says how long requests can wait, where, and which limit ends each wait.
func plan(c *config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is good: %s, %s, %s", c.file,
		count(len(c.Pools), "pool"), count(len(c.Actors), "actor"), count(len(c.Routes), "route"))
	if n := len(c.warnings.list); n > 0 {
		fmt.Fprintf(&b, ", %s", count(n, "warning"))
	}
	fmt.Fprintf(&b, "\n\nlot   %s\n", spots(c.Lot))
	for _, p := range c.Pools {
		fmt.Fprintf(&b, "pool  %s: %s, %s\n", p.Name, count(p.Workers, "worker"), order(p))
	}
	for _, rt := range c.Routes {
		planRoute(&b, c, rt)
	}
	return b.String()
}

func planRoute(b *strings.Builder, c *config, rt route) {
	fmt.Fprintf(b, "\nroute %s: band %d, answered or refused within %s", rt.Name, rt.Band, cli.Short(rt.Budget))
	if rt.MaxBudget > rt.Budget {
		fmt.Fprintf(b, " (the caller's own deadline: up to %s)", cli.Short(rt.MaxBudget))
	}
	b.WriteString("\n")
	if rt.Fallback != "" {
		fmt.Fprintf(b, "  falls back to %s when its actor cannot serve in time", rt.Fallback)
		if rt.FallbackAfter > 0 {
			fmt.Fprintf(b, ", after %s at the latest", cli.Short(rt.FallbackAfter))
		}
		b.WriteString("\n")
	}
	if rt.Interim > 0 {
		fmt.Fprintf(b, "  while it waits, 102 Processing every %s (interim)\n", cli.Short(rt.Interim))
	}
	if rt.WaitingPage > 0 {
		fmt.Fprintf(b, "  after %s in wait a browser's navigation is shown a page (waiting_page)\n", cli.Short(rt.WaitingPage))
	}
	tables := make(map[string][]string) // the actors that each is for
	var order []string
	for _, a := range c.actorsFor(rt) {
		p := c.pool(a.Pool)
		table := fmt.Sprintf(" in pool %s\n%s", p.Name, planTable(waits(a, *p, rt)))
		if tables[table] == nil {
			order = append(order, table)
		}
		tables[table] = append(tables[table], a.Name)
	}
	for _, table := range order {
		fmt.Fprintf(b, "  %s%s", strings.Join(tables[table], ", "), table)
	}
}

func planTable(rows []wait) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "    phase\tat most\tthen")
	for _, row := range rows {
		fmt.Fprintf(w, "    %s\t%s\t%s\n", row.phase, row.most, row.end)
	}
	w.Flush()
	return b.String()
}

// wait is one phase of a request: how long it can last, and what ends it then.
type wait struct{ phase, most, end string }

// waits lists what can happen to a request of this route, in the order in
// which it would. Times that a limit ends are counted from the phase's begin,
// those that the budget ends from the request's arrival.
func waits(a actor, p pool, rt route) []wait {
	budget := rt.Budget
	rows := []wait{{"awake", "no wait", "never parks, needs no spot in the lot"}}
	switch {
	case a.KeepAwake.Always:
		rows[0].end += "; kept awake"
	case len(a.KeepAwake.Windows) > 0:
		rows[0].end += "; kept awake " + a.KeepAwake.String()
	}
	if rt.NoWake {
		rows = []wait{
			{"awake", "no wait", "served, and no use of the actor: it sleeps as if nobody had asked"},
			{"not awake", "no wait", "200 with its state; 503 backing_off after a failed start"},
		}
	}
	if l := a.Limit; l.Concurrent > 0 {
		rows = append(rows, wait{"no turn", "until " + cli.Short(budget), fmt.Sprintf("503 actor_busy; at once when it has %s and %d more wait", count(l.Concurrent, "request"), l.Waiting)})
	}
	if !rt.NoWake {
		rows = append(rows, wait{"lot full", "no wait", "503 lot_full at once"},
			sleepWait(a, budget), lineWait(a, p, budget), startWait(a, budget))
	}
	end := "504 attempt_timeout unless its response header came; the body may take longer"
	if rt.StreamIdle > 0 {
		end += fmt.Sprintf(", but is cut off when nothing passes for %s (stream_idle)", cli.Short(rt.StreamIdle))
	}
	return append(rows, wait{"with the actor", "until " + cli.Short(budget), end})
}

func sleepWait(a actor, budget time.Duration) wait {
	if a.Grace >= budget {
		return wait{"going to sleep", "until " + cli.Short(budget), "503 still_waking: grace " + cli.Short(a.Grace) + " is not shorter than the budget"}
	}
	end := "killed when grace ends, then woken again"
	if a.MaxDrain > 0 {
		end += fmt.Sprintf("; up to %s later when it was busy (max_drain)", cli.Short(a.MaxDrain))
	} else {
		end += "; when it was busy, after its last request"
	}
	return wait{"going to sleep", cli.Short(a.Grace), end}
}

func lineWait(a actor, p pool, budget time.Duration) wait {
	end := "503 no_worker"
	if p.MinUseful > 0 {
		end += fmt.Sprintf("; passed over from %s on (min_useful %s)", cli.Short(budget-p.MinUseful), cli.Short(p.MinUseful))
	}
	switch {
	case a.MaxHold > 0:
		end += fmt.Sprintf("; gives way itself, when busy, after %s (max_hold)", cli.Short(a.MaxHold))
	case a.MinAwake > 0:
		end += fmt.Sprintf("; gives way itself, when idle, after %s (min_awake)", cli.Short(a.MinAwake))
	}
	return wait{"no worker", "until " + cli.Short(budget), end}
}

func startWait(a actor, budget time.Duration) wait {
	if a.StartTimeout < budget {
		return wait{"starting", cli.Short(a.StartTimeout), "502 start_failed (start_timeout)"}
	}
	return wait{"starting", "until " + cli.Short(budget),
		fmt.Sprintf("503 still_waking (budget); the start goes on to %s for those who come next", cli.Short(a.StartTimeout))}
}

func spots(lot int) string {
	switch lot {
	case parking.Unlimited:
		return lotSize(lot) + ": any number of requests may wait"
	case 0:
		return lotSize(lot) + ": no request waits, but each starts what it asks for"
	}
	return lotSize(lot)
}

func lotSize(lot int) string {
	if lot == parking.Unlimited {
		return "unlimited"
	}
	return count(lot, "spot")
}

func order(p pool) string {
	if p.HeadStart == 0 {
		return "lower bands first, then by age"
	}
	return fmt.Sprintf("by age, and a band is worth %s of it", cli.Short(p.HeadStart))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
