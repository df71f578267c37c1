package local

import (
	"fmt"
	"math"

	"layover/internal/router"
)

// Resize gives a pool another number of workers, until Apply gives it one. More
// go to who is in line at once; of fewer, surplus idle actors go to sleep now,
// busy ones when they are done. The error is an *router.Error of reason
// UnknownActor if there is no such pool, else it says what is wrong with workers.
func (p *Plane) Resize(name string, workers int) error {
	if workers < 1 || workers > maxWorkers {
		return fmt.Errorf("local: workers must be a number from 1 to %d", maxWorkers)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.pools[name]
	if pl == nil || pl.removed {
		return router.Fail(router.UnknownActor, "there is no pool of this name", nil)
	}
	kept := 0
	for _, a := range p.defs.exact {
		if a.Pool == name && a.KeepAwake.Always {
			kept++
		}
	}
	if workers < kept {
		return fmt.Errorf("local: pool %q keeps %d actors awake: it needs as many workers", name, kept)
	}
	p.resizeLocked(pl, workers)
	p.evictLocked(pl)
	return nil
}

// maxWorkers is the most that a configuration file may ask for, too.
const maxWorkers = 100_000

func (p *Plane) resizeLocked(pl *pool, workers int) {
	pl.removed, pl.Workers = false, workers
	pl.gate.Resize(workers)
}

// Output returns what an actor's program printed after from, and the position
// behind that. The zero position is the oldest line that is kept; one of an
// earlier wake-up is continued with the first line of the present one. Lines
// that were dropped since are left out, and one that has no end yet. The error is an *router.Error of reason
// UnknownActor; an actor that never ran has printed nothing.
func (p *Plane) Output(name string, from router.Position) ([]string, router.Position, error) {
	p.mu.Lock()
	a := p.actors[name]
	if a == nil {
		_, known := p.defs.of(name)
		p.mu.Unlock()
		if !known {
			return nil, from, router.Fail(router.UnknownActor, "there is no actor of this name", nil)
		}
		return nil, from, nil
	}
	var source program
	wake, printed := a.spoke, a.printed
	if l := a.life; l != nil && l.program != nil {
		source, wake = l.program, l.number
	}
	words := a.lastWords
	p.mu.Unlock()
	if from.Wake != wake {
		from = router.Position{Wake: wake}
	}
	if source != nil {
		words, printed = source.since(from.Line)
	} else {
		unread := printed - min(from.Line, printed)
		words = words[uint64(len(words))-min(unread, uint64(len(words))):]
	}
	return words, router.Position{Wake: wake, Line: printed}, nil
}

// noteOutputLocked keeps the last words of a life that ends.
func (a *actor) noteOutputLocked(l *life) {
	a.lastWords, a.spoke = l.program.output(shownLines), l.number
	_, a.printed = l.program.since(math.MaxUint64)
}
