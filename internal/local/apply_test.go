package local

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/router"
)

// changed returns a copy of actors in which edit was applied to the named one.
func changed(actors []Actor, name string, edit func(*Actor)) []Actor {
	out := slices.Clone(actors)
	for i := range out {
		if out[i].Name == name {
			edit(&out[i])
		}
	}
	return out
}

func TestR74_AReloadTouchesOnlyWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 3, fake("a"), fake("b"), fake("c"))
		defer s.close()
		s.visit("a", time.Second)
		ride := s.ride("b", time.Second)
		s.visit("c", time.Second)
		c := s.config
		c.Actors = changed(c.Actors, "b", func(a *Actor) { a.Command = []string{"run", "better"} })
		c.Actors = changed(c.Actors, "c", func(a *Actor) { a.Idle = time.Second })
		got := s.apply(c)
		if want := []string{`actor "b" changed`, `actor "c" has other times`}; !slices.Equal(got, want) {
			t.Errorf("changes = %q, want %q", got, want)
		}
		s.wantState("a", router.Awake)
		s.wantState("b", router.GoingToSleep)
		s.wantState("c", router.Awake)
		b := s.ask("b", time.Hour)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		s.wantState("c", router.Asleep)
		ride.Done()
		if got := <-b; got.took != 3*time.Second || s.job("b").Command[1] != "better" {
			t.Errorf("served after %v (%v) by %v", got.took, got.err, s.job("b").Command)
		} else {
			got.ride.Done()
		}
		if got := s.apply(c); len(got) != 0 {
			t.Errorf("the same configuration again changes %q", got)
		}
	})
}

func TestAReloadNamesTheTemplatesThatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a-*"), fake("b-*"), fake("c-*"), fake("d-*"))
		defer s.close()
		c := s.config
		c.Actors = append(slices.Clone(c.Actors[1:]), fake("e-*"))
		c.Actors = changed(c.Actors, "b-*", func(a *Actor) { a.Command = []string{"run", "better"} })
		c.Actors = changed(c.Actors, "c-*", func(a *Actor) { a.Idle = time.Second })
		want := []string{`actor "a-*" removed`, `actor "b-*" changed`, `actor "c-*" has other times`, `actor "e-*" added`}
		if got := s.apply(c); !slices.Equal(got, want) {
			t.Errorf("changes = %q, want %q", got, want)
		}
		if got := s.apply(c); len(got) != 0 {
			t.Errorf("the same configuration again changes %q", got)
		}
	})
}

func TestAChangeStopsAStartUnderWayAndItsWaitersGetTheNewProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.script("a", script{start: time.Hour, stop: time.Second})
		a := s.ask("a", time.Hour)
		time.Sleep(10 * time.Second)
		s.script("a", script{start: 2 * time.Second})
		c := s.config
		c.Actors = changed(c.Actors, "a", func(a *Actor) { a.Env = []string{"BETTER=1"} })
		s.apply(c)
		got := <-a
		if got.err != nil || got.took != 13*time.Second {
			t.Fatalf("served after %v (%v), want 10 s, 1 s to stop and 2 s to start", got.took, got.err)
		}
		got.ride.Done()
	})
}

func TestARemovedActorFinishesItsRequestsAndIsUnknownAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("b"), fake("c"))
		defer s.close()
		ride := s.ride("a", time.Second)
		b := s.ask("b", time.Hour) // in line
		synctest.Wait()
		c := s.config
		c.Actors = changed(c.Actors[2:], "", nil)
		if got, want := s.apply(c), []string{`actor "a" removed`, `actor "b" removed`}; !slices.Equal(got, want) {
			t.Errorf("changes = %q, want %q", got, want)
		}
		s.refusal(<-b, router.UnknownActor, 0)
		s.refused("a", router.UnknownActor, 0)
		s.wantState("a", router.GoingToSleep)
		next := s.ask("c", time.Hour)
		time.Sleep(3 * time.Second)
		ride.Done()
		if got := <-next; got.took != 4*time.Second {
			t.Errorf("c is served after %v (%v), want 4s", got.took, got.err)
		} else {
			got.ride.Done()
		}
		s.wantState("a", "")
		s.wantState("b", "")
	})
}

func TestAnActorThatIsAddedAgainWaitsForTheEndOfItsFormerSelf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 2, fake("a"), fake("b"))
		defer s.close()
		all, without := s.config, s.config
		without.Actors = all.Actors[1:]
		ride := s.ride("a", time.Second)
		s.apply(without)
		s.apply(all)
		a := s.ask("a", time.Hour)
		time.Sleep(5 * time.Second)
		ride.Done()
		if got := <-a; got.took != 6*time.Second {
			t.Errorf("served after %v (%v), want 6s", got.took, got.err)
		} else {
			got.ride.Done()
		}
		s.wantEvents("0s start a", "6s end a", "6s start a")
	})
}

