// Package sampled logs what repeats: of each kind a line at once, and then,
// while more of it comes, one in ten seconds that says how much there was.
//
//	l := sampled.New(func(kind string, last error, n int) {
//		log.Warn(kind, "err", last, "times", n)
//	}, func(kind string) { log.Info(kind + " is well again") })
//	l.Add("upstream", err)                               // once for each trouble
//	l.Well(func(kind string) bool { return kind == "upstream" }) // for each success
//
// What it is called with is not kept beyond a kind's next line, so there is as
// much of it as there are kinds. All methods may be called from any goroutine.
package sampled

import (
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Every is how often there is a line of one kind, at most.
const Every = 10 * time.Second

// Log counts what happens, by kind. Make it with New.
type Log[K comparable, V any] struct {
	write func(kind K, last V, n int)
	well  func(kind K)

	mu    sync.Mutex // not held while write and well are called
	kinds map[K]*repeated[V]
}

// repeated is a kind of which there was a line less than Every ago, or one that
// is not known to be well.
type repeated[V any] struct {
	more  int  // since the line
	last  V    // of those
	well  bool // Well was called since
	quiet bool // longer than Every ago; no timer runs
}

// New returns a Log that calls write for each line, with the last of the n that
// it stands for, and well once when a kind is well again: Well was called, and
// for Every nothing came after. A nil well: a kind is forgotten when nothing
// has come for Every.
func New[K comparable, V any](write func(kind K, last V, n int), well func(kind K)) *Log[K, V] {
	return &Log[K, V]{write: write, well: well, kinds: make(map[K]*repeated[V])}
}

// Add says that v happened.
func (l *Log[K, V]) Add(kind K, v V) {
	l.mu.Lock()
	seen := l.kinds[kind]
	if seen != nil && !seen.quiet {
		seen.more, seen.last, seen.well = seen.more+1, v, false
		l.mu.Unlock()
		return
	}
	l.kinds[kind] = new(repeated[V])
	time.AfterFunc(Every, func() { l.again(kind) })
	l.mu.Unlock()
	l.write(kind, v, 1)
}

// Well says that the kinds that is picks have come to an end, for now.
func (l *Log[K, V]) Well(is func(kind K) bool) {
	var over []K
	l.mu.Lock()
	for kind, seen := range l.kinds {
		switch {
		case !is(kind):
		case seen.quiet:
			delete(l.kinds, kind)
			over = append(over, kind)
		default:
			seen.well = true
		}
	}
	l.mu.Unlock()
	for _, kind := range over {
		l.well(kind)
	}
}

// again says what came since the last line of a kind, or that it is well, or
// forgets it.
func (l *Log[K, V]) again(kind K) {
	l.mu.Lock()
	seen := *l.kinds[kind]
	switch {
	case seen.more > 0:
		l.kinds[kind] = &repeated[V]{well: seen.well}
		time.AfterFunc(Every, func() { l.again(kind) })
	case seen.well || l.well == nil:
		delete(l.kinds, kind)
	default:
		l.kinds[kind].quiet = true
	}
	l.mu.Unlock()
	switch {
	case seen.more > 0:
		l.write(kind, seen.last, seen.more)
	case seen.well:
		l.well(kind)
	}
}

// maxLogged is the most of a text from outside that a line has.
const maxLogged = 256

// Cut returns text, or its begin if it is longer than a line of a log should be,
// as UTF-8 whatever it is: a collector takes no span with anything else in it,
// nor those that come with it.
func Cut(text string) string {
	if len(text) > maxLogged {
		end := maxLogged
		for end > maxLogged-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
