package admin_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"layover/budget"
	"layover/internal/admin"
	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
)

func newAdmin(t *testing.T, o admin.Options) *admin.Admin {
	t.Helper()
	a, err := admin.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// withRouter returns an Admin that shows a router whose one pool has the
// actors.
func withRouter(t *testing.T, lot int, actors ...string) (*admin.Admin, *router.Router) {
	t.Helper()
	a := newAdmin(t, admin.Options{Version: "v1"})
	r := router.New(planetest.NewScripted(2, actors...), parking.NewLot(lot), router.Options{Observe: a.Observe})
	a.SetRouter(r)
	return a, r
}

func ask(a *admin.Admin, method, url string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest(method, url, nil))
	return w
}

// serve routes one request to actor and records it.
func serve(t *testing.T, r *router.Router, actor string, rec router.Record) {
	t.Helper()
	ctx, cancel := budget.For(context.Background(), 10*time.Second)
	defer cancel()
	ride, err := r.Route(ctx, router.Ask{Actor: actor})
	if err != nil {
		t.Fatal(err)
	}
	defer ride.Done()
	end := budget.From(ctx).Phase(router.PhaseAttempt)
	end()
	rec.Actor, rec.Wake, rec.Parked, rec.ParkedFor, rec.Budget = actor, ride.Wake, ride.Parked, ride.ParkedFor, budget.From(ctx)
	r.Record(rec)
}

func TestHealthAndReadinessFollowTheProgramsLife(t *testing.T) {
	a := newAdmin(t, admin.Options{})
	check := func(path string, status int, text string) {
		t.Helper()
		if w := ask(a, "GET", "http://localhost"+path); w.Code != status || w.Body.String() != text+"\n" {
			t.Errorf("GET %s: %d %q, want %d %q", path, w.Code, w.Body, status, text)
		}
	}
	check("/healthz", 200, "ok")
	check("/readyz", 503, "starting")
	a.SetReady(false)
	check("/readyz", 503, "starting")
	a.SetReady(true)
	check("/readyz", 200, "ready")
	a.SetReady(false)
	check("/readyz", 503, "draining")
	check("/healthz", 200, "ok")
}

func TestOnlyGetAndHeadAreAnswered(t *testing.T) {
	a := newAdmin(t, admin.Options{})
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "CONNECT"} {
		w := ask(a, method, "http://localhost/healthz")
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d, Allow %q", method, w.Code, w.Header().Get("Allow"))
		}
	}
	if w := ask(a, "HEAD", "http://localhost/healthz"); w.Code != 200 {
		t.Errorf("HEAD: %d", w.Code)
	}
}

func TestAPageElsewhereCannotStartProfiles(t *testing.T) {
	a := newAdmin(t, admin.Options{})
	for _, test := range []struct {
		path, site, dest string
		want             int
	}{
		{"/debug/pprof/cmdline", "", "", http.StatusOK},
		{"/debug/pprof/cmdline", "none", "document", http.StatusOK},
		{"/debug/pprof/cmdline", "same-origin", "document", http.StatusOK},
		{"/debug/pprof/cmdline", "cross-site", "image", http.StatusForbidden},
		{"/debug/pprof/cmdline", "cross-site", "document", http.StatusForbidden},
		{"/debug/pprof/cmdline", "same-site", "empty", http.StatusForbidden}, // another port of localhost
		{"/healthz", "cross-site", "empty", http.StatusForbidden},
		{"/healthz", "cross-site", "document", http.StatusOK},
		{"/healthz", "cross-site", "iframe", http.StatusForbidden},
	} {
		req := httptest.NewRequest("GET", "http://localhost"+test.path, nil)
		for name, value := range map[string]string{"Sec-Fetch-Site": test.site, "Sec-Fetch-Dest": test.dest} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		a.ServeHTTP(w, req)
		if w.Code != test.want {
			t.Errorf("GET %s from %q for %q: status %d, want %d", test.path, test.site, test.dest, w.Code, test.want)
		}
	}
}

