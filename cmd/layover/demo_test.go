package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"layover/turnstile"
)

func TestTwoDemosAtOnceHoldWhatTheyClaim(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			var out bytes.Buffer
			err := runDemo(ctx, &out, true)
			if err != nil || strings.Contains(out.String(), "NOT SO") || strings.Count(out.String(), "✓") != 12 {
				t.Errorf("%v, and it prints\n%s", err, out.String())
			}
		})
	}
	both.Wait()
}

func TestAnInterruptedDemoLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	d, err := newDemo(new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, cancel)
	if err := d.play(ctx); err == nil {
		t.Error("play was interrupted and returned nil")
	}
	pids := d.pids()
	if !d.end(false) {
		t.Error("something is left")
	}
	for _, pid := range pids {
		if !gone(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

func TestDeparturesAreOvertakingsUnlessTheyAreTheFirst(t *testing.T) {
	line := func(names string) (all []turnstile.Claim) {
		for _, c := range names {
			all = append(all, turnstile.Claim{Seq: uint32(c)})
		}
		return all
	}
	for _, test := range []struct {
		before, after    string
		served, overtook int
	}{
		{"abcd", "abcd", 0, 0},
		{"abcd", "bcd", 1, 0},
		{"abcd", "cd", 2, 0},
		{"abcd", "", 4, 0},
		{"abcd", "acd", 1, 1},
		{"abcd", "ab", 2, 2},
		{"abcd", "bd", 2, 1},
		{"", "", 0, 0},
	} {
		served, overtook := departures(line(test.before), line(test.after))
		if served != test.served || overtook != test.overtook {
			t.Errorf("departures(%s, %s) = %d, %d; want %d, %d", test.before, test.after, served, overtook, test.served, test.overtook)
		}
	}
}

func TestLivesFindsTwoAtOnce(t *testing.T) {
	events := func(text string) (all []event) {
		for word := range strings.FieldsSeq(text) {
			what := "start"
			if word[0] == '-' {
				what = "stop"
			}
			all = append(all, event{what: what, name: word[1:]})
		}
		return all
	}
	for _, test := range []struct {
		text         string
		starts, most int
		twice        bool
	}{
		{"+a +b -a +c -b -c", 3, 2, false},
		{"+a -a +a -a", 2, 1, false},
		{"+a +a -a", 2, 1, true},
		{"", 0, 0, false},
	} {
		starts, most, twice := lives(events(test.text))
		if starts != test.starts || most != test.most || twice != test.twice {
			t.Errorf("lives(%s) = %d, %d, %v; want %d, %d, %v", test.text, starts, most, twice, test.starts, test.most, test.twice)
		}
	}
}

func TestInOrderForgivesOnlyTheSameMoment(t *testing.T) {
	start := time.Now()
	at := func(gap time.Duration) map[string]time.Time {
		times := make(map[string]time.Time)
		for i, name := range burstOrder {
			times[name] = start.Add(time.Duration(i) * gap)
		}
		return times
	}
	swapped := append([]string{burstOrder[1], burstOrder[0]}, burstOrder[2:]...)
	early := at(time.Second)
	early["cdg"], early["dub"] = early["dub"], early["cdg"]
	if !inOrder(burstOrder, at(time.Second)) {
		t.Error("the right order is refused")
	}
	if inOrder(swapped, early) {
		t.Error("a swap a second apart passes")
	}
	close := at(time.Second)
	close["cdg"] = close["dub"].Add(time.Millisecond)
	if !inOrder(swapped, close) {
		t.Error("a swap of the same moment is refused")
	}
	if inOrder(burstOrder[1:], at(time.Second)) {
		t.Error("an order without one passes")
	}
}
