package crew

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The model check plays random histories on a crew and, after every step, when everybody has come to rest, compares what can be
// seen with what the rules say of a state at rest. A bubble makes it exact.

var modelSeed = flag.Uint64("crew.seed", 0, "seed of the model check; 0 picks one and logs it")

func TestModelRandomHistoriesKeepTheRules(t *testing.T) {
	seed := *modelSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-crew.seed=%d", seed)
	for n := range uint64(300) {
		ok := t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playHistory(t, rand.New(rand.NewPCG(seed, n))) })
		})
		if !ok {
			return
		}
	}
}

// model is what the rules need to know of a history.
type model struct {
	*rig
	o        Options
	passes   int
	released map[int]bool // jobs in progress that have given their pass back
	next     int          // piece
	peak     int          // the most jobs in progress at once, at any moment
	since    time.Time    // of the last step that was not a wait
	history  []string
}

func playHistory(t *testing.T, rnd *rand.Rand) {
	o := Options{Min: rnd.IntN(4), Linger: linger}
	if rnd.IntN(2) == 0 {
		o.Max = 1 + rnd.IntN(6)
	}
	passes := rnd.IntN(5)
	m := &model{rig: newRig(t, passes, o), o: o, passes: passes, released: map[int]bool{}, since: time.Now()}
	m.note("start %d passes, %+v", passes, o)
	m.check()
	for range 60 {
		m.step(rnd)
		m.check()
	}
	m.set.Resize(0, 4)
	m.finishAll()
	for len(m.pieces)+len(m.jobs) > 0 {
		m.finishAll()
	}
	time.Sleep(2 * linger)
	if s := m.crew.Stats(); s.Workers != max(1, o.Min) {
		m.fail("%d workers at rest; want %d", s.Workers, max(1, o.Min))
	}
	m.close()
}

func (m *model) note(format string, args ...any) {
	m.history = append(m.history, fmt.Sprintf(format, args...))
}

func (m *model) fail(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(m.history, "\n"))
}

// step is one thing that happens to the crew. What it leads to is left to check.
func (m *model) step(rnd *rand.Rand) {
	running := slices.Sorted(maps.Keys(m.jobs))
	kind := rnd.IntN(10)
	busy := len(running)
	if kind != 9 {
		m.since = time.Now()
	}
	switch {
	case kind < 2: // work, with a Wake for each, for all or for most
		n, wakes := 1+rnd.IntN(4), 1+rnd.IntN(4)
		m.note("put %d, wake %d times", n, wakes)
		for range n {
			m.put(m.next)
			m.next++
		}
		for range wakes {
			m.crew.Wake()
		}
	case kind == 2:
		m.note("wake for nothing")
		m.crew.Wake()
	case kind == 3:
		m.passes = rnd.IntN(5)
		m.note("resize the gate to %d", m.passes)
		m.set.Resize(0, m.passes)
	case kind == 9:
		d := time.Duration(rnd.IntN(5)) * linger / 2
		m.note("wait %v", d)
		time.Sleep(d)
	case len(running) == 0:
		m.note("nothing")
	default:
		for range 1 + rnd.IntN(2) { // one, or two at once
			if len(running) == 0 {
				break
			}
			i := rnd.IntN(len(running))
			piece := running[i]
			running = slices.Delete(running, i, i+1)
			m.end(piece, kind)
			if kind == 5 {
				busy++ // its worker is busy with Panicked when the next one begins
			}
		}
	}
	m.peak = max(m.peak, busy)
	synctest.Wait()
}

// end ends a job in progress in one of the ways there are, or only its first turn.
func (m *model) end(piece, kind int) {
	if kind > 5 {
		m.released[piece] = true
	}
	switch kind {
	case 4:
		m.note("finish %d", piece)
		close(m.job(piece).orders)
	case 5:
		m.note("panic or goexit %d", piece)
		m.order(piece, func(*job) {
			if piece%2 == 0 {
				runtime.Goexit()
			}
			panic("ouch")
		})
	default:
		m.note("release %d", piece)
		m.order(piece, func(j *job) { j.release() })
	}
}

// check compares a state at rest with the rules.
func (m *model) check() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.crew.Stats()
	least := max(1, m.o.Min)
	most := m.o.Max
	if most > 0 {
		most = max(most, least)
	}
	full := most > 0 && s.Busy == most
	m.peak = max(m.peak, s.Busy)

	held := 0
	for piece := range m.jobs {
		if !m.released[piece] {
			held++
		}
	}
	available, waiting := m.set.Turnstile(0).Snapshot()

	switch {
	case s.Taking != 0 || s.Workers != s.Parked+s.AtGate+s.Busy:
		m.fail("at rest %+v", s)
	case s.Busy != len(m.jobs):
		m.fail("%d busy; %d jobs are in progress", s.Busy, len(m.jobs))
	case s.Workers < least || most > 0 && s.Workers > most:
		m.fail("%d workers; at least %d, at most %d", s.Workers, least, most)
	case s.Busy == s.Workers && !full:
		m.fail("C2: nobody in reserve: %+v", s)
	case s.AtGate != waiting:
		m.fail("%d at the gate; %d wait there", s.AtGate, waiting)
	case available != m.passes-held:
		m.fail("C4: %d of %d passes free; %d jobs have not released", available, m.passes, held)
	case waiting > 0 && available > 0:
		m.fail("%d wait at a gate with %d free", waiting, available)
	case len(m.pieces) > 0 && s.AtGate == 0 && !full:
		m.fail("lost: %d pieces, nobody looks: %+v", len(m.pieces), s)
	case s.Workers > max(least, 1+m.peak):
		m.fail("C2: %d workers; there were never more than %d jobs at once", s.Workers, m.peak)
	case time.Since(m.since) > linger && s.AtGate == 0 && s.Workers != max(least, s.Busy+1) && !full:
		m.fail("C3: %d workers after a long rest; want %d", s.Workers, max(least, s.Busy+1))
	case time.Since(m.since) > linger && s.AtGate > 0 && s.Parked > max(0, least-s.Busy-s.AtGate):
		m.fail("C3: %d parked after a long rest beside %d at the gate", s.Parked, s.AtGate)
	}
	if grown := uint64(s.Workers) + s.Left - uint64(least); grown != s.Grown {
		m.fail("grown %d; %d workers, %d left", s.Grown, s.Workers, s.Left)
	}
}
