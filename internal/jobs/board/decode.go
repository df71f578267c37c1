package board

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"layover/internal/jobs/posting"
	"layover/lane"
)

// Classify says what is wrong with an answer, or nil for one that may be read. A
// 404 is an unknown board here; whoever asked for one posting knows better.
func Classify(a Answer) *Trouble {
	trouble := func(v Verdict, format string, args ...any) *Trouble {
		return &Trouble{Verdict: v, Detail: fmt.Sprintf(format, args...), RetryAt: retryAt(a), Answer: a}
	}
	status := fmt.Sprintf("status %d", a.Status)
	if text := http.StatusText(a.Status); text != "" {
		status += " " + text
	}
	challenge := challenged(a)
	switch {
	case a.Status == http.StatusTooManyRequests:
		return trouble(RateLimited, "the board asks for fewer requests (%s)", status)
	case a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != "":
		return trouble(Unavailable, "the board asks to come back later (%s)", status)
	case challenge != "":
		return trouble(Blocked, "a page for people instead of an answer: %s (%s)", challenge, status)
	case a.Status >= 200 && a.Status < 300:
		return nil
	case a.Status == http.StatusUnauthorized, a.Status == http.StatusForbidden, a.Status == http.StatusUnavailableForLegalReasons,
		a.Status == http.StatusProxyAuthRequired, a.Status == http.StatusPaymentRequired:
		return trouble(Blocked, "the board refuses (%s)", status)
	case a.Status == http.StatusNotFound:
		return trouble(UnknownBoard, "nothing there (%s)", status)
	case a.Status == http.StatusGone, a.Status == http.StatusMethodNotAllowed, a.Status == http.StatusNotImplemented:
		return trouble(Gone, "this address of the board was retired (%s)", status)
	case a.Status >= 300 && a.Status < 400:
		elsewhere := "elsewhere"
		if to, err := url.Parse(a.Header.Get("Location")); err == nil && to.Host != "" {
			elsewhere = "to " + short(to.Host)
		}
		return trouble(Unavailable, "the board sends %s, and that is not followed (%s)", elsewhere, status)
	case a.Status >= 500:
		return trouble(Unavailable, "the board is in trouble (%s)", status)
	}
	return trouble(Unavailable, "the board does not accept the request (%s)", status)
}

// retryAt is when the board wants to be asked again. Zero: it does not say.
func retryAt(a Answer) time.Time {
	wait, ok := lane.RetryAfter(a.Header, a.At)
	if !ok || a.At.IsZero() {
		return time.Time{}
	}
	return a.At.Add(wait)
}

// challenged names the sign that an answer is a page that wants to be sure of a
// person, or "" without one. Only pages are looked at: a posting may well speak
// of captchas.
func challenged(a Answer) string {
	if mitigated := a.Header.Get("Cf-Mitigated"); mitigated != "" {
		return "cf-mitigated: " + short(mitigated)
	}
	if !isHTML(a.Body) {
		return ""
	}
	page := bytes.ToLower(a.Body[:min(len(a.Body), 64<<10)])
	for _, sign := range challenges {
		if bytes.Contains(page, []byte(sign)) {
			return strconv.Quote(sign)
		}
	}
	return ""
}

var challenges = []string{"error 1015", "error code: 1015", "you are being rate limited", "just a moment...", "attention required!",
	"cf-challenge", "cf_chl_", "challenge-platform", "captcha", "datadome", "incapsula", "perimeterx", "px-block", "pardon our interruption",
	"access denied", "ddos protection", "are you a robot", "unusual traffic", "enable javascript and cookies"}

func isHTML(body []byte) bool {
	start := bytes.ToLower(bytes.TrimSpace(withoutMark(body[:min(len(body), 512)])))
	for bytes.HasPrefix(start, []byte("<!--")) {
		end := bytes.Index(start, []byte("-->"))
		if end < 0 {
			return true // no board's answer begins with a long comment
		}
		start = bytes.TrimSpace(start[end+len("-->"):])
	}
	for _, opening := range []string{"<!doctype html", "<html", "<head", "<body"} {
		if bytes.HasPrefix(start, []byte(opening)) {
			return true
		}
	}
	return false
}

// withoutMark takes off the byte order mark that some boards begin with.
func withoutMark(body []byte) []byte { return bytes.TrimPrefix(body, []byte("\ufeff")) }

// ask sends a request for JSON and reads the answer into into.
func ask(ctx context.Context, fetch Fetch, r Request, into any) (Answer, error) {
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Accept", "application/json")
	a, err := fetch(ctx, r)
	if err != nil {
		return a, err
	}
	if t := Classify(a); t != nil {
		return a, t
	}
	if t := decode(a, into); t != nil {
		return a, t
	}
	return a, nil
}

