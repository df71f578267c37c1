package crew

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"layover/turnstile"
)

// rig is a crew at a gate of one shard, a list of pieces in plain sight, and jobs that do what they are told. Made and used in
// one bubble, by the test's goroutine.
type rig struct {
	t    *testing.T
	set  *turnstile.Set
	crew *Crew[int]
	end  context.CancelCauseFunc // of Start's context

	mu      sync.Mutex
	pieces  []int
	taken   []int // in the order of the takes
	jobs    map[int]*job
	reports []any
	onTake  func() // runs in each Take before it looks
}

// job is one in Process.
type job struct {
	ctx     context.Context
	release func()
	orders  chan func(j *job) // each is carried out on the job's goroutine
}

func newRig(t *testing.T, passes int, o Options, pieces ...int) *rig {
	t.Helper()
	r := &rig{t: t, set: turnstile.NewSet(), jobs: map[int]*job{}, pieces: pieces}
	r.set.Resize(0, passes)
	ctx, end := context.WithCancelCause(t.Context())
	r.end = end
	r.crew = Start(ctx, r.set.Gate(0), 0, Duty[int]{Take: r.take, Process: r.process, Panicked: r.panicked}, o)
	synctest.Wait()
	return r
}

func (r *rig) take(context.Context) (int, bool) {
	r.mu.Lock()
	hook := r.onTake
	r.mu.Unlock()
	if hook != nil {
		hook()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pieces) == 0 {
		return 0, false
	}
	piece := r.pieces[0]
	r.pieces = r.pieces[1:]
	r.taken = append(r.taken, piece)
	return piece, true
}

func (r *rig) process(ctx context.Context, piece int, release func()) {
	j := &job{ctx: ctx, release: release, orders: make(chan func(*job))}
	r.mu.Lock()
	r.jobs[piece] = j
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.jobs, piece)
		r.mu.Unlock()
	}()
	for {
		select {
		case order, more := <-j.orders:
			if !more {
				return
			}
			order(j)
		case <-r.t.Context().Done(): // the test has failed
			return
		}
	}
}

func (r *rig) panicked(_ context.Context, value any, _ []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = append(r.reports, value)
}

// put adds pieces and says nothing.
func (r *rig) put(pieces ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pieces = append(r.pieces, pieces...)
}

// add adds pieces, with a Wake for each.
func (r *rig) add(pieces ...int) {
	for _, piece := range pieces {
		r.put(piece)
		r.crew.Wake()
	}
	synctest.Wait()
}

func (r *rig) job(piece int) *job {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[piece]
	if j == nil {
		r.t.Fatalf("piece %d is not in progress", piece)
	}
	return j
}

// order has a job in progress carry out f, and does not wait for it.
func (r *rig) order(piece int, f func(j *job)) {
	r.t.Helper()
	r.job(piece).orders <- f
}

func (r *rig) release(pieces ...int) {
	r.t.Helper()
	for _, piece := range pieces {
		r.order(piece, func(j *job) { j.release() })
	}
	synctest.Wait()
}

func (r *rig) finish(pieces ...int) {
	r.t.Helper()
	for _, piece := range pieces {
		close(r.job(piece).orders)
	}
	synctest.Wait()
}

func (r *rig) panic(piece int, value any) {
	r.t.Helper()
	r.order(piece, func(*job) { panic(value) })
	synctest.Wait()
}

func (r *rig) goexit(piece int) {
	r.t.Helper()
	r.order(piece, func(*job) { runtime.Goexit() })
	synctest.Wait()
}

func (r *rig) duringTake(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onTake = f
}

// want checks how many workers there are in each state.
func (r *rig) want(workers, parked, atGate, busy int) {
	r.t.Helper()
	synctest.Wait()
	s := r.crew.Stats()
	got, want := [4]int{s.Workers, s.Parked, s.AtGate, s.Busy}, [4]int{workers, parked, atGate, busy}
	if got != want {
		r.t.Fatalf("workers, parked, at the gate, busy = %v; want %v", got, want)
	}
}

// wantFree checks the gate: how many passes are free and how many wait for one.
func (r *rig) wantFree(available, waiting int) {
	r.t.Helper()
	synctest.Wait()
	if a, w := r.set.Turnstile(0).Snapshot(); a != available || w != waiting {
		r.t.Fatalf("gate: %d free, %d waiting; want %d, %d", a, w, available, waiting)
	}
}

func (r *rig) wantTaken(pieces ...int) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.taken, pieces) {
		r.t.Fatalf("taken = %v; want %v", r.taken, pieces)
	}
}

func (r *rig) wantReports(values ...any) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.reports, values) {
		r.t.Fatalf("Panicked heard %v; want %v", r.reports, values)
	}
}

// finishAll ends the jobs in progress.
func (r *rig) finishAll() {
	r.mu.Lock()
	for _, j := range r.jobs {
		close(j.orders)
	}
	r.mu.Unlock()
	synctest.Wait()
}

// end of a test: everybody leaves, every pass is back, nothing was given back twice and no turn was out of order.
func (r *rig) close() {
	r.t.Helper()
	r.duringTake(nil)
	drained := make(chan error)
	go func() { drained <- r.crew.Drain(context.Background()) }()
	synctest.Wait()
	r.finishAll()
	if err := <-drained; err != nil {
		r.t.Errorf("Drain() = %v; want nil", err)
	}
	r.want(0, 0, 0, 0)
	s := r.set.Turnstile(0).Stats()
	if s.Held != 0 || s.Waiting != 0 || s.Stray != 0 {
		r.t.Errorf("gate at the end: %d held, %d waiting, %d strays; want none", s.Held, s.Waiting, s.Stray)
	}
}

func upTo(n int) []int {
	pieces := make([]int, n)
	for i := range pieces {
		pieces[i] = i
	}
	return pieces
}

const linger = time.Second
