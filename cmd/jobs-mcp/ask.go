package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"layover/budget"
	"layover/internal/cli"
	"layover/internal/jobs/search"
	"layover/internal/jobs/tools"
)

// asking is the settings of list and get.
type asking struct {
	reading
	json     bool
	timeout  time.Duration
	deadline string
}

func (a *asking) flags(cmd *cobra.Command) {
	a.reading.flags(cmd)
	f := cmd.Flags()
	f.BoolVar(&a.json, "json", false, "print the answer as JSON")
	f.DurationVar(&a.timeout, "timeout", 45*time.Second, "how long it may take, everything included")
	f.StringVar(&a.deadline, "deadline", "", "the `instant` by which the answer must be there, RFC 3339; the earlier of the two counts")
	cmd.Flags().Lookup("log-level").DefValue = "warn"
	a.logLevel = "warn"
}

// begin begins the operation.
func (a *asking) begin(ctx context.Context) (context.Context, func(), error) {
	if a.timeout <= 0 {
		return nil, nil, fmt.Errorf("--timeout: %v: write a time above 0, such as 10s", a.timeout)
	}
	ctx, end := budget.For(ctx, a.timeout)
	if a.deadline == "" {
		return ctx, end, nil
	}
	var at time.Time
	if err := at.UnmarshalText([]byte(a.deadline)); err != nil {
		end()
		return nil, nil, fmt.Errorf("--deadline: %q: write an instant such as 2030-01-31T12:00:00Z", a.deadline)
	}
	ctx, endAt := budget.Start(ctx, at)
	both := func() { endAt(); end() }
	if budget.From(ctx).Remaining() <= 0 {
		both()
		return nil, nil, fmt.Errorf("--deadline: %s is past", a.deadline)
	}
	return ctx, both, nil
}

// do opens a reader for one operation.
func (a *asking) do(ctx context.Context, operation func(ctx context.Context, r *reader) error) error {
	log, err := a.log(os.Stderr)
	if err != nil {
		return err
	}
	ctx, end, err := a.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	r, err := a.open(log)
	if err != nil {
		return err
	}
	err = operation(ctx, r)
	return errors.Join(err, r.close())
}

func listCommand() *cobra.Command {
	var a asking
	var q search.Query
	cmd := &cobra.Command{
		Use:   "list [words...]",
		Short: "List jobs at the terminal",
		Long: `List prints the jobs that have all the words, anywhere in title, company, team, places or description: "two words" is
a phrase, a OR b either, -a not (after --), go* a beginning. Without --source, --board and --company it lists all boards
that take no company.`,
		Example: `  jobs-mcp list --source greenhouse:acme --source lever:acme golang
  jobs-mcp list --company acme --workplace remote
  jobs-mcp list --board remotive --since 7d --timeout 10s --json`,
		RunE: func(cmd *cobra.Command, words []string) error {
			if q.Limit == 0 { // to the tool: the usual number
				return errors.New(`--limit "0": 1 to 100`)
			}
			q.Text = strings.Join(words, " ")
			return a.do(cmd.Context(), func(ctx context.Context, r *reader) error {
				return list(ctx, r, q, a.json, cmd.OutOrStdout(), newBar(os.Stderr))
			})
		},
	}
	a.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&q.Sources, "source", nil, "`board:company`, or a board without companies; may be repeated")
	f.StringSliceVar(&q.Boards, "board", nil, "a `board`, with --company if it is one per company; may be repeated")
	f.StringSliceVar(&q.Companies, "company", nil, "a `company`, as in the address of its job pages; may be repeated")
	f.StringVar(&q.Location, "location", "", `words of a `+"`place`"+`, "remote", or both`)
	f.StringSliceVar(&q.Workplace, "workplace", nil, "remote, hybrid, on_site")
	f.StringSliceVar(&q.Type, "type", nil, "full_time, part_time, contract, temporary, internship, other")
	f.StringSliceVar(&q.Seniority, "seniority", nil, "intern, junior, mid, senior, lead, executive")
	f.Float64Var(&q.PayMin, "salary-min", 0, "a floor for the upper end of the salary, with --salary-currency")
	f.StringVar(&q.PayCurrency, "salary-currency", "", "ISO 4217, such as EUR")
	f.StringVar(&q.PayPeriod, "salary-period", "", "hour, day, week, month or year (default year)")
	f.StringVar(&q.Since, "since", "", "a day, an instant or an age such as 7d")
	f.StringVar(&q.Unstated, "unstated", "", "keep or drop jobs that do not state what a filter asks (default: keep those without pay only)")
	f.IntVar(&q.Limit, "limit", 20, "the most jobs, 1 to 100")
	f.StringVar(&q.Cursor, "cursor", "", "go on where an answer ended, with its --state; the rest may be left out")
	return cmd
}

