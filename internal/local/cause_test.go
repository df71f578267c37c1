package local

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/router"
)

func TestWhoIsRefusedWhileAnActorBacksOffHasTheCauseForItsOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.script("a", script{fails: errExited})
		s.refused("a", router.StartFailed, 0)
		e := s.refused("a", router.BackingOff, 0)
		const detail, cause = "the last start failed; the next one is possible in 1s", "the actor did not start: exited before it was ready; its last line: words of a"
		if e.Detail != detail || e.Error() != `router: backing_off: actor "a": `+detail+": "+cause {
			t.Errorf("it is told %q, its operator %q", e.Detail, e)
		}
	})
}

func TestWhoseBudgetEndsDuringAStartHasWhatIsMissingForItsOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.script("a", script{start: 10 * time.Second, lacks: errors.New("nothing listens there")})
		e := s.refusal(<-s.ask("a", 2*time.Second), router.StillWaking, 2*time.Second)
		const detail = "the actor was still starting when the request's budget ended"
		if e.Detail != detail || !strings.Contains(e.Error(), detail+": nothing listens there; ") {
			t.Errorf("it is told %q, its operator %q", e.Detail, e)
		}
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { // it is received below
			_, err := s.router.Route(ctx, router.Ask{Actor: "a"})
			gone <- err
		}()
		synctest.Wait()
		leave()
		if err := <-gone; err.Error() != `router: client_gone: actor "a": nothing listens there; context canceled` {
			t.Errorf("the operator of who left is told %q", err)
		}
		if a := s.plane.Snapshot().Actors[0]; a.Lacks != "nothing listens there" {
			t.Errorf("the snapshot is %+v", a)
		}
		time.Sleep(9 * time.Second)
		if a := s.plane.Snapshot().Actors[0]; a.State != router.Awake || a.Lacks != "" {
			t.Errorf("awake, the snapshot is %+v", a)
		}
	})
}

func TestWhatAStartLacksIsNotToldToWhoWaitsForAWorkerAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("other"))
		defer s.close()
		ride := s.ride("other", time.Second)
		defer ride.Done()
		next := Config{Pools: []Pool{{Name: "pool", Workers: 2}}, Actors: []Actor{fake("a"), fake("other")}}
		s.apply(next)
		s.script("a", script{start: time.Hour, lacks: errors.New("nothing listens there")})
		waits := s.ask("a", 5*time.Second)
		time.Sleep(time.Second)
		next = Config{Pools: []Pool{{Name: "pool", Workers: 1}}, Actors: []Actor{fake("a"), fake("other")}}
		next.Actors[0].Command = []string{"another"}
		s.apply(next)
		e := s.refusal(<-waits, router.NoWorker, 5*time.Second)
		if strings.Contains(e.Error(), "nothing listens") {
			t.Errorf("its operator is told %q", e)
		}
	})
}

func TestTheErrorOfAStartIsForgottenWithTheNextOneThatSucceedsOrAnotherDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		wantError := func(want bool) {
			t.Helper()
			if a := s.plane.Snapshot().Actors[0]; (a.LastError != "") != want {
				t.Errorf("the last error is %q", a.LastError)
			}
		}
		fails := script{fails: errExited}
		s.script("a", fails)
		s.refused("a", router.StartFailed, 0)
		wantError(true)
		time.Sleep(time.Second)
		s.script("a", script{})
		s.visit("a", 0)
		wantError(false)

		if err := s.plane.Sleep(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		s.script("a", fails)
		s.refused("a", router.StartFailed, 0)
		synctest.Wait()
		other := fake("a")
		other.Command = []string{"another"}
		s.apply(Config{Pools: s.config.Pools, Actors: []Actor{other}})
		wantError(false)
	})
}

func TestTheLastLineOfAProgramIsQuotedInPart(t *testing.T) {
	for want, lines := range map[string][]string{
		"":                                  {"", " "},
		"boom":                              {"before", " boom ", "", "\t"},
		strings.Repeat("é", 100) + "…":      {strings.Repeat("é", 101)},
		"x" + strings.Repeat("é", 99) + "…": {"x" + strings.Repeat("é", 100)},
	} {
		if got := lastLine(lines); got != want {
			t.Errorf("of %q it is %q, want %q", lines, got, want)
		}
	}
}
