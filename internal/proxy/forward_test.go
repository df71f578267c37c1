package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"

	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"layover/internal/router"
)

// rawActor answers each connection's first request with answer, and hands the
// request's head to heads.
func (f *fixture) rawActor(name string, awake bool, answer string) (heads chan string) {
	l := listen(f.t)
	f.t.Cleanup(func() { l.Close() })
	heads = make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(limit))
				var head strings.Builder
				r := bufio.NewReader(c)
				for !strings.HasSuffix(head.String(), "\r\n\r\n") {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					head.WriteString(line)
				}
				heads <- head.String()
				io.WriteString(c, strings.ReplaceAll(answer, "\n", "\r\n"))
			}()
		}
	}()
	f.add(name, router.ProtocolH1, l.Addr().String(), awake)
	return heads
}

func TestR49_TheRawPathArrivesByteForByte(t *testing.T) {
	f := newFixture(t, setup{})
	heads := f.rawActor("a", true, "HTTP/1.1 204 No Content\nConnection: close\n\n")
	for _, c := range []struct{ sent, want string }{
		{"/a%2fb|c", "/a%2fb|c"},
		{"/", "/"},
		{"/?", "/?"},
		{"/x?%zz;&a=%2F+b", "/x?%zz;&a=%2F+b"},
		{"/%41/../b//c/.", "/%41/../b//c/."},
		{"//a/b", "//a/b"},
		{"//a%2fb?", "//a%2fb?"},
		{"http://a.test/a%2fb?q", "/a%2fb?q"},
		{"/a\"<>[]{}^`", "/a\"<>[]{}^`"},
		{"/\xc3\xa9", "/\xc3\xa9"},
	} {
		conn := f.dial()
		conn.send("GET %s HTTP/1.1\nHost: a.test\n\n", c.sent)
		if resp := conn.response("GET"); resp.StatusCode != 204 {
			t.Errorf("%q: status %d", c.sent, resp.StatusCode)
			continue
		}
		line, _, _ := strings.Cut(receive(t, heads, "the actor has the request"), "\r\n")
		if want := "GET " + c.want + " HTTP/1.1"; line != want {
			t.Errorf("%q arrives as %q, want %q", c.sent, line, want)
		}
	}
}

func TestR49_TheRawPathArrivesOverHTTP2(t *testing.T) {
	f := newFixture(t, setup{})
	uris := make(chan string, 1)
	f.actorH2C("a", true, func(w http.ResponseWriter, r *http.Request) { uris <- r.RequestURI })
	req := f.request("GET", "a", "/", nil)
	req.URL.Opaque, req.URL.RawQuery = "/a%2fb|c", "%zz"
	get(t, do(f.client(2), req))
	if got, want := <-uris, "/a%2fb|c?%zz"; got != want {
		t.Errorf("arrives as %q, want %q", got, want)
	}
}

func TestR50_TheHostIsMatchedLooselyAndKeptAsSent(t *testing.T) {
	f := newFixture(t, setup{})
	hosts := make(chan string, 1)
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) { hosts <- r.Host })
	for _, host := range []string{"a.test", "A.TEST:8080", "a.test.", "a.Test.:80"} {
		req := f.request("GET", "", "/", nil)
		req.Host = host
		if r := get(t, do(f.client(1), req)); r.resp.StatusCode != 200 {
			t.Errorf("%q: status %d, want 200", host, r.resp.StatusCode)
		} else if got := <-hosts; got != host {
			t.Errorf("%q arrives as %q", host, got)
		}
	}
}

// headers sends a request with h and returns what the actor got.
func headers(t *testing.T, f *fixture, version int, h http.Header) http.Header {
	t.Helper()
	got := make(chan http.Header, 1)
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) { got <- r.Header })
	req := f.request("GET", "a", "/", nil)
	for name, values := range h {
		req.Header[name] = values
	}
	get(t, do(f.client(version), req))
	return receive(t, got, "the actor has the request")
}