func TestOnlyLoopbackHostsAreAnsweredUnlessPublic(t *testing.T) {
	private, public := newAdmin(t, admin.Options{}), newAdmin(t, admin.Options{Public: true})
	for host, local := range map[string]bool{
		"localhost": true, "LOCALHOST:7070": true, "localhost.": true, "127.0.0.1:7070": true, "127.8.0.1": true, "[::1]:7070": true, "[::1]": true, "[::ffff:127.0.0.1]:1": true,
		"rebound.example.com": false, "localhost.example.com": false, "10.0.0.1:7070": false, "[fe80::1]:7070": false, "0.0.0.0": false, "": false,
	} {
		for _, path := range []string{"/healthz", "/statusz.json", "/debug/pprof/cmdline"} {
			req := httptest.NewRequest("GET", path, nil)
			req.Host = host
			w := httptest.NewRecorder()
			private.ServeHTTP(w, req)
			if got := w.Code == 200; got != local {
				t.Errorf("host %q, %s: status %d", host, path, w.Code)
			}
			w = httptest.NewRecorder()
			public.ServeHTTP(w, req)
			if w.Code != 200 {
				t.Errorf("public, host %q, %s: status %d", host, path, w.Code)
			}
		}
	}
}

func TestR75_R76_MetricsCountByClosedSetsOfLabels(t *testing.T) {
	a, r := withRouter(t, 5, "x", "y")
	serve(t, r, "x", router.Record{Route: "api", Band: 1, Took: 20 * time.Millisecond})
	serve(t, r, "x", router.Record{Route: "api", Band: 77, Took: time.Millisecond})
	r.Record(router.Record{Route: "api", Actor: "secret-actor", Reason: router.LotFull, Detail: "secret detail"})
	r.Record(router.Record{Reason: router.NoRoute})
	r.Record(router.Record{Route: "web", Status: 202, MovedOn: true, Wait: router.Wait{Wake: router.WakeJoined}})
	a.SetFront(func() (int, map[string]uint64) { return 4, map[string]uint64{"malformed": 3, "stream_idle": 0} })
	text := ask(a, "GET", "http://localhost/metrics").Body.String()
	for _, line := range []string{
		`layover_requests_total{band="1",outcome="served",route="api",wake="triggered"} 1`,
		`layover_requests_total{band="4 and above",outcome="served",route="api",wake="none"} 1`,
		`layover_requests_total{band="0",outcome="lot_full",route="api",wake="unknown"} 1`,
		`layover_requests_total{band="0",outcome="no_route",route="none",wake="unknown"} 1`,
		`layover_requests_total{band="0",outcome="moved_on",route="web",wake="joined"} 1`,
		`layover_request_duration_seconds_bucket{route="api",wake="triggered",le="0.025"} 1`,
		`layover_parked_duration_seconds_count{band="1",route="api"} 1`,
		`layover_phase_duration_seconds_count{phase="wake"} 1`,
		`layover_phase_duration_seconds_count{phase="attempt"} 2`,
		`layover_connections 4`,
		`layover_connection_events_total{event="malformed"} 3`,
		`layover_connection_events_total{event="stream_idle"} 0`,
		`layover_ready 0`,
		`layover_build_info{version="v1"} 1`,
		`layover_lot_spots 5`,
		`layover_lot_spots_used 0`,
		`layover_lot_rejected_total 0`,
		`layover_lot_longest_wait_seconds 0`,
		`layover_pool_workers{pool="scripted"} 2`,
		`layover_pool_workers_used{pool="scripted"} 1`,
		`layover_pool_waiting{pool="scripted"} 0`,
		`layover_turns_waiting{pool="scripted"} 0`,
		`layover_actors{pool="scripted",state="awake"} 1`,
		`layover_actors{pool="scripted",state="asleep"} 1`,
		`layover_actors{pool="scripted",state="failed"} 0`,
	} {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Contains(text, "secret") {
		t.Error("a name or text out of a request became a label")
	}
	if t.Failed() {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "layover_") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}

func TestAnUnlimitedLotIsInfiniteInMetricsAndNullInJSON(t *testing.T) {
	a, _ := withRouter(t, parking.Unlimited)
	if text := ask(a, "GET", "http://localhost/metrics").Body.String(); !strings.Contains(text, "\nlayover_lot_spots +Inf\n") {
		t.Error("layover_lot_spots is not +Inf")
	}
	if text := ask(a, "GET", "http://localhost/statusz.json").Body.String(); !strings.Contains(text, `"capacity": null`) {
		t.Errorf("capacity is not null in %s", text)
	}
	if text := ask(a, "GET", "http://localhost/statusz").Body.String(); !strings.Contains(text, "of unlimited spots") {
		t.Error("the page does not say unlimited")
	}
}

func TestMetricsBeforeTheRouterExistsAreThoseOfTheProcess(t *testing.T) {
	text := ask(newAdmin(t, admin.Options{}), "GET", "http://localhost/metrics").Body.String()
	if !strings.Contains(text, "\nlayover_ready 0\n") || !strings.Contains(text, "\ngo_goroutines ") {
		t.Errorf("metrics are\n%s", text)
	}
}

func TestStatusPagesThroughTheActors(t *testing.T) {
	a, _ := withRouter(t, 1, "a", "b", "c", "d", "e")
	var got []string
	after := ""
	for range 3 {
		var s struct {
			Actors     []router.ActorSnapshot
			ActorCount int `json:"actor_count"`
			Next       string
		}
		w := ask(a, "GET", "http://localhost/statusz.json?limit=2&after="+after)
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || s.ActorCount != 5 {
			t.Fatalf("%v, %+v", err, s)
		}
		names := ""
		for _, actor := range s.Actors {
			names += actor.Name
		}
		got = append(got, names)
		after = s.Next
	}
	if want := "ab cd e"; strings.Join(got, " ") != want || after != "" {
		t.Errorf("pages %q, then %q; want %q and no more", got, after, want)
	}
	for _, bad := range []string{"0", "-1", "x", "1000000"} {
		if w := ask(a, "GET", "http://localhost/statusz.json?limit="+bad); w.Code != 400 {
			t.Errorf("limit=%s: status %d", bad, w.Code)
		}
	}
}

func TestStatusShowsWhereARequestsTimeWent(t *testing.T) {
	a, r := withRouter(t, 5, "x")
	serve(t, r, "x", router.Record{ID: "id-1", At: time.Now(), Method: "GET", Route: "api", Status: 200, Took: 20 * time.Millisecond})
	var s struct {
		Recent []struct {
			ID     string
			Wake   string
			Parked bool
			Ledger []struct {
				Name    string
				Elapsed time.Duration `json:"elapsed_ns"`
			}
		}
		Totals router.Totals
	}
	if err := json.Unmarshal(ask(a, "GET", "http://localhost/statusz.json").Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Recent) != 1 || s.Recent[0].ID != "id-1" || s.Recent[0].Wake != "triggered" || !s.Recent[0].Parked || s.Totals.Served != 1 {
		t.Fatalf("%+v", s)
	}
	names := make(map[string]bool)
	for _, phase := range s.Recent[0].Ledger {
		names[phase.Name] = true
	}
	if !names["wake"] || !names["attempt"] {
		t.Errorf("the ledger has %v, want wake and attempt", names)
	}
}

// output is a plane whose actor printed markup.
type output struct{ router.Plane }

func (output) Snapshot() router.PlaneSnapshot {
	return router.PlaneSnapshot{Actors: []router.ActorSnapshot{{
		Name: "x", State: router.Failed, Since: time.Now(), RetryAt: time.Now(), LastError: "<b>exit</b>", Output: []string{"<script>alert(1)</script>"},
	}}}
}

func TestThePageEscapesWhatActorsAndClientsSay(t *testing.T) {
	a := newAdmin(t, admin.Options{})
	r := router.New(output{}, parking.NewLot(0), router.Options{Observe: a.Observe})
	a.SetRouter(r)
	r.Record(router.Record{ID: `"><script>`, Method: "<M>", Actor: "<i>", Detail: `" onclick="x`})
	w := ask(a, "GET", "http://localhost/statusz?refresh=2")
	body := w.Body.String()
	for _, bad := range []string{"<script>alert", "><script>", "<b>exit", "<M>", "<i>", `" onclick="x`} {
		if strings.Contains(body, bad) {
			t.Errorf("the page has %s in it", bad)
		}
	}
	if !strings.Contains(body, "&lt;script&gt;alert(1)&lt;/script&gt;") || !strings.Contains(body, `content="2"`) || !strings.HasSuffix(body, "</html>\n") {
		t.Errorf("the page is not whole:\n%s", body)
	}
	if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("Content-Security-Policy %q", csp)
	}
}

