package e2e

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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

// A piece is held by a transaction that is open for as long as its job: one that panics or is cut off rolls back, and the piece
// is there for the next.
func TestC4_APieceWhoseJobFailsIsDoneByAnother(t *testing.T) { // A1, A5, A28
	const size, jobs = 3, 40
	r := newRig(t, size)
	set := turnstile.NewSet()
	set.Resize(0, size)
	r.exec("create table queue (id int primary key); create table result (id int)")
	r.exec("insert into queue select * from generate_series(1, $1::int)", jobs)

	type piece struct {
		tx pgx.Tx
		id int
	}
	rollback := func(tx pgx.Tx) { tx.Rollback(context.WithoutCancel(r.ctx)) } // after a commit it does nothing
	take := func(job context.Context) (p piece, ok bool) {
		tx, err := r.pool.Begin(job)
		if err != nil {
			return p, false
		}
		p.tx = tx
		if err := tx.QueryRow(job, "select id from queue order by id for update skip locked limit 1").Scan(&p.id); err != nil {
			rollback(tx)
			return p, false
		}
		return p, true
	}
	var firstOf sync.Map
	var done, failed atomic.Int32
	enough := make(chan struct{})
	process := func(job context.Context, p piece, _ func()) { // on the first turn until the end: it holds a connection that long
		defer rollback(p.tx)
		if _, err := p.tx.Exec(job, "insert into result select $1 from pg_sleep(0.001)", p.id); err != nil {
			failed.Add(1)
			return
		}
		if _, seen := firstOf.LoadOrStore(p.id, true); p.id%7 == 0 && !seen {
			panic(p.id)
		}
		if _, err := p.tx.Exec(job, "delete from queue where id = $1", p.id); err != nil {
			failed.Add(1)
			return
		}
		if p.tx.Commit(job) == nil && done.Add(1) == jobs/2 {
			close(enough)
		}
	}
	work := func(ctx context.Context) *crew.Crew[piece] {
		var c *crew.Crew[piece]
		begun := make(chan struct{})
		c = crew.Start(ctx, set.Gate(0), 0, crew.Duty[piece]{
			Take: take, Process: process,
			Panicked: func(context.Context, any, []byte) { failed.Add(1); <-begun; c.Wake() }, // the piece is back
		}, crew.Options{})
		close(begun)
		return c
	}

	ctx, stop := context.WithCancel(r.ctx)
	first := work(ctx)
	select {
	case <-enough:
	case <-r.ctx.Done():
		t.Fatal(context.Cause(r.ctx))
	}
	stop() // in the middle of what is in progress
	if err := first.Drain(r.ctx); err != nil {
		t.Fatal(err)
	}
	if s := set.Turnstile(0).Stats(); s.Held != 0 || s.Waiting != 0 {
		t.Errorf("after the first crew: Stats() = %+v; want nothing held, nobody in line", s)
	}
	wantResults := func(want int) {
		t.Helper()
		all, different, left := r.number("select count(*) from result"), r.number("select count(distinct id) from result"), r.number("select count(*) from queue")
		if all != different || all+left != jobs || all < want {
			t.Errorf("%d results, %d different, %d pieces left of %d; want none twice, none lost, and at least %d", all, different, left, jobs, want)
		}
	}
	wantResults(jobs / 2)
	r.wantAllConnections()

	second := work(r.ctx)
	r.admin(`do $$ begin
		for i in 1..3000 loop
			exit when not exists (select from ` + r.name + `.queue);
			perform pg_sleep(0.01);
		end loop;
	end $$`)
	if err := second.Drain(r.ctx); err != nil {
		t.Fatal(err)
	}
	wantResults(jobs)
	t.Logf("%d jobs failed on the way", failed.Load())
	r.wantAllConnections()
}
