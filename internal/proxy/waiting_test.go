package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/router"
	"layover/parking"
)

// pageRoute shows a waiting page for the actor a.
func pageRoute(after time.Duration) router.Route {
	return router.Route{Name: "pages", Host: "a.test", Actor: "a", Budget: time.Minute, MaxBudget: time.Minute, WaitingPage: after}
}

// asBrowser makes r what a browser sends when its user follows a link.
func asBrowser(r *http.Request) *http.Request {
	r.Header.Set("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	r.Header.Set("Upgrade-Insecure-Requests", "1")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	r.Header.Set("Sec-Fetch-Dest", "document")
	r.Header.Set("Sec-Fetch-Site", "none")
	r.Header.Set("User-Agent", "a browser")
	return r
}

func TestOnlyWhatABrowserShowsItsUserIsANavigation(t *testing.T) {
	const html = "text/html,application/xhtml+xml,*/*;q=0.8"
	browser := []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Accept", html, "Upgrade-Insecure-Requests", "1"}
	clear := []string{"Accept", html, "Upgrade-Insecure-Requests", "1"} // of a browser that does not trust the connection
	with := func(headers []string, more ...string) []string { return slices.Concat(headers, more) }
	for _, c := range []struct {
		what, method string
		headers      []string
		want         bool
	}{
		{"a link", "GET", browser, true},
		{"a link in the clear", "GET", clear, true},
		{"HTML with a parameter", "GET", []string{"Accept", "Text/HTML; level=1, */*", "Upgrade-Insecure-Requests", "1"}, true},
		{"a form", "POST", browser, false},
		{"a look at the header", "HEAD", browser, false},
		{"an upgrade", "GET", with(browser, "Upgrade", "websocket", "Connection", "Upgrade"), false},
		{"a part of a file", "GET", with(browser, "Range", "bytes=0-"), false},
		{"a library of scripts", "GET", with(clear, "X-Requested-With", "XMLHttpRequest"), false},
		{"a prefetch", "GET", with(browser, "Sec-Purpose", "prefetch"), false},
		{"a prerendering", "GET", with(browser, "Sec-Purpose", "prefetch;prerender"), false},
		{"an old prefetch", "GET", with(clear, "Purpose", "prefetch"), false},
		{"an older prefetch", "GET", with(clear, "X-Moz", "prefetch"), false},
		{"gRPC", "GET", with(browser, "Content-Type", "application/grpc"), false},
		{"a frame", "GET", []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Accept", html}, false},
		{"a script's fetch", "GET", []string{"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Accept", html, "Upgrade-Insecure-Requests", "1"}, false},
		{"a script's fetch of a document", "GET", []string{"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "document"}, false},
		{"half of the metadata", "GET", with(clear, "Sec-Fetch-Mode", "navigate"), false},
		{"the other half", "GET", with(clear, "Sec-Fetch-Dest", "document"), false},
		{"two modes", "GET", with(browser, "Sec-Fetch-Mode", "cors"), false},
		{"an EventSource", "GET", []string{"Accept", "text/event-stream"}, false},
		{"curl", "GET", []string{"Accept", "*/*"}, false},
		{"nothing", "GET", nil, false},
		{"a program that accepts HTML", "GET", []string{"Accept", html}, false},
		{"HTML as a second choice", "GET", []string{"Accept", "application/json, text/html", "Upgrade-Insecure-Requests", "1"}, false},
		{"HTML with reserve", "GET", []string{"Accept", "text/html;level=1; q=0.9, */*", "Upgrade-Insecure-Requests", "1"}, false},
		{"HTML never", "GET", []string{"Accept", "text/html;q=0", "Upgrade-Insecure-Requests", "1"}, false},
		{"two lists", "GET", with(clear, "Accept", html), false},
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		for i := 0; i < len(c.headers); i += 2 {
			r.Header.Add(c.headers[i], c.headers[i+1])
		}
		if got := navigates(r); got != c.want {
			t.Errorf("%s: navigates = %v, want %v", c.what, got, c.want)
		}
	}
	old := asBrowser(httptest.NewRequest("GET", "/", nil))
	old.ProtoMajor, old.ProtoMinor = 1, 0
	if body := asBrowser(httptest.NewRequest("GET", "/", strings.NewReader("x"))); navigates(body) || navigates(old) {
		t.Error("a request with a body, or of HTTP/1.0, is a navigation")
	}
}

func FuzzNavigation(f *testing.F) {
	for _, accept := range []string{"text/html", "text/html;q=0.5", " text/html ;x=\"q=1\"", ",", ";", "*/*"} {
		f.Add(accept)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		if prefersHTML([]string{accept}) && !strings.HasPrefix(strings.ToLower(strings.TrimSpace(accept)), "text/html") {
			t.Errorf("prefersHTML(%q), which does not begin with it", accept)
		}
	})
}

// sight is what a client has seen of a page after some time.
type sight struct {
	after time.Duration
	text  string
}

// reader is a client that notes when what was sent to it.
type reader struct {
	mu      sync.Mutex
	began   time.Time
	header  http.Header
	status  int
	seen    []sight
	pending strings.Builder
	broken  bool
}

func newReader() *reader { return &reader{began: time.Now(), header: make(http.Header)} }

func (r *reader) Header() http.Header              { return r.header }
func (r *reader) WriteHeader(status int)           { r.status = status }
func (r *reader) SetWriteDeadline(time.Time) error { return nil }

func (r *reader) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken {
		return 0, io.ErrClosedPipe
	}
	return r.pending.Write(text)
}

func (r *reader) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, sight{time.Since(r.began), r.pending.String()})
	r.pending.Reset()
}

