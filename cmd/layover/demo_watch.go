package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"layover/internal/router"
	"layover/turnstile"
)

// watcher looks at the router all the time. It checks that the line loses
// waiters at its head only.
type watcher struct {
	router *router.Router
	done   chan struct{}
	ended  chan struct{}

	mu       sync.Mutex
	last     router.Snapshot
	looks    int
	looked   time.Time
	late     time.Duration // a look after its time, at most: how busy the machine is
	used     int           // workers, at most
	parked   int           // requests, at most
	ordered  bool
	line     []turnstile.Claim // as it was, while ordered
	served   int               // hand-overs seen, while ordered
	overtook int               // of them, to somebody who was not the next
}

const lookEvery = 2 * time.Millisecond

func newWatcher(r *router.Router) *watcher {
	w := &watcher{router: r, done: make(chan struct{}), ended: make(chan struct{})}
	go w.run()
	return w
}

func (w *watcher) run() {
	defer close(w.ended)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.done:
			return
		case <-tick.C:
			w.look()
		}
	}
}

func (w *watcher) stop() {
	close(w.done)
	<-w.ended
}

// look takes its snapshot under mu, so that looks come in the order of what
// they saw, whoever looks.
func (w *watcher) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.router.Snapshot()
	pool := s.Plane.Pools[0]
	now := time.Now()
	if w.looks++; w.looks > 1 {
		w.late = max(w.late, now.Sub(w.looked)-lookEvery)
	}
	w.last, w.looked = s, now
	w.used = max(w.used, pool.Used)
	w.parked = max(w.parked, s.Lot.Active)
	if !w.ordered {
		return
	}
	line := claims(pool.Line)
	if w.line != nil {
		served, overtook := departures(w.line, line)
		w.served += served
		w.overtook += overtook
	}
	w.line = line
}

func claims(line []router.Waiter) []turnstile.Claim {
	all := make([]turnstile.Claim, len(line))
	for i, w := range line {
		all[i] = w.Claim
	}
	return all
}

// departures compares two looks at a line that nobody joins or leaves without
// being served. However many were served in between, they must have been the
// first ones.
func departures(before, after []turnstile.Claim) (served, overtook int) {
	still := make(map[turnstile.Claim]bool)
	for _, c := range after {
		still[c] = true
	}
	passedOver := false
	for _, c := range before {
		switch {
		case still[c]:
			passedOver = true
		case passedOver:
			served, overtook = served+1, overtook+1
		default:
			served++
		}
	}
	return served, overtook
}

// beginOrder watches the line from now on.
func (w *watcher) beginOrder() {
	w.mu.Lock()
	w.ordered = true
	w.mu.Unlock()
	w.look()
}

func (w *watcher) endOrder() {
	w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ordered = false
}

// screen shows progress: one line that changes on a terminal, else a line now
// and then.
type screen struct {
	out      io.Writer
	watch    *watcher
	terminal bool
	began    time.Time
	done     chan struct{}
	ended    chan struct{}
	once     sync.Once

	mu   sync.Mutex
	what string
}

func newScreen(out io.Writer, w *watcher) *screen {
	return &screen{out: out, watch: w, terminal: isTerminal(out), done: make(chan struct{}), ended: make(chan struct{})}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (s *screen) start() {
	s.began = time.Now()
	every := time.Second
	if s.terminal {
		every = 80 * time.Millisecond
	}
	go func() {
		defer close(s.ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-s.done:
				return
			case <-tick.C:
				s.show()
			}
		}
	}()
}

// stop ends the display; what is printed after it is not disturbed.
func (s *screen) stop() {
	s.once.Do(func() {
		close(s.done)
		if s.began.IsZero() {
			return
		}
		<-s.ended
		if s.terminal {
			fmt.Fprint(s.out, "\r\x1b[K")
		}
		fmt.Fprintln(s.out)
	})
}

// say tells what is being done from now on.
func (s *screen) say(what string) {
	s.mu.Lock()
	s.what = what
	if s.terminal {
		fmt.Fprintf(s.out, "\r\x1b[K  %s\n", what)
	}
	s.mu.Unlock()
	s.show()
}

// marks show an actor's state in one character.
var marks = map[router.State]string{router.Asleep: "·", router.Waking: "◐", router.Awake: "●", router.GoingToSleep: "◌", router.Failed: "✗"}

func (s *screen) show() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch.mu.Lock()
	now := s.watch.last
	s.watch.mu.Unlock()
	if len(now.Plane.Pools) == 0 {
		return
	}
	var actors strings.Builder
	for _, a := range now.Plane.Actors {
		actors.WriteString(marks[a.State])
	}
	refused := uint64(0)
	for _, n := range now.Totals.Refused {
		refused += n
	}
	pool := now.Plane.Pools[0]
	line := fmt.Sprintf("  %4.1fs  %s  workers %d/%d  line %d  lot %2d/%d  served %3d  refused %2d", time.Since(s.began).Seconds(),
		actors.String(), pool.Used, pool.Workers, pool.Waiting, now.Lot.Active, now.Lot.Capacity, now.Totals.Served, refused)
	if s.terminal {
		fmt.Fprint(s.out, "\r\x1b[K"+line)
		return
	}
	fmt.Fprintf(s.out, "%s  %s\n", line, s.what)
}
