package local

import (
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/router"
)

func draining(name string) Actor {
	a := fake(name)
	a.MaxDrain = time.Minute
	return a
}

func TestADrainEndsAfterMaxDrainAndWhoWaitedIsServedByTheNextLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, draining("a"))
		defer s.close()
		s.script("a", script{start: time.Second, stop: 2 * time.Second})
		stream := s.ride("a", time.Second)
		go s.plane.Sleep(t.Context(), "a")
		synctest.Wait()
		next := s.ask("a", time.Hour)
		time.Sleep(time.Minute - 1)
		s.wantEvents("0s start a")
		got := <-next
		if got.err != nil || got.took != time.Minute+3*time.Second {
			t.Fatalf("served after %v (%v), want a minute, 2 s to stop and 1 s to start", got.took, got.err)
		}
		s.wantEvents("0s start a", "1m3s end a", "1m3s start a")
		stream.Done() // cut off: it is nobody's any more
		if a := s.plane.Snapshot().Actors[0]; a.InFlight != 1 {
			t.Errorf("%d requests are with the actor, want the new one", a.InFlight)
		}
		got.ride.Done()
	})
}

func TestADrainThatEndsByItselfIsNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, draining("a"))
		defer s.close()
		stream := s.ride("a", time.Second)
		go s.plane.Sleep(t.Context(), "a")
		time.Sleep(time.Minute - 1)
		stream.Done()
		synctest.Wait()
		s.wantState("a", router.Asleep)
		s.visit("a", time.Second) // the alarm of the last drain finds another life
		time.Sleep(time.Hour)
		s.wantState("a", router.Awake)
	})
}

func TestWithoutMaxDrainADrainLastsAsLongAsItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		stream := s.ride("a", time.Second)
		go s.plane.Sleep(t.Context(), "a")
		time.Sleep(1000 * time.Hour)
		s.wantState("a", router.GoingToSleep)
		stream.Done()
		synctest.Wait()
		s.wantState("a", router.Asleep)
	})
}

func TestMaxDrainEndsWhatMaxHoldBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := draining("a")
		a.MaxHold = 10 * time.Second
		s := newStage(t, 1, a, fake("b"))
		defer s.close()
		stream := s.ride("a", time.Second)
		defer stream.Done()
		b := s.ask("b", time.Hour)
		if got := <-b; got.err != nil || got.took != time.Minute+11*time.Second {
			t.Errorf("b is served after %v (%v), want 10 s of max_hold, a minute of max_drain and 1 s to start", got.took, got.err)
		} else {
			got.ride.Done()
		}
	})
}

func TestAReloadChangesMaxDrainOfADrainUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, draining("a"), draining("b"))
		defer s.close()
		stream := s.ride("a", time.Second)
		defer stream.Done()
		go s.plane.Sleep(t.Context(), "a")
		time.Sleep(20 * time.Second)
		c := s.config
		c.Actors = changed(c.Actors, "a", func(a *Actor) { a.MaxDrain = 21 * time.Second })
		s.apply(c)
		time.Sleep(time.Second)
		synctest.Wait()
		s.wantState("a", router.Asleep)

		stream = s.ride("b", time.Second)
		defer stream.Done()
		c.Actors = c.Actors[:1] // removed, it drains with what it had
		s.apply(c)
		time.Sleep(time.Minute - 1)
		s.wantState("b", router.GoingToSleep)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		s.wantState("b", "")
	})
}
