package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"

	"layover/e2e/postgres"
	"layover/turnstile"
)

// connections is the size of the pool of every arm.
const connections = 8

// A kind is a sort of job. Its queries sleep in the server, so that how long they take is known.
type kind struct {
	name    string
	queries int
	each    time.Duration
	band    int // where there are bands
}

// A shop is what the workers of one run do: which jobs, of which every worker has one at all times.
type shop struct {
	workers  int
	mix      [2]kind
	long     float64       // share of the second kind
	deadline time.Duration // of a job; 0: none that it could reach
	warmUp   time.Duration
	window   time.Duration // what is measured: jobs that end in it
}

// A dbArm says how a query gets to the pool.
type dbArm struct {
	name string
	// gate makes what a query passes before it takes a connection and after it gave it back.
	gate func() gate
	// bands: short jobs go first.
	bands bool
	// whole: one pass encloses all queries of a job, so that its turn comes once.
	whole bool
}

// A gate lets in who may use a connection, or more than that; done is called when it was used.
type gate func(ctx context.Context, claim turnstile.Claim) (done func(), ok bool)

func open(context.Context, turnstile.Claim) (done func(), ok bool) { return func() {}, true }

func poolAlone() dbArm {
	return dbArm{name: "pgxpool alone", gate: func() gate { return open }}
}

func semaphoreFirst() dbArm {
	return dbArm{name: "semaphore, then pgxpool", gate: func() gate {
		s := semaphore.NewWeighted(connections)
		return func(ctx context.Context, _ turnstile.Claim) (func(), bool) {
			return func() { s.Release(1) }, s.Acquire(ctx, 1) == nil
		}
	}}
}

func turnstileFirst(name string, times int, minUseful time.Duration) dbArm {
	return dbArm{name: name, gate: func() gate {
		t := turnstile.NewWith(times*connections, turnstile.Options{MinUseful: minUseful})
		return func(ctx context.Context, claim turnstile.Claim) (func(), bool) {
			pass, ok := t.WaitTurn(ctx, claim)
			return pass.Return, ok
		}
	}}
}

// A job is what became of one.
type job struct {
	kind         int
	claim        turnstile.Claim
	began, first time.Time // first: it had a connection; zero: never
	ended        time.Time
	ok           bool          // all queries were done, within the deadline
	used         time.Duration // time with a connection
	turns        int           // connections that it had
}

// patience is how long a better claim must have waited to count as overtaken: between a pass and a connection, and on a busy
// machine, everybody waits for a moment.
const patience = time.Millisecond

// A watch knows who waits for a connection, from before the gate until it has one, and counts the queries between two moments.
type watch struct {
	from, to time.Time

	mu       sync.Mutex
	waiting  map[*job]time.Time
	queries  int // that ended
	overtook int // by how many a better claim was overtaken, summed up
	used     time.Duration
}

func (w *watch) enter(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[j] = time.Now()
}

func (w *watch) leave(j *job, connected bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, j)
	now := time.Now()
	if !connected || now.Before(w.from) || now.After(w.to) {
		return
	}
	for other, since := range w.waiting {
		if before(other.claim, j.claim) && now.Sub(since) >= patience {
			w.overtook++
		}
	}
}

func (w *watch) queried(from, to time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used += overlap(from, to, w.from, w.to)
	if !to.Before(w.from) && !to.After(w.to) {
		w.queries++
	}
}

// run lets the workers of the shop do jobs by way of the arm. The jobs are the same for the same seed.
func (s shop) run(ctx context.Context, url string, a dbArm, seed uint64) (all []job, w *watch, err error) {
	pool, err := openPool(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	defer pool.Close()
	kinds := make([]int, 1<<16)
	random := rand.New(rand.NewPCG(seed, 2))
	for i := range kinds {
		if random.Float64() < s.long {
			kinds[i] = 1
		}
	}
	from := time.Now().Add(s.warmUp)
	w = &watch{from: from, to: from.Add(s.window), waiting: make(map[*job]time.Time)}
	r := runner{s, a, pool, a.gate(), w}
	var next atomic.Int64
	var failed atomic.Value
	done := make([][]job, s.workers)
	together(s.workers, func(i int) {
		for time.Now().Before(w.to) && failed.Load() == nil {
			j := job{kind: kinds[next.Add(1)%int64(len(kinds))]}
			if err := r.do(ctx, &j); err != nil {
				failed.Store(err)
				return
			}
			done[i] = append(done[i], j)
		}
	})
	if err, _ := failed.Load().(error); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", a.name, err)
	}
	return slices.Concat(done...), w, nil
}

