package local

import (
	"fmt"
	"math"
	"slices"

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
// that were dropped since are left out, and one that has no end yet; of a life
// that has ended 200 lines are kept. The error is an *router.Error of reason
// UnknownActor; an actor that never ran has printed nothing.
func (p *Plane) Output(name string, from router.Position) ([]string, router.Position, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outputLocked(name, from)
}

var errNoActor = router.Fail(router.UnknownActor, "there is no actor of this name", nil)

func (p *Plane) outputLocked(name string, from router.Position) ([]string, router.Position, error) {
	a := p.actors[name]
	if a == nil {
		if _, known := p.defs.of(name); !known {
			return nil, from, errNoActor
		}
		return nil, router.Position{}, nil // from is of another router, or of an instance that was forgotten
	}
	if l := a.life; l != nil && l.program != nil {
		begin := from
		if from.Wake != l.number {
			begin = router.Position{Wake: l.number}
		}
		if lines, printed := l.program.since(begin.Line); printed > 0 {
			return lines, router.Position{Wake: l.number, Line: printed}, nil
		}
	}
	if from.Wake != a.spoke {
		from.Line = 0
	}
	unread := min(a.printed-min(from.Line, a.printed), uint64(len(a.lastWords)))
	return a.lastWords[uint64(len(a.lastWords))-unread:], router.Position{Wake: a.spoke, Line: a.printed}, nil
}

// noteOutputLocked keeps the last words of a life that ends, and hands the rest
// of them to who follows.
func (p *Plane) noteOutputLocked(a *actor, l *life) {
	a.lastWords, a.spoke = l.program.output(wordsLines), l.number
	size := 0
	for i, line := range slices.Backward(a.lastWords) {
		if size += len(line); size > wordsBytes {
			a.lastWords = slices.Clone(a.lastWords[i+1:])
			break
		}
	}
	_, a.printed = l.program.since(math.MaxUint64)
	for _, f := range p.followers[a.name] {
		f.read(l)
	}
}
