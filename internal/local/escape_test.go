//go:build linux

package local

import (
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestASleepDoesNotWaitForAProcessThatGotAway(t *testing.T) {
	p := mustPlane(t, 1, acting("a", "escapee"))
	mustRoute(t, p, "a").Done()
	away := printed(t, p, "a", "forked")
	defer syscall.Kill(away, syscall.SIGKILL)
	began := time.Now()
	mustSleep(t, p, "a")
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the actor slept after %v", took)
	}
	if !there(away) {
		t.Error("the process did not get away: this test shows nothing")
	}
}

func TestWhatIsLeftOfAnActorIsNotLookedForBelowOthers(t *testing.T) {
	p := mustPlane(t, 2, acting("a", "server"), acting("b", "parent"))
	for _, name := range []string{"a", "b"} {
		mustRoute(t, p, name).Done()
	}
	a, b, child := snapshotOf(t, p, "a").PID, snapshotOf(t, p, "b").PID, printed(t, p, "b", "forked")
	pids, ok := p.host.(*osHost).descendants(syscall.Getpid(), a)
	if !ok {
		t.Skip("this kernel does not tell a process's children")
	}
	if !slices.Contains(pids, a) || slices.Contains(pids, b) || slices.Contains(pids, child) {
		t.Errorf("looked for among %v: want a's %d, neither b's %d nor its child %d", pids, a, b, child)
	}
}

func TestASignalGoesOnlyToTheRightProcess(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	signalIf(pid, syscall.SIGTERM, func() bool { return false })
	signalIf(pid, syscall.SIGKILL, func() bool { return there(pid) })
	if cmd.Wait(); cmd.ProcessState.String() != "signal: killed" {
		t.Errorf("the process ended with %v, want only the second signal to reach it", cmd.ProcessState)
	}
}

func TestFilesThatAnActorWouldInheritAreClosedOnExec(t *testing.T) {
	fd, err := syscall.Dup(1) // without the flag, as a service manager gives files
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	closeFilesOnExec()
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
	if errno != 0 || flags&syscall.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v: an actor inherits the file", flags, errno)
	}
}
