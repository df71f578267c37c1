package cli

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
)

func TestASecondSignalWithin200msIsTheSameStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := make(chan os.Signal, 2)
		got, began := make(chan time.Duration, 1), time.Now()
		go func() { // the test reads got
			if Another(t.Context(), began, again) == os.Interrupt {
				got <- time.Since(began)
			}
		}()
		again <- syscall.SIGTERM
		time.Sleep(SameStop - 1)
		again <- syscall.SIGTERM
		synctest.Wait()
		time.Sleep(time.Nanosecond)
		again <- os.Interrupt
		if took := <-got; took != SameStop {
			t.Errorf("the stop is hurried after %v, want %v", took, SameStop)
		}
	})
}

func TestASignalThatNeverComesEndsWithTheStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := Another(ctx, time.Now(), nil); got != nil {
		t.Errorf("another = %v, want none", got)
	}
}

func TestDurationsInALogAreReadableInBothFormats(t *testing.T) {
	for _, format := range []string{FormatText, FormatJSON} {
		var b bytes.Buffer
		NewLog(&b, slog.LevelInfo, format).Info("x", "took", 200*time.Millisecond, "most", 5*time.Minute)
		if !strings.Contains(b.String(), "200ms") || !strings.Contains(b.String(), "5m") || strings.Contains(b.String(), "5m0s") {
			t.Errorf("%s: %s", format, &b)
		}
	}
}

// wrong runs a command line of a made-up program and returns the exit code and
// what it says.
func wrong(t *testing.T, args ...string) (said string, code int) {
	t.Helper()
	root := &cobra.Command{Use: "thing"}
	nothing := func(*cobra.Command, []string) error { return nil }
	look := &cobra.Command{Use: "look name [part...]", Args: Args(1, Many, "look wiki"), RunE: nothing}
	look.Flags().Duration("every", time.Second, "how often")
	look.Flags().Int("times", 0, "how often in all")
	look.Flags().Bool("all", false, "all of them")
	look.Flags().String("into", "", "a `file` for it")
	root.AddCommand(look, &cobra.Command{Use: "go from to", Args: Args(2, 2, "go here there"), RunE: nothing},
		&cobra.Command{Use: "exit", RunE: func(*cobra.Command, []string) error { return Exit(3) }}, VersionCommand())
	root.SetOut(io.Discard)
	stderr := os.Stderr
	defer func() { os.Stderr = stderr }()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	os.Stderr = file
	code = Run(t.Context(), root, args)
	file.Close()
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), code
}

func TestAMistakeIsSaidWithItsFix(t *testing.T) {
	for args, want := range map[string]string{
		"look":                     "the name is missing; write it like 'thing look wiki'; see 'thing look --help'",
		"go here":                  "the to is missing; write it like 'thing go here there'; see 'thing go --help'",
		"go a b c":                 `"c" is too much: 'thing go' takes a from and a to; write it like 'thing go here there'; see 'thing go --help'`,
		"version x":                `"x" is too much: 'thing version' takes no arguments, only flags; see 'thing version --help'`,
		"lok":                      `there is no command "lok"; did you mean "look"?; see 'thing --help'`,
		"whatever":                 `there is no command "whatever"; use one of completion, exit, go, look, version; see 'thing --help'`,
		"help lok":                 `there is no command "lok"; did you mean "look"?`,
		"completion cash":          `there is no command "cash"; did you mean "bash"?; see 'thing completion --help'`,
		"look a --evry 1s":         `there is no flag --evry; did you mean "--every"?; see 'thing look --help'`,
		"look a --nothing-like-it": "there is no flag --nothing-like-it; see 'thing look --help'",
		"look a -x":                "there is no flag -x; see 'thing look --help'",
		"look a --into":            "--into has no value; write --into and then its file; see 'thing look --help'",
		"look a --every 5":         `--every: "5" is not a duration; write one like 500ms, 10s or 1m30s; see 'thing look --help'`,
		"look a --times x":         `--times: "x" is not a whole number; see 'thing look --help'`,
		"look a --all=maybe":       `--all: "maybe" is neither true nor false; write one of them, after '='; see 'thing look --help'`,
	} {
		if said, code := wrong(t, strings.Fields(args)...); said != "thing: "+want+"\n" || code != 1 {
			t.Errorf("thing %s: exit code %d,\n%swant\nthing: %s", args, code, said, want)
		}
	}
}

func TestAnExitEndsTheProgramWithItsCode(t *testing.T) {
	for args, want := range map[string]int{"exit": 3, "version": 0, "": 0, "help": 0, "help look": 0, "completion": 0, "look a b c": 0} {
		if said, code := wrong(t, strings.Fields(args)...); said != "" || code != want {
			t.Errorf("thing %s: exit code %d, want %d; it says %q", args, code, want, said)
		}
	}
}

func TestALevelIsOneOfFour(t *testing.T) {
	for _, text := range []string{"info+3", "INFO", "", "loud"} {
		if _, err := Level(text); err == nil || !strings.Contains(err.Error(), "write debug, info, warn or error") {
			t.Errorf("Level(%q): %v", text, err)
		}
	}
	if level, err := Level("warn"); level != slog.LevelWarn || err != nil {
		t.Errorf("Level(warn) = %v, %v", level, err)
	}
}
