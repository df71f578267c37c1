package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"layover/e2e/postgres"
	"layover/turnstile"
)

// The tests of turnstile_*_test.go use a real PostgreSQL through pgx's pool. They are scripts: a step waits for the event before
// it, by inLine for one who has come to stand in line. Row ids A... are of the cases from the field.

// thePostgres is the one server that all tests share, started by the first that needs it.
var thePostgres = sync.OnceValues(func() (*postgres.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	s, err := postgres.Start(ctx, postgres.Options{Settings: map[string]string{"max_connections": "100"}})
	started.Store(s)
	return s, err
})

var (
	started atomic.Pointer[postgres.Server]
	schemas atomic.Int32
)

func stopPostgres() {
	if s := started.Load(); s != nil {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// bounded is a context that ends a test which hangs.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the test hangs"))
	t.Cleanup(cancel)
	return ctx
}

// rig is a pool of connections with the turnstile in front of it, and an empty schema.
type rig struct {
	testing.TB
	ctx  context.Context
	pool *pgxpool.Pool
	ts   *turnstile.Turnstile
	name string // of the schema, and of the pool's sessions
	url  string

	before *pgxpool.Stat
	inUse  tally
}

// newRig has that many connections, all open, and as many passes.
func newRig(t testing.TB, size int) *rig {
	t.Helper()
	server, err := thePostgres()
	switch {
	case errors.Is(err, postgres.ErrNone) && os.Getenv("CI") != "true":
		t.Skipf("NOT TESTED: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	r := &rig{TB: t, ctx: bounded(t), ts: turnstile.New(size), name: fmt.Sprintf("rig%d", schemas.Add(1))}
	r.url = server.URL() + "&search_path=" + r.name + "&application_name=" + r.name
	r.admin("create schema " + r.name)
	config, err := pgxpool.ParseConfig(r.url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = int32(size)
	if r.pool, err = pgxpool.NewWithConfig(r.ctx, config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.pool.Close)
	r.wantAllConnections()
	r.before = r.pool.Stat()
	return r
}

// admin executes a statement in a session of its own, which is not the pool's.
func (r *rig) admin(statement string, args ...any) {
	r.Helper()
	server, _ := thePostgres()
	conn, err := pgx.Connect(r.ctx, server.URL())
	if err != nil {
		r.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(r.ctx))
	if _, err := conn.Exec(r.ctx, statement, args...); err != nil {
		r.Fatalf("%s: %v", statement, err)
	}
}

// use is one use of the pool on a turn of claim.
func (r *rig) use(ctx context.Context, claim turnstile.Claim, f func() error) error {
	return r.ts.Do(ctx, claim, func() error { return r.counted(f) })
}

// counted runs f and remembers the most that were in use at once.
func (r *rig) counted(f func() error) error {
	r.inUse.up()
	defer r.inUse.down()
	return f()
}

// wantNoLineInThePool checks that everybody who had a pass found a connection free.
func (r *rig) wantNoLineInThePool() {
	r.Helper()
	s := r.pool.Stat()
	if got := s.EmptyAcquireCount() - r.before.EmptyAcquireCount(); got != 0 {
		r.Errorf("%d uses of %d waited in the pool; want none", got, s.AcquireCount()-r.before.AcquireCount())
	}
	if got := s.NewConnsCount() - r.before.NewConnsCount(); got != 0 {
		r.Errorf("the pool opened %d further connections; want none", got)
	}
	if got := r.inUse.peak.Load(); got > s.MaxConns() {
		r.Errorf("%d were in use at once; want at most %d", got, s.MaxConns())
	}
}

// wantAllBack checks that every pass and every connection is back.
func (r *rig) wantAllBack() {
	r.Helper()
	if s := r.ts.Stats(); s.Held != 0 || s.Waiting != 0 || s.Available != s.Size || s.Stray != 0 {
		r.Errorf("Stats() = %+v; want all passes free, nobody in line, no stray returns", s)
	}
	r.wantAllConnections()
}

// wantAllConnections takes all connections of the pool at once and checks that the server has no other session of it.
func (r *rig) wantAllConnections() {
	r.Helper()
	size := int(r.pool.Stat().MaxConns())
	for range size {
		conn, err := r.pool.Acquire(r.ctx)
		if err != nil {
			r.Fatalf("a connection of the pool is lost: %v", err)
		}
		defer conn.Release()
	}
	// A session that was cut off ends a moment after its connection. The server itself waits for that.
	r.admin(fmt.Sprintf(`do $$ declare n int; begin
		for i in 1..2000 loop
			perform pg_stat_clear_snapshot();
			select count(*) into n from pg_stat_activity where application_name = '%s';
			exit when n = %d;
			perform pg_sleep(0.005);
		end loop;
		if n <> %[2]d then raise 'the server has %% sessions of the pool, not %[2]d', n; end if;
	end $$`, r.name, size))
}

// exec executes a statement through the pool. Like number, it may be called from any goroutine: it does not end the test.
func (r *rig) exec(statement string, args ...any) {
	r.Helper()
	if _, err := r.pool.Exec(r.ctx, statement, args...); err != nil {
		r.Errorf("%s: %v", statement, err)
	}
}

// number asks the database for a number.
func (r *rig) number(query string, args ...any) (n int) {
	r.Helper()
	if err := r.pool.QueryRow(r.ctx, query, args...).Scan(&n); err != nil {
		r.Errorf("%s: %v", query, err)
	}
	return n
}

// end waits for the result of a step and checks it.
func (r *rig) end(what string, result <-chan error, want error) {
	r.Helper()
	select {
	case got := <-result:
		if !errors.Is(got, want) {
			r.Errorf("%s: %v; want %v", what, got, want)
		}
	case <-r.ctx.Done():
		r.Fatalf("%s: %v", what, context.Cause(r.ctx))
	}
}

// start runs f in a goroutine.
func start(f func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- f() }()
	return result
}

// inLine starts wait and returns once it stands in a turnstile's line, or is over.
func inLine(ctx context.Context, wait func(ctx context.Context) error) <-chan error {
	seen := &watched{Context: ctx, asked: make(chan struct{})}
	result := start(func() error {
		defer seen.Done() // if it never came to wait
		return wait(seen)
	})
	<-seen.asked
	return result
}

// watched is a context that tells when somebody begins to wait for its end. WaitTurn does so when it stands in line.
type watched struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (w *watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.asked) })
	return w.Context.Done()
}

// tally counts how many are at something, and the most there were at once.
type tally struct{ now, peak atomic.Int32 }

func (c *tally) up() {
	n := c.now.Add(1)
	for p := c.peak.Load(); n > p && !c.peak.CompareAndSwap(p, n); p = c.peak.Load() {
	}
}

func (c *tally) down() { c.now.Add(-1) }
