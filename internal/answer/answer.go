// Package answer says what a refused request is told: one table from reason to
// HTTP status and gRPC code, and the response in the form that its caller can
// read.
//
// Every front answers through it, so that a refusal looks the same whoever
// carries it:
//
//	answer.Write(w, req, err, requestID)             // net/http
//	a := answer.Compose(err, answer.FormOf(...), id) // anything else
//
// All functions may be called from any goroutine.
package answer

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"layover/internal/router"
)

// Form is how the caller reads an answer.
type Form int

// The forms.
const (
	Problem Form = iota // RFC 9457 problem JSON
	Page                // HTML, for a browser that navigates to a document
	GRPC                // a gRPC status without a message
)

// FormOf chooses the form by the request's method and headers.
func FormOf(method string, h http.Header) Form {
	if strings.HasPrefix(h.Get("Content-Type"), "application/grpc") {
		return GRPC
	}
	if method != http.MethodGet && method != http.MethodHead {
		return Problem
	}
	if dest := h.Get("Sec-Fetch-Dest"); dest != "" && dest != "document" && dest != "iframe" {
		return Problem // a script's fetch that happens to accept HTML
	}
	if strings.Contains(h.Get("Accept"), "text/html") {
		return Page
	}
	return Problem
}

// Answer is a composed response.
type Answer struct {
	Status int // HTTP status; 200 for GRPC, whose status is in the header
	Header http.Header
	Body   []byte
}

// ReasonHeader tells a client the reason without its reading the body. Only
// the router sets it: what actors send under this name is dropped.
const ReasonHeader = "Layover-Reason"

// Compose returns the answer for e. requestID may be empty. The error's cause
// and the actor's output stay out of it: they are the operator's.
func Compose(e *router.Error, form Form, requestID string) Answer {
	row := RowOf(e.Reason)
	a := Answer{Status: row.Status, Header: http.Header{}}
	a.Header.Set("Cache-Control", "no-store")
	a.Header.Set(ReasonHeader, string(e.Reason))
	var retry int
	if row.Retry {
		retry = retrySeconds(e.RetryAfter, rand.Float64(), rand.Float64())
		a.Header.Set("Retry-After", strconv.Itoa(retry))
	}
	switch form {
	case GRPC:
		a.grpc(row, e, retry)
	case Page:
		a.page(row, e, retry, requestID)
	default:
		a.problem(row, e, retry, requestID)
	}
	return a
}

// retrySeconds rounds d up to whole seconds, at least one, and adds up to 20 %,
// so that the refused do not all come back at once. spread is where in that
// range the answer is, and up where its fraction is rounded up, both in [0,1):
// in whole seconds, only rounding at random spreads a short time.
func retrySeconds(d time.Duration, spread, up float64) int {
	seconds := math.Ceil(max(d.Seconds(), 1))
	return int(min(seconds+math.Floor(0.2*spread*seconds+up), 24*3600))
}

func (a *Answer) problem(row Row, e *router.Error, retry int, requestID string) {
	a.Header.Set("Content-Type", "application/problem+json")
	body, err := json.Marshal(struct {
		Type       string        `json:"type"`
		Title      string        `json:"title"`
		Status     int           `json:"status"`
		Detail     string        `json:"detail,omitempty"`
		Reason     router.Reason `json:"reason"`
		Actor      string        `json:"actor,omitempty"`
		RequestID  string        `json:"request_id,omitempty"`
		RetryAfter int           `json:"retry_after,omitempty"` // seconds
	}{"urn:layover:reason:" + string(e.Reason), row.Title, row.Status, e.Detail, e.Reason, e.Actor, requestID, retry})
	if err != nil {
		panic("answer: a problem of strings and numbers cannot be marshalled: " + err.Error())
	}
	a.Body = append(body, '\n')
}

//go:embed refused.html
var refusedHTML string

var refusedPage = template.Must(template.New("refused").Parse(refusedHTML))

// refusedPolicy allows the page the script that loads it again: a refresh of an
// address with a fragment is a jump within the page for some browsers.
var refusedPolicy = "default-src 'none'; style-src 'unsafe-inline'; script-src '" + hashOf(refusedHTML, `<script data-after="{{.}}">`, "</script>") + "'"

func (a *Answer) page(row Row, e *router.Error, retry int, requestID string) {
	a.Header.Set("Content-Type", "text/html; charset=utf-8")
	a.Header.Set("Content-Security-Policy", refusedPolicy)
	var body bytes.Buffer
	words := visits[row.Reason]
	err := refusedPage.Execute(&body, map[string]any{
		"Title": words.title, "Text": words.text, "Status": row.Status, "Detail": e.Detail, "Reason": e.Reason,
		"Actor": e.Actor, "RetryAfter": retry, "RequestID": requestID,
	})
	if err != nil {
		panic("answer: the page cannot be executed: " + err.Error())
	}
	a.Body = body.Bytes()
}

// grpc makes a trailers-only response: the status travels in the header, the
// stream ends with it.
func (a *Answer) grpc(row Row, e *router.Error, retry int) {
	a.Status = http.StatusOK
	a.Header.Set("Content-Type", "application/grpc")
	a.Header.Set("Grpc-Status", strconv.FormatUint(uint64(row.Code), 10))
	message := string(e.Reason) + ": " + row.Title
	if e.Detail != "" {
		message = string(e.Reason) + ": " + e.Detail
	}
	a.Header.Set("Grpc-Message", grpcMessage(message))
	if retry > 0 {
		a.Header.Set("Grpc-Retry-Pushback-Ms", strconv.Itoa(retry*1000))
	}
}

// grpcMessage percent-encodes what gRPC's HTTP/2 mapping does not allow in a
// status message: all but printable ASCII, and the percent sign.
func grpcMessage(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// Write answers req with e.
func Write(w http.ResponseWriter, req *http.Request, e *router.Error, requestID string) {
	Compose(e, FormOf(req.Method, req.Header), requestID).write(w, req)
}

func (a Answer) write(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	for name, values := range a.Header {
		h[name] = values
	}
	h["Content-Length"] = nil // present, so that net/http adds none: a gRPC status must not carry a length
	if a.Body != nil {
		h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	w.WriteHeader(a.Status)
	if req.Method != http.MethodHead {
		w.Write(a.Body) // an error means that the client has left: nobody to tell
	}
}
