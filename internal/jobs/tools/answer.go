package tools

import (
	"slices"
	"time"

	"layover/budget"
	"layover/internal/jobs/posting"
	"layover/internal/jobs/search"
)

// List is the answer of jobs.list as data. Its arrays are never null; a field
// that is not there is not known.
type List struct {
	Jobs       []Job    `json:"jobs"`
	Complete   bool     `json:"complete"`
	StopReason string   `json:"stop_reason"`
	Cursor     string   `json:"cursor,omitempty"`
	RetryAt    string   `json:"retry_at,omitempty"`
	Received   int      `json:"received"`
	Left       int      `json:"left"`
	Duplicates int      `json:"duplicates"`
	Sources    []Source `json:"sources"`
	Time       Time     `json:"time"`
}

// Source is what became of one board, or of one company's board.
type Source struct {
	Source        string `json:"source"`
	Board         string `json:"board"`
	Company       string `json:"company,omitempty"`
	Status        string `json:"status"`
	Reason        string `json:"reason,omitempty"`
	Detail        string `json:"detail,omitempty"`
	Page          string `json:"page,omitempty"`
	Pages         int    `json:"pages"`
	Received      int    `json:"received"`
	Broken        int    `json:"broken"`
	Matched       int    `json:"matched"`
	Unstated      int    `json:"unstated"`
	ReportedTotal *int   `json:"reported_total,omitempty"`
	Capped        bool   `json:"capped"`
	More          bool   `json:"more"`
	RetryAt       string `json:"retry_at,omitempty"`
	ElapsedMS     int64  `json:"elapsed_ms"`
}

// Job is one job, without its description.
type Job struct {
	ID              string   `json:"id"`
	Title           string   `json:"title"`
	Company         string   `json:"company"`
	Locations       []string `json:"locations"`
	Workplace       []string `json:"workplace"`
	Pay             []Pay    `json:"pay"`
	Posted          string   `json:"posted,omitempty"`
	PostedPrecision string   `json:"posted_precision,omitempty"`
	Updated         string   `json:"updated,omitempty"`
	Closes          string   `json:"closes,omitempty"`
	Type            string   `json:"type,omitempty"`
	Seniority       string   `json:"seniority,omitempty"`
	Team            string   `json:"team,omitempty"`
	Language        string   `json:"language,omitempty"`
	URL             string   `json:"url,omitempty"`
	Apply           string   `json:"apply_url,omitempty"`
	AlsoAt          []string `json:"also_at"` // ids of the same job elsewhere
	Unverified      []string `json:"unverified"`
}

// Pay is one statement about money.
type Pay struct {
	Kind     string   `json:"kind"`
	Min      *float64 `json:"min,omitempty"`
	Max      *float64 `json:"max,omitempty"`
	Currency string   `json:"currency,omitempty"`
	Period   string   `json:"period,omitempty"`
	Source   string   `json:"source"`
	Text     string   `json:"text,omitempty"`
}

// Get is the answer of jobs.get as data.
type Get struct {
	ID                   string `json:"id"`
	Status               string `json:"status"`
	Detail               string `json:"detail,omitempty"`
	Page                 string `json:"page,omitempty"`
	RetryAt              string `json:"retry_at,omitempty"`
	Job                  *Job   `json:"job,omitempty"`
	Description          string `json:"description,omitempty"`
	DescriptionTruncated bool   `json:"description_truncated"`
	Time                 Time   `json:"time"`
}

// Time is what the operation had and what it used, in milliseconds.
type Time struct {
	LimitMS int64 `json:"limit_ms"`
	SpentMS int64 `json:"spent_ms"`
}

// Bounds of what one job may bring into an answer: what is longer is no title
// and no name.
const (
	maxName   = 300  // bytes
	maxPlaces = 12   // places, sources and statements about money
	maxURL    = 1000 // bytes; a longer one is left out, because half an address is none
)

