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
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"layover/internal/admin"
	"layover/internal/cli"
	"layover/internal/router"
)

// view is what top shows at one moment.
type view struct {
	Status   admin.Status    `json:"status"`
	Pools    []admin.Pool    `json:"pools"`
	Actors   []admin.Actor   `json:"actors"` // those that are not asleep, and those that somebody wants
	Requests []admin.Request `json:"requests"`
}

func topCommand() *cobra.Command {
	var r reach
	var every time.Duration
	var times int
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch a running router",
		Long: `Top shows the lot, the pools with their lines, the actors that do something and the last requests, again and again
until it is interrupted. On a terminal it uses the whole of it; else it prints one look after another.`,
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
	if terminal {
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
			columns, lines := size(out)
			_, err = io.WriteString(out, "\x1b[H"+fitted(v.text(), columns, lines)+"\x1b[J")
		default:
			_, err = io.WriteString(out, v.text()+"\n")
		}
		if err != nil || n == times {
			return err
		}
		cli.Pause(ctx, every)
	}
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
			if a.State != router.Asleep || a.Wanted > 0 {
				v.Actors = append(v.Actors, a)
			}
		}
	}
	slices.SortStableFunc(v.Actors, func(a, b admin.Actor) int {
		return cmp.Compare(b.Wanted+b.InLine+b.InFlight, a.Wanted+a.InLine+a.InFlight)
	})
	last, err := fetch[admin.Requests](ctx, c, "/api/v1/requests", url.Values{"limit": {"10"}})
	v.Requests = last.Rows
	return v, err
}

func (v view) text() string {
	var b strings.Builder
	s := v.Status
	fmt.Fprintf(&b, "%s %s for %s", s.Name, s.State, brief(s.Now.Sub(s.Started)))
	for _, state := range []router.State{router.Awake, router.Waking, router.GoingToSleep, router.Failed, router.Asleep} {
		if n := s.Actors[state]; n > 0 {
			fmt.Fprintf(&b, ", %d %s", n, state)
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
	printActors(&b, s.Now, v.Actors)
	b.WriteString("\n")
	for _, rec := range v.Requests {
		fmt.Fprintf(&b, "%s  %-24s  %8s  %s  %s %s\n", rec.At.Local().Format("15:04:05"), ending(rec), brief(rec.Took), clean(rec.ID), clean(rec.Method), clean(rec.Actor))
	}
	return b.String()
}

// fitted cuts text to a terminal, and ends each line so that nothing of what was
// there before is left.
func fitted(text string, columns, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	var b strings.Builder
	for i, line := range all[:min(len(all), lines-1)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		runes := []rune(line)
		b.WriteString(string(runes[:min(len(runes), columns)]) + "\x1b[K")
	}
	return b.String() + "\r\n"
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
