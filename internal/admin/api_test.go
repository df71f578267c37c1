package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"layover/budget"
	"layover/internal/admin"
	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
	"layover/turnstile"
)

const token = "a-token-of-the-tests"

// plane is a Control that notes what it is told.
type plane struct {
	told   []string
	sleeps func(ctx context.Context) error
}

func (p *plane) Sleep(ctx context.Context, actor string) error {
	p.told = append(p.told, "sleep "+actor)
	if p.sleeps != nil {
		return p.sleeps(ctx)
	}
	return nil
}

func (p *plane) Resize(pool string, workers int) error {
	p.told = append(p.told, fmt.Sprint("resize ", pool, " ", workers))
	if pool != "scripted" {
		return router.Fail(router.UnknownActor, "there is no pool of this name", nil)
	}
	return nil
}

func (p *plane) Output(actor string, from router.Position) ([]string, router.Position, error) {
	if actor != "x" {
		return nil, from, router.Fail(router.UnknownActor, "there is no actor of this name", nil)
	}
	all := []string{"one", "two", "three"}
	return all[min(from.Line, 3):], router.Position{Wake: 1, Line: 3}, nil
}

func (p *plane) Follow(_ context.Context, actor string, from router.Position, print func([]string) error) error {
	lines, _, err := p.Output(actor, from)
	if err != nil {
		return err
	}
	return errors.Join(print(lines), print([]string{"four", "five"}))
}

