package budget

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestB5OverlappingPhasesHaveASumAndAUnion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), time.Minute)
		defer cancel()
		b := From(ctx)
		time.Sleep(time.Second)
		first := b.Phase("board")
		time.Sleep(2 * time.Second)
		second := b.Phase("board")
		time.Sleep(2 * time.Second)
		first()
		time.Sleep(time.Second)
		second()
		time.Sleep(time.Second)
		third := b.Phase("board")
		time.Sleep(time.Second)
		l := b.Ledger()
		third()
		want := Entry{
			Name: "board", Path: "board", Count: 3, Open: 1,
			Sum: 8 * time.Second, Elapsed: 6 * time.Second, First: time.Second, Last: 8 * time.Second,
			Spans: []Span{{1 * time.Second, 5 * time.Second}, {3 * time.Second, 6 * time.Second}, {7 * time.Second, 8 * time.Second}},
		}
		if len(l.Phases) != 1 || !equal(l.Phases[0], want) {
			t.Errorf("Phases = %+v\nwant     %+v", l.Phases, want)
		}
		if l.Spent != 8*time.Second || l.Limit != time.Minute || !l.Start.Equal(time.Now().Add(-8*time.Second)) {
			t.Errorf("Start %v, Limit %v, Spent %v", l.Start, l.Limit, l.Spent)
		}
	})
}

func TestB5InnerPhasesAppearUnderTheOuterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), time.Minute)
		defer cancel()
		line := From(ctx).Phase("line")
		time.Sleep(1200 * time.Millisecond)
		line()
		waking, wake := Phase(ctx, "wake")
		time.Sleep(40 * time.Millisecond)
		start := From(waking).Phase("start")
		time.Sleep(300 * time.Millisecond)
		start()
		wake()
		attempt := From(ctx).Phase("attempt")
		time.Sleep(12 * time.Millisecond)
		attempt()
		l := From(ctx).Ledger()
		var got []string
		for _, p := range l.Phases {
			got = append(got, fmt.Sprintf("%d %s %v", p.Depth, p.Path, p.Elapsed))
		}
		want := []string{"0 line 1.2s", "0 wake 340ms", "1 wake/start 300ms", "0 attempt 12ms"}
		if !slices.Equal(got, want) {
			t.Errorf("Phases = %q, want %q", got, want)
		}
		if got, want := l.String(), "line 1.2s, wake 340ms (start 300ms), attempt 12ms of 1.552s"; got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	})
}

func TestB5EndingAPhaseTwiceDoesNothing(t *testing.T) {
	h := takeHands(t)
	ctx, cancel := For(t.Context(), time.Minute)
	defer cancel()
	end, other := From(ctx).Phase("line"), From(ctx).Phase("line")
	h.pass(time.Second)
	end()
	h.pass(time.Second)
	end()
	if p := From(ctx).Ledger().Phases[0]; p.Open != 1 || p.Sum != 3*time.Second {
		t.Errorf("one of two was ended twice: %+v", p)
	}
	other()
}

func TestB5TheFirst64SpansAreKept(t *testing.T) {
	h := takeHands(t)
	ctx, cancel := For(t.Context(), time.Hour)
	defer cancel()
	for range 1000 {
		end := From(ctx).Phase("page")
		h.pass(time.Millisecond)
		end()
		h.pass(time.Millisecond)
	}
	p := From(ctx).Ledger().Phases[0]
	if p.Count != 1000 || p.Sum != time.Second || p.Elapsed != time.Second {
		t.Errorf("count %d, sum %v, elapsed %v, want 1000, 1s, 1s", p.Count, p.Sum, p.Elapsed)
	}
	if len(p.Spans) != 64 || p.Spans[63] != (Span{126 * time.Millisecond, 127 * time.Millisecond}) {
		t.Errorf("%d spans, the last %v", len(p.Spans), p.Spans[len(p.Spans)-1])
	}
	// The node itself is bounded too.
	if n := ctx.(*budgetCtx).scope.acct.phases; len(n.cover) > keptCover || cap(n.cover) > 2*keptCover {
		t.Errorf("the union holds %d stretches, capacity %d", len(n.cover), cap(n.cover))
	}
	// A record that reaches back over all of them may count too little, never too much.
	From(ctx).Record("page", h.mono.Add(-2*time.Second), h.mono)
	if p := From(ctx).Ledger().Phases[0]; p.Elapsed > 2*time.Second || p.Elapsed < time.Second || p.Sum != 3*time.Second {
		t.Errorf("after a late record of 2s: sum %v, elapsed %v", p.Sum, p.Elapsed)
	}
}