// list prints the answer to q.
func list(ctx context.Context, r *reader, q search.Query, asJSON bool, out io.Writer, bar *bar) error {
	stop := bar.start(ctx)
	result, err := r.engine.List(ctx, q, bar.tell)
	stop()
	if err != nil {
		return asFlag(err)
	}
	answer := tools.NewList(result)
	lost := answer.Cursor != "" && r.courtesy.Stats().Folder == ""
	if lost {
		answer.Cursor = "" // it ends with this process
	}
	if asJSON {
		err = writeJSON(out, answer)
	} else {
		err = writeTable(out, answer)
	}
	if err == nil && lost && !asJSON {
		_, err = io.WriteString(out, "More: name a folder of its own with --state, and the answer has a cursor to go on with.\n")
	}
	enough := answer.Complete || answer.StopReason == string(search.Limit) && answer.Troubled() == 0
	if err == nil && !enough {
		return incomplete
	}
	return err
}

// flagOf are fields of a query whose flags are called otherwise.
var flagOf = map[string]string{
	"sources": "source", "boards": "board", "companies": "company", "pay_min": "salary-min", "pay_currency": "salary-currency",
	"pay_period": "salary-period",
}

// asFlag puts an error about a field of a query in the words of the flags.
func asFlag(err error) error {
	var bad *search.Invalid
	if !errors.As(err, &bad) {
		return err
	}
	name := "--" + cmp.Or(flagOf[bad.Field], bad.Field)
	switch bad.Field {
	case "text":
		name = "words"
	case "id":
		name = "id"
	}
	want := bad.Want
	for field, flag := range flagOf {
		want = strings.ReplaceAll(want, "with "+field, "with --"+flag)
	}
	return fmt.Errorf("%s %q: %s", name, bad.Value, want)
}

func getCommand() *cobra.Command {
	var a asking
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Print one job with its description",
		Args:  cli.Args(1, 1, "get remotive//1234567"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.do(cmd.Context(), func(ctx context.Context, r *reader) error {
				found, err := r.engine.Get(ctx, args[0], 0)
				if err != nil {
					return asFlag(err)
				}
				answer := tools.NewGet(found)
				if a.json {
					err = writeJSON(cmd.OutOrStdout(), answer)
				} else {
					_, err = io.WriteString(cmd.OutOrStdout(), answer.Paper())
				}
				if err == nil && answer.Job == nil {
					return incomplete
				}
				return err
			})
		},
	}
	a.flags(cmd)
	return cmd
}

func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// writeTable prints jobs as a table, and what is missing below it.
func writeTable(out io.Writer, l tools.List) error {
	var rows [][]string
	for _, j := range l.Jobs {
		rows = append(rows, []string{cmp.Or(day(j.Posted), "-"), cut(j.Title, 48), cut(j.Company, 24),
			cut(strings.Join(append(append([]string{}, j.Workplace...), j.Locations...), ", "), 32), j.ID})
	}
	if err := writeColumns(out, rows); err != nil {
		return err
	}
	if len(l.Jobs) > 0 {
		fmt.Fprintln(out)
	}
	_, err := io.WriteString(out, l.Summary())
	return err
}

func day(posted string) string {
	day, _, _ := strings.Cut(posted, "T")
	return day
}