// read asks for path and decodes the answer, which must have the status.
func read[T any](t *testing.T, a *admin.Admin, path string, status int) (out T) {
	t.Helper()
	w := ask(a, "GET", "http://localhost"+path)
	if w.Code != status {
		t.Fatalf("GET %s: %d, want %d\n%s", path, w.Code, status, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return out
}

// post sends a change with headers, by name and value in turn.
func post(a *admin.Admin, path, body string, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest("POST", "http://localhost"+path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, req)
	return w
}

func TestListsAreSearchedAndPaged(t *testing.T) {
	var names []string
	for i := range 1200 {
		names = append(names, fmt.Sprintf("web-%04d", i))
	}
	a, r := withRouter(t, 10, append(names, "db-1", "DB-2")...)
	serve(t, r, "db-1", router.Record{ID: "r1", Route: "api", Status: 200})
	for i := range 30 {
		r.Record(router.Record{ID: fmt.Sprint("q", i), Actor: "web-0001", Route: "slow", Reason: router.NoWorker, Status: 503})
	}
	first := read[admin.Actors](t, a, "/api/v1/actors?search=WEB&limit=500", 200)
	second := read[admin.Actors](t, a, "/api/v1/actors?search=web&limit=500&after="+first.Next, 200)
	third := read[admin.Actors](t, a, "/api/v1/actors?search=web&limit=500&after="+second.Next, 200)
	if first.Total != 1200 || len(first.Rows) != 500 || len(second.Rows) != 500 || len(third.Rows) != 200 || third.Next != "" || second.Rows[0].Name != "web-0500" {
		t.Errorf("pages of %d, %d, %d of %d; second begins with %s, third is followed by %q", len(first.Rows), len(second.Rows), len(third.Rows), first.Total, second.Rows[0].Name, third.Next)
	}
	if got := read[admin.Actors](t, a, "/api/v1/actors?search=db+awake", 200); got.Total != 1 || got.Rows[0].Name != "db-1" || got.Rows[0].WakesSeen != 1 {
		t.Errorf("db awake: %+v", got)
	}
	if got := read[admin.Actors](t, a, "/api/v1/actors?state=awake&pool=scripted", 200); got.Total != 1 {
		t.Errorf("awake: %+v", got)
	}
	if got := read[admin.Requests](t, a, "/api/v1/requests?reason=no_worker&limit=25&after=25", 200); got.Total != 30 || len(got.Rows) != 5 || got.Next != "" || got.Rows[4].ID != "q0" {
		t.Errorf("requests: %+v", got)
	}
	if got := read[admin.Requests](t, a, "/api/v1/requests?search=api+200", 200); got.Total != 1 || got.Rows[0].ID != "r1" {
		t.Errorf("requests: %+v", got)
	}
	if got := read[admin.Status](t, a, "/api/v1/status", 200); got.Actors[router.Asleep] != 1201 || got.Actors[router.Awake] != 1 || got.Pools != 1 {
		t.Errorf("status: %+v", got)
	}
	for _, bad := range []string{"actors?limit=501", "actors?limit=x", "requests?after=x", "lot?after=-1", "actors?search=" + strings.Repeat("x", 201)} {
		if p := read[admin.Problem](t, a, "/api/v1/"+bad, 400); p.Detail == "" || p.Status != 400 {
			t.Errorf("%s: %+v", bad, p)
		}
	}
}

func TestOneActorAndOneRequestAreFoundByTheirNames(t *testing.T) {
	a, r := withRouter(t, 10, "x")
	serve(t, r, "x", router.Record{ID: "r1", Status: 200})
	if got := read[admin.Actor](t, a, "/api/v1/actors/x", 200); got.Name != "x" || got.State != router.Awake {
		t.Errorf("%+v", got)
	}
	if got := read[admin.Request](t, a, "/api/v1/requests/r1", 200); got.ID != "r1" || len(got.Ledger) == 0 {
		t.Errorf("%+v", got)
	}
	for _, path := range []string{"/api/v1/actors/y", "/api/v1/requests/r2", "/api/v1/config"} {
		if p := read[admin.Problem](t, a, path, 404); p.Detail == "" {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

func TestAFilterThatNothingCanHaveIsRefused(t *testing.T) {
	some, _ := withRouter(t, 10, "x")
	for _, c := range []struct {
		a          *admin.Admin
		path, want string
	}{
		{some, "?pool=none", `there is no pool "none"; use one of scripted`},
		{some, "?state=sleepy", `there is no state "sleepy"; use one of awake, waking, going to sleep, failed, asleep`},
		{newAdmin(t, admin.Options{}), "?pool=none", `there is no pool "none", nor any other now`},
	} {
		if got := read[admin.Problem](t, c.a, "/api/v1/actors"+c.path, 400); got.Detail != c.want {
			t.Errorf("%s: %q, want %q", c.path, got.Detail, c.want)
		}
	}
}

func TestTheLotNamesWhoWaitsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmin(t, admin.Options{})
		r := router.New(planetest.NewScripted(0, "x", "y"), parking.NewLot(5), router.Options{})
		a.SetRouter(r)
		ctx, cancel := budget.For(t.Context(), time.Minute)
		for _, actor := range []string{"y", "x"} {
			go r.Route(ctx, router.Ask{Actor: actor, ID: "of-" + actor}) // ends with ctx, and the bubble waits for it
			synctest.Wait()
			time.Sleep(time.Second)
		}
		got := read[admin.Parked](t, a, "/api/v1/lot", 200)
		if got.Total != 2 || got.Active != 2 || *got.Capacity != 5 || got.Rows[0].Actor != "y" || got.Rows[1].Actor != "x" || got.Rows[0].Remaining != 58*time.Second || !got.Rows[0].Ends {
			t.Errorf("%+v", got)
		}
		if got := read[admin.Parked](t, a, "/api/v1/lot?actor=x", 200); got.Total != 1 {
			t.Errorf("x alone: %+v", got)
		}
		if got := read[admin.Parked](t, a, "/api/v1/lot?search=of-x", 200); got.Total != 1 || got.Rows[0].ID != "of-x" || got.Rows[0].Phase != router.PhaseLine || got.Rows[0].Place != 2 {
			t.Errorf("of-x: %+v", got)
		}
		one := read[admin.Request](t, a, "/api/v1/requests/of-y", 200)
		line := []admin.Phase{{Name: router.PhaseLine, Last: 2 * time.Second, Elapsed: 2 * time.Second}}
		if w := one.Waiting; w == nil || w.Phase != router.PhaseLine || w.Place != 1 || w.Remaining != 58*time.Second || one.Actor != "y" || one.Took != 2*time.Second || !slices.Equal(one.Ledger, line) {
			t.Errorf("of-y: %+v, waiting %+v", one, w)
		}
		cancel()
		synctest.Wait()
		if p := read[admin.Problem](t, a, "/api/v1/requests/of-y", 404); !strings.Contains(p.Detail, "it may be with its actor") {
			t.Errorf("a request that no longer waits: %+v", p)
		}
	})
}

// A request that waits for its turn is in no flight, whatever the actor's does.
func TestTheLedgerOfARequestThatWaitsIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmin(t, admin.Options{})
		plane := planetest.NewScripted(1, "x")
		plane.Start = func(context.Context, string) error { time.Sleep(5 * time.Second); return nil }
		r := router.New(plane, parking.NewLot(5), router.Options{})
		r.SetLimits(func(string) router.Limit { return router.Limit{Concurrent: 1, Waiting: 5} })
		a.SetRouter(r)
		for _, id := range []string{"first", "second"} {
			go func() { // ends when it was served, and the bubble waits for it
				ctx, cancel := budget.For(t.Context(), time.Minute)
				defer cancel()
				ride, err := r.Route(turnstile.Begin(ctx, 0), router.Ask{Actor: "x", ID: id})
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(2 * time.Second)
				ride.Done()
			}()
			synctest.Wait()
		}
		time.Sleep(3 * time.Second)
		for id, phase := range map[string]string{"first": router.PhaseWake, "second": router.PhaseTurn} {
			got := read[admin.Request](t, a, "/api/v1/requests/"+id, 200)
			if want := []admin.Phase{{Name: phase, Last: 3 * time.Second, Elapsed: 3 * time.Second}}; got.Waiting == nil || got.Waiting.Phase != phase || !slices.Equal(got.Ledger, want) {
				t.Errorf("%s: %+v, waiting %+v, want %v", id, got, got.Waiting, want)
			}
		}
		time.Sleep(time.Minute)
	})
}

