package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"layover/internal/admin"
	"layover/internal/cli"
	"layover/internal/router"
)

func wakeCommand() *cobra.Command {
	return changeCommand("wake", "Wake actors, and wait until they are awake",
		`Wake wakes each actor as a request of band 0 would: it stands in its pool's line if there is no free worker,
and needs a spot in the lot while it waits. A wake-up that began goes on when --wait is over.`)
}

func sleepCommand() *cobra.Command {
	return changeCommand("sleep", "Put actors to sleep, and wait until they are",
		`Sleep puts each actor to sleep after the requests that are with it, or after its max_drain. The next request
wakes it again; one that is kept awake is started again at once, so for it this is a restart.`)
}

func changeCommand(what, short, long string) *cobra.Command {
	var r reach
	var wait time.Duration
	cmd := &cobra.Command{
		Use:               what + " actor...",
		Short:             short,
		Long:              long + "\n\nIt needs the router's token: run it as the router's user, or name a file that has it.",
		Args:              cli.Args(1, cli.Many, what+" wiki"),
		ValidArgsFunction: r.completeActors,
		RunE: func(cmd *cobra.Command, args []string) error {
			if wait <= 0 || wait > admin.LongestChange {
				return fmt.Errorf("--wait %v is not allowed; write a duration above 0s, at most %s", wait, cli.Short(admin.LongestChange))
			}
			c, err := r.client()
			if err != nil {
				return err
			}
			return c.changeAll(cmd.Context(), cmd.OutOrStdout(), what, args, wait)
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 30*time.Second, "the most to wait for each, at most 5m")
	return r.flags(cmd)
}

// changeAll changes the actors one after another, those behind one that failed,
// too.
func (c *client) changeAll(ctx context.Context, out io.Writer, what string, names []string, wait time.Duration) error {
	var errs []error
	changed := []admin.Actor{}
	for _, name := range names {
		began := time.Now()
		a, err := post[admin.Actor](ctx, c, "/api/v1/actors/"+url.PathEscape(name)+"/"+what+"?wait="+wait.String(), nil)
		refused, ok := errors.AsType[*admin.Problem](err)
		if !ok && err != nil || ok && refused.Status == http.StatusUnauthorized {
			return err // it would be the same for the next one
		}
		if err != nil {
			errs = append(errs, unchanged(name, refused))
			continue
		}
		changed = append(changed, a)
		if !c.json {
			fmt.Fprintf(out, "%s: %s after %v\n", clean(name), a.State, time.Since(began).Round(time.Millisecond))
		}
	}
	if c.json {
		errs = append(errs, printJSON(out, changed))
	}
	return errors.Join(errs...)
}

// unchanged says why an actor is not as it was told to be.
func unchanged(name string, p *admin.Problem) error {
	name = clean(name)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", name, clean(p.Detail))
	if len(p.Output) > 0 {
		b.WriteString("\n  the last it printed:")
	}
	for _, line := range p.Output {
		fmt.Fprintf(&b, "\n  | %s", clean(line))
	}
	switch p.Reason {
	case router.StartFailed, router.BackingOff:
		b.WriteString("\n  mend it, then wake it again")
		if len(p.Output) > 0 {
			fmt.Fprintf(&b, "; 'layover logs %s' has more of what it printed", name)
		}
	case router.UnknownActor:
		b.WriteString("; 'layover ps' lists them")
	case router.StillWaking:
		fmt.Fprintf(&b, "\n  its wake-up goes on; 'layover logs -f %s' shows it, --wait waits longer", name)
	case router.NoWorker, router.LotFull:
		b.WriteString("\n  'layover top' shows who has the workers; 'layover resize' adds some, --wait waits longer")
	}
	return errors.New(b.String())
}

func resizeCommand() *cobra.Command {
	var r reach
	cmd := &cobra.Command{
		Use:   "resize pool number",
		Short: "Give a pool another number of workers",
		Long: `Resize gives a pool so many workers. More go to those in line at once; of fewer, idle actors go to sleep now, and
busy ones when they are done. It lasts until the configuration is read again, or the router starts again.

It needs the router's token: run it as the router's user, or name a file that has it.`,
		Example:           "  layover resize default 5",
		Args:              cli.Args(2, 2, "resize default 5"),
		ValidArgsFunction: r.completePools,
		RunE: func(cmd *cobra.Command, args []string) error {
			workers, err := strconv.Atoi(args[1])
			if err != nil {
				return fmt.Errorf("%q is not a number of workers; write one such as 4", args[1])
			}
			c, err := r.client()
			if err != nil {
				return err
			}
			pool, err := post[admin.Pool](cmd.Context(), c, "/api/v1/pools/"+url.PathEscape(args[0])+"/resize", map[string]int{"workers": workers})
			if err != nil {
				return err
			}
			if c.json {
				return printJSON(cmd.OutOrStdout(), pool)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %d used, %d in line\n", clean(pool.Name), count(pool.Workers, "worker"), pool.Used, pool.Waiting)
			return err
		},
	}
	return r.flags(cmd)
}

func tokenCommand() *cobra.Command {
	var r reach
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Print the token that changes need, for the status page and other programs",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.client()
			if err != nil {
				return err
			}
			token, err := c.readToken()
			if err != nil {
				return err
			}
			if r.json {
				return printJSON(cmd.OutOrStdout(), map[string]string{"token": token})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	}
	return r.flags(cmd)
}

// post decodes the answer to a change.
func post[T any](ctx context.Context, c *client, path string, body any) (out T, err error) {
	resp, err := c.send(ctx, http.MethodPost, path, body)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	return out, json.NewDecoder(resp.Body).Decode(&out)
}