// A runner does the jobs of a shop by way of an arm.
type runner struct {
	shop
	arm   dbArm
	pool  *pgxpool.Pool
	gate  gate
	watch *watch
}

// do is one job. An error is one that has nothing to do with its deadline.
func (r runner) do(ctx context.Context, j *job) error {
	k := r.mix[j.kind]
	deadline := cmp.Or(r.deadline, anHour)
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	j.claim = turnstile.NewClaim(0)
	if r.arm.bands {
		j.claim.Priority = k.band
	}
	j.began = time.Now()
	ok, err := r.queries(ctx, j, k)
	j.ended = time.Now()
	j.ok = ok && j.ended.Sub(j.began) <= deadline
	return err
}

// queries are those of a job. ok is false when it could not do them all.
func (r runner) queries(ctx context.Context, j *job, k kind) (ok bool, err error) {
	gate := r.gate
	if r.arm.whole {
		r.watch.enter(j)
		done, ok := r.gate(ctx, j.claim)
		if !ok {
			r.watch.leave(j, false)
			return false, nil
		}
		defer done()
		gate = open
	}
	for range k.queries {
		if ok, err := r.query(ctx, j, gate, k.each); !ok {
			return false, err
		}
	}
	return true, nil
}

// query is one use of a connection, enclosed by the pass.
func (r runner) query(ctx context.Context, j *job, gate gate, takes time.Duration) (ok bool, err error) {
	r.watch.enter(j)
	done, ok := gate(ctx, j.claim)
	if !ok {
		r.watch.leave(j, false)
		return false, nil
	}
	defer done()
	conn, err := r.pool.Acquire(ctx)
	r.watch.leave(j, err == nil)
	if err != nil {
		return false, notLate(ctx, err)
	}
	defer conn.Release()
	got := time.Now()
	if j.turns == 0 {
		j.first = got
	}
	j.turns++
	_, err = conn.Exec(ctx, "select pg_sleep($1)", takes.Seconds())
	now := time.Now()
	j.used += now.Sub(got)
	r.watch.queried(got, now)
	if err != nil {
		return false, notLate(ctx, err)
	}
	return true, nil
}

// notLate is err, if it is not that ctx has ended.
func notLate(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// openPool is a pool with all of its connections open.
func openPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = connections, connections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	var all []*pgxpool.Conn
	for range connections {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			pool.Close()
			return nil, err
		}
		all = append(all, conn)
	}
	for _, conn := range all {
		conn.Release()
	}
	return pool, nil
}

// withDatabase runs measure with the address of a server of its own.
func withDatabase(measure func(ctx context.Context, url string) error) (err error) {
	ctx := context.Background()
	starting, cancel := context.WithTimeout(ctx, 5*time.Minute) // npm may have to fetch it
	defer cancel()
	server, err := postgres.Start(starting, postgres.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	return measure(ctx, server.URL())
}

// A jobLog keeps every job.
type jobLog struct{ rows [][]string }

func newJobLog() *jobLog {
	return &jobLog{[][]string{{"cell", "arm", "round", "kind", "began_us", "first_us", "ended_us", "ok", "used_us", "turns"}}}
}

func (l *jobLog) add(cell, arm string, round int, origin time.Time, jobs []job) {
	micros := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return strconv.FormatInt(t.Sub(origin).Microseconds(), 10)
	}
	for _, j := range jobs {
		l.rows = append(l.rows, []string{cell, arm, strconv.Itoa(round), strconv.Itoa(j.kind), micros(j.began), micros(j.first), micros(j.ended),
			strconv.FormatBool(j.ok), strconv.FormatInt(j.used.Microseconds(), 10), strconv.Itoa(j.turns)})
	}
}