func TestChangesNeedTheTokenAndAPageOfTheirOwn(t *testing.T) {
	a, r := withRouter(t, 10, "x")
	did := &plane{}
	paths := []string{"/api/v1/actors/x/wake", "/api/v1/actors/x/sleep", "/api/v1/pools/scripted/resize"}
	try := func(status int, header ...string) {
		t.Helper()
		for _, path := range paths {
			if w := post(a, path, `{"workers": 3}`, header...); w.Code != status || !strings.Contains(w.Header().Get("Content-Type"), "json") && status != 421 && w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("POST %s with %q: %d, want %d\n%s", path, header, w.Code, status, w.Body)
			}
		}
	}
	try(403, "Authorization", "Bearer ") // nobody may, yet
	a.SetControl(did, token)
	try(401)
	try(401, "Authorization", "Bearer")
	try(401, "Authorization", "Bearer "+token+"x")
	try(401, "Authorization", "Basic "+token)
	try(403, "Authorization", "Bearer "+token, "Origin", "http://elsewhere.test")
	try(403, "Authorization", "Bearer "+token, "Origin", "null")
	try(403, "Authorization", "Bearer "+token, "Sec-Fetch-Site", "cross-site")
	if len(did.told) > 0 || r.Snapshot().Plane.Actors[0].Wakes > 0 {
		t.Fatalf("without leave it was done: %q", did.told)
	}
	try(200, "Authorization", "Bearer "+token)
	try(200, "Authorization", "bearer "+token, "Origin", "http://localhost", "Sec-Fetch-Site", "same-origin")
	if got := strings.Join(did.told, ", "); got != "sleep x, resize scripted 3, sleep x, resize scripted 3" {
		t.Errorf("the plane was told: %s", got)
	}
	if r.Snapshot().Plane.Actors[0].State != router.Awake {
		t.Error("the actor was not woken")
	}
	if w := post(a, "/healthz", "", "Authorization", "Bearer "+token); w.Code != 405 {
		t.Errorf("POST /healthz: %d", w.Code)
	}
	if w := ask(a, "GET", "http://localhost/api/v1/actors/x/wake"); w.Code != 405 {
		t.Errorf("GET of a change: %d", w.Code)
	}
}

