package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"layover/internal/cli"
	"layover/internal/envoy"
)

func TestProfilesAreForThisMachineOnly(t *testing.T) {
	h := guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	for _, test := range []struct {
		from, path string
		want       int
	}{
		{"10.1.2.3:4567", "/statusz", http.StatusOK},
		{"10.1.2.3:4567", "/debug/pprof/", http.StatusForbidden},
		{"nonsense", "/debug/pprof/", http.StatusForbidden},
		{"127.0.0.1:4567", "/debug/pprof/", http.StatusOK},
		{"[::1]:4567", "/debug/pprof/", http.StatusOK},
		{"[::ffff:127.0.0.1]:4567", "/debug/pprof/", http.StatusOK},
	} {
		req := httptest.NewRequest("GET", "http://router:4040"+test.path, nil)
		req.RemoteAddr = test.from
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, req); w.Code != test.want {
			t.Errorf("%s of %s: %d, want %d", test.path, test.from, w.Code, test.want)
		}
	}
}

func TestTheEnvironmentSaysWhenGarbageIsCollected(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	for _, test := range []struct {
		gogc string
		want int
	}{{"50", 50}, {"off", 50}, {"", garbage}} {
		collectLater(test.gogc)
		if got := debug.SetGCPercent(50); got != test.want {
			t.Errorf("GOGC=%q: %d, want %d", test.gogc, got, test.want)
		}
	}
}

func TestTheHealthServiceFollowsTheProgramsLife(t *testing.T) {
	c, s, plane := ownFront(t, "--parked-request-budget=20s")
	conn, err := grpc.NewClient(c.extproc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	watch, err := healthv1.NewHealthClient(conn).Watch(t.Context(), new(healthv1.HealthCheckRequest))
	if err != nil {
		t.Fatal(err)
	}
	mustBe := func(want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if got, err := watch.Recv(); err != nil || got.Status != want {
			t.Fatalf("health is %v, %v, want %v", got, err, want)
		}
	}
	mustBe(healthv1.HealthCheckResponse_SERVING)
	ask(t, c.listen, "a"+suffix)
	served := make(chan int, 1)
	go func() { // ends with the answer
		status, _ := ask(t, c.listen, "b"+suffix)
		served <- status
	}()
	mustPark(t, s)
	stop := make(chan os.Signal, 1)
	stop <- syscall.SIGTERM
	stopped := make(chan error, 1)
	go func() { stopped <- s.run(stop) }() // ends with the stop
	mustBe(healthv1.HealthCheckResponse_NOT_SERVING)
	plane.Suspend("demo/a")
	if status := <-served; status != 200 {
		t.Errorf("the parked request is answered %d", status)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestTheMetricsAddressHasNothingElse(t *testing.T) {
	h := onlyMetrics(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	for path, want := range map[string]int{"/metrics": 200, "/statusz": 404, "/debug/pprof/": 404} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest("GET", path, nil)); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

func TestTheStatusAddressShowsAndChangesNothing(t *testing.T) {
	c, s, _ := ownFront(t)
	ask(t, c.listen, "a"+suffix)
	seen := func(method, path string) (int, string) {
		w := httptest.NewRecorder()
		guard(s.admin).ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String()
	}
	for path, want := range map[string]string{ // what ps, top and why ask for, and the pages
		"/api/v1/status": `"name": "atenet-router"`, "/api/v1/actors?state=awake": `"rows": []`, "/api/v1/pools": `"rows": `,
		"/api/v1/requests": `"actor": "demo/a"`, "/api/v1/config": "hold, at most", "/configz": "hold, at most", "/statusz": "hold, at most",
	} {
		if code, text := seen("GET", path); code != 200 || !strings.Contains(text, want) || strings.Contains(text, "data-post") {
			t.Errorf("GET %s: %d, want %q in\n%s", path, code, want, text)
		}
	}
	for _, path := range []string{"/api/v1/actors/demo%2Fa/wake", "/api/v1/actors/demo%2Fa/sleep", "/api/v1/pools/default/resize"} {
		if code, text := seen("POST", path); code != 403 || !strings.Contains(text, "lets nobody change anything") {
			t.Errorf("POST %s: %d %s", path, code, text)
		}
	}
	if code, text := seen("GET", "/api/v1/actors/demo%2Fa/logs"); code != 501 || !strings.Contains(text, "does not see what its actors print") {
		t.Errorf("logs: %d %s", code, text)
	}
}

func TestFlagsAreShownWithoutWhatURLsMayHide(t *testing.T) {
	cmd := serveCommand("x")
	if err := cmd.ParseFlags([]string{"--ateapi-address=dns://name:secret@resolver/ateapi:443"}); err != nil {
		t.Fatal(err)
	}
	c := inForce(envoy.DefaultPlan(), settings(cmd.Flags()))
	if strings.Contains(c.Text, "secret") || !strings.Contains(c.Text, "--ateapi-address=dns://(hidden)@resolver/ateapi:443\n") || c.Plan == "" {
		t.Errorf("%+v", c)
	}
}

func TestATakenAddressIsSaidWithItsFlag(t *testing.T) {
	c, _, _ := ownFront(t)
	other := *c
	other.listen = ""
	plan, _, err := other.check()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := start(&other, plan, nil, cli.NewLog(io.Discard, nil, cli.FormatText)); err == nil || !strings.Contains(err.Error(), "--extproc-address: another program listens on "+c.extproc) {
		t.Errorf("start = %v", err)
	}
}
