package local

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/router"
)

func TestR68_AGlanceDoesNotBeginIdlenessAnewButKeepsTheActorWhileItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := fake("a")
		a.Idle = 10 * time.Second
		s := newStage(t, 1, a)
		defer s.close()
		s.visit("a", time.Second)
		for range 9 {
			time.Sleep(time.Second)
			_, use, state, err := s.plane.Glance("a")
			if err != nil || state != router.Awake {
				t.Fatalf("Glance = %q, %v", state, err)
			}
			use.Done()
		}
		_, use, _, _ := s.plane.Glance("a")
		time.Sleep(time.Minute)
		s.wantState("a", router.Awake)
		use.Done()
		synctest.Wait()
		s.wantState("a", router.Asleep)
	})
}

func TestAGlanceSaysThatStartsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.script("a", script{fails: errors.New("broken")})
		s.refused("a", router.StartFailed, 0)
		_, use, _, err := s.plane.Glance("a")
		if use != nil || router.ReasonOf(err) != router.BackingOff {
			t.Errorf("Glance = %v, %v, want %s", use, err, router.BackingOff)
		}
		time.Sleep(time.Minute)
		if _, _, state, err := s.plane.Glance("a"); state != router.Asleep || err != nil {
			t.Errorf("after the back-off: %q, %v", state, err)
		}
	})
}

func TestGlancesAtNamesOfATemplateLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("x-*"))
		defer s.close()
		if _, use, state, err := s.plane.Glance("x-1"); use != nil || state != router.Asleep || err != nil {
			t.Errorf("Glance = %v, %q, %v", use, state, err)
		}
		if n := len(s.plane.Snapshot().Actors); n != 0 {
			t.Errorf("%d actors are there", n)
		}
	})
}
