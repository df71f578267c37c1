package answer

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"layover/internal/router"
)

func TestTheTableHasOneRowForEachReason(t *testing.T) {
	var rows []router.Reason
	for _, row := range Table {
		rows = append(rows, row.Reason)
		if row.Title == "" || row.Status < 400 || row.Code == 0 {
			t.Errorf("row %+v is not a refusal", row)
		}
		if (row.Status == http.StatusServiceUnavailable) != row.Retry {
			t.Errorf("%s: every 503 has a Retry-After, and nothing else", row.Reason)
		}
	}
	if !slices.Equal(rows, router.Reasons) {
		t.Errorf("rows = %v, want %v", rows, router.Reasons)
	}
	if got := RowOf("no such reason").Reason; got != router.Internal {
		t.Errorf("RowOf of an unknown reason = %s, want internal", got)
	}
}

func TestFormOf(t *testing.T) {
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, c := range []struct {
		method, contentType, accept, dest string
		want                              Form
	}{
		{"GET", "", "", "", Problem},
		{"GET", "", "*/*", "", Problem},
		{"GET", "", browser, "", Page},
		{"HEAD", "", browser, "document", Page},
		{"GET", "", browser, "iframe", Page},
		{"GET", "", browser, "empty", Problem},
		{"POST", "", browser, "document", Problem},
		{"GET", "", "application/json", "", Problem},
		{"POST", "application/grpc", "", "", GRPC},
		{"POST", "application/grpc+proto", browser, "", GRPC},
	} {
		h := http.Header{}
		for name, value := range map[string]string{"Content-Type": c.contentType, "Accept": c.accept, "Sec-Fetch-Dest": c.dest} {
			if value != "" {
				h.Set(name, value)
			}
		}
		if got := FormOf(c.method, h); got != c.want {
			t.Errorf("FormOf(%+v) = %v, want %v", c, got, c.want)
		}
	}
}

func TestRetrySecondsAreWholeAtLeastOneAndSpreadByAFifth(t *testing.T) {
	for _, c := range []struct {
		d      time.Duration
		spread float64
		want   int
	}{
		{0, 0, 1},
		{-time.Hour, 0, 1},
		{time.Millisecond, 0, 1},
		{time.Second, 0, 1},
		{1001 * time.Millisecond, 0, 2},
		{10 * time.Second, 0, 10},
		{10 * time.Second, 0.999, 12},
		{1 << 62, 0.999, 86400},
	} {
		if got := retrySeconds(c.d, c.spread, c.spread); got != c.want {
			t.Errorf("retrySeconds(%v, %v) = %d, want %d", c.d, c.spread, got, c.want)
		}
	}
}