func TestR55_ForwardedHeadersOfStrangersAreReplaced(t *testing.T) {
	f := newFixture(t, setup{tls: true, options: Options{Trust: Trust{BandHeader: "x-band"}}})
	got := headers(t, f, 2, http.Header{
		"X-Forwarded-For": {"1.1.1.1"}, "X-Forwarded-Host": {"evil"}, "X-Forwarded-Proto": {"gopher"}, "X-Forwarded-Port": {"1"},
		"Forwarded": {"for=1.1.1.1"}, "X-Request-Id": {"chosen"}, "X-Band": {"-5"}, "Layover-Actor": {"b"}, "X-Kept": {"yes"},
	})
	for name, want := range map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "a.test", "X-Forwarded-Proto": "https", "X-Forwarded-Port": "",
		"Forwarded": "", "X-Band": "", "Layover-Actor": "", "X-Kept": "yes",
	} {
		if value := strings.Join(got[name], "|"); value != want {
			t.Errorf("%s arrives as %q, want %q", name, value, want)
		}
	}
	rec := f.record()
	if id := got.Get("X-Request-Id"); id == "chosen" || id == "" || id != rec.ID {
		t.Errorf("X-Request-Id arrives as %q, the record has %q, want one new id", id, rec.ID)
	}
	if rec.Band != 0 {
		t.Errorf("band %d, want the route's", rec.Band)
	}
}

func TestR55_ForwardedHeadersOfTrustedPeersAreKept(t *testing.T) {
	f := newFixture(t, setup{})
	f.proxy.SetTrust(Trust{Peers: loopback, BandHeader: "x-band"})
	got := headers(t, f, 1, http.Header{
		"X-Forwarded-For": {"1.1.1.1", "2.2.2.2"}, "X-Forwarded-Host": {"outer"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Port": {"1"},
		"Forwarded": {"for=1.1.1.1"}, "X-Request-Id": {"chosen"}, "X-Band": {"7"}, "Layover-Actor": {"b"},
	})
	for name, want := range map[string]string{
		"X-Forwarded-For": "1.1.1.1, 2.2.2.2, 127.0.0.1", "X-Forwarded-Host": "outer", "X-Forwarded-Proto": "https", "X-Forwarded-Port": "1",
		"Forwarded": "for=1.1.1.1", "X-Request-Id": "chosen", "X-Band": "", "Layover-Actor": "",
	} {
		if value := strings.Join(got[name], "|"); value != want {
			t.Errorf("%s arrives as %q, want %q", name, value, want)
		}
	}
	if rec := f.record(); rec.Band != 7 || rec.ID != "chosen" {
		t.Errorf("record = %+v, want band 7 and the id chosen", rec)
	}
}

func TestABandOfATrustedPeerIsOneThatExists(t *testing.T) {
	trust := newTrust(Trust{Peers: loopback, BandHeader: "X-Band"})
	for value, want := range map[string]int{"7": 7, "0": 0, "99": 99, "-5": 0, "100": 99, "high": 3, "1.5": 3, "": 3, "99999999999999999999": 3} {
		r := &http.Request{Header: http.Header{"X-Band": {value}}}
		if got := trust.band(r, true, 3); got != want {
			t.Errorf("band with X-Band %q = %d, want %d", value, got, want)
		}
	}
}

func TestR54_PrivateHeadersOfActorsAreStripped(t *testing.T) {
	f := newFixture(t, setup{options: Options{Trust: Trust{BandHeader: "X-Band"}}})
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Layover-Reason", "lot_full")
		w.Header().Set("X-Band", "1")
		w.Header().Set("X-Kept", "yes")
		w.Header().Set("Server", "actor/1")
		w.Header().Set("Date", "Thu, 01 Jan 1970 00:00:00 GMT")
	})
	h := get(t, do(f.client(1), f.request("GET", "a", "/", nil))).resp.Header
	if h.Get("Layover-Reason") != "" || h.Get("X-Band") != "" || h.Get("X-Kept") != "yes" {
		t.Errorf("header = %v, want X-Kept and no private header", h)
	}
	if h.Get("Server") != "actor/1" || len(h["Date"]) != 1 || !strings.Contains(h.Get("Date"), "1970") {
		t.Errorf("header = %v, want the actor's Server and Date", h)
	}
}

