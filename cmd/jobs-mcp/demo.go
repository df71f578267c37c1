package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"layover/budget"
	"layover/internal/cli"
	"layover/internal/jobs/courtesy"
	"layover/internal/jobs/fakeboards"
	"layover/internal/jobs/search"
)

// The demo's listing: seven boards, of which four have a bad day.
const (
	demoLimit = 2 * time.Second // less than the slow board and the pause need
	demoPause = 4               // seconds that the sore board asks for
	demoSlow  = time.Minute
	demoJobs  = 24 // of the one company on each board
)

var demoSources = []string{
	"greenhouse:acme", "recruitee:acme", "smartrecruiters:Acme1", "workday:acme.wd1.External", "ashby:Acme", "himalayas", "hn",
}

// demoFaults are what goes wrong, by the board.
var demoFaults = []struct {
	board, what string
	rule        fakeboards.Rule
}{
	{"recruitee", "resets the first connection", fakeboards.Rule{Board: "recruitee", Times: 1, Reset: true}},
	{"workday", fmt.Sprintf("refuses its second page for %d s", demoPause), fakeboards.Rule{
		Board: "workday", From: 2, Times: 1, Status: 429, Headers: map[string]string{"Retry-After": fmt.Sprint(demoPause)}}},
	{"ashby", "needs a minute to answer", fakeboards.Rule{Board: "ashby", Delay: fakeboards.Duration(demoSlow)}},
	{"hn", "shows a page for browsers instead", fakeboards.Rule{Board: "hn", Challenge: true}},
}

// errClaim ends a demo that measured something else than it claims.
var errClaim = errors.New("demo: not everything held")

func demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "See it work, without the network: seven boards, four in trouble, two seconds",
		Long: `Demo plays seven boards on this machine, four of which have a bad day, and lists them within two seconds. It draws where
the time went, board by board, follows the cursor once the boards are well again, and checks each of its claims against
what the boards saw. It takes about six seconds and ends with 0 only if everything that it printed held.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), cmd.OutOrStdout()) },
	}
}

// demo is one run.
type demo struct {
	out    io.Writer
	world  fakeboards.World
	boards *fakeboards.Server
	reader *reader

	begun, ended time.Time     // of the listing under the deadline
	first        search.Result // its answer
	asked        []fakeboards.Seen
	rest         []search.Result // of the cursors
}

func runDemo(ctx context.Context, out io.Writer) (err error) {
	d := &demo{out: out}
	d.world = fakeboards.Generate(fakeboards.Plan{Seed: 7, Companies: 1, Jobs: demoJobs})
	d.boards = fakeboards.New(d.world)
	var script fakeboards.Script
	for _, f := range demoFaults {
		script = append(script, f.rule)
	}
	d.boards.Play(script)
	played, err := play("127.0.0.1:0", d.boards)
	if err != nil {
		return err
	}
	defer played.close()
	o := courtesy.Options{Version: version()}
	if o.Dial, err = courtesy.Local(played.address); err != nil {
		return err
	}
	if d.reader, err = openReader(o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.reader.close()) }()
	d.announce()
	if err := d.listInTime(ctx); err != nil {
		return err
	}
	d.draw()
	if err := d.follow(ctx); err != nil {
		return err
	}
	if !d.claims() {
		return errClaim
	}
	return nil
}

func (d *demo) announce() {
	fmt.Fprintf(d.out, "%d boards with %d jobs each; %v for all of them together. Today:\n", len(demoSources), demoJobs, demoLimit)
	for _, f := range demoFaults {
		fmt.Fprintf(d.out, "  %s %s\n", f.board, f.what)
	}
}

// listInTime lists all sources under the deadline.
func (d *demo) listInTime(ctx context.Context) (err error) {
	d.begun = time.Now()
	ctx, end := budget.For(ctx, demoLimit)
	defer end()
	d.first, err = d.reader.engine.List(ctx, search.Query{Sources: demoSources, Limit: 100}, nil)
	d.ended = time.Now()
	d.reader.engine.Wait() // so that whatever it still asks is seen
	d.asked = slices.Clone(d.boards.Requests())
	return err
}

// follow waits for the end of the pause, heals the boards and reads the rest.
func (d *demo) follow(ctx context.Context) error {
	ctx, end := budget.For(ctx, time.Minute)
	defer end()
	d.boards.Play(nil)
	wait := max(d.first.RetryAt.Sub(d.ended), 0)
	fmt.Fprintf(d.out, "\nThe answer says when to go on: in %.1f s. The boards are well again by then.\n", wait.Seconds())
	if err := budget.Wait(ctx, wait+50*time.Millisecond); err != nil {
		return err
	}
	for cursor := d.first.Cursor; cursor != ""; {
		r, err := d.reader.engine.List(ctx, search.Query{Cursor: cursor, Limit: 100}, nil)
		if err != nil {
			return err
		}
		d.rest = append(d.rest, r)
		cursor = r.Cursor
		fmt.Fprintf(d.out, "  its cursor brought %d more jobs in %.1f s; complete: %v\n", len(r.Items), r.Ledger.Spent.Seconds(), r.Complete)
		if len(d.rest) > 10 {
			return errors.New("demo: the cursors do not end")
		}
	}
	return nil
}