func TestWrongChangesAreAnsweredWithWhatIsWrong(t *testing.T) {
	a, _ := withRouter(t, 0, "x")
	a.SetControl(&plane{}, token)
	for _, test := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"/api/v1/actors/none/wake", "", 404, "unknown_actor"},
		{"/api/v1/actors/x/wake?wait=1h", "", 400, "at most 5m"},
		{"/api/v1/actors/x/sleep?wait=x", "", 400, "a duration such as 30s"},
		{"/api/v1/pools/none/resize", `{"workers": 3}`, 404, "no pool"},
		{"/api/v1/pools/scripted/resize", `{"workers": "3"}`, 400, "must be JSON"},
		{"/api/v1/pools/scripted/resize", `{"worker": 3}`, 400, "must be JSON"},
		{"/api/v1/pools/scripted/resize", strings.Repeat(" ", 5000) + `{"workers": 3}`, 400, "must be JSON"},
		{"/api/v1/actors/x/wake", "", 503, "lot_full"},
	} {
		w := post(a, test.path, test.body, "Authorization", "Bearer "+token)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.says) {
			t.Errorf("POST %s %.40s: %d %s, want %d and %q", test.path, test.body, w.Code, w.Body, test.status, test.says)
		}
	}
}

func TestAnActorThatIsGoneWithItsSleepIsAsleep(t *testing.T) {
	a, _ := withRouter(t, 0, "x")
	a.SetControl(&plane{}, token)
	w := post(a, "/api/v1/actors/of-a-template/sleep", "", "Authorization", "Bearer "+token)
	var got admin.Actor
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || got.Name != "of-a-template" || got.State != router.Asleep {
		t.Errorf("%d, %v: %s", w.Code, err, w.Body)
	}
}

func TestASleepThatTakesLongIsNotWaitedForLongerThanAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := withRouter(t, 0, "x")
		a.SetControl(&plane{sleeps: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }}, token)
		began := time.Now()
		w := post(a, "/api/v1/actors/x/sleep?wait=3s", "", "Authorization", "Bearer "+token)
		if took := time.Since(began); w.Code != 503 || took != 3*time.Second || !strings.Contains(w.Body.String(), "still going to sleep after 3s") {
			t.Errorf("%d after %v: %s", w.Code, took, w.Body)
		}
	})
}

func TestChangesAreLoggedAndTokensAreNot(t *testing.T) {
	var log bytes.Buffer
	a := newAdmin(t, admin.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	a.SetRouter(router.New(planetest.NewScripted(2, "x"), parking.NewLot(1), router.Options{}))
	a.SetControl(&plane{}, token)
	post(a, "/api/v1/actors/x/wake", "", "Authorization", "Bearer "+token)
	post(a, "/api/v1/actors/x/sleep", "", "Authorization", "Bearer wrong-token")
	text := log.String()
	if !strings.Contains(text, "change=wake of=x") || !strings.Contains(text, "change=sleep of=x") || !strings.Contains(text, "status=401") {
		t.Errorf("the log is\n%s", text)
	}
	if strings.Contains(text, token) || strings.Contains(text, "wrong-token") {
		t.Errorf("a token is in the log:\n%s", text)
	}
}

func TestLogsGoOnFromWhereTheyWere(t *testing.T) {
	a, _ := withRouter(t, 0, "x")
	if p := read[admin.Problem](t, a, "/api/v1/actors/x/logs", 501); p.Detail == "" {
		t.Errorf("%+v", p)
	}
	a.SetControl(&plane{}, token)
	if got := read[admin.Output](t, a, "/api/v1/actors/x/logs?limit=2", 200); strings.Join(got.Lines, " ") != "two three" || got.Next != (router.Position{Wake: 1, Line: 3}) {
		t.Errorf("%+v", got)
	}
	if got := read[admin.Output](t, a, "/api/v1/actors/x/logs?wake=1&line=2", 200); strings.Join(got.Lines, " ") != "three" {
		t.Errorf("%+v", got)
	}
	read[admin.Problem](t, a, "/api/v1/actors/none/logs", 404)
	read[admin.Problem](t, a, "/api/v1/actors/x/logs?line=x", 400)
	server := httptest.NewServer(a)
	defer server.Close()
	resp, err := server.Client().Get(server.URL + "/api/v1/actors/x/logs?follow=true&limit=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || string(text) != "three\nfour\nfive\n" {
		t.Errorf("followed %q, %v", text, err)
	}
}
