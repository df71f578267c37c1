package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"layover/internal/jobs/posting"
	"layover/internal/jobs/search"
)

// What the arguments with a fixed choice may be.
var (
	workplaces  = []string{string(posting.Remote), string(posting.Hybrid), string(posting.OnSite)}
	types       = []string{string(posting.FullTime), string(posting.PartTime), string(posting.Contract), string(posting.Temporary), string(posting.Internship), string(posting.Other)}
	seniorities = []string{string(posting.Intern), string(posting.Junior), string(posting.Mid), string(posting.Senior), string(posting.Lead), string(posting.Executive)}
	periods     = []string{"hour", "day", "week", "month", "year"}
	unstated    = []string{"keep", "drop"}
)

// names of the arguments whose fields in a search.Query are called otherwise.
var argumentOf = map[string]string{
	"text": "query", "pay_min": "salary_min", "pay_currency": "salary_currency", "pay_period": "salary_period", "since": "posted_since",
}

// mistake is an argument that cannot be used: which, what it was, what can.
type mistake struct{ name, value, want string }

func (m *mistake) Error() string {
	if m.value == "" {
		return fmt.Sprintf("%s: %s", m.name, m.want)
	}
	return fmt.Sprintf("%s: %s: %s", m.name, m.value, m.want)
}

// mistakeOf puts an error of search in the words of the arguments; nil if it is
// not about one.
func mistakeOf(err error) *mistake {
	var bad *search.Invalid
	if !errors.As(err, &bad) {
		return nil
	}
	name := bad.Field
	if other, ok := argumentOf[name]; ok {
		name = other
	}
	m := &mistake{name: name, want: bad.Want}
	if bad.Value != "" {
		m.value = strconv.Quote(clean(bad.Value, 80))
	}
	for field, argument := range argumentOf {
		m.want = strings.ReplaceAll(m.want, "with "+field, "with "+argument)
	}
	return m
}

// arguments reads the arguments of one call, one at a time, and keeps the first
// mistake.
type arguments struct {
	left map[string]json.RawMessage
	all  []string // every name that was asked for
	err  *mistake
}

// maxArguments bounds the arguments of a call, in bytes.
const maxArguments = 64 << 10

func readArguments(raw json.RawMessage) *arguments {
	a := &arguments{left: make(map[string]json.RawMessage)}
	if len(raw) > maxArguments {
		a.fail("arguments", "", fmt.Sprintf("%d bytes are too many: at most %d", len(raw), maxArguments))
		return a
	}
	if len(bytes.TrimSpace(raw)) == 0 || string(bytes.TrimSpace(raw)) == "null" {
		return a
	}
	if err := json.Unmarshal(raw, &a.left); err != nil {
		a.fail("arguments", excerpt(raw), `expected an object, such as {"sources": ["greenhouse:acme"]}`)
	}
	return a
}

func (a *arguments) fail(name, value, want string) {
	if a.err == nil {
		a.err = &mistake{name, value, want}
	}
}

// take returns the argument of that name. Null is as if it were not there.
func (a *arguments) take(name string) (json.RawMessage, bool) {
	a.all = append(a.all, name)
	raw, ok := a.left[name]
	delete(a.left, name)
	return raw, ok && string(raw) != "null"
}

func (a *arguments) text(name string) (s string) {
	if raw, ok := a.take(name); ok && json.Unmarshal(raw, &s) != nil {
		a.fail(name, excerpt(raw), "expected a text")
	}
	return s
}

func (a *arguments) oneOf(name string, allowed []string) string {
	s := a.text(name)
	if s != "" && !slices.Contains(allowed, s) {
		a.fail(name, strconv.Quote(clean(s, 80)), "expected one of "+strings.Join(allowed, ", "))
	}
	return s
}

func (a *arguments) texts(name string, allowed []string) (list []string) {
	raw, ok := a.take(name)
	if !ok {
		return nil
	}
	if json.Unmarshal(raw, &list) != nil {
		a.fail(name, excerpt(raw), `expected a list of texts, such as ["a", "b"]`)
		return nil
	}
	for _, s := range list {
		if allowed != nil && !slices.Contains(allowed, s) {
			a.fail(name, strconv.Quote(clean(s, 80)), "expected any of "+strings.Join(allowed, ", "))
		}
	}
	return list
}

