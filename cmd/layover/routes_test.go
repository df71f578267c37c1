package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestR68_MonitorsNeitherWakeAnActorNorKeepItAwake(t *testing.T) {
	const routes = "defaults: {idle: 300ms}\nroutes: [{host: \"{actor}.monitor\", wake: false}, {host: \"{actor}.test\"}]\n"
	p := serving(t, t.TempDir(), "log: {level: debug}\n"+routes+"actors:\n"+testActor("a", 0, ""))
	wakes := func() int { return strings.Count(p.logs.String(), `msg="actor awake"`) }
	asleep := answer{status: 200, body: `{"actor":"a","state":"asleep"}`}
	for range 20 {
		if got := p.get("a.monitor"); got != asleep {
			t.Fatalf("a monitor of a sleeping actor got %+v, want %+v", got, asleep)
		}
	}
	if n := wakes(); n != 0 {
		t.Errorf("monitors woke the actor %d times", n)
	}
	began := time.Now()
	user := p.served("a.test")
	if got := p.get("a.monitor"); got.pid != user.pid && time.Since(began) < 300*time.Millisecond { // else it may sleep already
		t.Errorf("a monitor of an awake actor got %+v, want process %d", got, user.pid)
	}
	until(t, "the actor to sleep although a monitor never lets it be", func() bool {
		got := p.get("a.monitor")
		if got.status != 200 {
			t.Fatalf("the monitor got %+v", got)
		}
		return got == asleep
	})
	if n := wakes(); n != 1 || !gone(user.pid) {
		t.Errorf("the actor was awake %d times, want once, for its user; gone: %t", n, gone(user.pid))
	}
}

func TestAFallbackAnswersForAnActorThatDoesNotStart(t *testing.T) {
	p := serving(t, t.TempDir(), "routes: [{host: a.test, actor: a, fallback: spare}]\nactors:\n  a: {command: [\"false\"]}\n"+testActor("spare", 0, ""))
	for _, when := range []string{"its start failed", "its back-off lasts"} {
		if got := p.get("a.test"); got.status != 200 || got.fallback != "spare" || !strings.HasPrefix(got.body, "spare is awake") {
			t.Errorf("when %s: %+v, want the answer of spare", when, got)
		}
	}
}

func TestAFallbackAnswersForAnActorThatIsLateAndTheActorWhenItIsThere(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	p := serving(t, t.TempDir(), "routes: [{host: a.test, actor: a, fallback: spare, fallback_after: 200ms}]\nactors:\n"+
		testActor("a", 0, gate)+testActor("spare", 0, ""))
	began := time.Now()
	if got := p.get("a.test"); got.status != 200 || got.fallback != "spare" || time.Since(began) < 200*time.Millisecond {
		t.Errorf("after %v: %+v, want the answer of spare after 200ms", time.Since(began), got)
	}
	openGate(t, gate)
	until(t, "the start that went on to end", func() bool { return p.logged("actor awake", "actor=a") })
	if got := p.get("a.test"); got.status != 200 || got.fallback != "" || !strings.HasPrefix(got.body, "a is awake") {
		t.Errorf("when it is awake: %+v, want its own answer", got)
	}
}
