package proxy

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"layover/internal/router"
)

func TestAnAnswerOfAFallbackSaysSo(t *testing.T) {
	f := newFixture(t, setup{routes: []router.Route{
		{Name: "main", Host: "a.test", Actor: "a", Fallback: "spare", Budget: time.Minute, MaxBudget: time.Minute}}})
	f.actorH1("a", false, hello)
	f.actorH1("spare", true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Layover-Fallback", "a liar")
		hello(w, r)
	})
	done := do(f.client(1), f.request("GET", "a", "/", nil))
	f.parked()
	f.fail("a", router.Fail(router.StartFailed, "broken", errors.New("broken")))
	r := get(t, done)
	if r.resp.StatusCode != 200 || r.body != "hello" || len(r.resp.Header["Layover-Fallback"]) != 1 || r.resp.Header.Get("Layover-Fallback") != "spare" {
		t.Errorf("%d %q, %v; want the fallback's answer, which says so", r.resp.StatusCode, r.body, r.resp.Header)
	}
	rec := f.record()
	if rec.Actor != "spare" || rec.Instead != "a" || rec.Reason != "" || rec.Wake != router.WakeTriggered || !rec.Parked {
		t.Errorf("record = %+v, want one of spare instead of a that waited for a", rec)
	}
	if r := get(t, do(f.client(1), f.request("GET", "spare", "/", nil))); r.resp.Header.Get("Layover-Fallback") != "" {
		t.Errorf("an answer that was asked for: %v", r.resp.Header)
	}
}
