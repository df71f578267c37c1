package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"layover/internal/admin"
	"layover/internal/cli"
	"layover/internal/router"
)

func psCommand() *cobra.Command {
	var r reach
	var pool, state string
	var failing bool
	cmd := &cobra.Command{
		Use:   "ps [word...]",
		Short: "List the actors of a running router",
		Long: `Ps lists the actors that have each of the words in their name, pool, state or error. FOR is how long an actor has
been in its state, WITH how many requests are with it, WAITING how many wait for it; P50 and P99 are of what its
last wake-ups took, at most 16; ERROR is what a waking actor lacks, else why its last start failed or its program
exited. An actor is failed as long as its next start is not due; it stays failing until one succeeds.`,
		Example:           "  layover ps --state awake\n  layover ps --failing\n  layover ps preview exit",
		ValidArgsFunction: r.completeActors,
		RunE: func(cmd *cobra.Command, words []string) error {
			c, err := r.client()
			if err != nil {
				return err
			}
			query := url.Values{"search": {strings.Join(words, " ")}, "pool": {pool}, "state": {state}}
			if failing {
				query.Set("failing", "true")
			}
			actors, err := c.allActors(cmd.Context(), query)
			if err != nil {
				return err
			}
			if c.json {
				return printJSON(cmd.OutOrStdout(), actors)
			}
			if len(actors) == 0 {
				text := nobody(len(words) > 0 || pool != "" || state != "", router.State(state))
				if failing {
					text = "no actor matches whose last start failed"
				}
				_, err := fmt.Fprintln(cmd.ErrOrStderr(), text)
				return err
			}
			return printActors(cmd.OutOrStdout(), time.Now(), actors)
		},
	}
	cmd.Flags().StringVar(&pool, "pool", "", "only those of this pool")
	cmd.Flags().BoolVar(&failing, "failing", false, "only those whose last start failed, in whatever state they are")
	cmd.Flags().StringVar(&state, "state", "", "only those in this state: asleep, waking, awake, 'going to sleep', failed")
	states := []string{string(router.Asleep), string(router.Waking), string(router.Awake), string(router.GoingToSleep), string(router.Failed)}
	cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("pool", r.completePools)
	return r.flags(cmd)
}

// nobody says that a list of actors is empty, of all or of those that were chosen.
func nobody(chosen bool, state router.State) string {
	switch {
	case !chosen:
		return "there is no actor; one of a template is there while it is wanted or awake"
	case state == router.Failed:
		return "no actor matches; one that failed is asleep again once its next start is due, but stays in ps --failing"
	}
	return "no actor matches; one of a template is there while it is wanted or awake"
}

func printActors(out io.Writer, now time.Time, actors []admin.Actor) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ACTOR\tPOOL\tSTATE\tFOR\tWITH\tWAITING\tWAKES\tP50\tP99\tUSED\tERROR")
	for _, a := range actors {
		used := "-"
		if !a.LastUsed.IsZero() {
			used = brief(now.Sub(a.LastUsed)) + " ago"
		}
		state := stateOf(a)
		if a.Kept {
			state += ", kept"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", clean(a.Name), clean(a.Pool), state, brief(now.Sub(a.Since)), a.InFlight, a.Wanted+a.InLine,
			a.Wakes, orDash(a.WakeP50), orDash(a.WakeP99), used, clean(cmp.Or(a.Lacks, a.LastError)))
	}
	return w.Flush()
}

// stateOf says of an actor whose last start failed so, too.
func stateOf(a admin.Actor) string {
	if a.Failing && a.State != router.Failed {
		return string(a.State) + ", failing"
	}
	return string(a.State)
}

func orDash(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return brief(d)
}

// brief writes a duration in the precision in which people compare them.
func brief(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= time.Hour:
		return cli.Short(d.Round(time.Minute))
	case d >= 10*time.Second:
		return cli.Short(d.Round(time.Second))
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return max(0, d).Round(time.Microsecond).String()
}