// decode reads an answer's JSON. What is no JSON, or other JSON than the board's,
// is Malformed.
func decode(a Answer, into any) *Trouble {
	body := withoutMark(a.Body)
	malformed := func(detail string, err error) *Trouble {
		return &Trouble{Verdict: Malformed, Detail: detail, Answer: a, Err: err}
	}
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return malformed("an empty answer instead of JSON", nil)
	case isHTML(body):
		return malformed("an HTML page instead of JSON", nil)
	}
	err := json.Unmarshal(body, into)
	if err == nil {
		return nil
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax) && syntax.Offset >= int64(len(body)):
		return malformed(fmt.Sprintf("the JSON ends in the middle, after %d bytes", len(body)), err)
	case errors.As(err, &syntax):
		return malformed(fmt.Sprintf("no JSON at byte %d", syntax.Offset), err)
	case errors.As(err, &kind):
		return malformed(fmt.Sprintf("JSON of another form: %s in %s", kind.Value, cmp.Or(kind.Field, "the whole")), err)
	}
	return malformed("JSON that cannot be read", err)
}

// short is s for a message, cut to a readable length.
func short(s string) string {
	if s = posting.Text(s); len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

// errUnlisted is a row's way to say that it is not to be shown, and not broken.
var errUnlisted = errors.New("board: not listed")

// page reads a page's rows one by one, so that a broken one costs nothing but
// itself. A row needs an id and a title to be a job.
func page[Row any](rows []json.RawMessage, read func(Row) (posting.Job, error)) Page {
	p := Page{Received: len(rows), Total: -1}
	for _, raw := range rows {
		var row *Row // null is no row
		if err := json.Unmarshal(raw, &row); err != nil || row == nil {
			p.Broken++
			continue
		}
		job, err := read(*row)
		switch {
		case errors.Is(err, errUnlisted):
		case err != nil, job.Title == "", strings.HasSuffix(job.ID, "/"):
			p.Broken++
		default:
			p.Jobs = append(p.Jobs, job)
		}
	}
	return p
}

// one is the answer to a request for a single job, if it is one.
func one(a Answer, job posting.Job) (posting.Job, error) {
	if job.Title == "" || strings.HasSuffix(job.ID, "/") {
		return posting.Job{}, &Trouble{Verdict: Malformed, Detail: "a posting without an id or a title", Answer: a}
	}
	return job, nil
}

// among is the one job of a list that was narrowed to it.
func among(a Answer, p Page) (posting.Job, error) {
	if len(p.Jobs) == 0 {
		return posting.Job{}, absent(a)
	}
	return p.Jobs[0], nil
}

// named is a company's name, or its slug if a board states none.
func named(name string, c Company) string { return cmp.Or(posting.Text(name), c.Slug) }

// text is a field that boards write as a string, a number or null. Numbers keep
// every digit: ids go beyond what a float64 holds.
type text string

func (t *text) UnmarshalJSON(raw []byte) error {
	switch raw[0] {
	case 'n':
		*t = ""
		return nil
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		*t = text(s)
		return nil
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		*t = text(raw)
		return nil
	}
	return fmt.Errorf("board: neither text nor a number: %.20s", raw)
}

// amount is a field that boards write as a number, a number in a string, or
// null. What is no number is not stated.
type amount struct{ n *float64 }

func (a *amount) UnmarshalJSON(raw []byte) error {
	var t text
	if err := t.UnmarshalJSON(raw); err != nil {
		return err
	}
	if n, err := strconv.ParseFloat(string(t), 64); err == nil && !math.IsInf(n, 0) && !math.IsNaN(n) {
		a.n = &n
		return nil
	}
	a.n = posting.Amount(string(t))
	return nil
}

// texts reads short fields, and leaves out empty ones and repetitions.
func texts(fields ...string) []string {
	var all []string
	seen := make(map[string]bool)
	for _, field := range fields {
		field = posting.Text(field)
		if key := posting.Key(field); field != "" && !seen[key] {
			seen[key] = true
			all = append(all, field)
		}
	}
	return all
}

// places takes apart what boards write in one field ("Berlin; Paris"), and the
// ways to work out of it.
func places(field string) (ways []posting.Workplace, at []string) {
	ways, field = posting.Workplaces(field)
	for _, place := range strings.FieldsFunc(field, func(r rune) bool { return r == ';' || r == '|' }) {
		at = append(at, strings.Trim(place, " ,-–"))
	}
	return ways, texts(at...)
}

// ways puts ways to work together, each once.
func ways(lists ...[]posting.Workplace) (all []posting.Workplace) {
	for _, way := range slices.Concat(lists...) {
		if !slices.Contains(all, way) {
			all = append(all, way)
		}
	}
	return all
}

// section is a part of a description under its heading; nothing without content.
func section(heading, content string) string {
	if posting.Blank(content) {
		return ""
	}
	if heading = posting.Text(heading); heading == "" {
		return content
	}
	return "<h3>" + html.EscapeString(heading) + "</h3>" + content
}

// paragraphs is HTML of a text whose paragraphs stand apart.
func paragraphs(plain string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(plain, "\n\n") {
		if part = strings.TrimSpace(part); part != "" {
			b.WriteString("<p>" + html.EscapeString(part) + "</p>")
		}
	}
	return b.String()
}

// joined makes one place of its parts: "Porto, Portugal".
func joined(parts ...string) string { return strings.Join(texts(parts...), ", ") }
