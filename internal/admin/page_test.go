package admin_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"layover/budget"
	"layover/internal/admin"
	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
)

// section is one event of a live page.
type section struct{ Name, HTML string }

// liveOf opens a live page and returns the function that reads its next event.
func liveOf(t *testing.T, url string) (next func() section) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || kind != "text/event-stream" {
		t.Fatalf("GET %s: %s, %s", url, resp.Status, kind)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return func() (s section) {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(data), &s); err != nil {
					t.Fatal(err)
				}
				return s
			}
		}
		t.Fatalf("the stream ends: %v", lines.Err())
		return s
	}
}

func TestALivePageIsSentWhatChanged(t *testing.T) {
	a, r := withRouter(t, 5, "x", "y")
	server := httptest.NewServer(a)
	defer server.CloseClientConnections()
	next := liveOf(t, server.URL+"/statusz/live?search=x")
	seen := make(map[string]string)
	for range 5 {
		s := next()
		seen[s.Name] = s.HTML
	}
	if len(seen) != 5 || !strings.Contains(seen["actors"], "1 of 1 actors") || strings.Contains(seen["actors"], ">y<") {
		t.Fatalf("first %q", seen)
	}
	serve(t, r, "x", router.Record{ID: "id-1", Actor: "x", Status: 200, Took: time.Millisecond})
	for !strings.Contains(seen["requests"], "id-1") || !strings.Contains(seen["actors"], ">awake<") {
		s := next()
		if s.Name == "state" || seen[s.Name] == s.HTML {
			t.Errorf("section %s was sent again", s.Name)
		}
		seen[s.Name] = s.HTML
	}
}

func TestTooManyLivePagesAreRefused(t *testing.T) {
	a, _ := withRouter(t, 5, "x")
	server := httptest.NewServer(a)
	defer server.CloseClientConnections()
	for range 100 {
		liveOf(t, server.URL+"/statusz/live")()
	}
	resp, err := http.Get(server.URL + "/statusz/live")
	if err != nil || resp.StatusCode != 503 {
		t.Fatalf("%v, %v", resp, err)
	}
	if resp, err := http.Get(server.URL + "/statusz/live?limit=x"); err != nil || resp.StatusCode != 400 {
		t.Errorf("limit=x: %v, %v", resp, err)
	}
}

func TestThePageHasButtonsOnlyWhereSomethingCanBeChanged(t *testing.T) {
	a, _ := withRouter(t, 5, "x/y")
	text := func() string { return ask(a, "GET", "http://localhost/statusz").Body.String() }
	if strings.Contains(text(), "data-post") {
		t.Error("there are buttons that do nothing")
	}
	a.SetControl(&plane{}, token)
	page := text()
	for _, want := range []string{`data-post="/api/v1/actors/x%2Fy/wake"`, `data-post="/api/v1/pools/scripted/resize"`, `aria-label="wake x/y"`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	if strings.Contains(page, token) {
		t.Error("the page has the token")
	}
}

func TestThePageGoesOnInTheSameSearch(t *testing.T) {
	a, _ := withRouter(t, 5, "a", "b", "c", "other")
	_, link, ok := strings.Cut(ask(a, "GET", "http://localhost/statusz?limit=2&pool=scripted").Body.String(), `<a rel="next" href="`)
	if !ok {
		t.Fatal("there is no next page")
	}
	link, _, _ = strings.Cut(link, `"`)
	u, err := url.Parse(strings.ReplaceAll(link, "&amp;", "&"))
	if err != nil || u.Query().Encode() != "after=b&limit=2&pool=scripted" {
		t.Errorf("next is %q, %v", link, err)
	}
}

func TestWhoAsksForAPageIsRefusedWithAPage(t *testing.T) {
	a := newAdmin(t, admin.Options{Name: "layover"})
	for path, want := range map[string]string{"/statusz?limit=abc": "<p>limit must be a number from 1 to 500</p>", "/configz": "<p>this router shows no configuration</p>"} {
		w := ask(a, "GET", "http://localhost"+path)
		if kind := w.Header().Get("Content-Type"); kind != "text/html; charset=utf-8" || w.Code/100 != 4 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d, %s\n%s", path, w.Code, kind, w.Body)
		}
	}
}

