package substrate

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"layover/internal/router"
	"layover/internal/substrate/ateapi"
	"layover/turnstile"
)

// line is where the flights stand that wait for the same workers. Who has its
// one pass may ask the control plane.
type line struct {
	turns *turnstile.Turnstile
	users int       // flights in it, or at its head; guarded by lines.mu
	due   time.Time // no sooner is the next attempt; of who has the pass
}

// lines are the lines that somebody uses, by key.
type lines struct {
	mu sync.Mutex
	of map[string]*line
}

// enter returns the line of key with one more user.
func (ls *lines) enter(key string) *line {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.of[key]
	if l == nil {
		l = &line{turns: turnstile.New(1)}
		if ls.of == nil {
			ls.of = make(map[string]*line)
		}
		ls.of[key] = l
	}
	l.users++
	return l
}

// leave ends one use of key's line.
func (ls *lines) leave(key string, l *line) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(ls.of, key)
	}
}

func (ls *lines) snapshot() router.PlaneSnapshot {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	snap := router.PlaneSnapshot{Actors: []router.ActorSnapshot{}, Pools: []router.PoolSnapshot{}}
	for key, l := range ls.of {
		snap.Pools = append(snap.Pools, router.PoolSnapshot{Name: key, Waiting: l.users, Line: router.Line(l.turns)})
	}
	slices.SortFunc(snap.Pools, func(a, b router.PoolSnapshot) int { return cmp.Compare(a.Name, b.Name) })
	return snap
}

// sharedLine is for actors of which nothing is known.
const sharedLine = "any worker"

// lineKey says which workers a can have. Both its own selector and its
// template's limit them; templates that happen to have the same selector have
// lines of their own, because one line for two sets of workers would keep some
// of them idle while somebody waits.
func lineKey(a *ateapi.Actor) string {
	var parts []string
	if t := a.GetActorTemplate(); t.GetName() != "" {
		parts = append(parts, "template "+t.GetAtespace()+"/"+t.GetName())
	}
	labels := a.GetWorkerSelector().GetMatchLabels()
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, part(key)+"="+part(labels[key]))
	}
	if len(parts) == 0 {
		return sharedLine
	}
	return strings.Join(parts, ", ")
}

// part keeps the labels of a key apart whatever is in them.
func part(s string) string {
	if strings.ContainsAny(s, ",= \"") {
		return strconv.Quote(s)
	}
	return s
}
