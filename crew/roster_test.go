package crew

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// The decisions by direct calls, for moments that a crew passes through too fast to be stopped in.

// hands is a roster and its first workers, in the state given for each.
func hands(t *testing.T, o Options, in ...state) (*roster, []*worker) {
	t.Helper()
	r := new(roster)
	o.Min = max(o.Min, len(in))
	workers := r.begin(o)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.min = 1
	for i, w := range workers {
		if in[i] == ready {
			continue
		}
		w.cancel = func(error) {}
		r.moveLocked(w, in[i])
		w.seen = r.wakes
	}
	return r, workers
}

func (r *roster) wantState(t *testing.T, name string, w *worker, want state) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.state != want {
		t.Errorf("state of %s = %d; want %d", name, w.state, want)
	}
}

func TestRosterATakeBesideAnotherTakeAddsNobody(t *testing.T) {
	r, w := hands(t, Options{}, taking, taking)
	if start, _ := r.found(w[0]); start != nil {
		t.Error("a worker is added while another is taking")
	}
	if start, _ := r.found(w[1]); start == nil {
		t.Error("no worker is added when nobody is left idle")
	}
}

func TestRosterOneLookIsPassedOn(t *testing.T) {
	for name, c := range map[string]struct {
		others  []state
		answers bool // an empty take has answered every Wake
		want    bool
	}{
		"nobody looks":       {[]state{parked}, false, true},
		"there is nothing":   {[]state{parked}, true, false},
		"one looks already":  {[]state{parked, looking}, false, false},
		"one is about to":    {[]state{parked, ready}, false, false},
		"nobody to be found": {[]state{taking}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := hands(t, Options{}, append([]state{taking}, c.others...)...)
			if c.answers {
				r.dry = r.wakes
			}
			if _, call := r.found(w[0]); (call != nil) != c.want {
				t.Errorf("found() calls another: %v; want %v", call != nil, c.want)
			}
		})
	}
}

func TestRosterAnEmptyTakeLooksAgainOnlyIfNobodyElseDoes(t *testing.T) {
	for name, c := range map[string]struct {
		other state
		wake  bool
		want  state
	}{
		"no wake":              {busy, false, parked},
		"a wake, one busy":     {busy, true, looking},
		"a wake, one looks":    {looking, true, parked},
		"a wake, one is ready": {ready, true, parked},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := hands(t, Options{}, taking, c.other)
			if c.wake {
				r.wake()
			}
			r.foundNothing(w[0])
			r.settle(w[0], func(error) {})
			r.wantState(t, "the one that found nothing", w[0], c.want)
		})
	}
}

func TestRosterALateEmptyTakeTakesNothingBack(t *testing.T) {
	r, w := hands(t, Options{}, taking, looking)
	r.wake()
	r.mayTake(w[1])
	r.foundNothing(w[1])
	r.foundNothing(w[0]) // it began before the Wake
	if r.mayHaveWorkLocked() {
		t.Error("there may be work, although the last take to begin found nothing")
	}
}

func TestRosterNobodyTakesOrIsAddedOnceItStops(t *testing.T) {
	r, w := hands(t, Options{}, looking, taking)
	r.stop()
	if r.mayTake(w[0]) {
		t.Error("mayTake() = true; want false")
	}
	r.settle(w[0], func(error) {})
	if start, call := r.found(w[1]); start != nil || call != nil {
		t.Errorf("found() = %v, %v; want nobody", start, call)
	}
}

func TestRosterTheLastToParkIsTheFirstToBeCalled(t *testing.T) {
	r, w := hands(t, Options{}, parked, parked, parked)
	for i := range w {
		if got, want := r.wake(), w[len(w)-1-i]; got != want {
			t.Fatalf("call %d: not the one that parked last", i)
		}
	}
	if w := r.wake(); w != nil {
		t.Errorf("wake() = %v with nobody parked; want nil", w)
	}
}

func TestRosterTheLongestParkedLeavesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := hands(t, Options{Linger: linger}, busy, parked, parked, parked)
		time.Sleep(linger)
		synctest.Wait()
		r.wantState(t, "the first to park", w[1], gone)
		r.wantState(t, "the second", w[2], gone)
		r.wantState(t, "the last", w[3], parked)
	})
}

func TestC3EachOneToSpareLeavesAtItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 9, Options{Linger: linger}, 1, 2, 3, 4)
		for piece := 1; piece <= 4; piece++ { // one more to spare each time: at 0, 0.2, 0.4, 0.6 s
			r.finish(piece)
			time.Sleep(linger / 5)
		}
		r.add(5) // needs the last of them: to spare since 0, 0.2, 0.4 and, anew, 0.8 s
		r.finish(5)
		for _, c := range []struct {
			until   time.Duration
			workers int
		}{
			{linger/5 - 1, 5}, {1, 4}, // 1.0 s
			{linger/5 - 1, 4}, {1, 3}, // 1.2 s
			{linger/5 - 1, 3}, {1, 2}, // 1.4 s
			{linger*2/5 - 1, 2}, {1, 1}, // 1.8 s
			{time.Hour, 1},
		} {
			time.Sleep(c.until)
			r.want(c.workers, c.workers, 0, 0)
		}
		r.close()
	})
}

func TestRosterIsDoneWhenTheLastGoroutineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := hands(t, Options{Linger: linger}, parked, parked)
		time.Sleep(linger)
		synctest.Wait()
		r.wantState(t, "the first to park", w[0], gone) // but its goroutine does not know yet
		r.stop()
		r.settle(w[1], nil)
		if n := r.cancelAll(context.Canceled); n != 1 {
			t.Errorf("cancelAll() = %d; want 1", n)
		}
		r.settle(w[0], nil)
		select {
		case <-r.done:
		default:
			t.Error("not done, although all goroutines have ended")
		}
	})
}

func TestRosterHasNoTimerOnceItStops(t *testing.T) { // A53
	synctest.Test(t, func(t *testing.T) {
		r, _ := hands(t, Options{Linger: linger}, parked, parked)
		r.stop()
		if r.timer.Stop() {
			t.Error("the timer runs")
		}
	})
}

func TestRosterHasNoTimerAtRest(t *testing.T) { // A53
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 9, Options{Linger: linger}, 1, 2)
		r.finish(1, 2)
		time.Sleep(linger)
		r.want(1, 1, 0, 0)
		r.crew.roster.mu.Lock()
		if r.crew.roster.timer.Stop() {
			t.Error("the timer runs")
		}
		r.crew.roster.mu.Unlock()
		r.close()
	})
}

func TestC2AJobIsOverBeforeItsPassGoesOn(t *testing.T) {
	c := &Crew[int]{duty: Duty[int]{
		Take:    func(context.Context) (int, bool) { return 1, true },
		Process: func(context.Context, int, func()) {},
	}}
	w := c.roster.begin(Options{Max: 1})[0]
	c.roster.moveLocked(w, taking)
	given := false
	c.use(t.Context(), t.Context(), w, &turn{give: func() { given = true }})
	c.roster.wantState(t, "the worker after its job", w, ready)
	if given {
		t.Error("the pass was given back before")
	}
}
