package main

import "testing"

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
