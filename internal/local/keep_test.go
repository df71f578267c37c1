package local

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/router"
)

func kept(name string) Actor {
	a := fake(name)
	a.KeepAwake, a.Idle = Schedule{Always: true}, time.Second
	return a
}

func TestAKeptActorStartsByItselfAndAgainAfterItExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, kept("a"))
		defer s.close()
		time.Sleep(time.Hour)
		s.wantState("a", router.Awake)
		s.visit("a", 0)
		time.Sleep(time.Hour)
		s.host.crash("a")
		time.Sleep(time.Second)
		synctest.Wait()
		s.wantState("a", router.Awake) // it had served: no back-off
		s.host.crash("a")
		time.Sleep(2*time.Second - 1)
		s.wantState("a", router.Waking) // a second of back-off, then it starts
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		s.wantState("a", router.Awake)
	})
}

func TestAKeptActorThatDoesNotStartIsTriedAgainAfterEachBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.script("a", script{fails: errors.New("broken")})
		c := s.config
		c.Actors = []Actor{kept("a")}
		s.apply(c)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		starts := slices.DeleteFunc(slices.Clone(s.host.events), func(e string) bool { return e[len(e)-7:] != "start a" })
		if want := []string{"0s start a", "1s start a", "3s start a", "7s start a", "15s start a"}; !slices.Equal(starts, want) {
			t.Errorf("starts: %q, want %q", starts, want)
		}
	})
}

func TestAKeptActorIsNotEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 2, kept("a"), fake("b"), fake("c"))
		defer s.close()
		time.Sleep(time.Minute)
		s.visit("b", time.Second)
		s.visit("c", time.Second)
		s.wantState("a", router.Awake)
		s.wantState("b", router.Asleep)
	})
}

func TestAKeptActorThatExitsHasItsWorkerBackBeforeAnybodyInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 2, kept("a"), fake("b"), fake("c"), fake("d"))
		defer s.close()
		time.Sleep(time.Minute)
		s.visit("a", 0)
		s.visit("b", time.Second)
		ride := s.ride("b", 0)
		c := s.ask("c", time.Hour)
		time.Sleep(time.Second)
		s.host.crash("a")
		time.Sleep(time.Second)
		synctest.Wait()
		s.wantState("a", router.Awake)
		s.wantState("c", router.Asleep)
		ride.Done()
		(<-c).ride.Done()
		s.host.crash("a") // with an idle actor beside it, which may stay
		synctest.Wait()
		s.wantState("c", router.Awake)
	})
}

func TestAReloadKeepsActorsAwakeAndLetsThemSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("b"))
		defer s.close()
		ride := s.ride("b", time.Second)
		c := s.config
		c.Actors = []Actor{kept("a"), fake("b")}
		if got, want := s.apply(c), []string{`actor "a" has other times`}; !slices.Equal(got, want) {
			t.Errorf("changes = %q, want %q", got, want)
		}
		before := s.ask("b", time.Hour)
		(<-before).ride.Done()
		s.wantState("a", router.Asleep)
		ride.Done()
		time.Sleep(time.Second)
		synctest.Wait()
		s.wantState("a", router.Awake)
		for range 3 { // also while it stands in line
			c.Actors = []Actor{fake("a"), fake("b")}
			c.Actors[0].Idle = time.Second
			s.apply(c)
			time.Sleep(time.Second)
			(<-s.ask("b", time.Hour)).ride.Done()
			ride := s.ride("b", 0)
			c.Actors = []Actor{kept("a"), fake("b")}
			s.apply(c)
			time.Sleep(time.Second)
			c.Actors = []Actor{fake("a"), fake("b")}
			s.apply(c)
			ride.Done()
			time.Sleep(time.Minute)
			synctest.Wait()
			s.wantState("a", router.Asleep)
		}
	})
}

func TestAPlaneStopsWhileAKeptActorStandsInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("b"))
		ride := s.ride("b", time.Second)
		c := s.config
		c.Actors = []Actor{kept("a"), fake("b")}
		s.apply(c)
		synctest.Wait()
		s.close()
		ride.Done()
	})
}

func TestAPoolKeepsNoMoreActorsThanItHasWorkers(t *testing.T) {
	c := Config{Pools: []Pool{{Name: "pool", Workers: 1}}, Actors: []Actor{kept("a"), kept("b")}}
	const want = `local: pool "pool": has 1 workers for 2 actors that are kept awake: give it more, or keep fewer`
	if err := c.Validate(); err == nil || err.Error() != want {
		t.Errorf("Validate = %v, want %s", err, want)
	}
}
