package local

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reaper waits for children that nobody else waits for: those that actors
// leave behind, and as process 1 everybody's.
type reaper struct {
	mine  func(pid int) bool // os/exec waits for pid
	quit  chan struct{}
	ended chan struct{}
}

// unclaimed is how long a dead child must have been seen before the reaper
// takes it: whoever else started it has long waited for it by then.
const unclaimed = time.Second

// startReaper makes orphans below this process its children, which they are
// anyway for process 1.
func startReaper(mine func(pid int) bool) *reaper {
	unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // since Linux 3.4
	r := &reaper{mine: mine, quit: make(chan struct{}), ended: make(chan struct{})}
	go r.run() // stop waits for it
	return r
}

func (r *reaper) stop() {
	close(r.quit)
	<-r.ended
}

func (r *reaper) run() {
	defer close(r.ended)
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	defer signal.Stop(died)
	seen := make(map[int]bool)
	var again <-chan time.Time
	for {
		select {
		case <-r.quit:
			return
		case <-died:
			if again == nil {
				again = time.After(unclaimed)
			}
		case <-again:
			again = nil
			if seen = r.reap(seen); len(seen) > 0 {
				again = time.After(unclaimed)
			}
		}
	}
}

// reap waits for the dead children that it has seen before, and returns those
// that it sees for the first time.
func (r *reaper) reap(seen map[int]bool) map[int]bool {
	fresh := make(map[int]bool)
	for _, pid := range everyProcess() {
		s := statOf(pid)
		switch {
		case s.state != 'Z' || s.ppid != os.Getpid() || r.mine(pid):
		case seen[pid]:
			syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		default:
			fresh[pid] = true
		}
	}
	return fresh
}