// NewList is r as data.
func NewList(r search.Result) List {
	l := List{
		Jobs: make([]Job, 0, len(r.Items)), Sources: make([]Source, 0, len(r.Reports)),
		Complete: r.Complete, StopReason: string(r.Stop), Cursor: r.Cursor, RetryAt: stamp(r.RetryAt),
		Received: r.Received, Left: r.Left, Duplicates: r.Duplicates, Time: newTime(r.Ledger),
	}
	for _, item := range r.Items {
		l.Jobs = append(l.Jobs, newJob(item.Job, item.Unverified))
	}
	for _, report := range r.Reports {
		l.Sources = append(l.Sources, newSource(report))
	}
	return l
}

func newSource(r search.Report) Source {
	s := Source{
		Source: r.Source, Board: r.Board, Company: r.Company, Status: string(r.Status), Reason: string(r.Reason),
		Detail: clean(r.Detail, 2*maxName), Page: address(r.Page), Pages: r.Pages, Received: r.Received, Broken: r.Broken,
		Matched: r.Matched, Unstated: r.Unstated, Capped: r.Capped, More: r.More, RetryAt: stamp(r.RetryAt),
		ElapsedMS: r.Elapsed.Milliseconds(),
	}
	if r.Total >= 0 {
		s.ReportedTotal = &r.Total
	}
	return s
}

func newJob(j posting.Job, unverified []string) Job {
	out := Job{
		ID: j.ID, Title: clean(j.Title, maxName), Company: clean(j.Company, maxName),
		Locations: []string{}, Workplace: []string{}, Pay: []Pay{}, AlsoAt: []string{},
		Posted: day(j.Posted), PostedPrecision: string(j.Posted.Precision), Updated: day(j.Updated), Closes: day(j.Closes),
		Type: string(j.Type), Seniority: string(j.Seniority), Team: clean(j.Team, maxName), Language: clean(j.Language, 40),
		URL: address(j.URL), Apply: address(j.Apply), Unverified: append([]string{}, unverified...),
	}
	for _, place := range first(j.Locations, maxPlaces) {
		out.Locations = append(out.Locations, clean(place, maxName))
	}
	for _, w := range j.Workplace {
		out.Workplace = append(out.Workplace, string(w))
	}
	for _, p := range first(j.Pay, maxPlaces) {
		out.Pay = append(out.Pay, Pay{p.Kind, p.Min, p.Max, clean(p.Currency, 10), p.Period, p.Source, clean(p.Text, maxName)})
	}
	for _, s := range first(j.Sources, maxPlaces) {
		if s.ID != j.ID && !slices.Contains(out.AlsoAt, s.ID) {
			out.AlsoAt = append(out.AlsoAt, s.ID)
		}
	}
	return out
}

// NewGet is p as data.
func NewGet(p search.Posting) Get {
	g := Get{
		ID: p.ID, Status: string(p.Status), Detail: clean(p.Detail, 2*maxName), Page: address(p.Page), RetryAt: stamp(p.RetryAt),
		Time: newTime(p.Ledger),
	}
	if p.Job != nil {
		job := newJob(*p.Job, nil)
		g.Job = &job
	}
	if p.HasText {
		g.Description, g.DescriptionTruncated = p.Text, p.Cut
	}
	return g
}

func newTime(l budget.Ledger) Time { return Time{l.Limit.Milliseconds(), l.Spent.Milliseconds()} }

func first[T any](list []T, n int) []T { return list[:min(n, len(list))] }

// stamp is t in RFC 3339, rounded up to the second: who asks then is not too
// early.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Add(time.Second - 1).UTC().Truncate(time.Second).Format(time.RFC3339)
}

// day is d as exactly as it is known.
func day(d posting.Date) string {
	switch d.Precision {
	case posting.None:
		return ""
	case posting.Instant:
		return d.At.UTC().Format(time.RFC3339)
	}
	return d.At.UTC().Format(time.DateOnly)
}

func address(u string) string {
	if len(u) > maxURL {
		return ""
	}
	return clean(u, maxURL)
}