func TestEveryPathOverARealConnection(t *testing.T) {
	a, r := withRouter(t, 5, "x")
	serve(t, r, "x", router.Record{At: time.Now(), Method: "GET", Status: 200})
	server := httptest.NewServer(a)
	defer server.Close()
	for path, kind := range map[string]string{
		"/": "text/html", "/healthz": "text/plain", "/metrics": "text/plain", "/statusz": "text/html", "/statusz.css": "text/css", "/statusz.js": "text/javascript",
		"/statusz.json": "application/json", "/debug/pprof/": "text/html", "/debug/pprof/goroutine?debug=1": "text/plain",
	} {
		resp, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), kind) || len(body) == 0 {
			t.Errorf("GET %s: %s, %s, %d bytes, %v", path, resp.Status, resp.Header.Get("Content-Type"), len(body), err)
		}
	}
	if resp, err := http.Get(server.URL + "/nothing"); err != nil || resp.StatusCode != 404 {
		t.Errorf("GET /nothing: %v, %v", resp, err)
	}
}

func BenchmarkObserve(b *testing.B) {
	a, err := admin.New(admin.Options{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := budget.For(context.Background(), time.Hour)
	defer cancel()
	budget.From(ctx).Phase(router.PhaseAttempt)()
	rec := router.Record{Route: "api", Wait: router.Wait{Wake: router.WakeNone}, Took: time.Millisecond, Budget: budget.From(ctx)}
	b.ReportAllocs()
	for b.Loop() {
		a.Observe(rec)
	}
}

func TestStatusNamesWhoIsNext(t *testing.T) {
	a := newAdmin(t, admin.Options{})
	r := router.New(planetest.NewScripted(0, "x", "y"), parking.NewLot(5), router.Options{})
	a.SetRouter(r)
	ctx, cancel := budget.For(t.Context(), time.Minute)
	done := make(chan struct{})
	go func() { // the test waits for it
		defer close(done)
		r.Route(ctx, router.Ask{Actor: "y"})
	}()
	for r.Snapshot().Lot.Active == 0 {
		runtime.Gosched()
	}
	var s struct {
		Pools []struct {
			Line []struct{ Actor string }
		}
	}
	if err := json.Unmarshal(ask(a, "GET", "http://localhost/statusz.json").Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if line := s.Pools[0].Line; len(line) != 1 || line[0].Actor != "y" {
		t.Errorf("the line is %+v, want y", line)
	}
	if text := ask(a, "GET", "http://localhost/statusz").Body.String(); !strings.Contains(text, "<b>y</b> band 0") {
		t.Errorf("the page does not name y in line:\n%s", text)
	}
	cancel()
	<-done
}

func TestWhatNeverHappenedHasNoTime(t *testing.T) {
	a, _ := withRouter(t, 5, "x")
	if text := ask(a, "GET", "http://localhost/statusz.json").Body.String(); strings.Contains(text, "0001-01-01") || strings.Contains(text, "last_wake") {
		t.Errorf("an actor that never woke has times: %s", text)
	}
	if text := ask(a, "GET", "http://localhost/statusz").Body.String(); !strings.Contains(text, `<td class="n" data-l="wake-ups">0<td class="n" data-l="p50">–`) {
		t.Errorf("the page has no dash for the wake-up of an actor that never woke:\n%s", text)
	}
}
