package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestHowAProgramEndedIsSaidAsByOSExec(t *testing.T) {
	for _, script := range []string{"exit 0", "exit 3", "exit 255", "kill -TERM $$", "kill -KILL $$", "ulimit -c unlimited; kill -ABRT $$"} {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Dir = t.TempDir() // for a core
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pr := &process{cmd: cmd}
		got := pr.awaitExit()
		if s := statOf(pr.pid()); s.state != 'Z' {
			t.Errorf("%s: the process is in state %q before it is buried, want a zombie", script, s.state)
		}
		pr.bury()
		if s := statOf(pr.pid()); s.state != 0 {
			t.Errorf("%s: the process is in state %q after it was buried", script, s.state)
		}
		if want := cmd.ProcessState.String(); got != want {
			t.Errorf("%s: it ended with %q, os/exec says %q", script, got, want)
		}
	}
}

// The number of a main process that has exited is not free as long as its group
// has processes that may have to be killed.
func TestAMainProcessIsWaitedForAfterItsGroupIsGone(t *testing.T) {
	t.Parallel() // it mostly waits
	a := acting("a", "server")
	a.Command = []string{"/bin/sh", "-c", fmt.Sprintf(`PORT=0 %s="deaf server" %q & exec %q`, actAs, os.Args[0], os.Args[0])}
	a.Grace = 500 * time.Millisecond
	p := mustPlane(t, 1, a)
	mustRoute(t, p, "a").Done()
	printed(t, p, "a", "deaf") // it ignores TERM from now on
	main := snapshotOf(t, p, "a").PID
	slept := make(chan error, 1)
	go func() { slept <- p.Sleep(context.Background(), "a") }()
	for end := time.Now().Add(10 * time.Second); statOf(main).state != 'Z'; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the main process does not end")
		}
	}
	if n := len(groupOf(main)); n != 1 {
		t.Errorf("%d processes of the group outlive the main process, want the deaf one", n)
	}
	if err := <-slept; err != nil {
		t.Fatal(err)
	}
	if s, left := statOf(main), groupOf(main); s.state != 0 || len(left) > 0 {
		t.Errorf("after its sleep the main process is in state %q, and its group has %v", s.state, left)
	}
}
