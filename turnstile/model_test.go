package turnstile

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The model check plays a history of operations on a turnstile and on a slow reference, a sorted slice, and compares what can be
// seen after every operation. A history that shows a difference is shrunk to a minimal one. A bubble makes it exact: after
// synctest.Wait everybody has an answer or is in line.

var modelSeed = flag.Uint64("turnstile.seed", 0, "seed of the model check; 0 picks one and logs it")

type opKind uint8

const (
	opTake         opKind = iota // who, claim, until: WaitTurn, with that deadline
	opEnter                      // who, claim, until: Enter
	opWait                       // who: Place.Wait
	opSet                        // who, claim, until: Place.Set
	opLeave                      // who: Place.Leave
	opCancel                     // who
	opReturn                     // n: a pass issued so far, live or not
	opCancelReturn               // who, n: both before anybody else runs
	opResize                     // n
	opAdvance                    // n
	opClose
	opKinds
)

var opNames = [opKinds]string{"take", "enter", "wait", "set", "leave", "cancel", "return", "cancel+return", "resize", "advance", "close"}

type op struct {
	kind                   opKind
	who, band, age, end, n uint8
}

func (o op) String() string {
	return fmt.Sprintf("%s{who:%d band:%d age:%d end:%d n:%d}", opNames[o.kind], o.who, o.band, o.age, o.end, o.n)
}

const actors = 6

// decode is a history from bytes, so that a fuzzer can write one: four bytes an operation.
func decode(data []byte) []op {
	var h []op
	for ; len(data) >= 4; data = data[4:] {
		a, b, c, d := data[0], data[1], data[2], data[3]
		o := op{kind: opKind(a) % opKinds, who: b % actors, band: b / actors % 3, age: c % 4, end: c / 4 % 6, n: d % 32}
		if o.kind == opClose && d > 16 { // close ends the interesting part, so it is rare
			o.kind = opReturn
		}
		h = append(h, o)
	}
	return h
}

func randomHistory(r *rand.Rand) []op {
	data := make([]byte, 4*(1+r.IntN(40)))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return decode(data)
}

// setup is the turnstile a history is played on.
type setup struct {
	size int
	o    Options
}

var setups = []setup{
	{0, Options{}}, {1, Options{}}, {2, Options{}},
	{1, Options{HeadStart: time.Second}}, {2, Options{HeadStart: 2 * time.Second}},
	{1, Options{MinUseful: 2 * time.Second}}, {2, Options{MinUseful: 2 * time.Second, HeadStart: time.Second}},
	{fastSlots - 1, Options{}}, {fastSlots + 1, Options{}},
}

func (o op) claim() Claim {
	return Claim{Priority: int(o.band) - 1, Since: time.Unix(1_000_000+int64(o.age/2), 0), Seq: uint32(o.age % 2)}
}

// until is the end of the operation's caller: none, or some seconds from now.
func (o op) until() time.Time {
	if o.end == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(o.end) * time.Second)
}

// size is what opResize asks for: mostly small, sometimes around the edge of the word.
func (o op) size() int {
	if o.n >= 28 {
		return fastSlots + int(o.n) - 29
	}
	return int(o.n % 4)
}

// phase is how far an attempt is, for an observer.
type phase uint8

const (
	idle    phase = iota
	pending       // in line, or a place whose Wait has not returned
	served
	refused
	doomed
)

// reference is the turnstile as a sorted slice.
type reference struct {
	setup
	bug     string // what it does wrong on purpose; see TestModel_HasTeeth
	closed  bool
	line    []*refActor
	live    []bool // by pass, in the order of issue
	arrival int
	gone    uint64 // cancelled or doomed
	actor   [actors]refActor
}

type refActor struct {
	who       int
	phase     phase
	isPlace   bool
	waits     bool // Wait was called
	cancelled bool
	kept      bool // a place's pass is granted and not collected
	inLine    bool
	fate      phase // of a place out of line without a pass
	claim     Claim
	arrival   int
	until     time.Time
}

