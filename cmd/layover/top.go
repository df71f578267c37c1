package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"layover/internal/admin"
	"layover/internal/cli"
	"layover/internal/router"
)

// view is what top shows at one moment.
type view struct {
	Status   admin.Status          `json:"status"`
	Pools    []admin.Pool          `json:"pools"`
	Actors   []admin.Actor         `json:"actors"`  // first those whose last start failed, then those that are not asleep or that somebody wants
	Waiting  []admin.ParkedRequest `json:"waiting"` // the next 10
	Requests []admin.Request       `json:"requests"`
}

func topCommand() *cobra.Command {
	var r reach
	var every time.Duration
	var times int
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch a running router",
		Long: `Top shows the lot, the pools with their lines, the actors that do something, up to 10 requests that wait and the last
ones that have their answer, again and again until q or Ctrl-C is pressed. On a terminal it uses the whole of it; else it prints one look after another.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return fmt.Errorf("--every %v is too short; write at least 100ms", every)
			}
			if times < 0 {
				return fmt.Errorf("--times %d is not allowed; write a number from 1 up, or 0 for no end", times)
			}
			c, err := r.client()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return c.top(ctx, cmd.OutOrStdout(), every, times)
		},
	}
	cmd.Flags().DurationVar(&every, "every", time.Second, "how often to look")
	cmd.Flags().IntVarP(&times, "times", "n", 0, "end after so many looks (default: never)")
	return r.flags(cmd)
}

func (c *client) top(ctx context.Context, out io.Writer, every time.Duration, times int) error {
	terminal := isTerminal(out) && !c.json
	resized := make(chan os.Signal, 1)
	if terminal {
		signal.Notify(resized, syscall.SIGWINCH)
		defer signal.Stop(resized)
		var restore func()
		ctx, restore = untilQ(ctx, os.Stdin)
		defer restore()
		fmt.Fprint(out, "\x1b[?1049h\x1b[?25l") // another screen, without the cursor
		defer fmt.Fprint(out, "\x1b[?25h\x1b[?1049l")
	}
	for n := 1; ; n++ {
		v, err := c.view(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case c.json:
			err = printJSON(out, v)
		case terminal:
			err = v.draw(out)
		default:
			_, err = io.WriteString(out, v.text(wide)+"\n")
		}
		if err != nil || n == times {
			return err
		}
		for next := time.After(every); next != nil; {
			select {
			case <-resized:
				if err := v.draw(out); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			case <-next:
				next = nil
			}
		}
	}
}

// untilQ ends the context when q is pressed, if in is a terminal; keys are read
// at once and are not shown until restore is called.
func untilQ(ctx context.Context, in *os.File) (_ context.Context, restore func()) {
	ctx, cancel := context.WithCancel(ctx)
	was, err := unix.IoctlGetTermios(int(in.Fd()), getTermios)
	if err != nil {
		return ctx, cancel
	}
	keys := *was
	keys.Lflag &^= unix.ICANON | unix.ECHO // signals stay: Ctrl-C, Ctrl-Z
	keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 1, 0
	unix.IoctlSetTermios(int(in.Fd()), setTermios, &keys) // without it q needs Enter
	go func() {                                           // ends with the program, which may be in the middle of a read
		var key [1]byte
		for {
			if n, err := in.Read(key[:]); err != nil || n == 1 && (key[0] == 'q' || key[0] == 'Q') {
				cancel()
				return
			}
		}
	}()
	return ctx, func() {
		cancel()
		unix.IoctlSetTermios(int(in.Fd()), setTermios, was)
	}
}

// draw fills a terminal.
func (v view) draw(out io.Writer) error {
	columns, lines := size(out)
	_, err := io.WriteString(out, "\x1b[H"+fitted(v.text(columns), columns, lines)+"\x1b[J")
	return err
}

func (c *client) view(ctx context.Context) (v view, err error) {
	if v.Status, err = fetch[admin.Status](ctx, c, "/api/v1/status", nil); err != nil {
		return v, err
	}
	pools, err := fetch[admin.Pools](ctx, c, "/api/v1/pools", url.Values{"limit": {"500"}})
	if err != nil {
		return v, err
	}
	v.Pools, v.Actors = pools.Rows, []admin.Actor{}
	for _, state := range []router.State{router.Waking, router.GoingToSleep, router.Failed, router.Awake, router.Asleep} {
		page, err := fetch[admin.Actors](ctx, c, "/api/v1/actors", url.Values{"state": {string(state)}, "limit": {"500"}})
		if err != nil {
			return v, err
		}
		for _, a := range page.Rows {
			if !a.Failing && (a.State != router.Asleep || a.Wanted > 0) {
				v.Actors = append(v.Actors, a)
			}
		}
	}
	broken, err := fetch[admin.Actors](ctx, c, "/api/v1/actors", url.Values{"failing": {"true"}, "limit": {"500"}})
	if err != nil {
		return v, err
	}
	slices.SortStableFunc(v.Actors, func(a, b admin.Actor) int {
		return cmp.Compare(b.Wanted+b.InLine+b.InFlight, a.Wanted+a.InLine+a.InFlight)
	})
	v.Actors = append(broken.Rows, v.Actors...)
	waiting, err := fetch[admin.Parked](ctx, c, "/api/v1/lot", url.Values{"limit": {"10"}})
	if err != nil {
		return v, err
	}
	v.Waiting = waiting.Rows
	last, err := fetch[admin.Requests](ctx, c, "/api/v1/requests", url.Values{"limit": {"10"}})
	v.Requests = last.Rows
	return v, err
}

// wide is how many columns all that there is to say of an actor needs.
const wide = 120

// text is what there is to see, in so many columns.
func (v view) text(columns int) string {
	var b strings.Builder
	s := v.Status
	fmt.Fprintf(&b, "%s %s for %s", s.Name, s.State, brief(s.Now.Sub(s.Started)))
	for _, state := range []router.State{router.Awake, router.Waking, router.GoingToSleep, router.Failed, router.Asleep} {
		if n := s.Actors[state]; n > 0 {
			fmt.Fprintf(&b, ", %d %s", n, state)
		}
	}
	if s.Failing > 0 {
		fmt.Fprintf(&b, "; %d failing", s.Failing)
	}
	if n := len(s.ConfigProblems); n > 0 {
		fmt.Fprintf(&b, "\na newer configuration is refused: %s", clean(s.ConfigProblems[0]))
		if n > 1 {
			fmt.Fprintf(&b, "; and %d more", n-1)
		}
	}
	spots := "unlimited spots"
	if s.Lot.Capacity != nil {
		spots = count(*s.Lot.Capacity, "spot")
	}
	refused := uint64(0)
	for _, n := range s.Totals.Refused {
		refused += n
	}
	fmt.Fprintf(&b, "\nlot: %d of %s taken, longest wait %s, %d found none; %d served, %d refused\n\n", s.Lot.Active, spots, brief(s.Lot.Longest), s.Lot.Rejected, s.Totals.Served, refused)
	for _, p := range v.Pools {
		fmt.Fprintf(&b, "pool %s: %d of %s used, %d in line", clean(p.Name), p.Used, count(p.Workers, "worker"), p.Waiting)
		for i, w := range p.Line[:min(5, len(p.Line))] {
			fmt.Fprintf(&b, "%s%s (band %d, %s", map[bool]string{true: ": ", false: ", "}[i == 0], clean(cmp.Or(w.Actor, "?")), w.Band, brief(w.InLine))
			if w.Ends {
				fmt.Fprintf(&b, ", %s left", brief(w.Remaining))
			}
			b.WriteString(")")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	if columns < wide {
		printBriefly(&b, s.Now, v.Actors)
	} else {
		printActors(&b, s.Now, v.Actors)
	}
	b.WriteString("\n")
	for _, w := range v.Waiting {
		left := "no end"
		if w.Ends {
			left = brief(w.Remaining) + " left"
		}
		fmt.Fprintf(&b, "%s  %-24s  %8s  %s  %s\n", w.Since.Local().Format("15:04:05"), "waits for "+brieflyFor(w), left, clean(w.ID), clean(w.Actor))
	}
	for _, rec := range v.Requests {
		fmt.Fprintf(&b, "%s  %-24s  %8s  %s  %s %s\n", rec.At.Local().Format("15:04:05"), ending(rec), brief(rec.Took), clean(rec.ID), clean(rec.Method), clean(rec.Actor))
	}
	return b.String()
}

// brieflyFor is what a request waits for, by its phase's name.
func brieflyFor(w admin.ParkedRequest) string {
	if w.Place > 0 {
		return fmt.Sprintf("%s, place %d", w.Phase, w.Place)
	}
	return cmp.Or(w.Phase, "its actor")
}

// printBriefly prints of actors what fits on a narrow terminal.
func printBriefly(out io.Writer, now time.Time, actors []admin.Actor) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ACTOR\tSTATE\tFOR\tWITH\tWAITING\tERROR")
	for _, a := range actors {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", clean(a.Name), stateOf(a), brief(now.Sub(a.Since)), a.InFlight, a.Wanted+a.InLine,
			clean(strings.TrimPrefix(cmp.Or(a.Lacks, a.LastError), "the actor ")))
	}
	w.Flush()
}

// fitted cuts text to a terminal, ends each line so that nothing of what was
// there before is left, and says in the last one what is not there.
func fitted(text string, columns, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	shown := min(len(all), lines-1)
	var b strings.Builder
	for _, line := range all[:shown] {
		b.WriteString(clip(line, columns) + "\x1b[K\r\n")
	}
	last := "q: end"
	if rest := len(all) - shown; rest > 0 {
		last += fmt.Sprintf("; %s below", count(rest, "more line"))
	}
	return b.String() + strings.Repeat("\x1b[K\r\n", lines-1-shown) + clip(last, columns) + "\x1b[K"
}

func clip(line string, columns int) string {
	runes := []rune(line)
	return string(runes[:min(len(runes), columns)])
}

// size returns the columns and lines of a terminal.
func size(out io.Writer) (columns, lines int) {
	if f, ok := out.(*os.File); ok {
		if w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && w.Col > 0 && w.Row > 1 {
			return int(w.Col), int(w.Row)
		}
	}
	return 80, 24
}
