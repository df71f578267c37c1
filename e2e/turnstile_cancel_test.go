package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"layover/turnstile"
)

// A storm of contexts that end before the line, in it, between pass and connection, in a query and in a transaction.
func TestT7_AStormOfEndsLeavesNoPassAndNoConnectionBehind(t *testing.T) { // A1, A2, A3, A4, A6
	const size, jobs = 4, 240
	r := newRig(t, size)
	r.exec("create table done (job int)")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var ran, refused, committed atomic.Int64
	grantedBefore := r.ts.Stats().Granted
	var wg sync.WaitGroup
	for job := range jobs {
		ends := time.Duration(random.IntN(80_000)) * time.Microsecond
		switch job % 20 {
		case 0:
			ends = 0
		case 1:
			ends = time.Hour
		}
		ctx, cancel := context.WithTimeout(r.ctx, ends)
		wg.Go(func() {
			defer cancel()
			claim := turnstile.NewClaim(job % 3)
			began := false
			err := r.use(ctx, claim, func() error {
				began = true
				_, err := r.pool.Exec(ctx, "select pg_sleep(0.001)")
				return err
			})
			if !began {
				refused.Add(1)
				if !errors.Is(err, context.Cause(ctx)) {
					t.Errorf("no turn: %v; want %v", err, context.Cause(ctx))
				}
				return
			}
			ran.Add(1)
			if r.use(ctx, claim, func() error {
				ran.Add(1)
				return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "insert into done select $1 from pg_sleep(0.001)", job)
					return err
				})
			}) == nil {
				committed.Add(1)
			}
		})
	}
	wg.Wait()
	s := r.ts.Stats()
	t.Logf("%d uses, %d transactions committed, %d jobs had no turn, %d left the line", ran.Load(), committed.Load(), refused.Load(), s.Cancelled)
	if got := s.Granted - grantedBefore; int64(got) < ran.Load() {
		t.Errorf("%d passes for %d uses; want one for each", got, ran.Load())
	}
	if peak := r.inUse.peak.Load(); peak > size {
		t.Errorf("%d uses at once; want at most %d", peak, size)
	}
	if committed.Load() < jobs/20 || refused.Load() < jobs/20 {
		t.Errorf("want at least %d of either: those without an end, and those whose end was the beginning", jobs/20)
	}
	r.wantAllBack()
	if n := r.number("select count(*) from done"); int64(n) < committed.Load() { // a commit whose answer was cut off counts there only
		t.Errorf("the database has %d of %d transactions that committed", n, committed.Load())
	}
}

// Those in line leave at their own end, although every holder stays where it is.
func TestA21_AWaiterLeavesOnItsOwnClock(t *testing.T) {
	r := newRig(t, 2)
	var holders []<-chan error
	leave := make(chan struct{})
	var holding sync.WaitGroup
	for range 2 {
		holding.Add(1)
		holders = append(holders, start(func() error {
			return r.use(r.ctx, turnstile.NewClaim(0), func() error {
				return pgx.BeginFunc(r.ctx, r.pool, func(tx pgx.Tx) error {
					holding.Done()
					<-leave
					_, err := tx.Exec(r.ctx, "select 1")
					return err
				})
			})
		}))
	}
	holding.Wait()
	var waiters []<-chan error
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
	defer cancel()
	for range 50 {
		waiters = append(waiters, start(func() error {
			return r.use(ctx, turnstile.NewClaim(0), func() error { t.Error("it has a turn"); return nil })
		}))
	}
	for _, w := range waiters {
		r.end("a waiter", w, context.DeadlineExceeded)
	}
	if s := r.ts.Stats(); s.Held != 2 || s.Waiting != 0 {
		t.Errorf("Stats() = %+v; want 2 held, nobody in line", s)
	}
	close(leave)
	for _, h := range holders {
		r.end("a holder", h, nil)
	}
	r.wantAllBack()
}

// The step after the pass fails: the pool has no connection for it.
func TestA1_ThePassIsBackWhenNoConnectionCanBeHad(t *testing.T) {
	r := newRig(t, 1)
	taken, err := r.pool.Acquire(r.ctx) // by somebody who asks no turnstile
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
	defer cancel()
	if err := r.use(ctx, turnstile.NewClaim(0), func() error {
		_, err := r.pool.Exec(ctx, "select 1")
		return err
	}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a query without a connection: %v; want DeadlineExceeded", err)
	}
	taken.Release()
	r.wantAllBack()
}

// The session ends under the holder, so that neither its query nor its rollback gets through.
func TestA5_ThePassIsBackAlthoughTheServerEndedTheSession(t *testing.T) {
	r := newRig(t, 1)
	err := r.use(r.ctx, turnstile.NewClaim(0), func() error {
		return pgx.BeginFunc(r.ctx, r.pool, func(tx pgx.Tx) error {
			var pid int
			if err := tx.QueryRow(r.ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
				return err
			}
			r.admin("select pg_terminate_backend($1)", pid)
			_, err := tx.Exec(r.ctx, "select 1")
			return err
		})
	})
	if err == nil {
		t.Error("the transaction of an ended session went well")
	}
	if s := r.ts.Stats(); s.Available != 1 {
		t.Errorf("Stats() = %+v; want the pass free", s)
	}
	if err := r.use(r.ctx, turnstile.NewClaim(0), func() error { r.exec("select 1"); return nil }); err != nil {
		t.Error(err)
	}
	r.wantAllBack()
}