func TestAPoolThatShrinksPutsSurplusIdleActorsToSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 4, fake("a"), fake("b"), fake("c"), fake("d"))
		defer s.close()
		s.visit("a", time.Second)
		s.visit("b", time.Second)
		c, d := s.ride("c", time.Second), s.ride("d", time.Second)
		small := s.config
		small.Pools = []Pool{{Name: "pool", Workers: 1}}
		s.apply(small)
		synctest.Wait()
		s.wantState("a", router.Asleep)
		s.wantState("b", router.Asleep)
		s.wantState("c", router.Awake)
		s.wantState("d", router.Awake)
		if got := s.plane.Snapshot().Pools[0]; got.Workers != 1 || got.Used != 2 {
			t.Errorf("pool = %+v, want 2 used of 1", got)
		}
		c.Done()
		synctest.Wait()
		s.wantState("c", router.Asleep)
		d.Done()
		time.Sleep(time.Hour)
		s.wantState("d", router.Awake)
	})
}

func TestAPoolThatGrowsHandsWorkersToTheLineAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("b"), fake("c"))
		defer s.close()
		ride := s.ride("a", time.Second)
		b, c := s.ask("b", time.Hour), s.ask("c", time.Hour)
		time.Sleep(5 * time.Second)
		big := s.config
		big.Pools = []Pool{{Name: "pool", Workers: 3}}
		s.apply(big)
		for _, w := range []<-chan answer{b, c} {
			if got := <-w; got.took != 6*time.Second {
				t.Errorf("served after %v (%v), want 6s", got.took, got.err)
			} else {
				got.ride.Done()
			}
		}
		ride.Done()
	})
}

func TestAnActorInLineMovesToItsNewPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("b"))
		defer s.close()
		ride := s.ride("a", time.Second)
		b := s.ask("b", time.Hour)
		time.Sleep(5 * time.Second)
		c := s.config
		c.Pools = []Pool{{Name: "pool", Workers: 1}, {Name: "other", Workers: 1}}
		c.Actors = changed(c.Actors, "b", func(a *Actor) { a.Pool = "other" })
		s.apply(c)
		if got := <-b; got.took != 6*time.Second {
			t.Errorf("served after %v (%v), want 6s", got.took, got.err)
		} else {
			got.ride.Done()
		}
		ride.Done()
	})
}

func TestAPoolThatIsAddedAgainCountsWhatStillRunsInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("b"))
		defer s.close()
		ride := s.ride("a", time.Second)
		old, moved := s.config, s.config
		moved.Pools = []Pool{{Name: "other", Workers: 1}}
		moved.Actors = changed(changed(old.Actors, "a", func(a *Actor) { a.Pool = "other" }), "b", func(a *Actor) { a.Pool = "other" })
		s.apply(moved)
		s.apply(old)
		b := s.ask("b", time.Hour)
		time.Sleep(4 * time.Second)
		ride.Done()
		if got := <-b; got.took != 5*time.Second {
			t.Errorf("b is served after %v (%v), want 5s: the only worker was a's", got.took, got.err)
		} else {
			got.ride.Done()
		}
	})
}

func TestARemovedPoolIsForgottenWithItsLastLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fake("b")
		b.Pool = "other"
		s := newStage(t, 1, fake("a"))
		defer s.close()
		without, with := s.config, s.config
		with.Pools = append(slices.Clone(with.Pools), Pool{Name: "other", Workers: 1})
		with.Actors = append(slices.Clone(with.Actors), b)
		s.script("b", script{start: time.Second, stop: 3 * time.Second})
		s.apply(with)
		s.visit("b", time.Second)
		s.apply(without)
		with.Pools[1].HeadStart = time.Minute
		time.Sleep(2 * time.Second)
		if _, err := s.plane.Apply(with); err == nil {
			t.Error("a pool with a life in it changed its head start")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if pools := s.plane.Snapshot().Pools; len(pools) != 1 {
			t.Errorf("the pools are %+v, want the one that is configured", pools)
		}
		s.apply(with)
		s.visit("b", time.Second)
	})
}

func TestABadConfigurationChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		good := s.config
		bad := []struct {
			what string
			edit func(*Config)
		}{
			{`there is no pool "x": use one of "pool"`, func(c *Config) { c.Actors[0].Pool = "x" }},
			{"no such user", func(c *Config) { c.Actors[0].User = "nobody knows" }},
			{"head_start and min_useful cannot change", func(c *Config) { c.Pools[0].HeadStart = time.Second }},
			{"the state folder cannot change", func(c *Config) { c.State = "/elsewhere" }},
		}
		for _, b := range bad {
			c := good
			c.Pools, c.Actors = slices.Clone(good.Pools), slices.Clone(good.Actors)
			c.Pools[0].Workers = 7
			b.edit(&c)
			if _, err := s.plane.Apply(c); err == nil || !strings.Contains(err.Error(), b.what) {
				t.Errorf("Apply = %v, want an error that says %q", err, b.what)
			}
		}
		if n := s.plane.Snapshot().Pools[0].Workers; n != 1 {
			t.Errorf("the pool has %d workers after bad configurations, want 1", n)
		}
		s.visit("a", time.Second)
	})
}

func TestR25_AReloadEndsBackoffs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.script("a", script{broken: errors.New("no such program")})
		s.refused("a", router.StartFailed, 0)
		s.refused("a", router.BackingOff, 0)
		s.script("a", script{start: time.Second})
		if got, want := s.apply(s.config), []string{`actor "a" may start again at once`}; !slices.Equal(got, want) {
			t.Errorf("changes = %q, want %q", got, want)
		}
		s.visit("a", time.Second)
	})
}
