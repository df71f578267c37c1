package search

import (
	"slices"
	"strings"
	"testing"
	"time"

	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
)

func sum(f float64) *float64 { return &f }

func TestFilters(t *testing.T) {
	salary := func(min, max *float64, currency, period string) []posting.Pay {
		return []posting.Pay{{Kind: "salary", Min: min, Max: max, Currency: currency, Period: period, Source: "stated"}}
	}
	at := func(d time.Duration, p posting.Precision) posting.Date {
		return posting.Date{At: epoch.Add(d), Precision: p}
	}
	for _, c := range []struct {
		name  string
		query Query
		job   posting.Job
		want  string // "yes", "no", "lacks", or the unverified filters
	}{
		{"any", Query{}, posting.Job{}, "yes"},

		{"place", Query{Location: "berlin"}, posting.Job{Locations: []string{"Paris", "Berlin, Germany"}}, "yes"},
		{"accent", Query{Location: "sao paulo"}, posting.Job{Locations: []string{"São Paulo"}}, "yes"},
		{"whole words", Query{Location: "us"}, posting.Job{Locations: []string{"Austin, Russia"}}, "no"},
		{"japan", Query{Location: "東京"}, posting.Job{Locations: []string{"日本東京都"}}, "yes"},
		{"no place", Query{Location: "berlin"}, posting.Job{}, "lacks"},
		{"no place, kept", Query{Location: "berlin", Unstated: "keep"}, posting.Job{}, "location"},
		{"remote by workplace", Query{Location: "Remote"}, posting.Job{Workplace: []posting.Workplace{posting.Remote}}, "yes"},
		{"remote by words", Query{Location: "remote"}, posting.Job{Locations: []string{"Remote - EU"}}, "yes"},
		{"remote there", Query{Location: "remote, germany"}, posting.Job{Workplace: []posting.Workplace{posting.Remote}, Locations: []string{"Germany"}}, "yes"},
		{"remote elsewhere", Query{Location: "remote germany"}, posting.Job{Workplace: []posting.Workplace{posting.Remote}, Locations: []string{"France"}}, "no"},
		{"not remote", Query{Location: "remote"}, posting.Job{Locations: []string{"Berlin"}}, "no"},

		{"workplace", Query{Workplace: []string{"hybrid", "remote"}}, posting.Job{Workplace: []posting.Workplace{posting.OnSite, posting.Hybrid}}, "yes"},
		{"other workplace", Query{Workplace: []string{"remote"}}, posting.Job{Workplace: []posting.Workplace{posting.OnSite}}, "no"},
		{"no workplace", Query{Workplace: []string{"remote"}}, posting.Job{Locations: []string{"Berlin"}}, "lacks"},
		{"type", Query{Type: []string{"full_time"}}, posting.Job{Type: posting.FullTime}, "yes"},
		{"other type", Query{Type: []string{"full_time"}}, posting.Job{Type: posting.Contract}, "no"},
		{"no type", Query{Type: []string{"full_time"}}, posting.Job{}, "lacks"},
		{"seniority", Query{Seniority: []string{"senior", "lead"}}, posting.Job{Seniority: posting.Lead}, "yes"},
		{"two unknown", Query{Seniority: []string{"lead"}, Type: []string{"contract"}, Unstated: "keep"}, posting.Job{}, "type seniority"},

		{"young", Query{Since: "48h"}, posting.Job{Posted: at(-47*time.Hour, posting.Instant)}, "yes"},
		{"old", Query{Since: "48h"}, posting.Job{Posted: at(-49*time.Hour, posting.Instant)}, "no"},
		{"that day", Query{Since: "48h"}, posting.Job{Posted: at(-60*time.Hour, posting.Day)}, "yes"},
		{"a day before", Query{Since: "48h"}, posting.Job{Posted: at(-73*time.Hour, posting.Day)}, "no"},
		{"about then", Query{Since: "2d"}, posting.Job{Posted: at(-60*time.Hour, posting.Relative)}, "yes"},
		{"30+ days, asked for 7", Query{Since: "1w"}, posting.Job{Posted: at(-30*24*time.Hour, posting.AtLeast)}, "no"},
		{"30+ days, asked for 60", Query{Since: "60d"}, posting.Job{Posted: at(-30*24*time.Hour, posting.AtLeast)}, "lacks"},
		{"no date", Query{Since: "1w"}, posting.Job{}, "lacks"},
		{"from a day on", Query{Since: "2026-10-31"}, posting.Job{Posted: at(-36*time.Hour, posting.Instant)}, "yes"},

		{"pays", Query{PayMin: 90000, PayCurrency: "eur"}, posting.Job{Pay: salary(sum(70000), sum(95000), "EUR", "year")}, "yes"},
		{"pays less", Query{PayMin: 90000, PayCurrency: "EUR"}, posting.Job{Pay: salary(sum(70000), sum(85000), "EUR", "year")}, "no"},
		{"pays by the hour", Query{PayMin: 90000, PayCurrency: "EUR"}, posting.Job{Pay: salary(nil, sum(45), "EUR", "hour")}, "yes"},
		{"asked by the month", Query{PayMin: 8000, PayCurrency: "EUR", PayPeriod: "month"}, posting.Job{Pay: salary(nil, sum(95000), "EUR", "year")}, "no"},
		{"from, open", Query{PayMin: 90000, PayCurrency: "EUR"}, posting.Job{Pay: salary(sum(70000), nil, "EUR", "year")}, "pay"},
		{"from above", Query{PayMin: 90000, PayCurrency: "EUR"}, posting.Job{Pay: salary(sum(95000), nil, "EUR", "year")}, "yes"},
		{"no pay", Query{PayMin: 90000, PayCurrency: "EUR"}, posting.Job{}, "pay"},
		{"no pay, dropped", Query{PayMin: 90000, PayCurrency: "EUR", Unstated: "drop"}, posting.Job{}, "lacks"},
		{"other currency", Query{PayMin: 90000, PayCurrency: "EUR"}, posting.Job{Pay: salary(nil, sum(50000), "USD", "year")}, "pay"},
		{"no period", Query{PayMin: 90000, PayCurrency: "EUR"}, posting.Job{Pay: salary(nil, sum(50000), "EUR", "")}, "pay"},
		{"predicted", Query{PayMin: 90000, PayCurrency: "EUR"}, posting.Job{Pay: []posting.Pay{
			{Kind: "salary", Max: sum(99000), Currency: "EUR", Period: "year", Source: "predicted"}}}, "pay"},
		{"bonus", Query{PayMin: 90000, PayCurrency: "EUR"}, posting.Job{Pay: []posting.Pay{
			{Kind: "bonus", Max: sum(99000), Currency: "EUR", Period: "year", Source: "stated"}}}, "pay"},
		{"one of two", Query{PayMin: 90000, PayCurrency: "EUR"}, posting.Job{Pay: slices.Concat(
			salary(nil, sum(50000), "EUR", "year"), salary(nil, sum(99000), "EUR", "year"))}, "yes"},
	} {
		e := engine(Options{}, &stand{name: "alpha"})
		p, err := e.plan(c.query, time.Time{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		ok, unverified, lacks := p.match(&board.Board{Name: "alpha"}, &c.job)
		got := strings.Join(unverified, " ")
		switch {
		case lacks:
			got = "lacks"
		case !ok:
			got = "no"
		case got == "":
			got = "yes"
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestUnstatedJobsAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "alpha", pages: paged("alpha", "", 2, 5)}
		s.pages[0][0].Type = posting.FullTime
		s.pages[0][1].Type = posting.Contract
		s.pages[1][0].Pay = nil
		r := ask(t, engine(Options{}, s), time.Second, Query{Type: []string{"full_time"}})
		if got := report(t, r, "alpha"); got.Matched != 1 || got.Unstated != 8 {
			t.Errorf("%+v, want 1 matched, 8 left out because they do not state the type", got)
		}
		r = ask(t, engine(Options{}, s), time.Second, Query{PayMin: 1, PayCurrency: "EUR", Limit: 3})
		if got := r.Items[0].Unverified; !slices.Equal(got, []string{"pay"}) {
			t.Errorf("unverified %v, want pay: kept and flagged", got)
		}
	})
}

func TestWordsWithoutDescriptionsAreSaidToBe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bare := &stand{name: "bare", pages: paged("bare", "", 1, 5)}
		full := &stand{name: "full", text: true, pages: paged("full", "", 1, 5)}
		full.pages[0][2].HTML = "<p>We write Haskell.</p>" // looked at, and not kept
		r := ask(t, engine(Options{}, bare, full), time.Second, Query{Text: "haskell"})
		if !slices.Equal(ids(r), []string{"full//2"}) {
			t.Errorf("items %v, want the one whose description has the word", ids(r))
		} else if r.Items[0].HTML != "" {
			t.Error("the item has its description: megabytes are held that no answer says")
		}
		if got := report(t, r, "bare").Detail; !strings.Contains(got, "titles") {
			t.Errorf("detail %q, want it to say that only titles were looked at", got)
		}
		if got := report(t, r, "full").Detail; got != "" {
			t.Errorf("detail %q, want none", got)
		}
	})
}

func TestBoardsAreGivenHints(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "alpha", pages: paged("alpha", "", 1, 5)}
		ask(t, engine(Options{}, s), time.Second, Query{Text: "go engineer", Location: "Remote Berlin", Since: "2026-10-01"})
		got := s.asked[0].in
		want := board.Listing{Query: "go engineer", Location: "berlin", Since: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)}
		if got != want {
			t.Errorf("hints %+v, want %+v", got, want)
		}
	})
}
