package local

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"layover/budget"
	"layover/internal/router"
	"layover/turnstile"
)

// TestG8_CapacityFreeAndSomebodyWaitingNeverCoexist drives a plane at random
// and checks what must hold each time that everything is quiet.
func TestG8_CapacityFreeAndSomebodyWaitingNeverCoexist(t *testing.T) {
	runs := 60
	if testing.Short() {
		runs = 10
	}
	for range runs {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) { randomRun(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func randomRun(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	pick := func(ds ...time.Duration) time.Duration { return ds[rng.IntN(len(ds))] * time.Millisecond }
	var actors []Actor
	for i := range 8 {
		a := fake(fmt.Sprintf("a%d", i))
		a.Idle, a.MinAwake = pick(0, 0, 700, 5000), pick(0, 0, 300, 2000)
		if a.MaxHold = pick(0, 0, 0, 2500); a.MaxHold > 0 {
			a.MaxHold += a.MinAwake
		}
		a.StartTimeout, a.Grace, a.MaxDrain = pick(400, 30000), pick(100, 2000), pick(0, 0, 200, 3000)
		actors = append(actors, a)
	}
	actors[0].KeepAwake.Always, actors[0].MaxHold = rng.IntN(2) == 0, 0
	for i := range 2 { // a run lasts some minutes
		for range rng.IntN(4) {
			from := rng.IntN(6)
			w := Window{From: from, To: from + 1 + rng.IntN(3), Zone: time.UTC}
			actors[1+i].KeepAwake.Windows = append(actors[1+i].KeepAwake.Windows, w)
		}
	}
	actors = append(actors, fake("t-*"))
	s := newStage(t, 1+rng.IntN(4), actors...)
	newScript := func() script {
		how := script{start: pick(0, 1, 50, 500, 3000), stop: pick(0, 1, 100, 1000)}
		switch rng.IntN(12) {
		case 0:
			how.fails = errors.New("random")
		case 1:
			how.broken = errors.New("random")
		case 2:
			how.stop, how.undead = -1, pick(0, 0, 500, 5000)
		case 3:
			how.hangs = pick(100, 1000, 40000)
		}
		return how
	}
	names := []string{"t-0", "t-1", "t-2"}
	for _, a := range actors[:8] {
		names = append(names, a.Name)
	}
	for _, name := range names {
		s.script(name, newScript())
	}
	var asked, answered atomic.Int64
	for range 250 {
		switch n := rng.IntN(100); {
		case n < 70:
			name, d, stay, band := names[rng.IntN(len(names))], pick(1, 100, 2000, 60000), pick(0, 1, 300, 4000), rng.IntN(3)
			refused := rng.IntN(3) == 0
			asked.Add(1)
			go func() { // the last check waits for it
				defer answered.Add(1)
				ctx, cancel := budget.For(context.Background(), d)
				defer cancel()
				ride, err := s.router.Route(turnstile.Begin(ctx, band), router.Ask{Actor: name})
				if err == nil {
					if refused {
						ride.Unreachable()
					}
					time.Sleep(stay)
					ride.Done()
				} else if ctx.Err() == nil && router.ReasonOf(err) == router.Internal {
					t.Errorf("%s: %v", name, err)
				}
			}()
		case n < 76:
			s.script(names[rng.IntN(len(names))], newScript())
		case n < 80:
			s.host.mu.Lock()
			for _, pr := range s.host.running { // any
				pr.exitLocked()
				break
			}
			s.host.mu.Unlock()
		case n < 84:
			c := s.config
			c.Pools = []Pool{{Name: "pool", Workers: 1 + rng.IntN(5)}}
			s.apply(c)
		case n < 87:
			c := s.config
			c.Actors = changed(c.Actors, actors[rng.IntN(len(actors))].Name, func(a *Actor) { a.Env = []string{fmt.Sprint("N=", rng.Int())} })
			s.apply(c)
		case n < 89:
			c := s.config
			drop := rng.IntN(len(actors))
			c.Actors = slices.Delete(slices.Clone(actors), drop, drop+1)
			s.apply(c)
		case n < 90:
			c := s.config
			c.Actors = changed(c.Actors, "a0", func(a *Actor) { a.KeepAwake.Always = !a.KeepAwake.Always })
			s.apply(c)
		case n < 91:
			go s.plane.Sleep(t.Context(), names[rng.IntN(len(names))])
		default:
			time.Sleep(pick(1, 10, 300, 2000))
		}
		if rng.IntN(3) == 0 {
			synctest.Wait()
			s.check()
		}
		if t.Failed() {
			break
		}
	}
	c := s.config
	c.Actors = actors
	s.apply(c)
	for range 400 {
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		s.check()
	}
	if asked.Load() != answered.Load() {
		t.Errorf("%d of %d requests have an answer after all budgets are over", answered.Load(), asked.Load())
	}
	for _, a := range s.plane.Snapshot().Actors {
		if a.Wanted != 0 || a.InFlight != 0 {
			t.Errorf("%s is wanted by %d and used by %d after all", a.Name, a.Wanted, a.InFlight)
		}
	}
	if n := s.lot.Snapshot().Active; n != 0 {
		t.Errorf("%d spots are taken after all", n)
	}
	s.close()
}

// check is called when nothing moves.
func (s *stage) check() {
	s.Helper()
	p := s.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	lives := make(map[*pool]int)
	draining, stopping := make(map[*pool]int), make(map[*pool]int)
	queued := 0
	for _, a := range p.actors {
		if a.template && a.life == nil && (a.wanted > 0 || len(a.places) > 0) {
			queued++
		}
		if (a.life == nil) != (a.state == router.Asleep) {
			s.Errorf("%s is %s with life %v", a.name, a.state, a.life)
		}
		if in, _ := a.def.KeepAwake.At(time.Now()); a.keeping != (in && !a.removed) {
			s.Errorf("%s is kept: %v, its schedule says %v", a.name, a.keeping, in)
		}
		if a.kept != nil && !a.keeping {
			s.Errorf("%s stands in line to be kept awake and is not to be", a.name)
		}
		if a.keeping && a.life == nil && a.kept == nil && !a.retryAt.After(time.Now()) {
			s.Errorf("%s is to be kept awake, is asleep, and is not in line", a.name)
		}
		if a.life == nil {
			continue
		}
		if over := a.since.Add(a.def.MaxDrain); a.state == router.GoingToSleep && !a.life.stopping && a.def.MaxDrain > 0 && !over.After(time.Now()) {
			s.Errorf("%s drains since %v with a max_drain of %v", a.name, time.Since(a.since), a.def.MaxDrain)
		}
		pl := a.life.pool
		lives[pl]++
		if _, awake := pl.awake[a]; awake != (a.state == router.Awake) {
			s.Errorf("%s is %s, among the awake: %v", a.name, a.state, awake)
		}
		switch {
		case a.life.overdue:
		case a.life.stopping:
			stopping[pl]++
		case a.state == router.GoingToSleep:
			draining[pl]++
			if a.life.inFlight == 0 {
				s.Errorf("%s drains with nothing in flight", a.name)
			}
		}
	}
	if queued != p.queued {
		s.Errorf("%d instances are asleep and wanted, counted are %d", queued, p.queued)
	}
	for _, pl := range p.pools {
		available, waiting := pl.gate.Snapshot()
		if available > 0 && waiting > 0 {
			s.Errorf("%d workers are free and %d flights wait", available, waiting)
		}
		if held := pl.gate.Stats().Held; held != lives[pl] {
			s.Errorf("%d workers are held by %d lives", held, lives[pl])
		}
		if pl.draining != draining[pl] || pl.stopping != stopping[pl] {
			s.Errorf("pool counts %d draining and %d stopping, there are %d and %d", pl.draining, pl.stopping, draining[pl], stopping[pl])
		}
		if waiting-available <= pl.stopping {
			continue
		}
		for a := range pl.awake { // too few workers are on their way
			due := a.life.awakeAt.Add(a.def.MinAwake)
			switch {
			case !a.idleLocked() || a.keeping:
			case !due.After(time.Now()):
				s.Errorf("%s is idle and stays awake while %d flights wait", a.name, waiting)
			case a.alarmAt.IsZero() || a.alarmAt.After(due):
				s.Errorf("%s will not be looked at when it is due", a.name)
			}
		}
	}
}
