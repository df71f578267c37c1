package e2e

import (
	"context"
	"slices"
	"sync"
	"testing"

	"layover/turnstile"
)

// The later steps of an old job go before the first step of every newer one, although they came to the line last.
func TestT2_TheNextStepOfAJobInProgressGoesFirst(t *testing.T) { // A11, A12
	r := newRig(t, 1)
	r.exec("create table steps (at serial, step text)")
	step := func(claim turnstile.Claim, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			return r.use(ctx, claim, func() error { r.exec("insert into steps (step) values ($1)", name); return nil })
		}
	}
	old := turnstile.NewClaim(0)
	if err := step(old, "old 1")(r.ctx); err != nil {
		t.Fatal(err)
	}
	var results []<-chan error
	if err := r.use(r.ctx, turnstile.NewClaim(0), func() error { // the connection is in use while the line forms
		for _, name := range []string{"new a", "new b", "new c"} {
			results = append(results, inLine(r.ctx, step(turnstile.NewClaim(0), name)))
		}
		results = append(results, inLine(r.ctx, step(turnstile.NewClaim(-1), "better band")))
		results = append(results, inLine(r.ctx, step(old, "old 2")))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		r.end("a step", result, nil)
	}
	rows, err := r.pool.Query(r.ctx, "select step from steps order by at")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		got = append(got, s)
	}
	if want := []string{"old 1", "better band", "old 2", "new a", "new b", "new c"}; !slices.Equal(got, want) {
		t.Errorf("the database saw %q; want %q", got, want)
	}
}

// At saturation few jobs are in progress at once, where first come, first served begins them all before it ends one.
func TestT2_AJobInProgressFinishesBeforeANewerOneBegins(t *testing.T) {
	const size, jobs, steps = 3, 30, 4
	saturate := func(t *testing.T, claimOf func(job turnstile.Claim) turnstile.Claim) int32 {
		r := newRig(t, size)
		r.exec("create table steps (job int, step int)")
		r.before = r.pool.Stat()
		var inProgress tally
		var wg sync.WaitGroup
		for job := range jobs {
			began := turnstile.NewClaim(0)
			wg.Go(func() {
				for step := range steps {
					if err := r.use(r.ctx, claimOf(began), func() error {
						if step == 0 {
							inProgress.up()
						}
						_, err := r.pool.Exec(r.ctx, "insert into steps select $1, $2 from pg_sleep(0.002)", job, step)
						return err
					}); err != nil {
						t.Error(err)
					}
				}
				inProgress.down()
			})
		}
		wg.Wait()
		if n := r.number("select count(*) from steps"); n != jobs*steps {
			t.Errorf("%d steps are done; want %d", n, jobs*steps)
		}
		r.wantNoLineInThePool()
		r.wantAllBack()
		return inProgress.peak.Load()
	}
	byJob := saturate(t, func(job turnstile.Claim) turnstile.Claim { return job })
	byArrival := saturate(t, func(turnstile.Claim) turnstile.Claim { return turnstile.NewClaim(0) })
	t.Logf("%d jobs of %d steps over %d connections: at most %d in progress at once by claim, %d by arrival", jobs, steps, size, byJob, byArrival)
	if byJob > jobs/2 || byJob >= byArrival {
		t.Errorf("%d jobs in progress at once by claim, %d by arrival; want at most half of %d, and fewer than by arrival", byJob, byArrival, jobs)
	}
}

// A claim is for one pass: there is no large one that could hold up small ones. A job that wants the whole pool takes its turns one
// by one, and what is free meanwhile serves others.
func TestA13_AJobThatWantsManyConnectionsHoldsNobodyUp(t *testing.T) {
	r := newRig(t, 2)
	big, small := turnstile.NewClaim(0), turnstile.NewClaim(0)
	var results []<-chan error
	if err := r.use(r.ctx, turnstile.NewClaim(0), func() error { // one connection is in use
		if err := r.use(r.ctx, turnstile.NewClaim(0), func() error { // and the other while the line forms
			for range 3 {
				results = append(results, inLine(r.ctx, func(ctx context.Context) error {
					return r.use(ctx, big, func() error { r.exec("select 1"); return nil })
				}))
			}
			results = append(results, inLine(r.ctx, func(ctx context.Context) error {
				return r.use(ctx, small, func() error { r.exec("select 1"); return nil })
			}))
			return nil
		}); err != nil {
			return err
		}
		for _, result := range results { // all of them get by with the one that is free
			r.end("a turn", result, nil)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r.wantAllBack()
}