func TestTheConfigurationIsShownOnAPageOfItsOwn(t *testing.T) {
	a := newAdmin(t, admin.Options{})
	if w := ask(a, "GET", "http://localhost/configz"); w.Code != 404 {
		t.Errorf("without one: %d", w.Code)
	}
	a.SetConfig(func() admin.Configuration {
		return admin.Configuration{File: "f.yaml", Text: "lot: <5>", Plan: "plan", Restart: []string{"listen"}}
	})
	text := ask(a, "GET", "http://localhost/configz").Body.String()
	for _, want := range []string{"lot: &lt;5&gt;", "<pre>plan</pre>", "f.yaml", "restart: listen"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestTheStatusPageHasTheConfigurationInForce(t *testing.T) {
	a := newAdmin(t, admin.Options{Version: "v1.2.3 commit 0123"})
	c := admin.Configuration{File: "f.yaml", Text: "lot: <5>", Plan: "route <x>", Restart: []string{"listen"}}
	a.SetConfig(func() admin.Configuration { return c })
	a.Reloaded("0123456789abcdef", nil)
	page := func() string { return ask(a, "GET", "http://localhost/statusz").Body.String() }
	text := page()
	for _, want := range []string{"lot: &lt;5&gt;", "<pre>route &lt;x&gt;</pre>", "from <b>f.yaml</b>", "into force: listen", "0123456789ab<", "build <b>v1.2.3 commit 0123</b>"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "<dialog") || strings.Contains(text, "data-post") {
		t.Error("there is something to press, although nothing can be changed")
	}
	c.Text = strings.Repeat("# long\n", 10<<10)
	if text := page(); strings.Contains(text, "# long") || !strings.Contains(text, `<a href="/configz">all of it</a>`) {
		t.Errorf("a long file is not only linked; the page has %d bytes", len(text))
	}
}

// Text must be read by those who see little contrast, too: WCAG 2 asks for 4.5,
// and for 3 of lines and borders that mean something.
func TestTheColoursOfThePageHaveContrast(t *testing.T) {
	css, err := os.ReadFile("statusz.css")
	if err != nil {
		t.Fatal(err)
	}
	colours := make(map[string][2]string)
	for _, m := range regexp.MustCompile(`--(\w+): light-dark\(#(\w{6}), #(\w{6})\)`).FindAllStringSubmatch(string(css), -1) {
		colours[m[1]] = [2]string{m[2], m[3]}
	}
	for name, least := range map[string]float64{"ink": 4.5, "soft": 4.5, "wake": 4.5, "retry": 4.5, "attempt": 4.5, "line": 3, "sleep": 3, "turn": 3, "edge": 3} {
		for i, theme := range []string{"light", "dark"} {
			if got := contrast(t, colours[name][i], colours["ground"][i]); got < least {
				t.Errorf("%s, %s: contrast %.2f, want %v", name, theme, got, least)
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(hex string) (l float64) {
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			c := float64(n) / 255
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			l += weight * c
		}
		return l
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func TestTheScriptStaysSmallAndTheServerSaysWhatItMayDo(t *testing.T) {
	a := newAdmin(t, admin.Options{})
	w := ask(a, "GET", "http://localhost/statusz.js")
	if n := strings.Count(w.Body.String(), "\n"); n >= 300 {
		t.Errorf("the script has %d lines", n)
	}
	csp := w.Header().Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'", "style-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"} {
		if !strings.Contains(csp, part) {
			t.Errorf("no %s in %q", part, csp)
		}
	}
	if strings.Contains(csp, "unsafe") {
		t.Errorf("Content-Security-Policy %q", csp)
	}
}

// crowded is a plane of ten thousand actors.
type crowded struct {
	router.Plane
	snapshot router.PlaneSnapshot
}

func (c crowded) Snapshot() router.PlaneSnapshot {
	s := c.snapshot
	s.Actors = append([]router.ActorSnapshot(nil), s.Actors...)
	return s
}

func TestFailingActorsAreCountedAndFound(t *testing.T) {
	a := newAdmin(t, admin.Options{})
	a.SetRouter(router.New(crowded{snapshot: router.PlaneSnapshot{
		Pools: []router.PoolSnapshot{{Name: "p", Workers: 1}, {Name: "q", Workers: 1}},
		Actors: []router.ActorSnapshot{
			{Name: "a", Pool: "p", State: router.Asleep},
			{Name: "b", Pool: "p", State: router.Asleep, Failing: true, LastError: "the actor did not start: no key"},
			{Name: "c", Pool: "p", State: router.Waking, Failing: true},
			{Name: "d", Pool: "q", State: router.Failed, Failing: true},
		}}}, parking.NewLot(1), router.Options{}))
	if got := read[admin.Actors](t, a, "/api/v1/actors?failing=true", 200); got.Total != 3 || got.Rows[0].Name != "b" || !got.Rows[0].Failing {
		t.Errorf("failing: %+v", got)
	}
	if got := read[admin.Actors](t, a, "/api/v1/actors?failing=true&state=waking", 200); got.Total != 1 || got.Rows[0].Name != "c" {
		t.Errorf("failing and waking: %+v", got)
	}
	if got := read[admin.Actors](t, a, "/api/v1/actors?failing=false", 200); got.Total != 1 || got.Rows[0].Name != "a" {
		t.Errorf("not failing: %+v", got)
	}
	if p := read[admin.Problem](t, a, "/api/v1/actors?failing=yes", 400); p.Detail != `there is no value of failing "yes"; use one of true, false` {
		t.Errorf("%+v", p)
	}
	if got := read[admin.Status](t, a, "/api/v1/status", 200); got.Failing != 3 || got.Actors[router.Asleep] != 2 {
		t.Errorf("status: %+v", got)
	}
	text := ask(a, "GET", "http://localhost/metrics").Body.String()
	for _, want := range []string{`layover_actors_failing{pool="p"} 2`, `layover_actors_failing{pool="q"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	page := ask(a, "GET", "http://localhost/statusz?failing=true").Body.String()
	for _, want := range []string{`<a class="error" href="/statusz?failing=true"><b>3</b> failing</a>`, `<span class="state failed">asleep, failing</span>`, `<span class="state failed">waking, failing</span>`, `<span class="state failed">failed</span>`, `value="true" checked`, "3 of 3 actors"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
}

func TestNeighboursThatWaitForTheSameAreOneEntryOfThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmin(t, admin.Options{})
		r := router.New(planetest.NewScripted(0, "x", "y"), parking.NewLot(500), router.Options{})
		a.SetRouter(r)
		ctx, cancel := budget.For(t.Context(), time.Minute)
		for i, actor := range slices.Concat(slices.Repeat([]string{"x"}, 25), []string{"y", "x", "x"}, slices.Repeat([]string{"y", "x"}, 12)) {
			go r.Route(ctx, router.Ask{Actor: actor, ID: fmt.Sprintf("<%d>", i)}) // ends with ctx, and the bubble waits for it
			synctest.Wait()
			time.Sleep(time.Second)
		}
		_, page, _ := strings.Cut(ask(a, "GET", "http://localhost/statusz").Body.String(), "waiting, next first: ")
		page, _, _ = strings.Cut(page, "</section>")
		for _, want := range []string{"<b>x ×25</b> band 0, line place 1, up to ", `<a class="id" href="/api/v1/requests/%3C0%3E">&lt;0&gt;</a>`, `>5 more</a></details>`, "<b>y</b> band 0, ", "<b>x ×2</b> band 0, ", `>7 more</a></div>`} {
			if !strings.Contains(page, want) {
				t.Errorf("no %s in\n%s", want, page)
			}
		}
		if n := strings.Count(page, "data-key="); n != 20 {
			t.Errorf("%d entries, want 20", n)
		}
		if first, second, third := strings.Index(page, "x ×25"), strings.Index(page, "<b>y</b>"), strings.Index(page, "x ×2<"); first > second || second > third {
			t.Errorf("the entries are at %d, %d, %d", first, second, third)
		}
		cancel()
		synctest.Wait()
	})
}

func manyActors(b testing.TB) *admin.Admin {
	b.Helper()
	a, err := admin.New(admin.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var c crowded
	for i := range 10_000 {
		c.snapshot.Actors = append(c.snapshot.Actors, router.ActorSnapshot{Name: fmt.Sprintf("actor-%05d", i), Pool: "default", State: router.Asleep, Since: time.Now()})
	}
	r := router.New(c, parking.NewLot(2000), router.Options{})
	for i := range 200 {
		r.Record(router.Record{ID: fmt.Sprint("id-", i), At: time.Now(), Method: "GET", Actor: "actor-00001", Status: 200, Took: time.Second})
	}
	a.SetRouter(r)
	return a
}

func BenchmarkPagesOfTenThousandActors(b *testing.B) {
	a := manyActors(b)
	for _, path := range []string{"/statusz", "/statusz?limit=500", "/api/v1/actors?limit=500", "/api/v1/actors?search=09999", "/api/v1/lot?limit=500", "/api/v1/requests"} {
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				a.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+path, nil))
				if w.Code != 200 {
					b.Fatal(w.Code)
				}
				io.Copy(io.Discard, w.Body)
			}
		})
	}
}
