package e2e

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"layover/crew"
	"layover/turnstile"
)

// A crew works through a queue in a table. What it takes is the oldest that nobody has; it takes on its first turn at the
// database, and writes the result on a turn of its own.
func TestC1_ACrewWorksThroughAQueueTable(t *testing.T) { // A11, A14
	const size, jobs = 3, 90
	r := newRig(t, size)
	set := turnstile.NewSet()
	set.Resize(0, size)
	r.exec(`
		create sequence taken;
		create table queue (id int primary key, taken int);
		create table result (id int)`)
	r.before = r.pool.Stat()

	ctx, giveUp := context.WithCancelCause(r.ctx)
	defer giveUp(nil)
	take := func(job context.Context) (id int, ok bool) {
		err := r.counted(func() error {
			return r.pool.QueryRow(job, `
				update queue set taken = nextval('taken')
				where id = (select id from queue where taken is null order by id for update skip locked limit 1)
				returning id`).Scan(&id)
		})
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			giveUp(err)
		}
		return id, err == nil
	}
	done := make(chan int, jobs) // all of them, so that nobody waits here
	process := func(job context.Context, id int, release func()) {
		release()
		defer turnstile.WaitTurn(job).Return()
		if err := r.counted(func() error {
			_, err := r.pool.Exec(job, "insert into result select $1 from pg_sleep(0.001)", id)
			return err
		}); err != nil {
			giveUp(err)
		}
		done <- id
	}
	c := crew.Start(ctx, set.Gate(0), 0, crew.Duty[int]{
		Take: take, Process: process,
		Panicked: func(_ context.Context, value any, stack []byte) { t.Errorf("%v\n%s", value, stack) },
	}, crew.Options{})

	insert, err := pgx.Connect(r.ctx, r.url)
	if err != nil {
		t.Fatal(err)
	}
	defer insert.Close(context.WithoutCancel(r.ctx))
	for first := 1; first <= jobs; first += jobs / 3 { // work comes while work is done
		if _, err := insert.Exec(r.ctx, "insert into queue select * from generate_series($1::int, $2::int)", first, first+jobs/3-1); err != nil {
			t.Fatal(err)
		}
		c.Wake()
		for range jobs / 6 {
			select {
			case <-done:
			case <-ctx.Done():
				t.Fatal(context.Cause(ctx))
			}
		}
	}
	for range jobs - 3*(jobs/6) {
		select {
		case <-done:
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	}
	if err := c.Drain(r.ctx); err != nil {
		t.Fatal(err)
	}
	insert.Close(r.ctx)

	if all, different := r.number("select count(*) from result"), r.number("select count(distinct id) from result"); all != jobs || different != jobs {
		t.Errorf("%d results of %d jobs; want each of %d once", all, different, jobs)
	}
	// When one is taken, only those that others are about to take, one for each further pass, can be older and not taken yet.
	if n := r.number(`
		select coalesce(max(older), 0) from queue q, lateral (
			select count(*) as older from queue o where o.id < q.id and o.taken > q.taken) _`); n >= size {
		t.Errorf("a job was taken before %d older ones; want fewer than %d", n, size)
	}
	r.wantNoLineInThePool()
	if s := set.Turnstile(0).Stats(); s.Held != 0 || s.Waiting != 0 || s.Unordered != 0 || s.Nested != 0 || s.Stray != 0 {
		t.Errorf("Stats() = %+v; want all back, every turn in order, none nested", s)
	}
	s := c.Stats()
	t.Logf("%d jobs, %d workers added, %d takes of nothing, at most %d connections in use", s.Done, s.Grown, s.Dry, r.inUse.peak.Load())
	if s.Done != jobs || s.Panics != 0 {
		t.Errorf("Stats() = %+v; want %d jobs done", s, jobs)
	}
	r.wantAllBack()
}