func TestHopByHopHeadersStayOnTheirHop(t *testing.T) {
	f := newFixture(t, setup{})
	got := headers(t, f, 1, http.Header{
		"Connection": {"X-Hop"}, "X-Hop": {"1"}, "Keep-Alive": {"300"}, "Proxy-Authorization": {"x"}, "Te": {"trailers, deflate"},
	})
	for _, name := range []string{"Connection", "X-Hop", "Keep-Alive", "Proxy-Authorization"} {
		if got.Get(name) != "" {
			t.Errorf("%s arrives as %q, want nothing", name, got.Get(name))
		}
	}
	if got.Get("Te") != "trailers" {
		t.Errorf("TE arrives as %q, want trailers", got.Get("Te"))
	}
}

func TestR35_TheRemainingBudgetGoesToTheActor(t *testing.T) {
	f := newFixture(t, setup{budget: 20 * time.Second})
	for _, c := range []struct {
		name, value string
		most        time.Duration
	}{
		{"Operation-Timeout", "5s", 5 * time.Second},
		{"Operation-Timeout", "1h", time.Minute}, // the route's maximum
		{"Operation-Deadline", time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339Nano), 5 * time.Second},
		{"X-Unrelated", "1", 20 * time.Second},
	} {
		got := headers(t, f, 1, http.Header{c.name: {c.value}})
		left, err := time.ParseDuration(got.Get("Operation-Timeout"))
		if err != nil || left > c.most || left < c.most-2*time.Second {
			t.Errorf("%s: %s arrives as Operation-Timeout: %q (%v), want a little less than %v", c.name, c.value, got.Get("Operation-Timeout"), err, c.most)
		}
		if got.Get("Operation-Deadline") != "" {
			t.Errorf("Operation-Deadline arrives")
		}
	}
}

func TestG5_TheBudgetEndsTheAttempt(t *testing.T) {
	const allowed = 250 * time.Millisecond // in which the actor has the request
	f := newFixture(t, setup{})
	told := make(chan struct{}, 2)
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints) // not a final header
		<-r.Context().Done()
		told <- struct{}{}
	})
	for _, version := range []int{1, 2} {
		req := f.request("GET", "a", "/", nil)
		req.Header.Set("Operation-Timeout", allowed.String())
		begin := time.Now()
		r := get(t, do(f.client(version), req))
		if took := time.Since(begin); took < allowed || took > allowed+2*time.Second {
			t.Errorf("HTTP/%d: answered after %v, want %v", version, took, allowed)
		}
		if r.resp.StatusCode != 504 || r.resp.Header.Get("Layover-Reason") != string(router.AttemptTimeout) {
			t.Errorf("HTTP/%d: %d %s, want 504", version, r.resp.StatusCode, r.resp.Header.Get("Layover-Reason"))
		}
		receive(t, told, "the actor is told")
		if rec := f.record(); rec.Reason != router.AttemptTimeout || rec.Budget.Ledger().String() == "" {
			t.Errorf("record = %+v", rec)
		}
	}
}

func TestG5_R32_AStreamLivesOnAfterTheBudget(t *testing.T) {
	f := newFixture(t, setup{})
	next := make(chan struct{})
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			<-next
		}
	})
	for _, version := range []int{1, 2} {
		req := f.request("GET", "a", "/", nil)
		req.Header.Set("Operation-Timeout", "500ms")
		resp, err := f.client(version).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(600 * time.Millisecond) // the real clock's: a socket cannot be in a bubble
		for range 3 {
			next <- struct{}{}
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != "xxx" {
			t.Errorf("HTTP/%d: body %q, %v, want xxx", version, body, err)
		}
	}
}