func (r *reader) hangUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = true
}

// lines returns what of the page begins with one of these, with its time.
func (r *reader) lines(parts ...string) (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, sight{time.Since(r.began), r.pending.String()}) // the end of the answer sends it
	r.pending.Reset()
	for _, s := range r.seen {
		for line := range strings.Lines(s.text) {
			for _, part := range parts {
				if strings.Contains(line, part) {
					all = append(all, fmt.Sprintf("%v %s", s.after, part))
				}
			}
		}
	}
	return all
}

func (r *reader) sees(t *testing.T, parts []string, want ...string) {
	t.Helper()
	if got := r.lines(parts...); !slices.Equal(got, want) {
		t.Errorf("the page has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// house is a proxy in a bubble: without a listener, and with a network on which
// nobody waits but in the bubble.
type house struct {
	*plane
	t       *testing.T
	proxy   *Proxy
	router  *router.Router
	lot     *parking.Lot
	records []router.Record
	mu      sync.Mutex
	refuse  bool // the network refuses connections
}

func newHouse(t *testing.T, route router.Route, limit router.Limit) *house {
	h := &house{plane: &plane{actors: make(map[string]*fakeActor), parks: make(chan string, 1000)}, t: t, lot: parking.NewLot(100)}
	h.router = router.New(h.plane, h.lot, router.Options{Observe: func(rec router.Record) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.records = append(h.records, rec)
	}})
	h.router.SetLimits(func(string) router.Limit { return limit })
	names, err := router.NewNames([]router.Route{route})
	if err != nil {
		t.Fatal(err)
	}
	h.router.SetNames(names)
	h.proxy = New(h.router, Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	h.proxy.actors.dial = h.dial
	h.add("a", router.ProtocolH1, "a:1", false)
	return h
}

func (h *house) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse {
		return nil, syscall.ECONNREFUSED
	}
	ours, theirs := net.Pipe()
	go func() { // ends with the connection
		for in := bufio.NewReader(theirs); ; {
			r, err := http.ReadRequest(in)
			if err != nil {
				theirs.Close()
				return
			}
			answer := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
			if r.Method == http.MethodHead {
				answer = strings.TrimSuffix(answer, "hello")
			}
			io.WriteString(theirs, answer)
		}
	}()
	return ours, nil
}

func (h *house) refusing(yes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse = yes
}

// last returns the only record since the last call.
func (h *house) last() router.Record {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.records) != 1 {
		h.t.Fatalf("%d records, want 1: %+v", len(h.records), h.records)
	}
	rec := h.records[0]
	h.records = nil
	return rec
}

// visit sends a request, changed by changes, and returns its client and a channel
// that is closed at the end of its answer.
func (h *house) visit(changes ...func(*http.Request)) (*reader, <-chan struct{}) {
	r := asBrowser(httptest.NewRequest("GET", "/page?q=1", nil))
	r.Host = "a.test"
	for _, change := range changes {
		change(r)
	}
	client, ended := newReader(), make(chan struct{})
	go func() { // ends with its answer
		defer close(ended)
		h.proxy.ServeHTTP(client, r)
	}()
	return client, ended
}

// stop begins a stop and returns a channel that is closed at its end.
func (h *house) stop() <-chan struct{} {
	stopped := make(chan struct{})
	go func() { // ends with the last request
		defer close(stopped)
		if err := h.proxy.Shutdown(context.Background()); err != nil {
			h.t.Error(err)
		}
	}()
	return stopped
}

// allGivenBack is the end of a bubble: all that was kept for a moment is given back.
func (h *house) allGivenBack() {
	h.t.Helper()
	time.Sleep(handoverTime)
	synctest.Wait()
	if n, spots := h.rides(), h.lot.Snapshot().Active; n != 0 || spots != 0 {
		h.t.Errorf("%d rides and %d spots are left", n, spots)
	}
	if err := h.proxy.Shutdown(context.Background()); err != nil {
		h.t.Error(err)
	}
}

func TestAWaitingPageIsShownAfterItsTimeAndMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, pageRoute(time.Second), router.Limit{})
		client, ended := h.visit()
		time.Sleep(3500 * time.Millisecond)
		h.wake("a")
		<-ended
		client.sees(t, []string{"<!doctype html>", "It is starting.", "Waited for", "location.reload()", "</html>"},
			"1s <!doctype html>", "1s It is starting.", "1s Waited for", "2s Waited for", "3s Waited for",
			"3.5s location.reload()", "3.5s </html>")
		for name, want := range map[string]string{"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no", "Referrer-Policy": "no-referrer"} {
			if got := client.header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		rec := h.last()
		if client.status != 202 || rec.Status != 202 || !rec.MovedOn || rec.Reason != "" || !rec.Parked || rec.Took != 3500*time.Millisecond || rec.Wake != router.WakeTriggered {
			t.Errorf("status %d, record %+v", client.status, rec)
		}
		again, ended := h.visit()
		<-ended
		if rec := h.last(); again.status != 200 || rec.MovedOn || rec.Wake != router.WakeNone || rec.Parked || h.asked() != 1 {
			t.Errorf("the browser's next request: status %d, record %+v, %d requests asked for the actor; want 200 with the ride of the page", again.status, rec, h.asked())
		}
		h.allGivenBack()
	})
}

