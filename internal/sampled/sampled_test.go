package sampled

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"layover/internal/router"
)

// notes are lines, by timers and by the test.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) Write(line []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

// all returns the lines so far, those of timers that are due included.
func (n *notes) all() []string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.lines)
}

// noted is a Log of texts by kind, and its lines with the time they are of.
func noted() (*Log[string, string], *notes) {
	n, begun := new(notes), time.Now()
	return New(func(kind, last string, times int) {
		fmt.Fprintf(n, "%v %s %s %d", time.Since(begun), kind, last, times)
	},
		func(kind string) { fmt.Fprintf(n, "%v %s is well", time.Since(begun), kind) }), n
}

func isAnything(string) bool { return true }

func mustHave(t *testing.T, lines *notes, want ...string) {
	t.Helper()
	if got := lines.all(); !slices.Equal(got, want) {
		t.Errorf("lines\n%q, want\n%q", got, want)
	}
}

func TestOneLineAtOnceThenOneInTenSecondsWithTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines := noted()
		for range 100 {
			l.Add("a", "first")
		}
		l.Add("b", "other")
		mustHave(t, lines, "0s a first 1", "0s b other 1")
		time.Sleep(Every - 1)
		l.Add("a", "last")
		mustHave(t, lines, "0s a first 1", "0s b other 1")
		time.Sleep(time.Nanosecond)
		mustHave(t, lines, "0s a first 1", "0s b other 1", "10s a last 100")
	})
}

func TestWhatIsWellAgainIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines := noted()
		l.Well(isAnything)
		l.Add("a", "x")
		time.Sleep(time.Second)
		l.Well(isAnything)
		l.Well(isAnything)
		time.Sleep(5 * Every)
		l.Well(isAnything)
		mustHave(t, lines, "0s a x 1", "10s a is well")
		l.Add("a", "y")
		mustHave(t, lines, "0s a x 1", "10s a is well", "51s a y 1")
	})
}

func TestNothingIsWellBeforeSomethingSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines := noted()
		l.Add("a", "x")
		time.Sleep(time.Hour)
		mustHave(t, lines, "0s a x 1")
		l.Well(func(kind string) bool { return kind == "b" })
		mustHave(t, lines, "0s a x 1")
		l.Add("a", "y") // at once, since the last line is old
		time.Sleep(time.Hour)
		l.Well(isAnything)
		l.Well(isAnything)
		mustHave(t, lines, "0s a x 1", "1h0m0s a y 1", "2h0m0s a is well")
	})
}

// What fails and succeeds in turn is not well, and has no more lines than what
// fails all the time.
func TestWhatComesAndGoesIsNotWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines := noted()
		for range 34 {
			l.Add("a", "x")
			time.Sleep(300 * time.Millisecond)
			l.Well(isAnything)
			time.Sleep(300 * time.Millisecond)
		}
		mustHave(t, lines, "0s a x 1", "10s a x 16", "20s a x 17")
		time.Sleep(2 * Every)
		mustHave(t, lines, "0s a x 1", "10s a x 16", "20s a x 17", "30s a is well")
	})
}

func TestOutcomesThatRepeatAreLoggedByRouteAndReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := new(notes)
		observe := Outcomes(slog.New(slog.NewTextHandler(text, nil)), strings.ToUpper)
		observe(router.Record{Route: "r"})
		for i := range 1000 {
			observe(router.Record{ID: fmt.Sprint(i), Route: "r", Reason: router.LotFull, Status: 503, Detail: "full"})
		}
		observe(router.Record{Route: "s", Reason: router.LotFull})
		observe(router.Record{Route: "r", Reason: router.NoRoute})
		observe(router.Record{Route: "r", Reason: router.Internal, Detail: strings.Repeat("x", 300)})
		lines := text.all()
		if len(lines) != 4 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "detail=FULL") ||
			!strings.Contains(lines[2], "level=INFO") || !strings.Contains(lines[3], "level=ERROR") || !strings.Contains(lines[3], strings.Repeat("X", 256)+"…") {
			t.Fatalf("four kinds of outcomes have the lines\n%q", lines)
		}
		time.Sleep(Every)
		if lines = text.all(); len(lines) != 5 || !strings.Contains(lines[4], "id=999") || !strings.Contains(lines[4], "requests=999") {
			t.Fatalf("after ten seconds the log is\n%q", lines)
		}
		time.Sleep(2 * Every)
		if lines = text.all(); len(lines) != 5 {
			t.Errorf("in quiet times the log is\n%q", lines)
		}
	})
}

// What is quiet costs nothing, without a well as with one that was called.
func TestKindsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forgets := New(func(int, int, int) {}, nil)
		l, _ := noted()
		for i := range 100 {
			forgets.Add(i, i)
			l.Add(fmt.Sprint(i), "")
		}
		l.Well(isAnything)
		time.Sleep(Every)
		synctest.Wait()
		if len(forgets.kinds) != 0 || len(l.kinds) != 0 {
			t.Errorf("%d and %d kinds are remembered, want none", len(forgets.kinds), len(l.kinds))
		}
	})
}

func TestTextsFromOutsideAreCut(t *testing.T) {
	if got := Cut(strings.Repeat("x", 300)); got != strings.Repeat("x", 256)+"…" {
		t.Errorf("Cut returns %d bytes", len(got))
	}
	if got := Cut("short"); got != "short" {
		t.Errorf("Cut(short) = %s", got)
	}
	if got := Cut(strings.Repeat("x", 255) + "é and more"); got != strings.Repeat("x", 255)+"…" {
		t.Errorf("Cut splits a letter: %q", got[250:])
	}
}

func TestTextsFromOutsideBecomeUTF8(t *testing.T) {
	if got := Cut("/\xff\xfe/\xc3"); got != "/\uFFFD/\uFFFD" {
		t.Errorf("Cut = %q", got)
	}
	if got := Cut(strings.Repeat("\x80", 1000)); !utf8.ValidString(got) || len(got) > 300 {
		t.Errorf("Cut = %q", got)
	}
}

func TestErrorsThatRepeatAreOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := new(notes)
		failed := Errors(slog.New(slog.NewTextHandler(text, nil)), "it is lost")
		for i := range 5 {
			failed(fmt.Errorf("no collector %d", i))
		}
		if got := text.all(); len(got) != 1 || !strings.Contains(got[0], `level=WARN msg="it is lost" err="no collector 0" times=1`) {
			t.Errorf("at once the log is\n%q", got)
		}
		time.Sleep(Every)
		if got := text.all(); len(got) != 2 || !strings.Contains(got[1], `err="no collector 4" times=4`) {
			t.Errorf("after %v the log is\n%q", Every, got)
		}
		time.Sleep(Every) // its timer ends
	})
}
