package e2e

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of database/sql

	"layover/turnstile"
)

// Jobs of several queries and a transaction: a pass around each use, passes sized to the pool, four jobs for each connection.
func TestT11_APassAroundEachUseLeavesNoLineInThePool(t *testing.T) {
	const size, jobs = 4, 32
	r := newRig(t, size)
	r.exec("create table done (job int, item int)")
	r.before = r.pool.Stat()
	passesBefore := r.ts.Stats().Granted
	var wg sync.WaitGroup
	for job := range jobs {
		claim := turnstile.NewClaim(0)
		wg.Go(func() {
			var items []int
			if err := r.use(r.ctx, claim, func() error {
				rows, err := r.pool.Query(r.ctx, "select n from generate_series(1, 3) n, pg_sleep(0.002)")
				if err != nil {
					return err
				}
				items, err = pgx.CollectRows(rows, pgx.RowTo[int]) // closes the rows
				return err
			}); err != nil {
				t.Error(err)
			}
			if err := r.use(r.ctx, claim, func() error {
				return pgx.BeginFunc(r.ctx, r.pool, func(tx pgx.Tx) error { // commits before it returns
					for _, item := range items {
						if _, err := tx.Exec(r.ctx, "insert into done values ($1, $2)", job, item); err != nil {
							return err
						}
					}
					return nil
				})
			}); err != nil {
				t.Error(err)
			}
			if err := r.use(r.ctx, claim, func() error {
				if n := r.number("select count(*) from done where job = $1", job); n != 3 {
					t.Errorf("job %d reads %d of its rows; want 3", job, n)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	r.wantNoLineInThePool()
	if got := r.pool.Stat().AcquireCount() - r.before.AcquireCount(); got != 3*jobs {
		t.Errorf("%d uses of a connection; want %d", got, 3*jobs)
	}
	s := r.ts.Stats()
	if got := s.Granted - passesBefore; got != 3*jobs {
		t.Errorf("%d passes; want %d, one for each use", got, 3*jobs)
	}
	if peak := r.inUse.peak.Load(); peak != size || s.Queued == 0 {
		t.Errorf("at most %d in use at once, %d turns from the line; want %d and some", peak, s.Queued, size)
	}
	r.wantAllBack()
}

// The mistake: the pass comes back while the connection is still held. Then the next holder finds none.
func TestT11_APassReturnedTooEarlyIsNoGood(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(r *rig) (end func() error)
	}{
		"rows are open": {func(r *rig) func() error {
			rows, err := r.pool.Query(r.ctx, "select n from generate_series(1, 3) n")
			if err != nil {
				r.Fatal(err)
			}
			return func() error { rows.Close(); return rows.Err() }
		}},
		"the transaction is open": {func(r *rig) func() error {
			tx, err := r.pool.Begin(r.ctx)
			if err != nil {
				r.Fatal(err)
			}
			return func() error { return tx.Commit(r.ctx) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			pass, _ := r.ts.WaitTurn(r.ctx, turnstile.NewClaim(0))
			end := c.begin(r)
			pass.Return() // too early
			err := r.use(r.ctx, turnstile.NewClaim(0), func() error {
				ctx, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
				defer cancel()
				_, err := r.pool.Exec(ctx, "select 1")
				return err
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the next holder's query: %v; want it to wait in the pool until its end", err)
			}
			if err := end(); err != nil {
				t.Error(err)
			}
			if err := r.use(r.ctx, turnstile.NewClaim(0), func() error { r.exec("select 1"); return nil }); err != nil {
				t.Error(err)
			}
			r.wantAllBack()
		})
	}
}

// A hook that the pool runs in the background after a release keeps the connection beyond the use, and so beyond the pass.
func TestT11_AHookAfterTheReleaseOutlivesThePass(t *testing.T) {
	r := newRig(t, 1)
	config := r.pool.Config()
	hook := make(chan struct{})
	config.AfterRelease = func(*pgx.Conn) bool { <-hook; return true }
	pool, err := pgxpool.NewWithConfig(r.ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	query := func(ctx context.Context) error {
		return r.use(ctx, turnstile.NewClaim(0), func() error {
			_, err := pool.Exec(ctx, "select 1")
			return err
		})
	}
	if err := query(r.ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
	defer cancel()
	if err := query(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the next holder's query: %v; want it to wait in the pool until its end", err)
	}
	close(hook)
	if err := query(r.ctx); err != nil {
		t.Error(err)
	}
}

// The pool's size changes under load, and the turnstile's with it: the pool first when it grows, the turnstile first when it
// shrinks, and then the pool once that shrink has taken effect. Passes granted before may have no connection yet, and a pool that
// shrinks under them lets them wait; a turn of one's own says that no more are held than the new size. database/sql counts
// those who waited in it.
func TestT4_ResizeFollowsThePool(t *testing.T) { // A26
	r := newRig(t, 1)
	r.pool.Close()
	db, err := sql.Open("pgx", r.url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	set := func(size int) {
		if size > r.ts.Size() {
			db.SetMaxOpenConns(size)
			r.ts.Resize(size)
		} else {
			r.ts.Resize(size)
			r.ts.Do(r.ctx, turnstile.Claim{Priority: math.MinInt}, func() error { db.SetMaxOpenConns(size); return nil })
		}
	}
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(10)

	var uses atomic.Int32
	stop := make(chan struct{})
	reached := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := r.use(r.ctx, turnstile.NewClaim(0), func() error {
					_, err := db.ExecContext(r.ctx, "select pg_sleep(0.001)")
					return err
				}); err != nil {
					t.Error(err)
					return
				}
				if uses.Add(1)%40 == 0 {
					select {
					case reached <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	for _, size := range []int{5, 2, 8, 1, 3} {
		select {
		case <-reached:
		case <-r.ctx.Done():
			t.Fatal(context.Cause(r.ctx))
		}
		set(size)
	}
	close(stop)
	wg.Wait()
	if s := db.Stats(); s.WaitCount != 0 || s.InUse != 0 {
		t.Errorf("%d uses of %d waited in the pool, %d connections are in use; want none", s.WaitCount, uses.Load(), s.InUse)
	}
	if s := r.ts.Stats(); s.Held != 0 || s.Available != 3 {
		t.Errorf("Stats() = %+v; want 3 passes, all free", s)
	}
}

// A shrink below what is held: nobody gets a pass before enough have come back, whatever the pool has left.
func TestT4_AShrinkAdmitsNobodyBeforeThePoolHasShrunk(t *testing.T) { // A26
	r := newRig(t, 3)
	var held []turnstile.Pass
	for range 3 {
		pass, _ := r.ts.WaitTurn(r.ctx, turnstile.NewClaim(0))
		held = append(held, pass)
	}
	r.ts.Resize(1)
	next := inLine(r.ctx, func(ctx context.Context) error {
		return r.use(ctx, turnstile.NewClaim(0), func() error {
			if s := r.ts.Stats(); s.Held != 1 {
				t.Errorf("a pass was granted while %d are held; want none but its own", s.Held)
			}
			r.exec("select 1")
			return nil
		})
	})
	for _, pass := range held {
		if s := r.ts.Stats(); s.Waiting != 1 {
			t.Errorf("with %d passes held of 1, %d are in line; want 1", s.Held, s.Waiting)
		}
		pass.Return()
	}
	r.end("the next", next, nil)
	r.wantAllBack()
}
