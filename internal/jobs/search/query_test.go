package search

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func targets(p *plan) (names []string) {
	for _, t := range p.targets {
		names = append(names, t.name)
	}
	return names
}

func threeBoards() *Engine {
	return engine(Options{}, &stand{name: "greenhouse", company: true}, &stand{name: "lever", company: true}, &stand{name: "remotive"})
}

func TestSources(t *testing.T) {
	for _, c := range []struct {
		query Query
		want  string
	}{
		{Query{}, "remotive"},
		{Query{Sources: []string{"lever:acme", "Greenhouse: acme ", "remotive", "lever:acme"}}, "greenhouse:acme lever:acme remotive"},
		{Query{Boards: []string{"lever", "remotive"}, Companies: []string{"a", "b"}}, "lever:a lever:b remotive"},
		{Query{Companies: []string{"a"}}, "greenhouse:a lever:a"},
		{Query{Sources: []string{"remotive"}, Companies: []string{"a"}}, "remotive greenhouse:a lever:a"},
		{Query{Sources: []string{"lever:x"}, Boards: []string{"greenhouse"}, Companies: []string{"a"}}, "lever:x greenhouse:a"},
		{Query{Companies: []string{"a", "bad slug"}}, "greenhouse:a lever:a"},
	} {
		p, err := threeBoards().plan(c.query, time.Time{})
		if err != nil {
			t.Errorf("%+v: %v", c.query, err)
			continue
		}
		if got := strings.Fields(c.want); !slices.Equal(slices.Sorted(slices.Values(targets(p))), slices.Sorted(slices.Values(got))) {
			t.Errorf("%+v reads %v, want %v", c.query, targets(p), got)
		}
	}
}

func TestJ10_BadValuesAreRefusedBeforeAnyRequest(t *testing.T) {
	many := make([]string, 70)
	for i := range many {
		many[i] = fmt.Sprintf("lever:c%d", i)
	}
	for _, c := range []struct {
		query Query
		field string
		want  string // part of what is allowed
	}{
		{Query{Since: "-7d"}, "since", "7d"},
		{Query{Since: "0d"}, "since", "7d"},
		{Query{Since: "7"}, "since", "7d"},
		{Query{Since: "d"}, "since", "7d"},
		{Query{Since: "99999d"}, "since", "7d"},
		{Query{Since: "2027-01-01"}, "since", "a day that has been"},
		{Query{Since: "yesterday"}, "since", "2026-11-01"},
		{Query{Limit: -1}, "limit", "1 to 100"},
		{Query{Limit: 101}, "limit", "1 to 100"},
		{Query{Size: -1}, "size", "bytes"},
		{Query{Workplace: []string{"home"}}, "workplace", "remote, hybrid, on_site"},
		{Query{Type: []string{"full-time"}}, "type", "full_time"},
		{Query{Seniority: []string{"rockstar"}}, "seniority", "senior"},
		{Query{Unstated: "maybe"}, "unstated", "keep, drop"},
		{Query{PayMin: -5, PayCurrency: "EUR"}, "pay_min", "above 0"},
		{Query{PayMin: math.NaN(), PayCurrency: "EUR"}, "pay_min", "above 0"},
		{Query{PayMin: 5}, "pay_currency", "EUR"},
		{Query{PayMin: 5, PayCurrency: "Euro"}, "pay_currency", "EUR"},
		{Query{PayMin: 5, PayCurrency: "EUR", PayPeriod: "fortnight"}, "pay_period", "hour, day"},
		{Query{Text: "go OR"}, "text", "OR"},
		{Query{Text: strings.Repeat("é", 300)}, "text", "500"},
		{Query{Text: strings.Repeat("a ", 41)}, "text", "40"},
		{Query{Location: strings.Repeat("x", 501)}, "location", "500"},
		{Query{Sources: []string{"monster:acme"}}, "sources", "greenhouse, lever, remotive"},
		{Query{Sources: []string{"lever"}}, "sources", "lever:acme"},
		{Query{Sources: []string{"remotive:acme"}}, "sources", "use remotive"},
		{Query{Sources: []string{"lever:bad slug"}}, "sources", "letters, digits"},
		{Query{Sources: many}, "sources", "at most 64"},
		{Query{Boards: []string{"lever"}}, "boards", "lever:acme"},
		{Query{Boards: []string{"monster"}, Companies: []string{"a"}}, "boards", "greenhouse"},
		{Query{Companies: []string{"bad slug"}}, "companies", "no board"},
		{Query{Companies: []string{strings.Repeat("x", 201)}}, "companies", "200"},
	} {
		bad := refused(t, threeBoards(), c.query)
		if bad.Field != c.field || !strings.Contains(bad.Want, c.want) {
			t.Errorf("%+v: refused for %s, %q; want %s, with %q", c.query, bad.Field, bad.Want, c.field, c.want)
		}
		if text := bad.Error(); !strings.Contains(text, c.field) || len(text) > 500 {
			t.Errorf("the refusal %q does not name the field, or is endless", text)
		}
	}
}

func TestListingWithoutBoardsForItSaysSo(t *testing.T) {
	e := engine(Options{}, &stand{name: "lever", company: true})
	if bad := refused(t, e, Query{}); !strings.Contains(bad.Want, "lever:acme") {
		t.Errorf("refused with %v, want an example of what to name", bad)
	}
}

func TestCompaniesFilterBoardsThatListMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &stand{name: "remotive", pages: paged("remotive", "", 1, 4)}
		s.pages[0][1].Company, s.pages[0][2].Company = "Acme Inc.", "Acmeist Poets"
		r := ask(t, engine(Options{}, s), time.Second, Query{Boards: []string{"remotive"}, Companies: []string{"acme"}})
		if got := ids(r); !slices.Equal(got, []string{"remotive//1"}) {
			t.Errorf("items %v, want Acme's only", got)
		}
	})
}

func TestNewRefusesBoardsThatCannotWork(t *testing.T) {
	for name, stands := range map[string][]*stand{"twice": {{name: "a"}, {name: "a"}}, "nameless": {{}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: New did not panic", name)
				}
			}()
			engine(Options{}, stands...)
		}()
	}
}

func TestInvalidIsFoundInErrors(t *testing.T) {
	err := fmt.Errorf("jobs.list: %w", &Invalid{"since", "-7d", sinceWant})
	var bad *Invalid
	if !errors.As(err, &bad) || bad.Value != "-7d" {
		t.Errorf("errors.As found %v", bad)
	}
}
