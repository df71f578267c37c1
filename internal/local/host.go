package local

import (
	"context"
	"errors"
)

// host is what runs programs: the operating system, or a test's fake. Its
// methods may be called from any goroutine.
type host interface {
	// check reports what of a's definition cannot be carried out here.
	check(a Actor) error
	// start starts the program of a job. After an error nothing of it is left.
	start(j job) (program, error)
	// close gives up what the host holds; all programs are gone.
	close() error
}

// job is one start of one actor.
type job struct {
	Actor        // without placeholders other than {port}
	wake  uint64 // number of the wake-up in this plane
}

// program is a started actor. Its methods may be called from any goroutine.
type program interface {
	// ready returns nil as soon as the program can serve, and an error as soon
	// as it is known that it will not: it exited, or ctx ended (then the error
	// has ctx's cause and what was last seen). It is called once.
	ready(ctx context.Context) error
	// lacks returns what was last seen missing to its being ready; nil: nothing
	// is known. It may be called at any time.
	lacks() error
	// exited is closed when the main process has exited, and how may be asked.
	exited() <-chan struct{}
	how() string
	// stop asks the program to end, and makes it when patience is over. It
	// returns when nothing of it is left: no process of its group and none that
	// left the group. It is called once.
	stop(patience context.Context)

	addr() string          // host:port
	pid() int              // of the main process
	output(n int) []string // the last n lines
	// since returns the lines that are kept and have an end, from the given one on
	// (0: the first), and how many there were in all.
	since(line uint64) (lines []string, ended uint64)
}

// errExited is part of ready's error when the program exited.
var errExited = errors.New("exited before it was ready")
