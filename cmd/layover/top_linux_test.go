package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal returns both ends of a terminal of that size.
func terminal(t *testing.T, columns, lines uint16) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { ours.Close() })
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(theirs.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: lines})
	}
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

func TestTopFillsATerminalUntilQ(t *testing.T) {
	p := serving(t, t.TempDir(), byName+"actors: {a: {command: [sh, -c, 'exit 3']}}\n")
	p.get("a.test")
	ours, theirs := terminal(t, 60, 12)
	before, err := unix.IoctlGetTermios(int(theirs.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	top := layover("top", "--config", filepath.Join(p.folder, "f.yaml"))
	top.Stdin, top.Stdout, top.Stderr = theirs, theirs, theirs
	if err := top.Start(); err != nil {
		t.Fatal(err)
	}
	defer top.Process.Kill()
	screen := new(logs)
	go io.Copy(screen, ours) // ends with the test, which closes it
	until(t, "the screen", func() bool { return strings.Contains(screen.String(), "q: end") })
	if err := unix.IoctlSetWinsize(int(theirs.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 30, Row: 5}); err != nil {
		t.Fatal(err)
	}
	top.Process.Signal(unix.SIGWINCH) // the kernel sends it only to who the terminal controls
	until(t, "the smaller screen", func() bool { return strings.Contains(screen.String(), "more lines below\x1b[K") })
	if _, err := ours.WriteString("xq"); err != nil {
		t.Fatal(err)
	}
	if err := top.Wait(); err != nil {
		t.Errorf("q ends it with %v", err)
	}
	after, err := unix.IoctlGetTermios(int(theirs.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("the terminal is left as %+v, was %+v; %v", after, before, err)
	}
	until(t, "the old screen", func() bool { return strings.HasSuffix(screen.String(), "\x1b[?25h\x1b[?1049l") })
	first, _, _ := strings.Cut(screen.String(), "q: end")
	if !strings.HasPrefix(first, "\x1b[?1049h\x1b[?25l\x1b[Hlayover ready") || strings.Contains(screen.String(), "x\r") || !strings.Contains(first, "did not start: exited") {
		t.Errorf("the first screen is %q", first)
	}
}