func (r *reference) held() int {
	n := 0
	for _, l := range r.live {
		if l {
			n++
		}
	}
	for i := range r.actor {
		if r.actor[i].kept {
			n++
		}
	}
	return n
}

func (r *reference) compare(a, b *refActor) int {
	ageA, ageB := a.claim.Since, b.claim.Since
	var c int
	if h := r.o.HeadStart; h > 0 {
		keyA, keyB := ageA.Add(time.Duration(a.claim.Priority)*h), ageB.Add(time.Duration(b.claim.Priority)*h)
		c = cmp.Or(keyA.Compare(keyB), cmp.Compare(a.claim.Priority, b.claim.Priority))
	} else {
		c = cmp.Or(cmp.Compare(a.claim.Priority, b.claim.Priority), ageA.Compare(ageB))
	}
	if r.bug != "ignores the job number" {
		c = cmp.Or(c, cmp.Compare(a.claim.Seq, b.claim.Seq))
	}
	if r.bug == "serves equals last come first" {
		return cmp.Or(c, cmp.Compare(b.arrival, a.arrival))
	}
	return cmp.Or(c, cmp.Compare(a.arrival, b.arrival))
}

// settle hands out what is free.
func (r *reference) settle() {
	slices.SortFunc(r.line, r.compare)
	for !r.closed && r.held() < r.size && len(r.line) > 0 {
		a := r.line[0]
		r.line = r.line[1:]
		a.inLine = false
		if m := r.o.MinUseful; m > 0 && r.bug != "serves the doomed" && !a.until.IsZero() && time.Until(a.until) < m {
			r.gone++
			r.finish(a, doomed)
			continue
		}
		r.grant(a)
	}
}

func (r *reference) grant(a *refActor) {
	if a.isPlace && !a.waits {
		a.kept = true
		return
	}
	a.kept = false
	a.phase = served
	r.live = append(r.live, true)
}

// finish ends an attempt without a pass; a place that nobody waits for keeps its fate for later.
func (r *reference) finish(a *refActor, p phase) {
	if a.isPlace && !a.waits {
		a.fate = p
		return
	}
	a.phase = p
}

func (r *reference) begin(o op, isPlace bool) {
	a := &r.actor[o.who]
	if a.phase == pending {
		return
	}
	r.arrival++
	*a = refActor{who: int(o.who), phase: pending, isPlace: isPlace, claim: o.claim(), arrival: r.arrival, until: o.until()}
	switch {
	case r.closed:
		r.finish(a, refused)
	case r.held() < r.size:
		r.grant(a)
	default:
		a.inLine = true
		r.line = append(r.line, a)
	}
}

func (r *reference) quit(a *refActor) {
	if a.inLine {
		r.line = slices.DeleteFunc(r.line, func(b *refActor) bool { return a == b })
		a.inLine = false
		r.gone++
	} else if a.kept {
		a.kept = false
		if r.bug == "loses the pass of a place that is left" {
			r.size--
		}
		r.gone++
	}
	a.phase = refused
}

func (r *reference) cancel(a *refActor) {
	if a.phase != pending {
		return
	}
	a.cancelled = true
	if !a.isPlace || a.waits {
		r.quit(a)
	}
}

func (r *reference) play(o op) {
	a := &r.actor[o.who]
	switch o.kind {
	case opTake:
		r.begin(o, false)
	case opEnter:
		r.begin(o, true)
	case opWait:
		if a.phase == pending && a.isPlace && !a.waits {
			a.waits = true
			switch {
			case a.cancelled:
				r.quit(a)
			case a.kept:
				r.grant(a)
			case a.fate != idle:
				a.phase = a.fate
			}
		}
	case opSet:
		if a.phase == pending && a.isPlace && a.inLine {
			a.claim, a.until = o.claim(), o.until()
		}
	case opLeave:
		if a.phase == pending && a.isPlace {
			gone := r.gone
			r.quit(a)
			r.gone = gone // leaving is not being cancelled
		}
	case opCancel:
		r.cancel(a)
	case opReturn, opCancelReturn:
		if o.kind == opCancelReturn {
			r.cancel(a)
		}
		if len(r.live) > 0 {
			i := int(o.n) % len(r.live)
			if !r.live[i] && r.bug == "gives back twice" {
				r.size++
			}
			r.live[i] = false
		}
	case opResize:
		if r.bug == "resizes by what is free" {
			r.size = max(r.held(), o.size())
		} else {
			r.size = o.size()
		}
	case opAdvance:
		for i := range r.actor {
			if a := &r.actor[i]; a.inLine && !a.isPlace && !a.until.IsZero() && !a.until.After(time.Now()) {
				r.cancel(a)
			}
		}
	case opClose:
		r.closed = true
		for _, a := range r.line {
			a.inLine = false
			r.finish(a, refused)
		}
		r.line = nil
	}
	r.settle()
}

