package extproc_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/extproc"
)

// sockets is a network in which each dial takes a while.
type sockets struct {
	gone  atomic.Bool
	dials []time.Duration // since began
	began time.Time
}

func (s *sockets) dial(_ context.Context, addr string) error {
	s.dials = append(s.dials, time.Since(s.began)) // one at a time: there is one actor
	gone := s.gone.Load()
	<-time.After(10 * time.Millisecond)
	if gone {
		return fmt.Errorf("dial %s: %w", addr, syscall.ECONNREFUSED)
	}
	return nil
}

// ride is a request to actor A that ends at once.
func (x *rig) ride(t *testing.T) {
	q := x.hold(t, get(actorA))
	q.mustRoute(0)
	q.stream.CloseSend()
	q.mustEnd()
}

func TestR11_AnActorWhoseSocketIsGoneIsWokenAgainUnderSteadyTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sockets{began: time.Now()}
		x := newRig(t, setup{o: extproc.Options{Dial: s.dial}})
		x.wake(t, actorA)
		s.dials, s.began = nil, time.Now()
		for range 30 { // 3 s of requests that reach it
			time.Sleep(100 * time.Millisecond)
			x.ride(t)
		}
		if want := []time.Duration{time.Second, 2010 * time.Millisecond, 3020 * time.Millisecond}; !slices.Equal(s.dials, want) {
			t.Errorf("it was looked at after %v, want %v", s.dials, want)
		}
		s.gone.Store(true)
		wakes := x.plane.Wakes(actorA)
		for since := time.Now(); x.plane.Wakes(actorA) == wakes; time.Sleep(100 * time.Millisecond) {
			if time.Since(since) > 3*time.Second {
				t.Fatal("it is not woken again")
			}
			q := x.hold(t, get(actorA))
			q.next()
			q.stream.CloseSend()
			q.mustEnd()
		}
	})
}

func TestAnActorThatIsBackIsNotTakenForGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sockets{began: time.Now()}
		x := newRig(t, setup{o: extproc.Options{Dial: s.dial}})
		x.wake(t, actorA)
		for range 5 { // each time it is gone for one look of two
			s.gone.Store(true)
			time.Sleep(time.Second)
			x.ride(t)
			s.gone.Store(false)
			time.Sleep(time.Second)
			x.ride(t)
		}
		if n := x.plane.Wakes(actorA); n != 1 {
			t.Errorf("it was woken %d times, want once", n)
		}
	})
}