func TestB5RecordIsCutToTheBudget(t *testing.T) {
	h := takeHands(t)
	h.pass(time.Second)
	begin := h.mono
	ctx, cancel := For(t.Context(), 10*time.Second)
	defer cancel()
	b := From(ctx)
	h.pass(5 * time.Second)
	at := func(d time.Duration) time.Time { return begin.Add(d) }
	b.Record("before", at(-2*time.Second), at(0))
	b.Record("backwards", at(2*time.Second), at(1*time.Second))
	b.Record("future", at(6*time.Second), at(7*time.Second))
	b.Record("running", at(2*time.Second), at(9*time.Second))
	b.Record("instant", at(3*time.Second), at(3*time.Second))
	b.Record("joined", at(-2*time.Second), at(time.Second))
	want := []string{"joined 0s-1s", "running 2s-5s", "instant 3s-3s"}
	var got []string
	for _, p := range b.Ledger().Phases {
		got = append(got, fmt.Sprintf("%s %v-%v", p.Name, p.First, p.Last))
	}
	if !slices.Equal(got, want) {
		t.Errorf("booked %q, want %q", got, want)
	}
}

func TestB5TimeAfterTheEndIsNotBooked(t *testing.T) {
	h := takeHands(t)
	ctx, cancel := For(t.Context(), 10*time.Second)
	defer cancel()
	end := From(ctx).Phase("attempt")
	h.pass(15 * time.Second)
	end()
	From(ctx).Phase("late")()
	l := From(ctx).Ledger()
	if len(l.Phases) != 1 || l.Phases[0].Elapsed != 10*time.Second || l.Phases[0].Open != 1 {
		t.Errorf("Phases = %+v, want one attempt of 10s, open at the end", l.Phases)
	}
}

func TestB5TheLedgerInJSON(t *testing.T) {
	h := takeHands(t)
	ctx, cancel := For(t.Context(), time.Minute)
	defer cancel()
	end := From(ctx).Phase("line")
	h.pass(1500 * time.Microsecond)
	end()
	got, err := json.Marshal(From(ctx).Ledger())
	want := `{"limit_ms":60000,"spent_ms":1.5,"phases":[{"name":"line","path":"line","depth":0,"count":1,"open":0,` +
		`"sum_ms":1.5,"elapsed_ms":1.5,"first_ms":0,"last_ms":1.5,"spans":[{"from_ms":0,"to_ms":1.5}]}]}`
	if err != nil || string(got) != want {
		t.Errorf("Marshal = %s, %v\nwant      %s", got, err, want)
	}
	if got, _ := json.Marshal(Ledger{}); string(got) != `{"limit_ms":0,"spent_ms":0,"phases":[]}` {
		t.Errorf("an empty ledger is %s", got)
	}
}

func equal(a, b Entry) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// The reference keeps every span and counts seconds one by one.

type refBudget struct {
	ctx        context.Context
	outer      *refBudget
	under      string // where in the outer budget it was begun
	begin, end int
	spans      []*refSpan
}

type refSpan struct {
	path     string
	from, to int // to < 0: open
	overran  bool
}

// chain calls do for b and each budget around it, with the path of a phase that is path in b.
func (b *refBudget) chain(path string, do func(b *refBudget, path string)) {
	for ; b != nil; b = b.outer {
		do(b, path)
		if b.under != "" {
			path = b.under + "/" + path
		}
	}
}

func (b *refBudget) ledger(now int) []Entry {
	byPath := map[string][]*refSpan{}
	for _, s := range b.spans {
		byPath[s.path] = append(byPath[s.path], s)
	}
	var all []Entry
	for path, spans := range byPath {
		if !slices.ContainsFunc(ancestors(path), func(p string) bool { return byPath[p] == nil }) {
			all = append(all, b.entry(path, spans, now))
		}
	}
	slices.SortFunc(all, byName)
	return all
}

func ancestors(path string) (all []string) {
	for i, c := range path {
		if c == '/' {
			all = append(all, path[:i])
		}
	}
	return all
}