// subject is the turnstile and the goroutines that use it.
type subject struct {
	ts     *Turnstile
	passes []Pass
	actor  [actors]attempt
}

type attempt struct {
	*caller
	place  *Place
	waits  bool
	phase  phase
	cancel context.CancelFunc
	ctx    context.Context
}

func (s *subject) start(a *attempt, f func() (Pass, bool)) {
	c := &caller{}
	a.caller, a.waits = c, true
	go func() {
		c.pass, c.ok = f()
		c.done.Store(true)
	}()
}

func (s *subject) play(o op) {
	a := &s.actor[o.who]
	switch o.kind {
	case opTake, opEnter:
		if a.phase == pending {
			return
		}
		*a = attempt{phase: pending}
		a.ctx, a.cancel = context.WithCancel(context.Background())
		if o.kind == opEnter {
			a.place = s.ts.Enter(o.claim(), o.until())
			return
		}
		if end := o.until(); !end.IsZero() {
			a.ctx, a.cancel = context.WithDeadline(context.Background(), end)
		}
		s.start(a, func() (Pass, bool) { return s.ts.WaitTurn(a.ctx, o.claim()) })
	case opWait:
		if a.phase == pending && a.place != nil && !a.waits {
			s.start(a, func() (Pass, bool) { return a.place.Wait(a.ctx) })
		}
	case opSet:
		if a.place != nil {
			a.place.Set(o.claim(), o.until())
		}
	case opLeave:
		if a.phase == pending && a.place != nil {
			a.place.Leave()
			if !a.waits {
				a.phase = refused
			}
		}
	case opCancel:
		s.cancelAndReturn(a, o, false)
	case opReturn:
		s.cancelAndReturn(nil, o, true)
	case opCancelReturn:
		s.cancelAndReturn(a, o, true)
	case opResize:
		s.ts.Resize(o.size())
	case opClose:
		s.ts.Close()
	}
}

// cancelAndReturn does both without letting anybody run between: the canceller is in line when the pass comes.
func (s *subject) cancelAndReturn(a *attempt, o op, give bool) {
	if a != nil && a.phase == pending {
		a.cancel()
	}
	if give && len(s.passes) > 0 {
		s.passes[int(o.n)%len(s.passes)].Return()
	}
}

// observe reads the answers that have come, in the order of the actors.
func (s *subject) observe() {
	for i := range s.actor {
		a := &s.actor[i]
		if a.phase != pending || a.caller == nil || !a.done.Load() {
			continue
		}
		switch {
		case a.ok:
			a.phase = served
			s.passes = append(s.passes, a.pass)
		case a.pass.Doomed():
			a.phase = doomed
		default:
			a.phase = refused
		}
		a.cancel()
	}
}

