package main

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/router"
)

func TestOutcomesThatRepeatAreLoggedOnceInTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := new(logs)
		o := newOutcomes(slog.New(slog.NewTextHandler(text, nil)))
		lines := func() int { return strings.Count(text.String(), "\n") }
		full := func(id string) router.Record {
			return router.Record{ID: id, Route: "r", Reason: router.LotFull, Status: 503}
		}
		o.observe(router.Record{Route: "r"})
		if lines() != 0 {
			t.Errorf("a request that was served has a line: %s", text)
		}
		for range 1000 {
			o.observe(full("first"))
		}
		o.observe(router.Record{Route: "s", Reason: router.LotFull})
		o.observe(router.Record{Route: "r", Reason: router.NoWorker})
		if lines() != 3 {
			t.Errorf("three kinds of outcomes have %d lines:\n%s", lines(), text)
		}
		time.Sleep(sampleEvery - time.Millisecond)
		o.observe(full("last"))
		synctest.Wait()
		if lines() != 3 {
			t.Errorf("%d lines before ten seconds are over", lines())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if got := text.String(); lines() != 4 || !strings.Contains(got, "id=last") || !strings.Contains(got, "requests=1000") {
			t.Errorf("after ten seconds the log is\n%s", got)
		}
		time.Sleep(2 * sampleEvery)
		synctest.Wait()
		if lines() != 4 || len(o.kind) != 0 {
			t.Errorf("in quiet times there are %d lines, want 4, and %d kinds remembered", lines(), len(o.kind))
		}
		o.observe(full("new"))
		if lines() != 5 || !strings.Contains(text.String(), "id=new") {
			t.Errorf("one after a quiet time is not logged at once:\n%s", text)
		}
		time.Sleep(2 * sampleEvery)
	})
}

func TestTheLogTellsOfRefusalsAndWithAccessOfEachRequest(t *testing.T) {
	rest := byName + "actors:\n" + testActor("a", 0, "")
	p := serving(t, t.TempDir(), rest)
	p.served("a.test")
	p.get("nobody.test")
	until(t, "the refusal", func() bool {
		return p.logged("level=INFO", "request not served", "reason=unknown_actor", "route=by-name", "actor=nobody", "status=404")
	})
	if p.logged("msg=request ") {
		t.Error("each request is logged without being asked for")
	}
	p.write("log: {access: true}\n" + rest)
	until(t, "the reload", func() bool { return p.logged("access log is on") })
	p.served("a.test")
	until(t, "the access log", func() bool {
		return p.logged("level=INFO", "msg=request ", "method=GET", "host=a.test", "path=/", "actor=a", "status=200", "wake=none")
	})
}

func TestTextsFromOutsideAreCut(t *testing.T) {
	if got := cut(strings.Repeat("x", 300)); got != strings.Repeat("x", 256)+"…" {
		t.Errorf("cut returns %d bytes", len(got))
	}
	if got := cut("short"); got != "short" {
		t.Errorf("cut(short) = %s", got)
	}
}