func logsCommand() *cobra.Command {
	var r reach
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use:   "logs actor",
		Short: "Print the last lines that an actor's program printed",
		Long: `Logs prints the last lines of an actor's program, of which the router keeps 2000, or the last 200 of one that has
ended. With --follow it goes on, across the actor's wake-ups, until it is interrupted. Without, what ps says under
ERROR follows on the standard error.`,
		Args:              cli.Args(1, 1, "logs wiki"),
		ValidArgsFunction: r.completeActors,
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines < 1 || lines > admin.MaxLines {
				return fmt.Errorf("--lines %d is not allowed; write a number from 1 to %d", lines, admin.MaxLines)
			}
			c, err := r.client()
			if err != nil {
				return err
			}
			if follow && r.json {
				return errors.New("--follow prints lines as they come: leave --json out")
			}
			path := "/api/v1/actors/" + url.PathEscape(args[0]) + "/logs"
			query := url.Values{"limit": {strconv.Itoa(lines)}}
			if follow {
				ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
				defer stop()
				return about(args[0], c.follow(ctx, cmd.OutOrStdout(), path, query))
			}
			out, err := fetch[admin.Output](cmd.Context(), c, path, query)
			if err != nil {
				return about(args[0], err)
			}
			if c.json {
				return printJSON(cmd.OutOrStdout(), out)
			}
			if len(out.Lines) == 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s has printed nothing yet\n", args[0])
			}
			for _, line := range out.Lines {
				fmt.Fprintln(cmd.OutOrStdout(), clean(line))
			}
			trouble, err := c.trouble(cmd.Context(), args[0])
			if trouble != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), clean(trouble))
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what it prints")
	cmd.Flags().IntVarP(&lines, "lines", "n", 100, fmt.Sprintf("begin with so many lines, at most %d", admin.MaxLines))
	return r.flags(cmd)
}

// about adds the actor's name to what is wrong with it.
func about(name string, err error) error {
	if p, ok := errors.AsType[*admin.Problem](err); ok {
		return unchanged(name, p)
	}
	return err
}

// trouble is what ps says under ERROR of an actor; empty if that is nothing. Of a
// program that could not be run, all that was printed is older than it.
func (c *client) trouble(ctx context.Context, name string) (string, error) {
	actors, err := c.allActors(ctx, url.Values{"search": {name}})
	for _, a := range actors {
		if text := cmp.Or(a.Lacks, a.LastError); a.Name == name && text != "" {
			return fmt.Sprintf("%s is %s: %s", name, a.State, text), err
		}
	}
	return "", err
}

func (c *client) follow(ctx context.Context, out io.Writer, path string, query url.Values) error {
	query.Set("follow", "true")
	resp, err := c.send(ctx, http.MethodGet, path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		fmt.Fprintln(out, clean(lines.Text()))
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(errors.New("the router has ended, or the actor was removed"), lines.Err())
}

func whyCommand() *cobra.Command {
	var r reach
	cmd := &cobra.Command{
		Use:   "why request-id",
		Short: "Say where a request's time went",
		Long: `Why draws the ledger of a request: what it waited for, when, and for how long; of one that still waits also what for,
and how long it may. The id is in the X-Request-Id of its answer, which the actor gets too, in the body of a refusal, in
the log, and on the status page; top and the status page have the ids of those that wait. The router remembers the last
200 requests that were served, and the last 200 that were not.`,
		Args:              cli.Args(1, 1, "why 1c2d3e4f"),
		ValidArgsFunction: r.completeRequests,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.client()
			if err != nil {
				return err
			}
			rec, err := fetch[admin.Request](cmd.Context(), c, "/api/v1/requests/"+url.PathEscape(args[0]), nil)
			if err != nil {
				return err
			}
			if c.json {
				return printJSON(cmd.OutOrStdout(), rec)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), waterfall(rec))
			return err
		},
	}
	return r.flags(cmd)
}