func TestWhoIsServedBeforeThePageIsDueGetsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, pageRoute(time.Second), router.Limit{})
		client, ended := h.visit()
		time.Sleep(time.Second - 1)
		h.wake("a")
		<-ended
		if rec := h.last(); client.status != 200 || rec.Took != time.Second-1 {
			t.Errorf("status %d, record %+v", client.status, rec)
		}
		time.Sleep(time.Minute)
		if h.rides() != 0 {
			t.Error("a ride is kept for nobody")
		}
		h.allGivenBack()
	})
}

func TestAPIsAndOtherRoutesNeverGetAWaitingPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, change := range map[string]func(*http.Request){
			"a POST":  func(r *http.Request) { r.Method = "POST" },
			"HEAD":    func(r *http.Request) { r.Method = "HEAD" },
			"a fetch": func(r *http.Request) { r.Header.Set("Sec-Fetch-Mode", "cors"); r.Header.Set("Sec-Fetch-Dest", "empty") },
			"curl":    func(r *http.Request) { r.Header = http.Header{"Accept": {"*/*"}} },
			"gRPC":    func(r *http.Request) { r.Header.Set("Content-Type", "application/grpc") },
			"EventSource": func(r *http.Request) {
				r.Header = http.Header{"Accept": {"text/event-stream"}, "Sec-Fetch-Mode": {"cors"}}
			},
			"a prefetch":    func(r *http.Request) { r.Header.Set("Sec-Purpose", "prefetch") },
			"a part":        func(r *http.Request) { r.Header.Set("Range", "bytes=0-1") },
			"a subresource": func(r *http.Request) { r.Header.Set("Sec-Fetch-Dest", "image") },
		} {
			h := newHouse(t, pageRoute(time.Second), router.Limit{})
			client, ended := h.visit(change)
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if client.status != 0 || len(client.seen) > 0 {
				t.Errorf("%s: was answered %d while it waits: %v", what, client.status, client.seen)
			}
			h.wake("a")
			<-ended
			if rec := h.last(); rec.Took != 30*time.Second || rec.MovedOn {
				t.Errorf("%s: record %+v", what, rec)
			}
			h.allGivenBack()
		}
		route := pageRoute(0)
		h := newHouse(t, route, router.Limit{})
		client, ended := h.visit()
		time.Sleep(30 * time.Second)
		h.wake("a")
		<-ended
		if client.status != 200 {
			t.Errorf("a route without a waiting page: %d", client.status)
		}
		h.allGivenBack()
	})
}

func TestAWaitingPageSaysThePlaceInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, pageRoute(time.Second), router.Limit{Concurrent: 1, Waiting: 10})
		h.sleep("a", "a:1")
		h.actors["a"].awake = true
		holder, _ := h.router.Route(t.Context(), router.Ask{Actor: "a"})
		next, nextCancel := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			h.router.Route(next, router.Ask{Actor: "a"})
		}()
		synctest.Wait()
		client, ended := h.visit()
		time.Sleep(2500 * time.Millisecond)
		nextCancel()
		<-left
		time.Sleep(2 * time.Second)
		holder.Done()
		<-ended
		client.sees(t, []string{"number 2", "number 1", "It is awake"},
			"1s number 2", "3s number 1", "4.5s It is awake")

		// Its turn is kept for the browser: nobody comes in between.
		other, otherEnded := h.visit(func(r *http.Request) { r.URL.Path, r.RequestURI = "/other", "/other" })
		time.Sleep(time.Second)
		synctest.Wait()
		if other.status != 202 {
			t.Errorf("another request was answered %d while the turn is kept, want the page", other.status)
		}
		again, ended := h.visit()
		<-ended
		<-otherEnded
		if again.status != 200 {
			t.Errorf("the browser's next request: %d, want 200", again.status)
		}
		h.allGivenBack()
	})
}

func TestAWaitingPageOfARefusedRequestSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, pageRoute(time.Second), router.Limit{})
		client, ended := h.visit()
		time.Sleep(5 * time.Second)
		h.fail("a", router.Fail(router.StartFailed, "it exited with status 1", nil))
		<-ended
		client.sees(t, []string{"This site failed to start", "start_failed: it exited with status 1", "location.reload()", "Try again"},
			"5s This site failed to start", "5s Try again", "5s start_failed: it exited with status 1")
		if rec := h.last(); rec.Status != 202 || rec.Reason != router.StartFailed || rec.MovedOn {
			t.Errorf("record %+v", rec)
		}

		client, ended = h.visit()
		<-ended
		client.sees(t, []string{"is still starting", `data-after="`, "location.reload()"},
			"1m0s is still starting", `1m0s data-after="`, "1m0s location.reload()")
		if rec := h.last(); rec.Reason != router.StillWaking || rec.Took != time.Minute {
			t.Errorf("record %+v", rec)
		}
		h.wake("a")
		h.allGivenBack()
	})
}