// answered sends a request to a handler that refuses with e.
func answered(t *testing.T, e *router.Error, method string, h http.Header) (*http.Response, string) {
	t.Helper()
	req := httptest.NewRequest(method, "/", nil)
	req.Header = h
	rec := httptest.NewRecorder()
	Write(rec, req, e, "req-1")
	resp := rec.Result()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// secret is a refusal whose cause and output must not reach a client.
var secret = &router.Error{
	Reason: router.BackingOff, Actor: "hello", Detail: "it failed 3 times in a row",
	RetryAfter: 5 * time.Second, Output: []string{"password=hunter2"}, Err: io.ErrUnexpectedEOF,
}

func mustNotLeak(t *testing.T, resp *http.Response, body string) {
	t.Helper()
	for _, leak := range []string{"hunter2", io.ErrUnexpectedEOF.Error()} {
		if strings.Contains(body, leak) {
			t.Errorf("the body leaks %q: %s", leak, body)
		}
		for name, values := range resp.Header {
			if strings.Contains(strings.Join(values, " "), leak) {
				t.Errorf("header %s leaks %q", name, leak)
			}
		}
	}
}

func TestAProblemSaysWhatWhyAndWhen(t *testing.T) {
	resp, body := answered(t, secret, "POST", http.Header{})
	mustNotLeak(t, resp, body)
	var problem map[string]any
	if err := json.Unmarshal([]byte(body), &problem); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	retry, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || retry < 5 || retry > 6 {
		t.Errorf("Retry-After = %q, want 5 or 6", resp.Header.Get("Retry-After"))
	}
	for name, want := range map[string]any{
		"type": "urn:layover:reason:backing_off", "title": "The actor failed to start lately", "status": 503.0,
		"detail": "it failed 3 times in a row", "reason": "backing_off", "actor": "hello", "request_id": "req-1",
		"retry_after": float64(retry),
	} {
		if problem[name] != want {
			t.Errorf("%s = %v, want %v", name, problem[name], want)
		}
	}
	if resp.StatusCode != 503 || resp.Header.Get("Content-Type") != "application/problem+json" || resp.Header.Get(ReasonHeader) != "backing_off" {
		t.Errorf("status %d, header %v", resp.StatusCode, resp.Header)
	}
}

func TestABrowserGetsAPageInWhichNothingIsMarkup(t *testing.T) {
	e := *secret
	e.Actor = "<script>alert(1)</script>"
	resp, body := answered(t, &e, "GET", http.Header{"Accept": {"text/html"}})
	mustNotLeak(t, resp, body)
	if strings.Contains(body, "<script>") || !strings.Contains(body, "&lt;script&gt;") {
		t.Errorf("the actor's name is not escaped: %s", body)
	}
	if !strings.Contains(body, "<h1>This site failed to start</h1>") || !strings.Contains(body, "backing_off: it failed 3 times in a row") || resp.StatusCode != 503 {
		t.Errorf("status %d, body %s", resp.StatusCode, body)
	}
}

func TestAPageTriesAgainByItselfWhenItMakesSense(t *testing.T) {
	for _, reason := range []router.Reason{router.StillWaking, router.StartFailed} {
		e := &router.Error{Reason: reason, Detail: "the actor sleeps", RetryAfter: 10 * time.Second}
		a := Compose(e, Page, "id")
		after := a.Header.Get("Retry-After")
		refresh := `<meta http-equiv="refresh" content="` + after + `">`
		if got := strings.Contains(string(a.Body), refresh); got != (after != "") || strings.Contains(string(a.Body), `http-equiv="refresh"`) != got {
			t.Errorf("%s, Retry-After %q: the page is\n%s", reason, after, a.Body)
		}
		if policy := a.Header.Get("Content-Security-Policy"); after != "" && !strings.Contains(policy, hashOf(string(a.Body), `<script data-after="`+after+`">`, "</script>")) {
			t.Errorf("%s: the page may not load itself again: %s\n%s", reason, policy, a.Body)
		}
		if !strings.Contains(string(a.Body), `<a href="">Try again</a>`) {
			t.Errorf("%s: the page has no link to try again:\n%s", reason, a.Body)
		}
	}
}

// In the page's own words; the small print is for who is told of it.
func TestAPageSpeaksToWhoVisitsASite(t *testing.T) {
	for _, row := range Table {
		e := &router.Error{Reason: row.Reason, Actor: "wiki"}
		for _, text := range []string{string(Compose(e, Page, "id").Body), string(WaitingPage{}.Refused(e))} {
			main, small, _ := strings.Cut(text, "<dl>")
			if _, main, _ = strings.Cut(main, "<h1>"); strings.Contains(main, "<h1></h1>") || strings.Contains(main, "<p></p>") || !strings.Contains(small, string(row.Reason)) {
				t.Errorf("%s: the page is\n%s", row.Reason, text)
			}
			for _, ours := range []string{"actor", "worker", "budget", "spot", "router", "plane"} {
				if strings.Contains(strings.ToLower(main), ours) {
					t.Errorf("%s: a visitor is told of %q:\n%s", row.Reason, ours, main)
				}
			}
		}
	}
}

func TestAGRPCCallerGetsAStatusInTheHeader(t *testing.T) {
	e := *secret
	e.Detail = "100% señor\n"
	resp, body := answered(t, &e, "POST", http.Header{"Content-Type": {"application/grpc"}})
	mustNotLeak(t, resp, body)
	if resp.StatusCode != 200 || body != "" || resp.Header.Get("Content-Length") != "" {
		t.Errorf("status %d, length %q, body %q; want 200 and nothing", resp.StatusCode, resp.Header.Get("Content-Length"), body)
	}
	if got := resp.Header.Get("Grpc-Status"); got != "14" {
		t.Errorf("Grpc-Status = %s, want 14", got)
	}
	if got, want := resp.Header.Get("Grpc-Message"), "backing_off: 100%25 se%C3%B1or%0A"; got != want {
		t.Errorf("Grpc-Message = %s, want %s", got, want)
	}
}

// A recorder does not add what a server adds: this one goes over the wire.
func TestAGRPCRefusalOverTheWireIsHeaderAndEnd(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Write(w, r, secret, "req-1")
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	req, err := http.NewRequest("POST", server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || len(body) != 0 || resp.ProtoMajor != 2 {
		t.Errorf("HTTP/%d with body %q, %v; want HTTP/2 with none", resp.ProtoMajor, body, err)
	}
	if got, ok := resp.Header["Content-Length"]; ok {
		t.Errorf("Content-Length = %q: a gRPC status has none", got)
	}
	if resp.Header.Get("Grpc-Status") != "14" {
		t.Errorf("header = %v, want Grpc-Status 14", resp.Header)
	}
}

func TestOnlyWhatARetryCanMendHasARetryAfter(t *testing.T) {
	for _, row := range Table {
		resp, _ := answered(t, &router.Error{Reason: row.Reason, RetryAfter: time.Hour}, "POST", http.Header{})
		if has := resp.Header.Get("Retry-After") != ""; has != row.Retry {
			t.Errorf("%s: Retry-After is there: %v, want %v", row.Reason, has, row.Retry)
		}
	}
}

func TestAHeadRequestGetsTheHeaderAlone(t *testing.T) {
	resp, body := answered(t, secret, "HEAD", http.Header{})
	if body != "" || resp.Header.Get("Content-Length") == "0" || resp.StatusCode != 503 {
		t.Errorf("status %d, length %s, body %q", resp.StatusCode, resp.Header.Get("Content-Length"), body)
	}
}

// What operators read about a reason is what the table says.
func TestOperationsDocumentsEveryReason(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	codes := map[uint32]string{
		grpcCanceled: "CANCELLED", grpcInvalidArgument: "INVALID_ARGUMENT", grpcDeadlineExceeded: "DEADLINE_EXCEEDED",
		grpcNotFound: "NOT_FOUND", grpcPermissionDenied: "PERMISSION_DENIED", grpcInternal: "INTERNAL",
		grpcUnavailable: "UNAVAILABLE", grpcUnauthenticated: "UNAUTHENTICATED",
	}
	for _, row := range Table {
		if line := fmt.Sprintf("\n| `%s` | %d | %s |", row.Reason, row.Status, codes[row.Code]); !strings.Contains(string(doc), line) {
			t.Errorf("docs/operations.md has no row that begins %q", line[1:])
		}
	}
}