// fallWidth is how many characters a waterfall is wide.
const fallWidth = 50

// waterfall draws where a request's time went, a line for each phase.
func waterfall(rec admin.Request) string {
	var b strings.Builder
	b.WriteString(rec.At.Local().Format("15:04:05.000"))
	if rec.Method != "" {
		fmt.Fprintf(&b, " %s", clean(rec.Method))
	}
	if rec.Route != "" {
		fmt.Fprintf(&b, ", route %s", clean(rec.Route))
	}
	if rec.Actor != "" {
		fmt.Fprintf(&b, ", actor %s", clean(rec.Actor))
	}
	if rec.Instead != "" {
		fmt.Fprintf(&b, " instead of %s", clean(rec.Instead))
	}
	fmt.Fprintf(&b, ", band %d\n", rec.Band)
	if w := rec.Waiting; w != nil {
		fmt.Fprintf(&b, "still waits, for %s by now: %s", brief(rec.Took), wish(*w))
		if w.Ends {
			fmt.Fprintf(&b, "; %s left", brief(w.Remaining))
		}
	} else {
		fmt.Fprintf(&b, "%s after %s", ending(rec), brief(rec.Took))
	}
	switch {
	case rec.Reason == router.BackingOff:
		b.WriteString("; no start was due yet")
	case rec.Wake == router.WakeNone:
		b.WriteString("; the actor was awake")
	case rec.Wake == router.WakeTriggered:
		b.WriteString("; it began a wake-up")
	case rec.Wake == router.WakeJoined:
		b.WriteString("; it joined a wake-up under way")
	case rec.Wake == router.WakeSpared:
		b.WriteString("; the answer is the actor's state")
	}
	if rec.Parked {
		fmt.Fprintf(&b, "; it was parked for %s", brief(rec.Waited))
	}
	b.WriteString("\n")
	if rec.Detail != "" {
		fmt.Fprintf(&b, "%s\n", clean(rec.Detail))
	}
	if len(rec.Ledger) == 0 {
		if rec.Waiting == nil {
			b.WriteString("\nit waited for nothing\n")
		}
		return b.String()
	}
	b.WriteString("\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, p := range rec.Ledger {
		fmt.Fprintf(w, "%s\t%s\t%s\n", clean(p.Name), bar(p.First, p.Last, rec.Took), brief(p.Elapsed))
	}
	w.Flush()
	return b.String()
}

// wish is what a request waits for.
func wish(w admin.ParkedRequest) string {
	what := map[string]string{
		router.PhaseTurn:  "its turn with the actor",
		router.PhaseLine:  "a worker of the pool",
		router.PhaseSleep: "the actor to go to sleep, to wake it then",
		router.PhaseWake:  "the actor to start",
	}[w.Phase]
	if w.Place > 0 {
		what += fmt.Sprintf(" (place %d in line)", w.Place)
	}
	return cmp.Or(what, "the actor")
}

func ending(rec admin.Request) string {
	switch {
	case rec.Status == 0:
		return "passed on"
	case rec.Reason != "":
		return fmt.Sprintf("%d %s", rec.Status, rec.Reason)
	}
	if rec.MovedOn {
		return fmt.Sprintf("%d, a waiting page that moved on", rec.Status)
	}
	return strconv.Itoa(rec.Status)
}

// bar is where a phase lies in the whole: at least one character.
func bar(first, last, whole time.Duration) string {
	at := func(d time.Duration) int {
		if whole <= 0 {
			return 0
		}
		return int(min(max(float64(d)/float64(whole), 0), 1)*fallWidth + 0.5)
	}
	from := min(at(first), fallWidth-1)
	to := max(at(last), from+1)
	return strings.Repeat("·", from) + strings.Repeat("█", to-from) + strings.Repeat("·", fallWidth-to)
}
