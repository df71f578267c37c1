package parking

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

var errLanding = errors.New("cannot land")

// A cockpit is a flight function under the control of a test, which drives the
// handle from its own goroutine and then says how the function ends.
type cockpit struct {
	*Flight
	ctx  context.Context
	ends chan func() (int, error)
}

// fly is the flight function; the fields are set once the bubble is quiet.
func (cp *cockpit) fly(ctx context.Context, f *Flight) (int, error) {
	cp.Flight, cp.ctx, cp.ends = f, ctx, make(chan func() (int, error))
	return (<-cp.ends)()
}

func (cp *cockpit) finish(end func() (int, error)) {
	cp.ends <- end
	synctest.Wait()
}

func (cp *cockpit) land(v int)      { cp.finish(func() (int, error) { return v, nil }) }
func (cp *cockpit) fail(err error)  { cp.finish(func() (int, error) { return 0, err }) }
func (cp *cockpit) panics(v any)    { cp.finish(func() (int, error) { panic(v) }) }
func (cp *cockpit) goexit()         { cp.finish(func() (int, error) { runtime.Goexit(); return 0, nil }) }
func (cp *cockpit) cancelled() bool { return cp.ctx.Err() != nil }

// A passenger is one Join in its own goroutine.
type passenger struct {
	cancel context.CancelFunc
	began  time.Time

	back chan struct{} // closed when Join has returned

	// Set before back is closed.
	took     time.Duration
	v        int
	o        Outcome
	err      error
	panicked any
}

// board joins key and returns when the bubble is quiet.
func board(ctx context.Context, fs *Flights[string, int], key string, cp *cockpit) *passenger {
	ctx, cancel := context.WithCancel(ctx)
	p := &passenger{cancel: cancel, began: time.Now(), back: make(chan struct{})}
	go func() {
		defer func() {
			p.panicked, p.took = recover(), time.Since(p.began)
			cancel()
			close(p.back)
		}()
		v, o, err := fs.Join(ctx, key, cp.fly)
		p.v, p.o, p.err = v, *o, err
	}()
	synctest.Wait()
	return p
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// leave ends the passenger's context and returns when the bubble is quiet.
func (p *passenger) leave() {
	p.cancel()
	synctest.Wait()
}

func (p *passenger) want(t *testing.T, who string, r Result, err error) {
	t.Helper()
	synctest.Wait()
	if !isClosed(p.back) {
		t.Fatalf("%s still waits, want %v", who, r)
	}
	if p.o.Result != r || !errors.Is(p.err, err) || (err == nil) != (p.err == nil) {
		t.Fatalf("%s got %v with error %v, want %v with error %v", who, p.o.Result, p.err, r, err)
	}
}

func (p *passenger) wantWaiting(t *testing.T, who string) {
	t.Helper()
	synctest.Wait()
	if isClosed(p.back) {
		t.Fatalf("%s got %v with error %v, want it to wait", who, p.o.Result, p.err)
	}
}

func wantActive(t *testing.T, l *Lot, active int) {
	t.Helper()
	if got := l.Snapshot().Active; got != active {
		t.Fatalf("spots held = %d, want %d", got, active)
	}
}

func wantLen(t *testing.T, fs *Flights[string, int], n int) {
	t.Helper()
	if got := fs.Len(); got != n {
		t.Fatalf("Len = %d, want %d", got, n)
	}
}

// callers returns the contexts of the callers present, in the order they
// joined.
func (f *Flight) callers() []context.Context {
	f.tower.mu.Lock()
	defer f.tower.mu.Unlock()
	var ctxs []context.Context
	for c := f.first; c != nil; c = c.next {
		ctxs = append(ctxs, c.ctx)
	}
	return ctxs
}