func (b *refBudget) entry(path string, spans []*refSpan, now int) Entry {
	e := Entry{Path: path, Name: path[strings.LastIndexByte(path, '/')+1:], Depth: strings.Count(path, "/")}
	first, last, sum, union := 1<<30, 0, 0, map[int]bool{}
	for _, s := range spans {
		to := s.to
		if to < 0 {
			to = min(now, b.end)
		}
		if s.to < 0 || s.overran {
			e.Open++
		}
		e.Count++
		for i := s.from; i < to; i++ {
			sum++
			union[i] = true
		}
		first, last = min(first, s.from), max(last, to)
		if len(e.Spans) < 64 {
			e.Spans = append(e.Spans, Span{sec(s.from - b.begin), sec(to - b.begin)})
		}
	}
	slices.SortFunc(e.Spans, func(x, y Span) int { return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To)) })
	e.Sum, e.Elapsed, e.First, e.Last = sec(sum), sec(len(union)), sec(first-b.begin), sec(last-b.begin)
	return e
}

func sec(n int) time.Duration { return time.Duration(n) * time.Second }

func byName(a, b Entry) int { return cmp.Compare(a.Path, b.Path) }

func TestB5TheLedgerAgreesWithASlowReference(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for round := range 300 {
		if !ledgerRound(t, rnd) {
			t.Fatalf("seed %d, round %d", seed, round)
		}
	}
}

// ledgerRound plays random phases, nested, overlapping and recorded late, in nested budgets.
func ledgerRound(t *testing.T, rnd *rand.Rand) bool {
	h := takeHands(t)
	base, now := h.mono, 0
	type place struct {
		ctx    context.Context
		budget *refBudget
		path   string
	}
	type open struct {
		end   func()
		path  string
		from  int
		where *refBudget
		spans []*refSpan // one per budget that booked it
	}
	ctx, cancel := For(t.Context(), sec(60+rnd.IntN(60)))
	defer cancel()
	root := &refBudget{ctx: ctx, end: int(From(ctx).Remaining() / time.Second)}
	budgets := []*refBudget{root}
	places := []place{{ctx, root, ""}}
	var opens []open
	for range 20 + rnd.IntN(60) {
		at := places[rnd.IntN(len(places))]
		name := string(rune('a' + rnd.IntN(3)))
		path := strings.TrimPrefix(at.path+"/"+name, "/")
		switch rnd.IntN(8) {
		case 0:
			if len(budgets) == 5 {
				break
			}
			limit := rnd.IntN(80)
			inner, cancel := For(at.ctx, sec(limit))
			defer cancel()
			b := &refBudget{ctx: inner, outer: at.budget, under: at.path, begin: now, end: max(now, min(now+limit, at.budget.end))}
			budgets = append(budgets, b)
			places = append(places, place{inner, b, ""})
		case 1, 2, 3:
			o := open{path: path, from: now, where: at.budget}
			inner, end := Phase(at.ctx, name)
			o.end = end
			at.budget.chain(path, func(b *refBudget, path string) {
				if b.begin <= now && now < b.end {
					b.spans = append(b.spans, &refSpan{path: path, from: now, to: -1})
					o.spans = append(o.spans, b.spans[len(b.spans)-1])
				}
			})
			opens = append(opens, o)
			if len(places) < 12 {
				places = append(places, place{inner, at.budget, path})
			}
		case 4, 5:
			if len(opens) == 0 {
				break
			}
			i := rnd.IntN(len(opens))
			o := opens[i]
			opens = slices.Delete(opens, i, i+1)
			o.end()
			o.where.chain(o.path, func(b *refBudget, _ string) {
				if b.begin <= o.from && o.from < b.end {
					o.spans[0].to, o.spans[0].overran = min(now, b.end), now >= b.end
					o.spans = o.spans[1:]
				}
			})
		case 6:
			from := now - rnd.IntN(40)
			to := from + rnd.IntN(60)
			From(at.ctx).Record(name, base.Add(sec(from)), base.Add(sec(to)))
			to = min(to, now)
			overlaps := func(b *refBudget) bool { return from >= b.begin && from < b.end || from < b.begin && to > b.begin }
			if to < from || !overlaps(at.budget) {
				break
			}
			at.budget.chain(path, func(b *refBudget, path string) {
				if overlaps(b) {
					b.spans = append(b.spans, &refSpan{path, max(from, b.begin), min(to, b.end), to >= b.end})
				}
			})
		case 7:
			d := rnd.IntN(10)
			now += d
			h.pass(sec(d))
		}
	}
	ok := true
	for i, b := range budgets {
		got, want := From(b.ctx).Ledger().Phases, b.ledger(now)
		slices.SortFunc(got, byName)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("budget %d of %d, %d..%d at %d:\n got %+v\nwant %+v", i, len(budgets), b.begin, b.end, now, got, want)
			ok = false
		}
	}
	for _, o := range opens {
		o.end()
	}
	return ok
}