// differs says what is different, or nothing.
func (s *subject) differs(r *reference) string {
	for i := range s.actor {
		if got, want := s.actor[i].phase, r.actor[i].phase; got != want {
			return fmt.Sprintf("actor %d: phase %d, want %d", i, got, want)
		}
		if p := s.actor[i].place; p != nil && p.Granted() != r.actor[i].kept {
			return fmt.Sprintf("actor %d: Granted() = %v, want %v", i, p.Granted(), r.actor[i].kept)
		}
	}
	st := s.ts.Stats()
	if got, want := [...]int{st.Size, st.Held, st.Waiting, int(st.Cancelled + st.Doomed)}, [...]int{r.size, r.held(), len(r.line), int(r.gone)}; got != want {
		return fmt.Sprintf("size, held, waiting, gone = %v, want %v", got, want)
	}
	if got, want := s.ts.word.Load()&guard != 0, len(r.line) > 0 || r.held() > r.size || r.closed; got != want {
		return fmt.Sprintf("guard = %v, want %v", got, want)
	}
	for i, w := range s.ts.Line(actors) {
		if want := r.line[i].claim; w.Claim != want {
			return fmt.Sprintf("line[%d] = %v, want %v", i, w.Claim, want)
		}
	}
	return ""
}

// check plays h in a bubble and says what differs first.
func check(t *testing.T, u setup, bug string, h []op) (difference string) {
	synctest.Test(t, func(*testing.T) {
		s := &subject{ts: NewWith(u.size, u.o)}
		r := &reference{setup: u, bug: bug}
		for i, o := range h {
			if o.kind == opAdvance {
				time.Sleep(time.Duration(1+o.n%3) * time.Second)
			}
			s.play(o)
			r.play(o)
			synctest.Wait()
			s.observe()
			if d := s.differs(r); d != "" {
				difference = fmt.Sprintf("after operation %d, %v: %s", i, o, d)
				break
			}
		}
		s.end(&difference)
	})
	return difference
}

// end lets everybody go and checks that every pass is back.
func (s *subject) end(difference *string) {
	for i := range s.actor {
		if a := &s.actor[i]; a.phase == pending {
			a.cancel()
			if a.place != nil {
				a.place.Leave()
			}
		}
	}
	synctest.Wait()
	s.observe()
	for _, p := range s.passes {
		p.Return()
	}
	if st := s.ts.Stats(); *difference == "" && (st.Available != st.Size || st.Waiting != 0) {
		*difference = fmt.Sprintf("at the end: %+v, want every pass free and nobody in line", st)
	}
}

// shrink is a minimal history that still differs: no operation can be left out, and no number be made smaller.
func shrink(h []op, differs func([]op) bool) []op {
	for changed := true; changed; {
		changed = false
		for size := max(1, len(h)/2); size > 0; size /= 2 {
			for i := 0; i+size <= len(h); {
				if shorter := slices.Delete(slices.Clone(h), i, i+size); differs(shorter) {
					h, changed = shorter, true
				} else {
					i++
				}
			}
		}
		for i := range h {
			for _, field := range []func(*op) *uint8{
				func(o *op) *uint8 { return &o.who }, func(o *op) *uint8 { return &o.band }, func(o *op) *uint8 { return &o.age },
				func(o *op) *uint8 { return &o.end }, func(o *op) *uint8 { return &o.n },
			} {
				for _, less := range []func(uint8) uint8{func(uint8) uint8 { return 0 }, func(n uint8) uint8 { return n / 2 }, func(n uint8) uint8 { return n - 1 }} {
					simpler := slices.Clone(h)
					f := field(&simpler[i])
					if *f == 0 {
						break
					}
					*f = less(*f)
					if differs(simpler) {
						h, changed = simpler, true
					}
				}
			}
		}
	}
	return h
}

// hunt plays random histories until one differs, and returns it shrunk.
func hunt(t *testing.T, r *rand.Rand, u setup, bug string, histories int) (h []op, difference string) {
	for range histories {
		h := randomHistory(r)
		if check(t, u, bug, h) == "" {
			continue
		}
		h = shrink(h, func(h []op) bool { return check(t, u, bug, h) != "" })
		return h, check(t, u, bug, h)
	}
	return nil, ""
}

