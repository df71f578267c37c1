package router_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
)

// dawdler is a plane whose first wake-up stops before it enters the line.
type dawdler struct {
	router.Plane
	enter chan struct{} // closed: the first one may go on
	begun int
}

func (p *dawdler) Resume(ctx context.Context, actor string, f *router.Flight) (router.Target, error) {
	if p.begun++; p.begun == 1 {
		<-p.enter
	}
	return p.Plane.Resume(ctx, actor, f)
}

func TestG4_AnAbandonedFlightTakesNothingFromItsSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := planetest.NewScripted(0, "a")
		slow := &dawdler{Plane: plane, enter: make(chan struct{})}
		r := router.New(slow, parking.NewLot(parking.Unlimited), router.Options{})
		first := send(r, "a", 5, time.Hour)
		synctest.Wait()
		first.cancel() // its flight is abandoned before it stands in line
		first.mustRefuse(t, router.ClientGone)
		second := send(r, "a", 5, time.Hour)
		synctest.Wait()
		close(slow.enter)
		synctest.Wait()
		urgent := send(r, "a", 1, time.Hour)
		synctest.Wait()
		if line := plane.Pool().Line(2); len(line) != 1 || line[0].Claim.Priority != 1 {
			t.Errorf("line = %+v, want one flight, in the urgent caller's band 1", line)
		}
		urgent.cancel()
		second.cancel()
		urgent.mustRefuse(t, router.ClientGone)
		second.mustRefuse(t, router.ClientGone)
	})
}

func TestTheSnapshotNamesTheActorOfEachPlaceInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := router.New(planetest.NewScripted(0, "a", "b", "c"), parking.NewLot(parking.Unlimited), router.Options{Linger: time.Minute})
		waiters := []*request{send(r, "a", 2, time.Hour), send(r, "b", 1, time.Hour), send(r, "c", 1, time.Second)}
		check := func(want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, w := range r.Snapshot().Plane.Pools[0].Line {
				got = append(got, fmt.Sprint(w.Claim.Priority, w.Actor))
			}
			if !slices.Equal(got, want) {
				t.Errorf("line = %q, want %q", got, want)
			}
		}
		check("1b", "1c", "2a")
		waiters = append(waiters, send(r, "a", 0, time.Hour))
		check("0a", "1b", "1c")
		time.Sleep(2 * time.Second) // c's only caller leaves, its place lingers
		check("0a", "1b", "1c")
		for _, w := range waiters {
			w.cancel()
		}
		time.Sleep(2 * time.Minute)
		check()
	})
}

func TestAPanicOfThePlaneReachesItsCallersAndLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := planetest.NewScripted(1, "a", "b")
		plane.Start = func(context.Context, string) error {
			time.Sleep(time.Second)
			panic("start")
		}
		r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("Route did not panic")
				}
			}()
			r.Route(context.Background(), router.Ask{Actor: "a"})
		}()
		if got := plane.Snapshot().Actors[0]; got.Wanted != 0 {
			t.Errorf("the actor is still wanted: %+v", got)
		}
	})
}

func TestT14_AFlightStandsInLineWithTheLatestEndOfThoseStillThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := planetest.NewScripted(0, "a")
		r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})
		want := func(d time.Duration, ends bool) {
			t.Helper()
			synctest.Wait()
			if l := plane.Pool().Line(2); len(l) != 1 || l[0].Remaining != d || l[0].Ends != ends {
				t.Errorf("line = %+v, want one place that ends in %v: %v", l, d, ends)
			}
		}
		short := send(r, "a", 0, time.Minute)
		want(time.Minute, true)
		long := send(r, "a", 0, time.Hour)
		want(time.Hour, true)
		shorter := send(r, "a", 0, time.Second)
		want(time.Hour, true)
		ctx, cancel := context.WithCancel(context.Background())
		endless := make(chan error)
		go func() {
			_, err := r.Route(ctx, router.Ask{Actor: "a"})
			endless <- err
		}()
		want(0, false)
		cancel()
		<-endless
		want(time.Hour, true)
		long.cancel()
		want(time.Minute, true)
		short.cancel()
		want(time.Second, true)
		shorter.cancel()
		synctest.Wait()
	})
}

// fickle returns a target that is gone by the time it is taken, the first time.
type fickle struct {
	*planetest.Scripted
	n int
}

func (p *fickle) Resume(ctx context.Context, actor string, f *router.Flight) (router.Target, error) {
	target, err := p.Scripted.Resume(ctx, actor, f)
	if p.n++; p.n == 1 {
		p.Sleep(actor)
	}
	return target, err
}

func TestATargetThatIsGoneWhenItIsTakenIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := &fickle{Scripted: taking(planetest.NewScripted(1, "a"), time.Second)}
		r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})
		q := send(r, "a", 0, time.Minute)
		ride := q.mustServe(t)
		if q.took != 2*time.Second || ride.Target.Wake != 2 || !ride.Parked || ride.ParkedFor != 2*time.Second {
			t.Errorf("took %v, ride %+v; want the target of the second wake-up after 2s, all of them parked", q.took, ride)
		}
		ride.Done()
	})
}

func TestEveryShedRequestHearsWhenTheWakeUpWillEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := taking(planetest.NewScripted(1, "a"), 8*time.Second)
		lot := parking.NewLot(parking.Unlimited)
		r := router.New(plane, lot, router.Options{})
		send(r, "a", 0, time.Minute).mustServe(t).Done()
		plane.Sleep("a")
		lot.Resize(0)
		e := send(r, "a", 0, time.Minute).mustRefuse(t, router.LotFull)
		if e.RetryAfter != 8*time.Second {
			t.Errorf("RetryAfter = %v, want the 8s that the last wake-up took", e.RetryAfter)
		}
		time.Sleep(3 * time.Second)
		if e := send(r, "a", 0, time.Minute).mustRefuse(t, router.LotFull); e.RetryAfter != 5*time.Second {
			t.Errorf("RetryAfter = %v, want the 5s that the wake-up has left", e.RetryAfter)
		}
		r.Wait(context.Background())
	})
}

func TestG4_AFlightThatNobodyWaitsForDoesNotJumpTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := planetest.NewScripted(1, "a", "b", "c")
		plane.KeepIdle = true
		r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{Linger: time.Minute})
		send(r, "a", 9, time.Minute).mustServe(t).Done()
		asleep := plane.BeginSleep("a")
		gone := send(r, "a", 9, time.Second) // waits for the end of going to sleep, and leaves before it
		b, c := send(r, "b", 5, time.Hour), send(r, "c", 5, time.Hour)
		gone.mustRefuse(t, router.StillWaking)
		asleep() // b gets the worker; the flight to a, which lingers, enters the line behind c
		b.mustServe(t).Done()
		synctest.Wait()
		line := plane.Pool().Line(2)
		if len(line) != 2 || line[0].Claim.Priority != 5 || line[1].Claim.Priority != 9 {
			t.Errorf("line = %+v, want c's flight of band 5, then the one that nobody waits for", line)
		}
		c.cancel()
		c.mustRefuse(t, router.ClientGone)
		r.Wait(context.Background())
	})
}
