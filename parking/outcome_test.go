package parking

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestP9ContextDoneAtJoinLoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lot, fs := newFlights(5)
		why := errors.New("client went away")
		gone, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		late, cancelLate := context.WithDeadline(t.Context(), time.Now())
		defer cancelLate()
		none := func(context.Context, *Flight) (int, error) { t.Error("flown"); return 0, nil }
		if _, o, err := fs.Join(gone, "a", none); o.Result != Canceled || err != why || o.Leader {
			t.Fatalf("cancelled: %+v, %v", o, err)
		}
		if _, o, err := fs.Join(late, "a", none); o.Result != BudgetExhausted || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("past its end: %+v, %v", o, err)
		}
		cp := new(cockpit)
		p := board(t.Context(), fs, "a", cp)
		cp.Park("asleep")
		board(gone, fs, "a", cp).want(t, "cancelled joiner", Canceled, why)
		wantActive(t, lot, 1)
		cp.land(1)
		p.want(t, "leader", Served, nil)
	})
}

type exhausted struct{}

func (exhausted) Error() string        { return "budget exhausted" }
func (exhausted) Is(target error) bool { return target == context.DeadlineExceeded }

func TestP9EndOfTimeIsTellableFromCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(0)
		cp := new(cockpit)
		stay := board(t.Context(), fs, "a", cp)
		byBudget, cancel := context.WithCancelCause(t.Context())
		p := board(byBudget, fs, "a", cp)
		cancel(exhausted{})
		p.want(t, "caller of a budget", BudgetExhausted, exhausted{})
		own := errors.New("my own cause")
		byTimer, stop := context.WithTimeoutCause(t.Context(), time.Second, own)
		defer stop()
		q := board(byTimer, fs, "a", cp)
		time.Sleep(time.Second)
		q.want(t, "caller of a deadline with a cause", BudgetExhausted, own)
		cp.fail(context.DeadlineExceeded)
		stay.want(t, "caller whose flight timed out", Failed, context.DeadlineExceeded)
	})
}

func TestP9OutcomeTellsHowLongItWasParkedAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(5)
		cp := new(cockpit)
		p := board(t.Context(), fs, "a", cp)
		time.Sleep(time.Second)
		before := board(t.Context(), fs, "a", cp)
		before.leave()
		cp.Park("asleep")
		time.Sleep(2 * time.Second)
		q := board(t.Context(), fs, "a", cp)
		time.Sleep(3 * time.Second)
		cp.land(1)
		for _, c := range []struct {
			who    string
			o      Outcome
			parked time.Duration
			reason string
		}{{"leader", p.o, 5 * time.Second, "asleep"}, {"joiner", q.o, 3 * time.Second, "asleep"}, {"gone before", before.o, 0, ""}} {
			if c.o.ParkedFor != c.parked || c.o.Parked != (c.parked > 0) || c.o.Reason != c.reason {
				t.Errorf("%s: %+v, want parked for %v, reason %q", c.who, c.o, c.parked, c.reason)
			}
		}
	})
}

func TestP9PhasesAreClippedToTheCallersPresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(1)
		start := time.Now()
		at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
		cp := new(cockpit)
		leader := board(t.Context(), fs, "a", cp)
		line := cp.Phase("line")
		time.Sleep(2 * time.Second) // 2
		joiner := board(t.Context(), fs, "a", cp)
		time.Sleep(time.Second) // 3
		line()
		wake := cp.Phase("wake")
		time.Sleep(time.Second) // 4
		late := board(t.Context(), fs, "a", cp)
		probe := cp.Phase("probe")
		time.Sleep(time.Second) // 5
		joiner.leave()
		line()                  // again: no-op
		time.Sleep(time.Second) // 6
		cp.Park("starting")
		time.Sleep(time.Second) // 7
		probe()
		wake()
		cp.land(1)
		cp.Phase("late")()
		for _, c := range []struct {
			who   string
			p     *passenger
			stage string
			want  []Span
		}{
			{"leader", leader, "", []Span{{"line", at(0), at(3)}, {"wake", at(3), at(7)}, {"probe", at(4), at(7)}}},
			{"joiner", joiner, "probe", []Span{{"line", at(2), at(3)}, {"wake", at(3), at(5)}, {"probe", at(4), at(5)}}},
			{"shed", late, "probe", []Span{{"wake", at(4), at(6)}, {"probe", at(4), at(6)}}},
		} {
			if !slices.Equal(c.p.o.Phases, c.want) || c.p.o.Stage != c.stage {
				t.Errorf("%s: stage %q, phases %v; want %q, %v", c.who, c.p.o.Stage, c.p.o.Phases, c.stage, c.want)
			}
		}
	})
}

