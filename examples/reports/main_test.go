package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"layover/budget"
	"layover/e2e/postgres"
	"layover/turnstile"
)

// newDatabase is a database with that many connections.
func newDatabase(t *testing.T, connections int) *database {
	t.Helper()
	server, err := postgres.Start(t.Context(), postgres.Options{})
	switch {
	case errors.Is(err, postgres.ErrNone) && os.Getenv("CI") != "true":
		t.Skipf("NOT TESTED: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	db, err := open(t.Context(), server.URL(), connections)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.close)
	return db
}

func wantNothingHeld(t *testing.T, db *database) {
	t.Helper()
	if s := db.gate.Stats(); s.Held != 0 || s.Waiting != 0 {
		t.Errorf("Stats() = %+v; want nothing held, nobody in line", s)
	}
	if n := db.pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are held; want none", n)
	}
}

func TestAllIsDoneIfThereIsTime(t *testing.T) {
	db := newDatabase(t, 2)
	for _, o := range work(t.Context(), db, settings{reports: 5, pages: 3, reportTime: time.Minute, pageTime: time.Minute}) {
		if o.err != nil {
			t.Errorf("%s: %v", o.name, o.err)
		}
	}
	if got, want := db.gate.Stats().Granted, uint64(5*3+3); got != want {
		t.Errorf("%d turns; want %d", got, want)
	}
	wantNothingHeld(t, db)
}

func TestAJobThatRunsOutOfTimeSaysWhere(t *testing.T) {
	db := newDatabase(t, 1)
	pass, _ := db.gate.WaitTurn(t.Context(), turnstile.NewClaim(pages))
	outcomes := work(t.Context(), db, settings{reports: 3, reportTime: 20 * time.Millisecond})
	pass.Return()
	for _, o := range outcomes {
		var exhausted *budget.Exhausted
		if !errors.As(o.err, &exhausted) || strings.Join(exhausted.Phases(), " ") != "line" || !errors.Is(o.err, context.DeadlineExceeded) {
			t.Errorf("%s: %v; want its time to be over in line", o.name, o.err)
		}
	}
	wantNothingHeld(t, db)
}