func TestR43_InformationalAnswersArePassedOn(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.WriteHeader(http.StatusTeapot)
	})
	for _, version := range []int{1, 2} {
		hints := make(chan string, 1)
		req := f.request("GET", "a", "/", nil)
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints <- fmt.Sprint(code, h.Get("Link"))
				return nil
			},
		}))
		r := get(t, do(f.client(version), req))
		if got := receive(t, hints, "the client has a 103"); got != "103</style.css>" {
			t.Errorf("HTTP/%d: hint %q", version, got)
		}
		if r.resp.StatusCode != http.StatusTeapot || r.resp.Header.Get("Link") != "" {
			t.Errorf("HTTP/%d: answer %d %v", version, r.resp.StatusCode, r.resp.Header)
		}
	}
}

func TestR43_TheActorDecidesAfterExpect100Continue(t *testing.T) {
	for _, version := range []int{1, 2} {
		f := newFixture(t, setup{})
		f.actorH1("a", false, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/refuse" {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
				return
			}
			io.Copy(w, r.Body)
		})
		client := f.client(version)
		asked := make(chan struct{}, 2)
		post := func(path string) <-chan result {
			req := f.request("POST", "a", path, &asking{Reader: strings.NewReader("body"), asked: asked})
			req.ContentLength = 4
			req.Header.Set("Expect", "100-continue")
			return do(client, req)
		}
		done := post("/accept")
		f.parked()
		select {
		case <-asked:
			t.Errorf("HTTP/%d: the body was asked for while nobody could read it", version)
		case <-time.After(50 * time.Millisecond):
		}
		f.wake("a")
		if r := get(t, done); r.body != "body" {
			t.Errorf("HTTP/%d: answer %d %q, want the body", version, r.resp.StatusCode, r.body)
		}
		<-asked
		if version == 2 {
			continue // net/http's server hides the expectation: the body is asked for once there is an actor
		}
		if r := get(t, post("/refuse")); r.resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("HTTP/%d: answer %d, want 413", version, r.resp.StatusCode)
		}
		select {
		case <-asked:
			t.Errorf("HTTP/%d: the body was asked for although the actor refused it", version)
		default:
		}
	}
}

// asking tells when it is first read.
type asking struct {
	io.Reader
	asked chan struct{}
	was   bool
}

func (a *asking) Read(p []byte) (int, error) {
	if !a.was {
		a.was = true
		a.asked <- struct{}{}
	}
	return a.Reader.Read(p)
}

func TestAnEarlyAnswerReachesTheClientAtOnce(t *testing.T) {
	f := newFixture(t, setup{})
	f.rawActor("a", true, "HTTP/1.1 409 Conflict\nContent-Length: 0\n\n")
	c := f.dial()
	c.send("POST / HTTP/1.1\nHost: a.test\nContent-Length: 100000\n\nfirst part")
	resp := c.response("POST")
	if resp.StatusCode != http.StatusConflict || !resp.Close {
		t.Errorf("status %d, close %v, want 409 and close", resp.StatusCode, resp.Close)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("body: %v", err)
	}
}

func TestTrailersGoBothWays(t *testing.T) {
	f := newFixture(t, setup{})
	actor := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Announced")
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "body")
		w.Header().Set("X-Announced", r.Trailer.Get("X-Sum"))
		w.Header().Set(http.TrailerPrefix+"X-Unannounced", "2")
	}
	f.actorH1("a", true, actor)
	f.actorH2C("b", true, actor)
	for _, name := range []string{"a", "b"} {
		for _, version := range []int{1, 2} {
			req := f.request("POST", name, "/", struct{ io.Reader }{strings.NewReader("x")})
			req.Header.Set("Te", "trailers")
			req.Trailer = http.Header{"X-Sum": {"1"}}
			r := get(t, do(f.client(version), req))
			if r.resp.Trailer.Get("X-Announced") != "1" || r.resp.Trailer.Get("X-Unannounced") != "2" {
				t.Errorf("%s over HTTP/%d: trailers %v", name, version, r.resp.Trailer)
			}
		}
	}
}

func TestR78_EventsArriveOneByOne(t *testing.T) {
	f := newFixture(t, setup{})
	next := make(chan struct{})
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			<-next
		}
	})
	for _, version := range []int{1, 2} {
		resp, err := f.client(version).Do(f.request("GET", "a", "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get("X-Accel-Buffering"); got != "no" {
			t.Errorf("X-Accel-Buffering = %q, want no", got)
		}
		r := bufio.NewReader(resp.Body)
		for i := range 3 {
			if line, err := r.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
				t.Fatalf("HTTP/%d: event %d: %q, %v", version, i, line, err)
			}
			r.ReadString('\n')
			next <- struct{}{}
		}
		resp.Body.Close()
	}
}

