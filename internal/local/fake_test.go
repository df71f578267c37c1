package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"layover/budget"
	"layover/internal/router"
	"layover/parking"
)

// fakeHost runs programs that only take time. Its fields are set before the
// bubble's first request, or under mu.
type fakeHost struct {
	mu      sync.Mutex
	t       *testing.T
	scripts map[string]script
	running map[string]*fakeProgram
	events  []string // "12s start a", in order
	began   time.Time
	next    int
}

// script is how an actor behaves.
type script struct {
	start  time.Duration // until ready
	fails  error         // instead of ready
	lacks  error         // until ready
	stop   time.Duration // after TERM; negative: it ignores TERM
	undead time.Duration // so long does it outlive KILL
	broken error         // of the host's start
	hangs  time.Duration // so long does the host's start take
}

func (h *fakeHost) check(a Actor) error {
	if a.User == "nobody knows" {
		return errors.New("no such user")
	}
	return nil
}

func (h *fakeHost) close() error { return nil }

func (h *fakeHost) start(j job) (program, error) {
	h.mu.Lock()
	s := h.scripts[j.Name]
	h.mu.Unlock()
	if s.hangs > 0 {
		<-time.After(s.hangs)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.broken != nil {
		return nil, s.broken
	}
	if h.running[j.Name] != nil {
		h.t.Errorf("%s is started while it runs", j.Name)
	}
	h.next++
	pr := &fakeProgram{h: h, job: j, script: s, n: h.next, done: make(chan struct{})}
	h.running[j.Name] = pr
	h.noteLocked("start " + j.Name)
	return pr, nil
}

func (h *fakeHost) noteLocked(what string) {
	h.events = append(h.events, fmt.Sprint(time.Since(h.began), " ", what))
}

// crash makes an actor exit by itself.
func (h *fakeHost) crash(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running[name].exitLocked()
}

type fakeProgram struct {
	h      *fakeHost
	job    job
	script script
	n      int
	done   chan struct{}
	out    bool // done is closed
}

func (pr *fakeProgram) exitLocked() {
	if !pr.out {
		pr.out = true
		close(pr.done)
	}
}

func (pr *fakeProgram) ready(ctx context.Context) error {
	t := time.NewTimer(pr.script.start)
	defer t.Stop()
	select {
	case <-t.C:
		return pr.script.fails
	case <-pr.done:
		return errExited
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (pr *fakeProgram) stop(patience context.Context) {
	var polite <-chan time.Time
	if pr.script.stop >= 0 {
		t := time.NewTimer(pr.script.stop)
		defer t.Stop()
		polite = t.C
	}
	killed := ""
	select {
	case <-polite:
	case <-pr.done:
	case <-patience.Done():
		killed = "kill "
		if pr.script.undead > 0 {
			<-time.After(pr.script.undead)
		}
	}
	h := pr.h
	h.mu.Lock()
	defer h.mu.Unlock()
	pr.exitLocked()
	delete(h.running, pr.job.Name)
	h.noteLocked(killed + "end " + pr.job.Name)
}

func (pr *fakeProgram) lacks() error            { return pr.script.lacks }
func (pr *fakeProgram) exited() <-chan struct{} { return pr.done }
func (pr *fakeProgram) how() string             { return "exit status 7" }
func (pr *fakeProgram) addr() string            { return fmt.Sprint("fake:", pr.n) }
func (pr *fakeProgram) pid() int                { return pr.n }
func (pr *fakeProgram) output(int) []string     { return []string{"words of " + pr.job.Name} }
func (pr *fakeProgram) since(line uint64) ([]string, uint64) {
	return pr.output(1)[min(line, 1):], 1
}

// stage is a plane over a fake host, with a router in front.
type stage struct {
	*testing.T
	host   *fakeHost
	plane  *Plane
	lot    *parking.Lot
	router *router.Router
	config Config
}

// newStage must be called in a bubble. Actors start in 1 s and stop at once.
func newStage(t *testing.T, workers int, actors ...Actor) *stage {
	h := &fakeHost{t: t, scripts: make(map[string]script), running: make(map[string]*fakeProgram), began: time.Now()}
	s := &stage{T: t, host: h, plane: newPlane(h, slog.New(slog.DiscardHandler)), lot: parking.NewLot(1000)}
	s.router = router.New(s.plane, s.lot, router.Options{})
	s.config = Config{Pools: []Pool{{Name: "pool", Workers: workers}}, Actors: actors}
	for _, a := range actors {
		h.scripts[a.Name] = script{start: time.Second}
	}
	s.apply(s.config)
	return s
}

func (s *stage) script(name string, how script) {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.host.scripts[name] = how
}

// job is what runs for an actor.
func (s *stage) job(name string) job {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	return s.host.running[name].job
}

func (s *stage) apply(c Config) []string {
	s.Helper()
	changes, err := s.plane.Apply(c)
	if err != nil {
		s.Fatal(err)
	}
	s.config = c
	return changes
}

// close ends the plane; a bubble needs it to end.
func (s *stage) close() {
	s.Helper()
	if err := s.plane.Stop(context.Background()); err != nil {
		s.Error(err)
	}
	if n := len(s.host.running); n > 0 {
		s.Errorf("%d programs are left", n)
	}
}

// answer is what a request got, and when.
type answer struct {
	ride *router.Ride
	err  error
	took time.Duration
	info string // of the ledger
}

// ask sends a request of the given band and budget on a goroutine of its own.
func (s *stage) ask(name string, d time.Duration) <-chan answer {
	c := make(chan answer, 1)
	go func() { // the test reads c
		ctx, cancel := budget.For(context.Background(), d)
		defer cancel()
		began := time.Now()
		ride, err := s.router.Route(ctx, router.Ask{Actor: name})
		c <- answer{ride, err, time.Since(began), budget.From(ctx).Ledger().String()}
	}()
	return c
}

// ride is a request that must be served after exactly d.
func (s *stage) ride(name string, d time.Duration) *router.Ride {
	s.Helper()
	a := <-s.ask(name, time.Hour)
	if a.err != nil {
		s.Fatalf("a request to %s: %v, want a ride", name, a.err)
	}
	if a.took != d {
		s.Fatalf("a request to %s was served after %v, want %v (%s)", name, a.took, d, a.info)
	}
	return a.ride
}

// visit is a ride that is over at once.
func (s *stage) visit(name string, d time.Duration) {
	s.Helper()
	s.ride(name, d).Done()
}

// refused is a request that must be refused for reason after exactly d.
func (s *stage) refused(name string, reason router.Reason, d time.Duration) *router.Error {
	s.Helper()
	return s.refusal(<-s.ask(name, time.Hour), reason, d)
}

func (s *stage) refusal(a answer, reason router.Reason, d time.Duration) *router.Error {
	s.Helper()
	e, ok := errors.AsType[*router.Error](a.err)
	if !ok || e.Reason != reason {
		s.Fatalf("the answer is %v, want reason %s", a.err, reason)
	}
	if a.took != d {
		s.Fatalf("refused after %v, want %v", a.took, d)
	}
	return e
}

func (s *stage) wantState(name string, want router.State) {
	s.Helper()
	i := slices.IndexFunc(s.plane.Snapshot().Actors, func(a router.ActorSnapshot) bool { return a.Name == name })
	if i < 0 {
		if want != "" {
			s.Fatalf("there is no %s, want it %s", name, want)
		}
		return
	}
	if got := s.plane.Snapshot().Actors[i].State; got != want {
		s.Fatalf("%s is %s after %v, want %q", name, got, time.Since(s.host.began), want)
	}
}

func (s *stage) wantEvents(want ...string) {
	s.Helper()
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	if !slices.Equal(s.host.events, want) {
		s.Errorf("events:\n%q, want\n%q", s.host.events, want)
	}
}

func fake(name string) Actor {
	return Actor{Name: name, Pool: "pool", Command: []string{"run"}, StartTimeout: 30 * time.Second, Grace: 10 * time.Second}
}
