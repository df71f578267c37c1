package parking

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The model check runs random histories against the package and against a slow
// reference (see reference_test.go) and compares, after every step, all that can
// be seen. A history that differs is shrunk before it is shown.

// An op is one step of a history. Its numbers are taken modulo what exists when
// it runs, so any part of a history is a history.
type op struct {
	do   string
	a, b int
}

func (o op) String() string { return fmt.Sprintf("%s(%d,%d)", o.do, o.a, o.b) }

// ops are the steps by how often they are drawn.
var ops = strings.Fields("join join join join join join leave leave leave advance advance advance " +
	"park park commit commit commit uncommit uncommit land land fail phase phase end resize take free")

const (
	keys      = 3
	maxParked = 4 // capacities are drawn from 0 to this, and Unlimited
)

func randomHistory(r *rand.Rand, length int) []op {
	h := make([]op, length)
	for i := range h {
		h[i] = op{ops[r.IntN(len(ops))], r.IntN(1000), r.IntN(1000)}
	}
	return h
}

// A setup is what a history starts from.
type setup struct {
	capacity int
	linger   time.Duration
}

func randomSetup(r *rand.Rand) setup {
	return setup{capacityOf(r.IntN(1000)), []time.Duration{0, 3 * time.Second}[r.IntN(2)]}
}

// capacityOf maps a number of an op to a capacity.
func capacityOf(n int) int { return n%(maxParked+2) - 1 }

// stay maps a number of an op to how long a caller stays; 0 is until it leaves.
func stay(n int) time.Duration { return time.Duration(n%7) * time.Second }

// A real is the package under a history.
type real struct {
	lot     *Lot
	fs      *Flights[int, int]
	callers []*realCaller
	flights []*realFlight
	spots   []Spot
}

type realCaller struct {
	cancel context.CancelFunc
	v      int
	o      Outcome
	err    error
	back   chan struct{} // closed when Join has returned
}

type realFlight struct {
	*Flight
	ctx  context.Context
	ends []func()
	land chan error
}

func newReal(s setup) *real {
	lot := NewLot(s.capacity)
	return &real{lot: lot, fs: NewFlights[int, int](lot, Options{Linger: s.linger})}
}

func (r *real) fly(ctx context.Context, f *Flight) (int, error) {
	me := &realFlight{Flight: f, ctx: ctx, land: make(chan error)}
	id := len(r.flights)
	r.flights = append(r.flights, me)
	return id, <-me.land
}

func (r *real) join(key int, stay time.Duration) {
	c := &realCaller{back: make(chan struct{})}
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background())
	if stay > 0 {
		ctx, c.cancel = context.WithTimeout(context.Background(), stay)
	}
	r.callers = append(r.callers, c)
	go func() {
		v, o, err := r.fs.Join(ctx, key, r.fly)
		c.v, c.o, c.err = v, *o, err
		close(c.back)
	}()
}

// end makes the history's goroutines end.
func (r *real) end() error {
	for _, c := range r.callers {
		c.cancel()
	}
	synctest.Wait()
	for _, f := range r.flights {
		if f.land != nil {
			f.land <- nil
		}
	}
	synctest.Wait()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.fs.Wait(ended); err != nil || r.fs.Len() != 0 {
		return fmt.Errorf("at the end: Wait = %v, Len = %d", err, r.fs.Len())
	}
	for _, s := range r.spots {
		s.Free()
	}
	if s := r.lot.Snapshot(); s.Active != 0 || s.Longest != 0 {
		return fmt.Errorf("at the end: %+v, want no spot held", s)
	}
	return nil
}

// step runs o on both and reports how an immediate answer differs.
func step(o op, r *real, m *reference) error {
	differ := func(got, want bool) error {
		if got != want {
			return fmt.Errorf("%s = %v, want %v", o.do, got, want)
		}
		return nil
	}
	switch o.do {
	case "join":
		r.join(o.a%keys, stay(o.b))
		m.join(o.a%keys, stay(o.b))
		return nil
	case "leave":
		if n := len(r.callers); n > 0 {
			r.callers[o.a%n].cancel()
			m.leave(o.a % n)
		}
		return nil
	case "advance":
		d := time.Duration(1+o.a%4) * time.Second / 2
		time.Sleep(d)
		m.advance(d)
		return nil
	case "resize":
		r.lot.Resize(capacityOf(o.a))
		m.capacity = capacityOf(o.a)
		return nil
	case "take":
		s, ok := r.lot.Take()
		if ok {
			r.spots = append(r.spots, s)
		}
		return differ(ok, m.take())
	case "free":
		if n := len(r.spots); n > 0 {
			r.spots[o.a%n].Free()
			m.free(o.a % n)
		}
		return nil
	}
	if len(r.flights) == 0 {
		return nil
	}
	// Mostly a late flight, since those are likely to be in the air.
	i := max(0, len(r.flights)-1-o.a%4)
	f := r.flights[i]
	switch o.do {
	case "park":
		f.Park(fmt.Sprint("reason ", o.b%3))
		m.park(i, fmt.Sprint("reason ", o.b%3))
	case "commit":
		return differ(f.Commit(), m.commit(i))
	case "uncommit":
		return differ(f.Uncommit(), m.uncommit(i))
	case "phase":
		f.ends = append(f.ends, f.Phase(fmt.Sprint("phase ", o.b%3)))
		m.phase(i, fmt.Sprint("phase ", o.b%3))
	case "end":
		if n := len(f.ends); n > 0 {
			f.ends[o.b%n]()
			m.endPhase(i, o.b%n)
		}
	case "land", "fail":
		var err error
		if o.do == "fail" {
			err = errLanding
		}
		if f.land != nil {
			f.land <- err
			f.land = nil
			m.land(i, err)
		}
	}
	return nil
}

