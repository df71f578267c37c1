package router_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
)

// troubled is a plane whose wake-ups only wait, and say why.
type troubled struct {
	router.Plane
	trouble chan *router.Error
	awake   chan router.Target // ends a wake-up that was none
}

func (p *troubled) Resume(ctx context.Context, _ string, f *router.Flight) (router.Target, error) {
	for {
		select {
		case e := <-p.trouble:
			f.Trouble(e)
			f.Park("trouble")
		case target := <-p.awake:
			f.Awake()
			return target, nil
		case <-ctx.Done():
			return router.Target{}, context.Cause(ctx)
		}
	}
}

func newTroubled() *troubled {
	return &troubled{Plane: anyTarget{planetest.NewScripted(1, "a")}, trouble: make(chan *router.Error), awake: make(chan router.Target)}
}

// anyTarget is a plane that does not know its actors' state.
type anyTarget struct{ router.Plane }

func (p anyTarget) Want(actor string) (router.Use, error) {
	use, err := p.Plane.Want(actor)
	return takesAll{use}, err
}

type takesAll struct{ router.Use }

func (takesAll) Take(router.Target) bool { return true }

func TestWhoseBudgetEndsIsToldTheLastTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := newTroubled()
		r := router.New(plane, parking.NewLot(10), router.Options{})
		alone := send(r, "a", 0, time.Second)
		if e := alone.mustRefuse(t, router.StillWaking); e.Detail != "the actor was still starting when the request's budget ended" {
			t.Errorf("without a trouble it is told %q", e.Detail)
		}
		cause := errors.New("the cause")
		first, last := send(r, "a", 0, time.Second), send(r, "a", 0, 2*time.Second)
		plane.trouble <- router.Fail(router.NoWorker, "all are taken", cause)
		e := first.mustRefuse(t, router.NoWorker)
		if e.Detail != "all are taken" || e.Actor != "a" || !errors.Is(e, cause) || !errors.Is(e, context.DeadlineExceeded) {
			t.Errorf("it is told %v", e)
		}
		plane.trouble <- router.Fail(router.PlaneUnavailable, "it restarts", nil)
		gone := send(r, "a", 0, time.Minute)
		synctest.Wait()
		gone.cancel()
		gone.mustRefuse(t, router.ClientGone)
		if e := last.mustRefuse(t, router.PlaneUnavailable); e.Detail != "it restarts" { // its leaving ends the flight
			t.Errorf("the last one is told %v", e)
		}
		next := send(r, "a", 0, time.Second)
		next.mustRefuse(t, router.StillWaking) // the trouble was another flight's
		r.Wait(t.Context())
	})
}

func TestAnActorThatWasAwakeAllAlongWasNotWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := newTroubled()
		r := router.New(plane, parking.NewLot(10), router.Options{})
		all := []*request{send(r, "a", 0, time.Minute), send(r, "a", 0, time.Minute)}
		time.Sleep(time.Second)
		plane.awake <- router.Target{Addr: "there"}
		for _, q := range all {
			if ride := q.mustServe(t); ride.Wake != router.WakeNone || ride.Target.Addr != "there" {
				t.Errorf("the ride is %+v", ride)
			}
		}
		// It says nothing of how long a wake-up takes.
		if e := send(r, "a", 0, time.Second).mustRefuse(t, router.StillWaking); e.RetryAfter != 0 {
			t.Errorf("a retry is said to make sense after %v", e.RetryAfter)
		}
		r.Wait(t.Context())
	})
}

func TestACauseGoesOnFromTheLastWordsOfADetail(t *testing.T) {
	for _, c := range []struct{ detail, cause, want string }{
		{"the actor exited before it was ready", "exited before it was ready (exit status 3)", "the actor exited before it was ready (exit status 3)"},
		{"the actor was not ready after 4s", "not ready after 4s: nothing listens", "the actor was not ready after 4s: nothing listens"},
		{"the actor did not start", "no such file", "the actor did not start: no such file"},
		{"unready", "ready not", "unready: ready not"},
		{"it restarts", "restarts", "it restarts"},
		{"the actor did not start", "starting takes root", "the actor did not start: starting takes root"},
		{"", "the cause", ": the cause"},
	} {
		want := "router: start_failed: " + c.want
		if c.detail == "" {
			want = "router: start_failed" + c.want
		}
		if got := router.Fail(router.StartFailed, c.detail, errors.New(c.cause)).Error(); got != want {
			t.Errorf("of %q and %q it is %q, want %q", c.detail, c.cause, got, want)
		}
	}
}