func TestP9FlightRemembersItsLastPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(1)
		cp := new(cockpit)
		p := board(t.Context(), fs, "a", cp)
		cp.Phase("open") // never ended, never forgotten
		for i := range 3 * maxPhases {
			end := cp.Phase(fmt.Sprint(i))
			time.Sleep(time.Second)
			end()
		}
		cp.land(1)
		got := p.o.Phases
		if len(got) != maxPhases || got[0].Name != "open" || got[1].Name != fmt.Sprint(2*maxPhases+1) {
			t.Fatalf("%d phases, the first %v, want %d: the open one and the last", len(got), got[:2], maxPhases)
		}
		if p.o.Stage != "open" {
			t.Fatalf("Stage = %q, want open", p.o.Stage)
		}
	})
}

func TestP10PanicReachesEveryCallerWithItsStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lot, fs := newFlights(5)
		cp := new(cockpit)
		ps := []*passenger{board(t.Context(), fs, "a", cp), board(t.Context(), fs, "a", cp)}
		cp.Park("asleep")
		cp.panics(errLanding)
		for _, p := range ps {
			err, _ := p.panicked.(error)
			if !errors.Is(err, errLanding) || !strings.Contains(err.Error(), "(*cockpit).panics") {
				t.Fatalf("panic of a caller: %v, want %v with the stack of the flight function", p.panicked, errLanding)
			}
		}
		wantActive(t, lot, 0)
		wantLen(t, fs, 0)
	})
}

func TestP10PanicWithNoCallerLeftEndsTheProgram(t *testing.T) {
	if os.Getenv("PARKING_CRASH") != "" {
		crashWithoutCallers(t)
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "PARKING_CRASH=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: nobody looks") || !strings.Contains(string(out), "parking.flyIntoTheGround") {
		t.Fatalf("%v, output:\n%s\nwant a panic with the frames of the flight function", err, out)
	}
}

func crashWithoutCallers(t *testing.T) {
	_, fs := newFlights(0)
	ctx, cancel := context.WithCancel(t.Context())
	fs.Join(ctx, "a", func(ctx context.Context, f *Flight) (int, error) {
		cancel()
		<-ctx.Done() // everybody left
		return flyIntoTheGround()
	})
	fs.Wait(t.Context())
	select {}
}

//go:noinline
func flyIntoTheGround() (int, error) { panic("nobody looks") }

func TestP10GoexitIsAnErrorToAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fs := newFlights(5)
		cp := new(cockpit)
		ps := []*passenger{board(t.Context(), fs, "a", cp), board(t.Context(), fs, "a", cp)}
		cp.goexit()
		for _, p := range ps {
			p.want(t, "caller", Failed, errGoexit)
		}
		wantLen(t, fs, 0)
	})
}

func TestP10PanicInIdentityReachesTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := NewFlights[string, int](NewLot(0), Options{Identity: func(context.Context) context.Context { panic(errLanding) }})
		p := board(t.Context(), fs, "a", new(cockpit))
		if err, _ := p.panicked.(error); !errors.Is(err, errLanding) {
			t.Fatalf("panic of the caller: %v, want %v", p.panicked, errLanding)
		}
		wantLen(t, fs, 0)
	})
}
