package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"layover/turnstile"
)

// db stands for a *sql.DB: a pool of connections whose own line knows nothing of jobs.
type db struct{ conns chan struct{} }

func (d *db) query(ctx context.Context, text string) (rows string, close func(), err error) {
	select {
	case d.conns <- struct{}{}:
		return "rows of " + text, func() { <-d.conns }, nil
	case <-ctx.Done():
		return "", nil, ctx.Err()
	}
}

// report runs the two queries of a report. It takes a turn for each use of a connection and holds nothing between them.
func report(ctx context.Context, ts *turnstile.Turnstile, pool *db, claim turnstile.Claim) error {
	for _, text := range []string{"totals", "details"} {
		if err := one(ctx, ts, pool, claim, text); err != nil {
			return err
		}
	}
	return nil
}

func one(ctx context.Context, ts *turnstile.Turnstile, pool *db, claim turnstile.Claim, text string) error {
	pass, ok := ts.WaitTurn(ctx, claim)
	if !ok {
		return errors.Join(errors.New("no turn for "+text), ctx.Err())
	}
	defer pass.Return() // runs after the rows are closed
	rows, closeRows, err := pool.query(ctx, text)
	if err != nil {
		return err
	}
	defer closeRows()
	fmt.Println(rows)
	return nil
}

// A database pool: one pass encloses each use of a connection, and the claim is the report's.
func ExampleTurnstile() {
	const connections = 2
	pool := &db{conns: make(chan struct{}, connections)}
	ts := turnstile.New(connections)
	if err := report(context.Background(), ts, pool, turnstile.NewClaim(0)); err != nil {
		fmt.Println(err)
	}
	available, waiting := ts.Snapshot()
	fmt.Println(available, "passes free,", waiting, "waiting")
	// Output:
	// rows of totals
	// rows of details
	// 2 passes free, 0 waiting
}

// A worker takes the first turn of a job before it picks the job up, so that it holds no job while it waits. The later turns
// use the job's context.
func ExampleGate_Acquire() {
	const shard, band = 3, 1
	shards := turnstile.NewSet()
	shards.Resize(shard, 4)
	defer shards.Close()
	jobs := make(chan string, 1)
	jobs <- "invoice 17"

	job, release, ok := shards.Gate(band).Acquire(context.Background(), shard)
	if !ok {
		return // the set is closed: the worker is done
	}
	name := <-jobs
	fmt.Println("read", name)
	release() // the job's first call is over

	pass := turnstile.WaitTurn(job)
	defer pass.Return()
	fmt.Println("write", name)
	// Output:
	// read invoice 17
	// write invoice 17
}

// A flight is work that several callers share. It has one place in line, with the best claim of those still present; each
// caller's own context decides how long that caller waits, and the last to leave gives the place up.
func ExamplePlace() {
	workers := turnstile.New(1)
	busy, _ := workers.WaitTurn(context.Background(), turnstile.NewClaim(0))

	first, second := turnstile.NewClaim(5), turnstile.NewClaim(2)
	flight := workers.Enter(first, time.Now().Add(time.Minute))
	flight.Set(second, time.Now().Add(time.Hour)) // a caller of a better band joins
	fmt.Println("band in line:", workers.Line(1)[0].Claim.Priority)

	var wg sync.WaitGroup
	wg.Go(func() {
		pass, ok := flight.Wait(context.Background())
		fmt.Println("worker granted:", ok)
		pass.Return()
	})
	busy.Return()
	wg.Wait()
	// Output:
	// band in line: 2
	// worker granted: true
}