func TestR65_AWaitingPageMovesOnOnlyWhenTheActorTakesConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, pageRoute(time.Second), router.Limit{})
		h.refusing(true)
		client, ended := h.visit()
		time.Sleep(2500 * time.Millisecond)
		h.wake("a")
		time.Sleep(5 * time.Second)
		h.refusing(false)
		<-ended
		client.sees(t, []string{"takes no connections yet", "location.reload()"},
			"3s takes no connections yet", client.lines("location.reload()")[0])
		if rec := h.last(); !rec.MovedOn || rec.Took < 7500*time.Millisecond || rec.Took > 7500*time.Millisecond+maxRetry || h.refusals() == 0 {
			t.Errorf("record %+v, %d refusals told", rec, h.refusals())
		}
		h.allGivenBack()

		h = newHouse(t, pageRoute(time.Second), router.Limit{})
		h.refusing(true)
		client, ended = h.visit()
		time.Sleep(2 * time.Second)
		h.wake("a")
		<-ended
		if rec := h.last(); rec.MovedOn || rec.Reason != router.ActorUnreachable || rec.Took > time.Minute {
			t.Errorf("an actor that never takes one: record %+v", rec)
		}
		client.sees(t, []string{"location.reload()"})
		h.allGivenBack()
	})
}

// An actor that dies between the page and the browser's next request is woken
// again without a second page.
func TestR65_AnActorThatDiesAfterThePageMakesNoLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, pageRoute(time.Second), router.Limit{})
		first, ended := h.visit()
		time.Sleep(2 * time.Second)
		h.wake("a")
		<-ended
		h.last()
		h.refusing(true)
		h.sleep("a", "a:2")
		second, ended := h.visit()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if first.status != 202 || second.status != 0 {
			t.Errorf("first %d, second %d after 30 s: want one page alone", first.status, second.status)
		}
		h.refusing(false)
		h.wake("a")
		<-ended
		if rec := h.last(); second.status != 200 || rec.Wake != router.WakeTriggered {
			t.Errorf("second %d, record %+v", second.status, rec)
		}
		h.allGivenBack()
	})
}

// An actor that was awake and took no connections may be gone by the next look.
func TestAWaitingPageSaysThatAnActorIsStartingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, pageRoute(time.Second), router.Limit{})
		h.refusing(true)
		client, ended := h.visit()
		time.Sleep(1500 * time.Millisecond)
		h.wake("a")
		time.Sleep(time.Second)
		h.sleep("a", "a:2")
		time.Sleep(2 * time.Second)
		h.refusing(false)
		h.wake("a")
		<-ended
		client.sees(t, []string{"It is starting.", "takes no connections yet", "Going on"},
			"1s It is starting.", "2s takes no connections yet", "3s It is starting.", "4.5s Going on")
		h.allGivenBack()
	})
}

func TestAKeptRideIsGivenBackWhenNobodyComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, pageRoute(time.Second), router.Limit{})
		_, ended := h.visit()
		time.Sleep(2 * time.Second)
		h.wake("a")
		<-ended
		stranger, strangerEnded := h.visit(func(r *http.Request) { r.Header.Set("User-Agent", "another") })
		<-strangerEnded
		time.Sleep(handoverTime - 1)
		synctest.Wait()
		if n := h.rides(); n != 1 || stranger.status != 200 {
			t.Errorf("%d rides just before the end of the time, want 1; a stranger got %d", n, stranger.status)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := h.rides(); n != 0 {
			t.Errorf("%d rides after it, want 0", n)
		}
		h.allGivenBack()
	})
}

func TestAWaitingPageMovesOnToTheFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		route := pageRoute(time.Second)
		route.Fallback, route.FallbackAfter = "b", 3*time.Second
		h := newHouse(t, route, router.Limit{})
		h.add("b", router.ProtocolH1, "b:1", true)
		client, ended := h.visit()
		<-ended
		client.sees(t, []string{"<!doctype html>", "location.reload()"}, "1s <!doctype html>", "3s location.reload()")
		if rec := h.last(); !rec.MovedOn || rec.Actor != "b" || rec.Instead != "a" {
			t.Errorf("record %+v", rec)
		}
		again, ended := h.visit() // it does not wait for a once more
		<-ended
		if rec := h.last(); again.status != 200 || rec.Took != 0 || rec.Actor != "b" || rec.Instead != "a" || again.header.Get("Layover-Fallback") != "b" {
			t.Errorf("the browser's next request: status %d, header %v, record %+v", again.status, again.header, rec)
		}
		h.wake("a")
		h.allGivenBack()
	})
}

func TestAWaitingPageSaysThatItsFallbackStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		route := pageRoute(time.Second)
		route.Fallback = "b"
		h := newHouse(t, route, router.Limit{})
		h.add("b", router.ProtocolH1, "b:1", false)
		client, ended := h.visit()
		time.Sleep(2500 * time.Millisecond)
		h.fail("a", router.Fail(router.StartFailed, "it exited with status 1", nil))
		time.Sleep(2 * time.Second)
		h.wake("b")
		<-ended
		client.sees(t, []string{"Waiting for a</h1>", "Waiting for b</h1>", "<p>It is starting.", "b is to answer in its place. It is starting.", "asked to wake up", "Going on"},
			"1s Waiting for a</h1>", "1s <p>It is starting.", "3s b is to answer in its place. It is starting.", "4.5s Going on")
		if rec := h.last(); !rec.MovedOn || rec.Actor != "b" || rec.Instead != "a" {
			t.Errorf("record %+v", rec)
		}
		h.allGivenBack()
	})
}

func TestAWaitingPageCountsEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, pageRoute(28*time.Second), router.Limit{})
		client, ended := h.visit()
		time.Sleep(30500 * time.Millisecond)
		h.wake("a")
		<-ended
		client.sees(t, []string{"Waited for 28 s.", "Waited for 29 s.", "Waited for 30 s."},
			"28s Waited for 28 s.", "29s Waited for 29 s.", "30s Waited for 30 s.")
		h.last()
		h.allGivenBack()
	})
}

func TestAStopKeepsNoRide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, pageRoute(time.Second), router.Limit{})
		_, ended := h.visit()
		time.Sleep(2 * time.Second)
		h.wake("a")
		<-ended
		h.last()
		h.sleep("a", "a:1")
		client, ended := h.visit(func(r *http.Request) { r.RequestURI = "/other" })
		time.Sleep(1500 * time.Millisecond)
		kept := h.rides()
		stopped := h.stop()
		synctest.Wait()
		if kept != 1 || h.rides() != 0 {
			t.Errorf("%d rides before the stop, %d in it, want one that is kept, then none", kept, h.rides())
		}
		<-ended
		if rec := h.last(); client.status != 202 || !rec.MovedOn || rec.Reason != "" || h.rides() != 0 {
			t.Errorf("a page that was there when the stop began: record %+v, and %d rides are kept", rec, h.rides())
		}
		// It does not wait for its actor. Who asks at once finds nobody listening.
		client.sees(t, []string{"being restarted", `data-after="5"`, `content="5;`}, "2s being restarted", `2s data-after="5"`, `2s content="5;`)
		<-stopped
		h.wake("a")
	})
}

// What it waited for is there: the actor only takes no connections yet.
func TestAStopLeavesAPageThatHasItsRide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, pageRoute(time.Second), router.Limit{})
		h.refusing(true)
		client, ended := h.visit()
		time.Sleep(1500 * time.Millisecond)
		h.wake("a")
		synctest.Wait()
		stopped := h.stop()
		time.Sleep(2 * time.Second)
		h.refusing(false)
		<-ended
		client.sees(t, []string{"takes no connections yet", "Waited for 3 s.", "being restarted"},
			"2s takes no connections yet", "3s Waited for 3 s.", "3.527s being restarted")
		if rec := h.last(); !rec.MovedOn || h.rides() != 0 {
			t.Errorf("record %+v, and %d rides are kept", rec, h.rides())
		}
		<-stopped
	})
}

