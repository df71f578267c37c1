package e2e

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"layover/turnstile"
)

// Each of N holders asks for one more, and all stop. The turnstile refuses nothing, since a job may lawfully fan out; it shows
// it. Everything in these tests that stops is bounded by the test, never by a timer of ours.

var errEnough = errors.New("enough")

// Two jobs, two passes: each job holds a pass with a connection and waits for another pass.
func TestA29_HoldersThatAskForOneMoreAreSeen(t *testing.T) { // A20
	r := newRig(t, 2)
	set := turnstile.NewSet()
	set.Resize(0, 2)
	ts := set.Turnstile(0)
	ctx, end := context.WithCancelCause(r.ctx)
	var nested []<-chan error
	var jobs []context.Context
	var release []func()
	for range 2 {
		job := set.ContextWithPriority(ctx, 0, 0)
		pass := turnstile.WaitTurn(job)
		conn, err := r.pool.Acquire(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		jobs, release = append(jobs, job), append(release, conn.Release, pass.Return)
	}
	for _, job := range jobs {
		nested = append(nested, inLine(job, func(job context.Context) error {
			defer turnstile.WaitTurn(job).Return()
			return context.Cause(job)
		}))
	}
	if s := ts.Stats(); s.Held != s.Size || s.Waiting != 2 || s.Nested != 2 {
		t.Errorf("Stats() = %+v; want all held, 2 in line, 2 nested: as many as there are passes", s)
	}
	if s := r.pool.Stat(); s.AcquiredConns() != 2 {
		t.Errorf("%d connections are held; want 2", s.AcquiredConns())
	}
	end(errEnough)
	for _, n := range nested {
		r.end("a nested turn", n, errEnough)
	}
	for _, f := range release {
		f()
	}
	if s := ts.Stats(); s.Held != 0 || s.Waiting != 0 || s.Unordered != 2 {
		t.Errorf("Stats() = %+v; want nothing held, nobody in line, 2 turns unordered", s)
	}
	r.wantAllBack()
}

// The same through two lines: two jobs hold a connection and wait for a pass, two hold a pass and wait for a connection.
func TestA29_APassTakenWhileHoldingAConnectionStopsAll(t *testing.T) { // T11
	r := newRig(t, 2)
	ctx, end := context.WithCancelCause(r.ctx)
	var wrong, right []<-chan error
	var conns []*pgxpool.Conn
	for range 2 { // connection first
		conn, err := r.pool.Acquire(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	var holding sync.WaitGroup
	for range 2 { // pass first
		holding.Add(1)
		right = append(right, start(func() error {
			return r.use(r.ctx, turnstile.NewClaim(0), func() error {
				holding.Done()
				_, err := r.pool.Exec(r.ctx, "select 1")
				return err
			})
		}))
	}
	holding.Wait()
	for _, conn := range conns {
		wrong = append(wrong, inLine(ctx, func(ctx context.Context) error {
			defer conn.Release()
			return r.use(ctx, turnstile.NewClaim(0), func() error { t.Error("it has a turn"); return nil })
		}))
	}
	// Who holds no pass cannot be told from anybody in line, so Nested does not see this one. A line that does not move while all
	// is held does, and so does the pool.
	if s := r.ts.Stats(); s.Held != s.Size || s.Waiting != 2 || s.Nested != 0 {
		t.Errorf("Stats() = %+v; want all held, 2 in line, none nested", s)
	}
	if s := r.pool.Stat(); s.AcquiredConns() != 2 || s.IdleConns() != 0 {
		t.Errorf("%d connections are held, %d idle; want 2 and 0", s.AcquiredConns(), s.IdleConns())
	}
	for _, job := range append(right, wrong...) {
		select {
		case err := <-job:
			t.Fatalf("a job ended: %v; want all to stand still", err)
		default:
		}
	}
	end(errEnough)
	for _, job := range wrong {
		r.end("connection first", job, errEnough)
	}
	for _, job := range right {
		r.end("pass first", job, nil)
	}
	r.wantAllBack()
}

// A holder waits for a helper that holds nothing and cannot get a pass while the holder has it.
func TestA30_AHolderThatWaitsForOneInLineIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		sameJob bool
		nested  uint64
	}{
		"a helper with the job's context":  {true, 1},
		"a helper with a claim of its own": {false, 0}, // then only a line that does not move tells
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			set := turnstile.NewSet()
			set.Resize(0, 1)
			ts := set.Turnstile(0)
			help := func(job context.Context) error {
				query := func() error { _, err := r.pool.Exec(job, "select 1"); return err }
				if !c.sameJob {
					return ts.Do(job, turnstile.NewClaim(0), query)
				}
				defer turnstile.WaitTurn(job).Return()
				if job.Err() != nil {
					return context.Cause(job)
				}
				return query()
			}
			job := set.ContextWithPriority(r.ctx, 0, 0)
			pass := turnstile.WaitTurn(job)
			tx, err := r.pool.Begin(job)
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancelCause(job)
			helper := inLine(ctx, help)
			if s := ts.Stats(); s.Held != s.Size || s.Waiting != 1 || s.Nested != c.nested {
				t.Errorf("Stats() = %+v; want all held, 1 in line, %d nested", s, c.nested)
			}
			end(errEnough)
			r.end("the helper", helper, errEnough)

			// The remedy: whoever waits for others holds nothing.
			if err := tx.Commit(job); err != nil {
				t.Error(err)
			}
			pass.Return()
			r.end("the helper of one who holds nothing", start(func() error { return help(job) }), nil)
			if s := ts.Stats(); s.Held != 0 || s.Waiting != 0 {
				t.Errorf("Stats() = %+v; want nothing held, nobody in line", s)
			}
			r.wantAllBack()
		})
	}
}