func TestHeadAnswersKeepTheirLength(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "1234") })
	for _, version := range []int{1, 2} {
		if r := get(t, do(f.client(version), f.request("HEAD", "a", "/", nil))); r.resp.ContentLength != 1234 || r.body != "" {
			t.Errorf("HTTP/%d: length %d, body %q, want 1234 and none", version, r.resp.ContentLength, r.body)
		}
	}
}

func TestR51_ALargeHeaderIsRefusedAboveTheLimit(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", true, hello)
	for size, want := range map[int]int{58 << 10: 200, 70 << 10: 431} {
		c := f.dial()
		c.send("GET / HTTP/1.1\nHost: a.test\nCookie: %s\n\n", strings.Repeat("c", size))
		if resp := c.response("GET"); resp.StatusCode != want {
			t.Errorf("%d bytes: status %d, want %d", size, resp.StatusCode, want)
		}
	}
}

func TestConnectIsRefused(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", true, hello)
	c := f.dial()
	c.send("CONNECT a.test:80 HTTP/1.1\nHost: a.test:80\n\n")
	if resp := c.response("CONNECT"); resp.StatusCode != 404 {
		t.Errorf("status %d, want 404", resp.StatusCode)
	}
}

func TestTheHandlerWorksWithoutAListener(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", false, hello)
	w := httptest.NewRecorder()
	req := httptest.NewRequest("POST", "http://a.test/", bytes.NewReader(make([]byte, 10)))
	f.wake("a")
	f.proxy.Handler().ServeHTTP(w, req)
	if w.Code != 200 || w.Body.String() != "hello" {
		t.Errorf("answer = %d %q, want 200 hello", w.Code, w.Body)
	}
}

// loopback are the peers of these tests.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func TestEachAnswerHasTheRequestsIDOnce(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Request-Id", "the actor's own") })
	for name, host := range map[string]string{"of an actor": "a", "of the router": "nobody"} {
		resp := get(t, do(f.client(1), f.request("GET", host, "/where?secret", nil))).resp
		rec := f.record()
		if got := resp.Header["X-Request-Id"]; len(got) != 1 || got[0] != rec.ID || rec.ID == "" {
			t.Errorf("the answer %s has X-Request-Id %q, the record %q", name, got, rec.ID)
		}
		if rec.Host != host+".test" || rec.Path != "/where" {
			t.Errorf("the record %s is of host %q, path %q", name, rec.Host, rec.Path)
		}
	}
}

func TestTheActorIsToldTheSpanAndTheSpanGetsTheRecord(t *testing.T) {
	ended := make(chan router.Record, 1)
	begin := func(ctx context.Context, r *http.Request) (context.Context, *Trace) {
		return ctx, &Trace{Header: http.Header{"Traceparent": {r.Header.Get("Traceparent") + "-child"}, "Tracestate": nil},
			End: func(rec router.Record) { ended <- rec }}
	}
	f := newFixture(t, setup{options: Options{Trace: begin}})
	got := headers(t, f, 1, http.Header{"Traceparent": {"parent"}, "Tracestate": {"x=1"}})
	if parent, state := got["Traceparent"], got["Tracestate"]; len(parent) != 1 || parent[0] != "parent-child" || state != nil {
		t.Errorf("the actor is told %q, %q", parent, state)
	}
	if rec := receive(t, ended, "the span ends"); rec.ID != f.record().ID {
		t.Errorf("the span got the record %+v", rec)
	}
	get(t, do(f.client(1), f.request("GET", "nobody", "/", nil)))
	if rec := receive(t, ended, "the span of a refused request ends"); rec.Reason != router.UnknownActor && rec.Reason != router.NoRoute {
		t.Errorf("the span of a refused request got the record %+v", rec)
	}
}