// A job whose row is locked backs off without its pass, so others work meanwhile; its age is kept, so it is next afterwards.
func TestA22_ABackOffHoldsNoPass(t *testing.T) {
	r := newRig(t, 1)
	r.exec("create table account (id int, balance int)")
	r.exec("insert into account values (1, 0)")
	other, err := pgx.Connect(r.ctx, r.url) // another program, that has the row
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.WithoutCancel(r.ctx))
	lock, err := other.Begin(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(r.ctx, "update account set balance = 1"); err != nil {
		t.Fatal(err)
	}

	pay := func(ctx context.Context, claim turnstile.Claim) error {
		return r.use(ctx, claim, func() error {
			return pgx.BeginFunc(r.ctx, r.pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(r.ctx, "select from account where id = 1 for update nowait"); err != nil {
					return err
				}
				_, err := tx.Exec(r.ctx, "update account set balance = balance + 1")
				return err
			})
		})
	}
	job := turnstile.NewClaim(0)
	var busy *pgconn.PgError
	if err := pay(r.ctx, job); !errors.As(err, &busy) || busy.Code != "55P03" {
		t.Fatalf("first attempt: %v; want lock_not_available", err)
	}
	// The back-off: here until the row is free.
	var order []string // one pass, so one at a time
	var newer, again <-chan error
	if err := r.use(r.ctx, turnstile.NewClaim(0), func() error {
		if err := lock.Commit(r.ctx); err != nil {
			return err
		}
		newer = inLine(r.ctx, func(ctx context.Context) error {
			return r.use(ctx, turnstile.NewClaim(0), func() error { order = append(order, "newer"); return nil })
		})
		again = inLine(r.ctx, func(ctx context.Context) error {
			return r.ts.Do(ctx, job, func() error { order = append(order, "job"); return nil })
		})
		return nil
	}); err != nil {
		t.Fatalf("another job during the back-off: %v", err)
	}
	r.end("the job's turn", again, nil)
	r.end("the newer job", newer, nil)
	if got := strings.Join(order, ", "); got != "job, newer" {
		t.Errorf("after the back-off the order is %s; want the job first", got)
	}
	if err := pay(r.ctx, job); err != nil {
		t.Errorf("second attempt: %v", err)
	}
	if n := r.number("select balance from account"); n != 2 {
		t.Errorf("balance = %d; want 2", n)
	}
}

// A hedge is extra work: that it gets no turn ends the hedge, and leaves the call that it was to help alone.
func TestA25_AHedgeWithoutATurnLeavesTheBaseCallAlone(t *testing.T) {
	r := newRig(t, 1)
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	claim := turnstile.NewClaim(0)
	if err := r.use(ctx, claim, func() error {
		hedge := claim
		hedge.Priority++ // behind all that is not extra
		hedging, giveUp := context.WithCancelCause(ctx)
		errLate := errors.New("the base call answers first")
		second := inLine(hedging, func(ctx context.Context) error {
			return r.use(ctx, hedge, func() error { t.Error("the hedge has a turn"); return nil })
		})
		giveUp(errLate)
		r.end("the hedge", second, errLate)
		_, err := r.pool.Exec(ctx, "select 1")
		return err
	}); err != nil {
		t.Errorf("the base call: %v", err)
	}
	r.wantAllBack()
}

// A shutdown: those in line go at once, those at work finish, and then the pool can be closed.
func TestA28_CloseLetsTheLineGoAndTheHoldersFinish(t *testing.T) {
	r := newRig(t, 2)
	r.exec("create table done (job int)")
	var holders, waiters []<-chan error
	closed := make(chan struct{})
	var holding sync.WaitGroup
	for job := range 2 {
		holding.Add(1)
		holders = append(holders, start(func() error {
			return r.use(r.ctx, turnstile.NewClaim(0), func() error {
				return pgx.BeginFunc(r.ctx, r.pool, func(tx pgx.Tx) error {
					holding.Done()
					<-closed
					_, err := tx.Exec(r.ctx, "insert into done values ($1)", job)
					return err
				})
			})
		}))
	}
	holding.Wait()
	for range 20 {
		waiters = append(waiters, inLine(r.ctx, func(ctx context.Context) error {
			return r.use(ctx, turnstile.NewClaim(0), func() error { t.Error("it has a turn"); return nil })
		}))
	}
	r.ts.Close()
	for _, w := range waiters {
		r.end("one in line", w, turnstile.ErrClosed)
	}
	close(closed)
	for _, h := range holders {
		r.end("a holder", h, nil)
	}
	if n := r.number("select count(*) from done"); n != 2 {
		t.Errorf("%d transactions committed; want those of the 2 holders", n)
	}
	r.end("closing the pool", start(func() error { r.pool.Close(); return nil }), nil)
	if err := r.use(r.ctx, turnstile.NewClaim(0), func() error { return nil }); err != turnstile.ErrClosed {
		t.Errorf("after Close: %v; want ErrClosed", err)
	}
}
