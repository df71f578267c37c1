package local

import (
	"context"
	"fmt"
	"slices"
	"time"

	"layover/internal/router"
)

// followEvery is how often what an actor prints is looked at for those who
// follow it.
const followEvery = 100 * time.Millisecond

// follower is someone who reads on what an actor prints. Plane.mu guards it.
type follower struct {
	at     router.Position
	unread []string // of lives that ended since its last look
}

// Follow calls print with what an actor's program printed after from, as
// Output returns it, and then with what it prints, in this life and the next
// ones, until ctx ends or print returns an error: those are returned. print is
// called once at once, and not again with nothing. What came faster than it was
// read and is not kept any more is one line that says so. The error is an
// *router.Error of reason UnknownActor once there is no such actor any more.
func (p *Plane) Follow(ctx context.Context, name string, from router.Position, print func(lines []string) error) error {
	f := new(follower)
	p.mu.Lock()
	lines, at, err := p.outputLocked(name, from)
	f.at = at
	p.followers[name] = append(p.followers[name], f)
	p.mu.Unlock()
	defer p.unfollow(name, f)
	if err == nil {
		err = print(lines)
	}
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for err == nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		if lines, err = p.unread(name, f); err == nil && len(lines) > 0 {
			err = print(lines)
		}
	}
	return err
}

func (p *Plane) unfollow(name string, f *follower) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := slices.DeleteFunc(p.followers[name], func(other *follower) bool { return other == f })
	if p.followers[name] = left; len(left) == 0 {
		delete(p.followers, name)
	}
}

// unread returns what a follower of an actor has not read yet.
func (p *Plane) unread(name string, f *follower) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.actors[name]
	if _, known := p.defs.of(name); a == nil && !known {
		return nil, errNoActor
	}
	if a != nil && a.life != nil && a.life.program != nil {
		f.read(a.life)
	}
	lines := f.unread
	f.unread = nil
	return lines, nil
}

// read notes what l's program printed since the last look. At the end of a life
// it is called before the next one can begin.
func (f *follower) read(l *life) {
	if f.at.Wake != l.number {
		f.at = router.Position{Wake: l.number}
	}
	lines, printed := l.program.since(f.at.Line)
	if lost := printed - f.at.Line - uint64(len(lines)); lost > 0 {
		f.unread = append(f.unread, fmt.Sprintf("(%d lines that came before these were not kept)", lost))
	}
	f.at.Line = printed
	f.unread = append(f.unread, lines...)
	f.unread = f.unread[max(0, len(f.unread)-2*keptLines):] // lives that end faster than anybody reads
}
