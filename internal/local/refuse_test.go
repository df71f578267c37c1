package local

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/router"
)

// refusedBy is a request whose connection is refused.
func (s *stage) refusedBy(name string) {
	s.Helper()
	ride := s.ride(name, 0)
	ride.Unreachable()
	ride.Done()
}

func TestR11_R59_AnActorThatRefusesConnectionsForThreeSecondsIsWokenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		var log bytes.Buffer
		s.plane.log = slog.New(slog.NewTextHandler(&log, nil))
		s.visit("a", time.Second)
		time.Sleep(time.Second)
		for range 300 {
			s.refusedBy("a")
			time.Sleep(10 * time.Millisecond)
		}
		s.wantEvents("0s start a")
		s.refusedBy("a")
		s.visit("a", time.Second)
		s.wantEvents("0s start a", "5s end a", "5s start a")
		synctest.Wait()
		if a := s.plane.Snapshot().Actors[0]; a.LastError != "its program runs, but takes no connections" {
			t.Errorf("the last error is %q", a.LastError)
		}
		if want := `level=WARN msg="actor took no connections" actor=a wake=1 output="[words of a]"`; !strings.Contains(log.String(), want) {
			t.Errorf("the log is\n%s\nwant %s", log.String(), want)
		}
		s.refusedBy("a") // the next life begins anew
		time.Sleep(time.Hour)
		s.wantState("a", router.Awake)
	})
}

func TestTwoRefusedConnectionsAreTooFewHoweverFarApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.visit("a", time.Second)
		s.refusedBy("a")
		time.Sleep(time.Hour)
		s.refusedBy("a")
		synctest.Wait()
		s.wantState("a", router.Awake)
	})
}

func TestAConnectionThatIsTakenForgivesThoseThatWereRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.visit("a", time.Second)
		for range 10 {
			s.refusedBy("a")
			s.refusedBy("a")
			time.Sleep(time.Minute)
			s.visit("a", 0)
		}
		synctest.Wait()
		s.wantEvents("0s start a")
	})
}

// That a stream from before ends says nothing of new connections.
func TestAStreamFromBeforeForgivesNothingAndHasMaxDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, draining("a"))
		defer s.close()
		short, long := s.ride("a", time.Second), s.ride("a", 0)
		s.refusedBy("a")
		s.refusedBy("a")
		time.Sleep(3 * time.Second)
		short.Done()
		s.refusedBy("a")
		s.wantState("a", router.GoingToSleep)
		if got := <-s.ask("a", time.Hour); got.took != time.Minute+time.Second {
			t.Errorf("served after %v (%v), want a minute of max_drain and 1 s to start", got.took, got.err)
		} else {
			got.ride.Done()
		}
		long.Done()
	})
}

func TestARefusalByALifeThatIsGoneSaysNothingOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		old := s.ride("a", time.Second)
		s.host.crash("a")
		synctest.Wait()
		s.visit("a", time.Second)
		old.Unreachable()
		time.Sleep(3 * time.Second)
		for range 5 {
			old.Unreachable()
		}
		old.Done()
		synctest.Wait()
		s.wantState("a", router.Awake)
	})
}
