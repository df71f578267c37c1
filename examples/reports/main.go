// Command reports runs more reports than its database has connections for, and pages in between that cannot wait.
//
// A report is a job of several queries and a transaction. It begins once (turnstile.Begin), takes a turn for each use of a
// connection, and has one end for all of it (budget.For). So the oldest reports finish first; when there is not time for all, it
// is the youngest that go without, and the others are whole. A page is in a better band: it goes before every report.
//
//	go run ./reports
//	DATABASE_URL=postgres://user@host/database go run ./reports -connections 5
//
// It writes nothing to the database. Without DATABASE_URL it starts a PostgreSQL of its own for as long as it runs.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"layover/budget"
	"layover/e2e/postgres"
	"layover/turnstile"
)

// The bands. The lower one is served first, to exhaustion, so it is for what is short and rare.
const (
	pages = iota
	reports
)

type settings struct {
	connections, reports, pages int
	reportTime, pageTime        time.Duration
}

func main() {
	var s settings
	flag.IntVar(&s.connections, "connections", 3, "how many connections the pool has")
	flag.IntVar(&s.reports, "reports", 20, "how many reports are asked for at once")
	flag.IntVar(&s.pages, "pages", 4, "how many pages are asked for while the reports run")
	flag.DurationVar(&s.reportTime, "report-time", 400*time.Millisecond, "how long a report may take, waiting included")
	flag.DurationVar(&s.pageTime, "page-time", time.Second, "how long a page may take, waiting included")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s, os.Getenv("DATABASE_URL"), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "reports:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, url string, out io.Writer) error {
	if url == "" {
		server, err := postgres.Start(ctx, postgres.Options{})
		if err != nil {
			return err
		}
		defer server.Stop()
		url = server.URL()
	}
	db, err := open(ctx, url, s.connections)
	if err != nil {
		return err
	}
	defer db.close()
	print(out, work(ctx, db, s))
	stats := db.gate.Stats()
	fmt.Fprintf(out, "\n%d turns over %d connections, %d of them after a wait in line\n", stats.Granted, stats.Size, stats.Queued)
	return ctx.Err()
}

// outcome is how a job ended.
type outcome struct {
	name   string
	err    error
	ledger budget.Ledger
}

// work asks for all reports at once, and for the pages when the first report is there.
func work(ctx context.Context, db *database, s settings) []outcome {
	outcomes := make([]outcome, s.reports+s.pages)
	var all sync.WaitGroup
	begin := func(o *outcome, name string, band int, d time.Duration, job func(context.Context, *database) error) <-chan struct{} {
		ctx, cancel := budget.For(turnstile.Begin(ctx, band), d) // here the job begins: its age, and its end
		done := make(chan struct{})
		all.Go(func() {
			defer close(done)
			defer cancel()
			err := job(ctx, db)
			if err != nil && ctx.Err() != nil { // also the driver's words for it
				err = errors.Join(context.Cause(ctx), err)
			}
			*o = outcome{name, err, budget.From(ctx).Ledger()}
		})
		return done
	}
	var first <-chan struct{}
	for i := range s.reports {
		done := begin(&outcomes[i], fmt.Sprint("report ", i+1), reports, s.reportTime, report)
		if i == 0 {
			first = done
		}
	}
	if first != nil {
		<-first
	}
	for i := range s.pages {
		begin(&outcomes[s.reports+i], fmt.Sprint("page ", i+1), pages, s.pageTime, page)
	}
	all.Wait()
	return outcomes
}

// report is a job of three uses of the database. It holds no connection between them.
func report(ctx context.Context, db *database) error {
	var regions []string
	if err := db.use(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, "select 'region ' || n from generate_series(1, 3) n, pg_sleep(0.02)")
		if err != nil {
			return err
		}
		regions, err = pgx.CollectRows(rows, pgx.RowTo[string]) // closes the rows
		return err
	}); err != nil {
		return fmt.Errorf("regions: %w", err)
	}

	totals := make(map[string]int)
	if err := db.use(ctx, func(conn *pgxpool.Conn) error { // one view of the data, so one transaction, so one turn
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			for _, region := range regions {
				var total int
				if err := tx.QueryRow(ctx, "select length($1) from pg_sleep(0.01)", region).Scan(&total); err != nil {
					return err
				}
				totals[region] = total
			}
			return nil
		})
	}); err != nil {
		return fmt.Errorf("totals: %w", err)
	}

	if err := db.use(ctx, func(conn *pgxpool.Conn) error {
		var trend int
		return conn.QueryRow(ctx, "select $1::int from pg_sleep(0.02)", len(totals)).Scan(&trend)
	}); err != nil {
		return fmt.Errorf("trend: %w", err)
	}
	return nil
}

// page is a job of one short query.
func page(ctx context.Context, db *database) error {
	return db.use(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, "select pg_sleep(0.005)")
		return err
	})
}

func print(out io.Writer, outcomes []outcome) {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "job\tend\twhere its time went")
	for _, o := range outcomes {
		end := "done"
		var exhausted *budget.Exhausted
		switch {
		case errors.As(o.err, &exhausted):
			end = "out of time in " + cmp.Or(exhausted.Phases()...)
		case o.err != nil:
			end = o.err.Error()
		}
		fmt.Fprintf(table, "%s\t%s\t%v\n", o.name, end, o.ledger)
	}
}
