package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"layover/internal/router"
	"layover/parking"
)

func TestAProgramThatListensElsewhereIsSaidTo(t *testing.T) {
	t.Parallel() // it mostly waits
	a := acting("a", "wanderer")
	a.StartTimeout = 1500 * time.Millisecond
	p := mustPlane(t, 1, a)
	failed := make(chan *router.Error, 1)
	go func() { // received below
		_, err := routeTo(p, "a")
		e, _ := errors.AsType[*router.Error](err)
		failed <- e
	}()
	elsewhere := fmt.Sprintf(", the program listens at 127.0.0.1:%d", printed(t, p, "a", "at"))
	eventually(t, "the snapshot of the start says it", func() bool { return strings.Contains(snapshotOf(t, p, "a").Lacks, elsewhere) })
	if e := <-failed; e == nil || e.Reason != router.StartFailed || !strings.Contains(e.Err.Error(), elsewhere) {
		t.Errorf("the start ends with %v, want %q in it", e, elsewhere)
	}
}

func TestAProgramThatCannotRunIsSaidWhy(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("script", "#!/no/such/interpreter\n", 0o700)
	write("forbidden", "#!/bin/sh\n", 0o600)
	for command, want := range map[string]string{
		"./script":                   "cannot run ./script in " + dir + ": the interpreter that its first line (#!) names, or its loader, does not exist",
		filepath.Join(dir, "script"): "cannot run " + filepath.Join(dir, "script") + " in " + dir + ": the interpreter that its first line (#!) names, or its loader, does not exist",
		"./forbidden":                "cannot run ./forbidden in " + dir + ": permission denied",
		"./absent":                   "cannot run ./absent in " + dir + ": no such file or directory",
		"no-such-program":            "cannot run no-such-program in " + dir + ": executable file not found in $PATH",
	} {
		a := acting("a", "")
		a.Command, a.Dir = []string{command}, dir
		if e := mustFail(t, mustPlane(t, 1, a), "a"); e.Err.Error() != want {
			t.Errorf("the cause is %q, want %q", e.Err, want)
		}
	}
}

func TestWhatAFailedStartPrintedIsThereUntilTheNextOnePrints(t *testing.T) {
	a := acting("a", "")
	a.Dir = t.TempDir()
	a.Command = []string{"/bin/sh", "-c", "test -e mended && exec sleep 1000; touch mended; echo boom; exit 3"}
	p := mustPlane(t, 1, a)
	mustFail(t, p, "a")
	waitState(t, p, "a", router.Failed)
	lines, at, err := p.Output("a", router.Position{})
	if err != nil || !slices.Equal(lines, []string{"boom"}) {
		t.Fatalf("after the start that failed its output is %q (%v)", lines, err)
	}
	if _, err := p.Apply(Config{Pools: []Pool{{Name: "pool", Workers: 1}}, Actors: []Actor{a}, State: p.state}); err != nil { // ends the back-off
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() { // it is received below
		defer close(gone)
		router.New(p, parking.NewLot(1), router.Options{}).Route(ctx, router.Ask{Actor: "a"})
	}()
	eventually(t, "the next start runs", func() bool { return snapshotOf(t, p, "a").PID != 0 })
	if lines, next, err := p.Output("a", router.Position{}); err != nil || !slices.Equal(lines, []string{"boom"}) || next != at {
		t.Errorf("during the next start it is %q at %v (%v)", lines, next, err)
	}
	if lines, _, err := p.Output("a", at); err != nil || len(lines) > 0 {
		t.Errorf("who has read it reads %q (%v)", lines, err)
	}
	leave()
	<-gone
}