func modelRand(t *testing.T) *rand.Rand {
	seed := *modelSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("reproduce with -turnstile.seed=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func printed(h []op) string {
	var b strings.Builder
	for _, o := range h {
		fmt.Fprintf(&b, "\n\t%v", o)
	}
	return b.String()
}

func TestModel_AgreesWithASortedSlice(t *testing.T) {
	r := modelRand(t)
	histories := 300
	if testing.Short() {
		histories = 20
	}
	for _, u := range setups {
		if h, d := hunt(t, r, u, "", histories); d != "" {
			t.Errorf("%+v: %s%s", u, d, printed(h))
		}
	}
}

// TestModel_AgreesOnForcedHistories plays the histories that random ones seldom reach.
func TestModel_AgreesOnForcedHistories(t *testing.T) {
	take := func(who uint8) op { return op{kind: opTake, who: who} }
	enter := func(who uint8) op { return op{kind: opEnter, who: who} }
	give := func(n uint8) op { return op{kind: opReturn, n: n} }
	on := func(kind opKind, who uint8) op { return op{kind: kind, who: who} }
	resize := func(n uint8) op { return op{kind: opResize, n: n} }
	for name, h := range map[string][]op{
		"cancelled in line, then granted":    {take(0), take(1), take(2), {kind: opCancelReturn, who: 1}, give(1), give(1)},
		"all in line cancelled with a grant": {take(0), take(1), {kind: opCancelReturn, who: 1}, take(2)},
		"stale copies of every pass":         {take(0), give(0), take(1), give(0), give(0), take(2), give(1), give(0), give(1), give(2)},
		"kept pass left, then cancelled":     {enter(0), enter(1), take(2), on(opLeave, 0), on(opLeave, 1), give(0)},
		"place cancelled before Wait":        {enter(0), take(1), on(opCancel, 0), on(opWait, 0), give(0)},
		"debt is paid before the line":       {resize(2), take(0), take(1), take(2), resize(0), give(0), give(1), resize(1)},
		"shrink and grow around a line":      {resize(3), take(0), take(1), take(2), take(3), resize(1), resize(3), give(0), give(1), give(2)},
		"closed with a kept pass":            {enter(0), enter(1), {kind: opClose}, on(opWait, 0), on(opWait, 1), give(0), resize(3), take(2)},
		"place moved ahead while waiting": {take(0), {kind: opEnter, who: 1, band: 2}, {kind: opTake, who: 2, band: 1}, on(opWait, 1), {kind: opSet, who: 1, band: 0},
			give(0), give(1)},
		"over the edge of the word": {resize(31), take(0), resize(28), take(1), resize(31), give(0), give(1), resize(0), take(2), resize(31)},
	} {
		for _, u := range setups {
			if d := check(t, u, "", h); d != "" {
				t.Errorf("%s, %+v: %s", name, u, d)
			}
		}
	}
}

// TestModel_HasTeeth breaks the reference on purpose: the check must find each bug and show it in a few operations.
func TestModel_HasTeeth(t *testing.T) {
	// The shortest histories have two to five operations. Shrinking stops at a local minimum, which may be a few more.
	const most = 8
	r := modelRand(t)
	for _, c := range []struct {
		bug   string
		setup setup
	}{
		{"serves equals last come first", setup{size: 1}},
		{"ignores the job number", setup{size: 1}},
		{"gives back twice", setup{size: 1}},
		{"resizes by what is free", setup{size: 1}},
		{"loses the pass of a place that is left", setup{size: 1}},
		{"serves the doomed", setup{1, Options{MinUseful: 2 * time.Second}}},
	} {
		h, d := hunt(t, r, c.setup, c.bug, 2000)
		if d == "" {
			t.Errorf("a reference that %s was not found out", c.bug)
		} else if len(h) > most {
			t.Errorf("a reference that %s: shrunk to %d operations, want at most %d:%s", c.bug, len(h), most, printed(h))
		}
		t.Logf("%s: %s%s", c.bug, d, printed(h))
	}
}

func FuzzModel(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 1, 0, 0, 6, 0, 0, 0})
	f.Add([]byte{5, 1, 1, 4, 0, 7, 2, 0, 9, 0, 0, 0, 7, 0, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 5 || len(data) > 400 {
			return
		}
		u := setups[int(data[0])%len(setups)]
		if d := check(t, u, "", decode(data[1:])); d != "" {
			t.Errorf("%+v: %s%s", u, d, printed(decode(data[1:])))
		}
	})
}