// compare reports how what can be seen differs.
func compare(r *real, m *reference) error {
	lot := r.lot.Snapshot()
	if want := m.lotSnapshot(); lot != want {
		return fmt.Errorf("lot %+v, want %+v", lot, want)
	}
	got := make(map[int]FlightSnapshot[int])
	for _, s := range r.fs.Snapshot() {
		got[s.Key] = s
	}
	if want := m.registry(); !reflect.DeepEqual(got, want) {
		return fmt.Errorf("registry %+v, want %+v", got, want)
	}
	if len(r.flights) != len(m.flights) {
		return fmt.Errorf("%d flights begun, want %d", len(r.flights), len(m.flights))
	}
	attempts := make(map[int]int)
	for i, f := range r.flights {
		w := m.flights[i]
		if c := f.ctx.Err() != nil; c != (w.abandoned || w.landed) {
			return fmt.Errorf("flight %d: cancelled = %v, want %v", i, c, !c)
		}
		if n := len(f.callers()); n != len(w.callers) {
			return fmt.Errorf("flight %d: %d callers, want %d", i, n, len(w.callers))
		}
		f.tower.mu.Lock()
		if f.state == committed {
			attempts[w.key]++
		}
		f.tower.mu.Unlock()
		if attempts[w.key] > 1 {
			return fmt.Errorf("key %d has %d committed flights", w.key, attempts[w.key])
		}
	}
	for i, c := range r.callers {
		if err := compareCaller(c, m.callers[i]); err != nil {
			return fmt.Errorf("caller %d: %w", i, err)
		}
	}
	return nil
}

func compareCaller(c *realCaller, w *refCaller) error {
	if back := isClosed(c.back); back != w.back {
		return fmt.Errorf("returned = %v, want %v (%+v)", back, w.back, w.o)
	}
	if !w.back {
		return nil
	}
	if !reflect.DeepEqual(c.o, w.o) {
		return fmt.Errorf("outcome %+v, want %+v", c.o, w.o)
	}
	if !errors.Is(c.err, w.err) || (c.err == nil) != (w.err == nil) || c.v != w.v {
		return fmt.Errorf("got %d, %v, want %d, %v", c.v, c.err, w.v, w.err)
	}
	return nil
}

// check runs h in a bubble and reports the first difference.
func check(t *testing.T, s setup, h []op, wrong string) (err error) {
	synctest.Test(t, func(*testing.T) {
		r, m := newReal(s), newReference(s, wrong)
		for i, o := range h {
			if err = step(o, r, m); err == nil {
				synctest.Wait()
				err = compare(r, m)
			}
			if err != nil {
				err = fmt.Errorf("step %d, %v: %w", i, o, err)
				break
			}
		}
		if endErr := r.end(); err == nil {
			err = endErr
		}
	})
	return err
}

// shrink drops parts of a failing history, smaller and smaller ones, as long as
// it still fails.
func shrink(h []op, fails func([]op) bool) []op {
	for size := len(h) / 2; size > 0; {
		smaller := false
		for at := 0; at+size <= len(h); {
			without := append(append([]op(nil), h[:at]...), h[at+size:]...)
			if fails(without) {
				h, smaller = without, true
				continue
			}
			at++
		}
		if !smaller || size > len(h) {
			size /= 2
		}
	}
	return h
}

func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		s, h := randomSetup(r), randomHistory(r, 60)
		if check(t, s, h, "") == nil {
			continue
		}
		h = shrink(h, func(h []op) bool { return check(t, s, h, "") != nil })
		t.Fatalf("%+v, history %v: %v", s, h, check(t, s, h, ""))
	}
}

// TestModelHasTeeth gives the reference one wrong rule at a time: the check must
// see each of them, and shrink what shows it. The seed is fixed: how soon a rare
// difference is seen is luck, and not what is tested.
func TestModelHasTeeth(t *testing.T) {
	const most = 1000
	for _, wrong := range wrongRules {
		r := rand.New(rand.NewPCG(1, 0))
		h, n := []op(nil), 0
		var s setup
		for ; n < most; n++ {
			s, h = randomSetup(r), randomHistory(r, 60)
			if check(t, s, h, wrong) != nil {
				break
			}
		}
		if n == most {
			t.Errorf("%s: not seen in %d histories", wrong, n)
			continue
		}
		h = shrink(h, func(h []op) bool { return check(t, s, h, wrong) != nil })
		t.Logf("%s: history %d, shrunk to %v", wrong, n, h)
		if len(h) > 16 {
			t.Errorf("%s: shrunk to %d steps only", wrong, len(h))
		}
	}
}
