package main

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"layover/bench/gates"
	"layover/turnstile"
)

func TestDocumentHasAPlaceForEveryPart(t *testing.T) {
	root, err := treeRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"where", "losses"}
	for _, p := range parts {
		names = append(names, p.name)
	}
	for _, name := range names {
		if _, err := between(string(text), name, ""); err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(string(text), "<!-- measured: "); n != len(names) {
		t.Errorf("the document has %d places, want %d", n, len(names))
	}
}

func TestBetweenKeepsTheWordsAround(t *testing.T) {
	doc := "a\n<!-- measured: x -->\nold\n<!-- end of x -->\nb\n"
	once, err := between(doc, "x", "new")
	if err != nil {
		t.Fatal(err)
	}
	if want := "a\n<!-- measured: x -->\n\nnew\n\n<!-- end of x -->\nb\n"; once != want {
		t.Errorf("between = %q, want %q", once, want)
	}
	if again, _ := between(once, "x", "new"); again != once {
		t.Errorf("between is not the same the second time: %q", again)
	}
}

func TestRecordComesBackAsItWasSaved(t *testing.T) {
	r := &record{Part: "p", Machine: "m", Load: "0.5", At: time.Unix(1, 0).UTC(), Took: time.Second, cache: t.TempDir()}
	r.add("a cell, with a comma", "arm", "ns", 0, 1.25)
	r.add("a cell, with a comma", "arm", "ns", 1, math.NaN())
	if err := r.save(); err != nil {
		t.Fatal(err)
	}
	got, err := load(r.cache, "p")
	if err != nil {
		t.Fatal(err)
	}
	if !math.IsNaN(got.points[1].value) {
		t.Errorf("NaN came back as %v", got.points[1].value)
	}
	got.points[1].value, r.points[1].value = 0, 0
	if !reflect.DeepEqual(got, r) {
		t.Errorf("load = %+v, want %+v", got, r)
	}
}

func TestRatiosAreMadeWithinARound(t *testing.T) {
	r := &record{}
	for round, v := range []float64{1, 10, 100} { // the machine got slower
		r.add("c", "ours", "ns", round, v)
		r.add("c", "theirs", "ns", round, 2*v)
	}
	if got, want := r.ratio("c", "ours", "theirs", "ns"), (spread{0.5, 0.5, 0.5}); got != want {
		t.Errorf("ratio = %v, want %v", got, want)
	}
}

func TestALossIsMoreThanATwentiethInThreeRoundsOfFour(t *testing.T) {
	for _, c := range []struct {
		ours []float64
		more bool
		lost bool
	}{
		{ours: []float64{1.2, 1.1, 1.1, 1.2}, lost: true},
		{ours: []float64{1.04, 1.04, 1.04, 1.04}},
		{ours: []float64{0.5, 0.5, 1.5, 1.6, 1.7}},
		{ours: []float64{0.5, 0.5, 0.5}, more: true, lost: true},
		{ours: []float64{2, 2, 2}, more: true},
	} {
		r, s := &record{}, section{}
		for round, v := range c.ours {
			r.add("c", "ours", "m", round, v)
			r.add("c", "theirs", "m", round, 1)
		}
		s.judge(r, "c", "ours", "figure", "m", c.more, "theirs")
		sum := s.results[contest{"figure", "theirs"}]
		if got := sum.lost == 1; got != c.lost || sum.cells != 1 {
			t.Errorf("%v, more is better %v: lost %v of %d cells, want %v of 1", c.ours, c.more, got, sum.cells, c.lost)
		}
	}
}

func TestInterleaveGivesEachArmOneTurnARoundAndChangesWhoBegins(t *testing.T) {
	turns := make(map[int][]string)
	interleave(2, []string{"a", "b"}, func(round int, arm string) { turns[round] = append(turns[round], arm) })
	want := map[int][]string{-1: {"a", "b"}, 0: {"b", "a"}, 1: {"a", "b"}}
	if !reflect.DeepEqual(turns, want) {
		t.Errorf("turns = %v, want %v", turns, want)
	}
}

func TestWatchCountsBetterClaimsThatWaitedLonger(t *testing.T) {
	old, young := &job{claim: turnstile.NewClaim(0)}, &job{claim: turnstile.NewClaim(0)}
	long := time.Now().Add(-time.Second)
	for _, c := range []struct {
		name            string
		waits           *job
		since           time.Time
		goes            *job
		connected       bool
		wantedOvertaken int
	}{
		{"an older job waits", old, long, young, true, 1},
		{"a younger job waits", young, long, old, true, 0},
		{"an older job has only just come", old, time.Now().Add(time.Hour), young, true, 0},
		{"the one who leaves has no connection", old, long, young, false, 0},
	} {
		w := watch{from: long, to: long.Add(time.Hour), waiting: map[*job]time.Time{c.waits: c.since}}
		w.enter(c.goes)
		w.leave(c.goes, c.connected)
		if w.overtook != c.wantedOvertaken || len(w.waiting) != 1 {
			t.Errorf("%s: overtook %d, %d left, want %d and 1", c.name, w.overtook, len(w.waiting), c.wantedOvertaken)
		}
	}
}

// The parts that need no database, at a size that takes no time.
func TestMeasurementsGiveAValueForEveryArm(t *testing.T) {
	g := gates.Turnstile.New(passes)
	if waited := waitsOf(g, 16, 160, gates.Waiting(time.Microsecond)); len(waited) != 160 || slices.Min(waited) < 0 {
		t.Errorf("waitsOf gave %d waits, want 160, none negative", len(waited))
	}
	for _, arm := range rivals[:4] {
		if took := resumesOf(arm.New(1), 4, 40); len(took) != 39 {
			t.Errorf("%s: %d resumes of 40 turns, want 39", arm.Name, len(took))
		}
		if took, _ := cancelAll(arm.New(1), 50, 1); took <= 0 {
			t.Errorf("%s: a line was cancelled in %v", arm.Name, took)
		}
	}
}
