package local

import (
	"slices"
	"time"

	"layover/turnstile"
)

// pool is one pool of workers. Its gate has its own lock; the rest is guarded
// by Plane.mu.
type pool struct {
	Pool
	gate    *turnstile.Turnstile // one pass per worker
	removed bool

	awake    map[*actor]struct{} // actors in state awake
	draining int                 // lives that go to sleep, but not before their requests are done
	stopping int                 // lives whose process is ending and not overdue: workers on their way back
}

func newPool(c Pool) *pool {
	return &pool{
		Pool:  c,
		gate:  turnstile.NewWith(c.Workers, turnstile.Options{HeadStart: c.HeadStart, MinUseful: c.MinUseful}),
		awake: make(map[*actor]struct{}),
	}
}

// evictLocked puts as many actors of the pool to sleep as there are flights in
// its line (and workers too many, after a shrink) that no worker is on its way
// to, and no more: those idle for longest whose min_awake is over, and if there
// are too few and somebody waits, those awake for longest whose max_hold is.
// For the latter, workers count as on their way as soon as they drain; for the
// former they do not, because a request can last for hours. If it finds too
// few, an alarm looks again at the moment the next one becomes due. It must be
// called whenever a flight enters the line, an actor becomes idle, the end of
// one is overdue, or the pool shrinks.
func (p *Plane) evictLocked(pl *pool) {
	available, waiting := pl.gate.Snapshot()
	need := waiting - available - pl.stopping
	if need <= 0 {
		return
	}
	var idle, held []*actor
	for a := range pl.awake {
		switch {
		case a.keeping:
		case a.idleLocked():
			if p.dueLocked(a, a.def.MinAwake) {
				idle = append(idle, a)
			}
		case a.def.MaxHold > 0 && waiting > 0:
			if p.dueLocked(a, a.def.MaxHold) {
				held = append(held, a)
			}
		}
	}
	slices.SortFunc(idle, func(a, b *actor) int { return a.idleSinceLocked().Compare(b.idleSinceLocked()) })
	for _, a := range idle[:min(need, len(idle))] {
		p.dismissLocked(a, errEvicted)
		need--
	}
	need -= pl.draining
	slices.SortFunc(held, func(a, b *actor) int { return a.life.awakeAt.Compare(b.life.awakeAt) })
	for _, a := range held[:max(0, min(need, len(held)))] {
		p.dismissLocked(a, errMaxHold)
	}
}

// returnLocked gives a worker of pl back, to whoever is next in its line.
func (p *Plane) returnLocked(pl *pool, pass turnstile.Pass) {
	pass.Return()
	p.forgetPoolLocked(pl)
}

// forgetPoolLocked drops a removed pool with its last worker. Until then it is
// kept, so that one of the same name does not have more workers than it should.
func (p *Plane) forgetPoolLocked(pl *pool) {
	if pl.removed && p.pools[pl.Name] == pl && pl.gate.Stats().Held == 0 {
		delete(p.pools, pl.Name)
	}
}

// dueLocked reports whether a has been awake for d, and if not has it looked
// at again then.
func (p *Plane) dueLocked(a *actor, d time.Duration) bool {
	at := a.life.awakeAt.Add(d)
	if at.After(time.Now()) {
		p.alarmLocked(a, at)
		return false
	}
	return true
}
