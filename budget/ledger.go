package budget

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Ledger is a snapshot of where an operation's time went.
type Ledger struct {
	Start  time.Time     // when the budget began, with a monotonic reading; zero when there is no budget
	Limit  time.Duration // from Start to the end
	Spent  time.Duration // from Start to the snapshot: elapsed time, not a sum
	Phases []Entry       // outer before inner, side by side ones in order of their first start
}

// Entry is one phase of a [Ledger]. First, Last and the spans count from the ledger's Start. Time after the budget's end is
// in none of them.
type Entry struct {
	Name    string        // as given to Phase
	Path    string        // the names of the phases around it and its own, joined by "/"
	Depth   int           // how many phases are around it
	Count   int           // how often it was begun
	Open    int           // how many of these are in progress, or were at the budget's end if that has passed
	Sum     time.Duration // of all spans, overlaps counted as often as they occur
	Elapsed time.Duration // of the union of all spans: time during which at least one was in progress
	First   time.Duration // first start
	Last    time.Duration // last end; the snapshot's time while one is in progress
	Spans   []Span        // the 64 first begun, by start
}

// Span is one stretch of a phase, from and to in time since the ledger's Start.
type Span struct {
	From, To time.Duration
}

// Ledger returns a snapshot. It is empty when there is no budget.
func (b Budget) Ledger() Ledger {
	a := b.scope.acct
	if a == nil {
		return Ledger{}
	}
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	return a.ledgerLocked(since(a.root.start))
}

func (a *account) ledgerLocked(now time.Duration) Ledger {
	l := Ledger{Start: a.instant(a.begin), Limit: a.end - a.begin, Spent: now - a.begin}
	a.walkLocked(a.phases, "", 0, func(n *node, path string, depth int) {
		l.Phases = append(l.Phases, a.entryLocked(n, min(now, a.end), path, depth))
	})
	return l
}

// factsLocked is what an Exhausted says of the time now.
func (a *account) factsLocked(now time.Duration) *facts {
	f := &facts{ledger: a.ledgerLocked(now), last: a.last}
	for i, p := range f.ledger.Phases {
		if p.Open == 0 {
			continue
		}
		f.names = append(f.names, p.Name)
		inner := func(q Entry) bool { return q.Open > 0 && strings.HasPrefix(q.Path, p.Path+"/") }
		if !slices.ContainsFunc(f.ledger.Phases[i+1:], inner) {
			f.open = append(f.open, p.Path)
		}
	}
	return f
}

// walkLocked visits the phases from n on that have entries, outer before inner. What was recorded inside a phase that has
// none, because it began after the end, is left out with it.
func (a *account) walkLocked(n *node, above string, depth int, visit func(*node, string, int)) {
	var level []*node
	for ; n != nil; n = n.next {
		if n.count > 0 {
			level = append(level, n)
		}
	}
	slices.SortStableFunc(level, func(x, y *node) int { return cmp.Compare(x.first, y.first) })
	for _, n := range level {
		path := above + n.name
		visit(n, path, depth)
		a.walkLocked(n.kids, path+"/", depth+1, visit)
	}
}

func (a *account) entryLocked(n *node, now time.Duration, path string, depth int) Entry {
	e := Entry{
		Name: n.name, Path: path, Depth: depth,
		Count: n.count, Open: n.overran + n.running,
		Sum: n.sum, Elapsed: n.elapsed,
		First: n.first - a.begin, Last: n.last - a.begin,
		Spans: make([]Span, len(n.spans)),
	}
	if n.running > 0 {
		e.Sum += time.Duration(n.running)*now - n.starts
		e.Elapsed += now - n.opened
		e.Last = now - a.begin
	}
	for i, s := range n.spans {
		if s.to == unfinished {
			s.to = now
		}
		e.Spans[i] = Span{s.from - a.begin, s.to - a.begin}
	}
	slices.SortFunc(e.Spans, func(x, y Span) int { return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To)) })
	return e
}

// Skew returns how much further the wall clock went than the monotonic one, from the begin of the outermost budget to now,
// which should come from [time.Now]. About the length of a suspend shows as that, because budgets count time awake; a step of
// the system clock shows too, and cannot be told from it; a clock that was set back gives less than 0. What keeps a clock in
// time moves it by less than a millisecond in a second, so an operation of minutes with a second of Skew met one of the two.
// Nothing in this package acts on it. It is 0 when there is no budget, or when now has no monotonic reading.
func (l Ledger) Skew(now time.Time) time.Duration {
	if l.Start.IsZero() {
		return 0
	}
	// With their monotonic readings, both differences would be the same.
	return now.Round(0).Sub(l.Start.Round(0)) - now.Sub(l.Start)
}

// String is the ledger in one line, inner phases in brackets behind the outer one, as in
// "line 1.2s, wake 340ms (start 300ms), attempt 12ms of 1.6s".
func (l Ledger) String() string {
	var s strings.Builder
	depth := 0
	for i, p := range l.Phases {
		switch {
		case p.Depth > depth:
			s.WriteString(" (")
		case i > 0:
			s.WriteString(strings.Repeat(")", depth-p.Depth))
			s.WriteString(", ")
		}
		depth = p.Depth
		fmt.Fprintf(&s, "%s %v", p.Name, short(p.Elapsed))
	}
	s.WriteString(strings.Repeat(")", depth))
	if len(l.Phases) == 0 {
		return fmt.Sprintf("nothing booked of %v", short(l.Spent))
	}
	fmt.Fprintf(&s, " of %v", short(l.Spent))
	return s.String()
}

// MarshalJSON writes durations as milliseconds, as numbers under names that end in _ms.
func (l Ledger) MarshalJSON() ([]byte, error) {
	type span struct {
		From millis `json:"from_ms"`
		To   millis `json:"to_ms"`
	}
	type entry struct {
		Name    string `json:"name"`
		Path    string `json:"path"`
		Depth   int    `json:"depth"`
		Count   int    `json:"count"`
		Open    int    `json:"open"`
		Sum     millis `json:"sum_ms"`
		Elapsed millis `json:"elapsed_ms"`
		First   millis `json:"first_ms"`
		Last    millis `json:"last_ms"`
		Spans   []span `json:"spans"`
	}
	entries := make([]entry, len(l.Phases))
	for i, p := range l.Phases {
		spans := make([]span, len(p.Spans))
		for j, s := range p.Spans {
			spans[j] = span{millis(s.From), millis(s.To)}
		}
		entries[i] = entry{
			p.Name, p.Path, p.Depth, p.Count, p.Open,
			millis(p.Sum), millis(p.Elapsed), millis(p.First), millis(p.Last), spans,
		}
	}
	return json.Marshal(struct {
		Limit  millis  `json:"limit_ms"`
		Spent  millis  `json:"spent_ms"`
		Phases []entry `json:"phases"`
	}{millis(l.Limit), millis(l.Spent), entries})
}

// millis is a duration in JSON: a number of milliseconds, to the microsecond.
type millis time.Duration

func (m millis) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(m).Microseconds()) / 1000)
}
