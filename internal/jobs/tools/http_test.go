package tools

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestOnlyWhatIsMeantForThisServerIsServed(t *testing.T) {
	front := newRig(Options{}, listed("quick")).HTTP(HTTPOptions{Hosts: []string{"jobs.example"}, Origins: []string{"https://tools.example"}})
	for _, test := range []struct {
		host, origin string
		want         int
	}{
		{"127.0.0.1:8090", "", 200}, {"localhost", "", 200}, {"LOCALHOST:80", "", 200}, {"jobs.localhost.:80", "", 200}, {"[::1]:80", "", 200},
		{"[::ffff:127.0.0.1]:80", "", 200}, {"127.9.9.9", "", 200}, {"jobs.example:443", "", 200}, {"Jobs.Example", "", 200},
		{"evil.example", "", 403}, {"10.0.0.1:8090", "", 403}, {"localhost.evil.example", "", 403}, {"notlocalhost", "", 403}, {"", "", 403},
		{"127.0.0.1", "http://localhost:6274", 200}, {"127.0.0.1", "https://tools.example", 200},
		{"127.0.0.1", "http://tools.example", 403}, {"127.0.0.1", "https://evil.example", 403}, {"127.0.0.1", "null", 403}, {"127.0.0.1", "localhost", 403},
	} {
		r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
		r.Host = test.host
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		w := httptest.NewRecorder()
		front.ServeHTTP(w, r)
		if w.Code != test.want {
			t.Errorf("host %q, origin %q: status %d, want %d: %s", test.host, test.origin, w.Code, test.want, w.Body)
		}
	}
}

func TestWhatIsNoCallOverHTTPHasAStatus(t *testing.T) {
	front := newRig(Options{}, listed("quick")).HTTP(HTTPOptions{})
	for _, test := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/healthz", "", 200}, {"POST", "/healthz", "", 405}, {"GET", "/", "", 404},
		{"GET", "/mcp", "", 405}, {"DELETE", "/mcp", "", 405},
		{"POST", "/mcp", "", 400}, {"POST", "/mcp", "{garbage", 400}, {"POST", "/mcp", "[]", 400},
		{"POST", "/mcp", strings.Repeat("a", maxMessage+1), 413},
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 200},
	} {
		r := httptest.NewRequest(test.method, "/"+strings.TrimPrefix(test.path, "/"), strings.NewReader(test.body))
		r.Host = "127.0.0.1"
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		front.ServeHTTP(w, r)
		if w.Code != test.want {
			t.Errorf("%s %s %.40q: status %d, want %d: %.200s", test.method, test.path, test.body, w.Code, test.want, w.Body)
		}
	}
}

func TestAClientCannotNameAPOST(t *testing.T) {
	r := newRig(Options{}, listed("quick", jobs("quick", 1)...))
	defer r.posts.add(&post{token: "known"})()
	body := callLine(1, "jobs.list", `{"boards":["quick"]}`, "")
	req := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	req.Host = "127.0.0.1"
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set(postHeader, "known") // its context would be nil
	w := httptest.NewRecorder()
	r.HTTP(HTTPOptions{}).ServeHTTP(w, req)
	if text, _ := io.ReadAll(w.Body); w.Code != 200 || !strings.Contains(string(text), `quick//0`) {
		t.Errorf("status %d: %s", w.Code, text)
	}
}

func FuzzArguments(f *testing.F) {
	for _, seed := range []string{`{}`, `{"boards":["quick"],"limit":3,"timeout_seconds":1e300}`, `{"deadline":"2030-01-31T12:00:00Z"}`, `[`, `{"limit":-0.0}`, `{"salary_min":1e999}`} {
		f.Add(seed)
	}
	s := newRig(Options{}, listed("quick")).Server
	f.Fuzz(func(t *testing.T, raw string) {
		q, when, bad := s.readList([]byte(raw))
		switch {
		case bad != nil && (bad.name == "" || bad.want == "" || len(bad.Error()) > 2000):
			t.Errorf("%q: the mistake %q does not help", raw, bad)
		case bad == nil && (q.Limit < 0 || q.Limit > 100 || when.timeout < 0 || when.timeout > s.o.Longest || q.PayMin < 0):
			t.Errorf("%q was taken as %+v, %+v", raw, q, when)
		}
	})
}

func FuzzClean(f *testing.F) {
	f.Add("a\u202eb\tc", 20)
	f.Fuzz(func(t *testing.T, s string, most int) {
		if most < 8 || most > 1000 {
			return
		}
		got := clean(s, most)
		if len(got) > most || strings.ContainsAny(got, "\n\r\x00\u202e\u200b") || got != clean(got, most) {
			t.Errorf("clean(%q, %d) = %q", s, most, got)
		}
	})
}