// The browser would go on to nobody.
func TestAStopBeginsNoWaitingPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, pageRoute(time.Second), router.Limit{})
		client, ended := h.visit()
		time.Sleep(time.Second - 1)
		stopped := h.stop()
		time.Sleep(5 * time.Second)
		h.wake("a")
		<-ended
		if rec := h.last(); client.status != 200 || rec.MovedOn || rec.Took != 6*time.Second-1 {
			t.Errorf("status %d, record %+v", client.status, rec)
		}
		<-stopped
	})
}

func TestAClientThatLeavesItsWaitingPageFreesItsSpot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, pageRoute(time.Second), router.Limit{})
		client, ended := h.visit()
		time.Sleep(1500 * time.Millisecond)
		client.hangUp()
		<-ended
		if rec := h.last(); rec.Reason != router.ClientGone || rec.Took != 2*time.Second || h.lot.Snapshot().Active != 0 {
			t.Errorf("record %+v, %d spots taken", rec, h.lot.Snapshot().Active)
		}
		h.wake("a")
		h.allGivenBack()
	})
}

func TestInterimAnswersEndWhereTheWaitingPageBegins(t *testing.T) {
	route := pageRoute(300 * time.Millisecond)
	route.Interim = 100 * time.Millisecond
	f := newFixture(t, setup{routes: []router.Route{route}})
	f.actorH1("a", false, hello)
	c := f.dial()
	req := asBrowser(f.request("GET", "a", "/", nil))
	if err := req.Write(c); err != nil {
		t.Fatal(err)
	}
	interims := 0
	resp := c.response("GET")
	for ; resp.StatusCode == http.StatusProcessing; resp = c.response("GET") {
		interims++
	}
	f.wake("a")
	body, err := io.ReadAll(resp.Body)
	if interims == 0 || resp.StatusCode != 202 || err != nil || !strings.Contains(string(body), "Going on to it") {
		t.Errorf("after %d interim answers %d %v %s", interims, resp.StatusCode, err, body)
	}
}

func TestWaitingPagesOverTheWire(t *testing.T) {
	for _, version := range []int{1, 2} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("h%d,tls=%v", version, secure), func(t *testing.T) {
				f := newFixture(t, setup{tls: secure, routes: []router.Route{pageRoute(20 * time.Millisecond)}})
				f.actorH1("a", false, hello)
				client := f.client(version)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				resp, err := client.Do(asBrowser(f.request("GET", "a", "/", nil)).WithContext(ctx)) // has the header while it waits
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if resp.StatusCode != 202 || f.lot.Snapshot().Active != 1 || resp.ProtoMajor != version {
					t.Errorf("%d over HTTP/%d with %d spots taken", resp.StatusCode, resp.ProtoMajor, f.lot.Snapshot().Active)
				}
				leave()
				if rec := f.record(); rec.Reason != router.ClientGone || rec.Status != 202 {
					t.Errorf("who leaves: record %+v", rec)
				}
				until(t, "the spot is free", func() bool { return f.lot.Snapshot().Active == 0 })

				if resp, err = client.Do(asBrowser(f.request("GET", "a", "/", nil))); err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				f.wake("a")
				if body, err := io.ReadAll(resp.Body); resp.StatusCode != 202 || err != nil || !strings.Contains(string(body), "</html>") {
					t.Errorf("the page: %d %v %s", resp.StatusCode, err, body)
				}
				if r := get(t, do(client, asBrowser(f.request("GET", "a", "/", nil)))); r.resp.StatusCode != 200 || r.body != "hello" {
					t.Errorf("the next request: %d %s", r.resp.StatusCode, r.body)
				}
			})
		}
	}
}