func (a *arguments) number(name string, least, most float64) (v float64, ok bool) {
	raw, ok := a.take(name)
	if !ok {
		return 0, false
	}
	if json.Unmarshal(raw, &v) != nil || v < least || v > most {
		a.fail(name, excerpt(raw), fmt.Sprintf("expected a number from %s to %s", short(least), short(most)))
		return 0, false
	}
	return v, true
}

func (a *arguments) integer(name string, least, most int) int {
	v, ok := a.number(name, float64(least), float64(most))
	if ok && v != math.Trunc(v) {
		a.fail(name, short(v), "expected a whole number")
	}
	return int(v)
}

// instant reads an RFC 3339 instant.
func (a *arguments) instant(name string) (t time.Time, ok bool) {
	s := a.text(name)
	if s == "" {
		return t, false
	}
	if err := t.UnmarshalText([]byte(s)); err != nil {
		a.fail(name, strconv.Quote(clean(s, 80)), `expected an instant in RFC 3339 with its zone, such as "2030-01-31T12:00:00Z"`)
		return t, false
	}
	return t, true
}

// end returns the first mistake; arguments that nobody took are one.
func (a *arguments) end() *mistake {
	if a.err == nil && len(a.left) > 0 {
		name := slices.Min(slices.Collect(maps.Keys(a.left)))
		shown := clean(name, 80)
		if shown == "" {
			shown = "arguments"
		}
		a.fail(shown, "", "there is no such argument; there are "+strings.Join(a.all, ", "))
	}
	return a.err
}

// span is how long a call may take, as its arguments say.
type span struct {
	timeout  time.Duration // 0: not given
	deadline time.Time     // zero: not given
}

// leastSeconds is the shortest time for which a call is begun.
const leastSeconds = 0.05

func (s *Server) readSpan(a *arguments) (out span) {
	if v, ok := a.number("timeout_seconds", leastSeconds, math.MaxInt32); ok {
		out.timeout = min(time.Duration(v*float64(time.Second)), s.o.Longest)
	}
	out.deadline, _ = a.instant("deadline")
	return out
}

func (s *Server) readList(raw json.RawMessage) (search.Query, span, *mistake) {
	a := readArguments(raw)
	q := search.Query{
		Sources: a.texts("sources", nil), Boards: a.texts("boards", s.boards), Companies: a.texts("companies", nil),
		Text: a.text("query"), Location: a.text("location"),
		Workplace: a.texts("workplace", workplaces), Type: a.texts("type", types), Seniority: a.texts("seniority", seniorities),
	}
	q.PayMin, _ = a.number("salary_min", 0, 1e12)
	q.PayCurrency = a.text("salary_currency")
	q.PayPeriod = a.oneOf("salary_period", periods)
	q.Since = a.text("posted_since")
	q.Unstated = a.oneOf("unstated", unstated)
	q.Limit = a.integer("limit", 1, 100)
	q.Cursor = a.text("cursor")
	when := s.readSpan(a)
	q.Size = s.o.TextBytes * 3 / 4 // the rest is for what is said about sources
	return q, when, a.end()
}

func (s *Server) readGet(raw json.RawMessage) (id string, limit int, when span, bad *mistake) {
	a := readArguments(raw)
	if id = a.text("id"); id == "" {
		a.fail("id", "", "needed: the id of a job in an answer of "+s.name(listName)+`, "board/company/job"`)
	}
	if limit = a.integer("description_limit", 200, s.o.TextBytes); limit == 0 {
		limit = s.o.descriptionBytes()
	}
	when = s.readSpan(a)
	return id, limit, when, a.end()
}

// excerpt is a value as it was sent, at a length fit for an error.
func excerpt(raw []byte) string { return clean(string(raw), 80) }

func short(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func decimal(n int) string { return strconv.Itoa(n) }
