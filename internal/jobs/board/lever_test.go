package board_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"layover/internal/jobs/posting"
)

func TestLever_APageThatIsNotFullIsTheLast(t *testing.T) {
	const row = `{"id":"id-%d","text":"t"}`
	b, in, s := on(t, "lever", "acme", many(0, 100, row), many(100, 100, row), "[]")
	token := ""
	for i, want := range []struct {
		received int
		next     string
	}{{100, "100"}, {100, "200"}, {0, ""}} {
		p := mustPage(t, b, in, s, token)
		if p.Received != want.received || p.Next != want.next || p.Total != -1 {
			t.Errorf("page %d: %d rows of %d, next %q, want %d, %q", i+1, p.Received, p.Total, p.Next, want.received, want.next)
		}
		u, err := url.Parse(s.asked[i].URL)
		if err != nil {
			t.Fatal(err)
		}
		if q := u.Query(); q.Get("mode") != "json" || q.Get("skip") != fmt.Sprint(100*i) || q.Get("limit") != "100" || q.Has("group") ||
			s.asked[i].Header.Get("Accept") != "application/json" {
			t.Errorf("page %d was asked for with %s, %v", i+1, u.RawQuery, s.asked[i].Header)
		}
		token = p.Next
	}
	b, in, s = on(t, "lever", "acme", many(0, 250, row))
	if p := mustPage(t, b, in, s, ""); p.Received != 250 || p.Next != "" {
		t.Errorf("a limit that was not heeded: %d rows, next %q, want all of them and no next", p.Received, p.Next)
	}
}

func TestLever_J39_AllLocationsAndTheWorkplaceAreKept(t *testing.T) {
	for _, c := range []struct {
		fields string
		places []string
		ways   []posting.Workplace
	}{
		{`"categories":{"location":"Lisboa","allLocations":["Lisboa","Porto"]},"workplaceType":"hybrid"`, []string{"Lisboa", "Porto"}, []posting.Workplace{posting.Hybrid}},
		{`"categories":{"location":"Remote - EMEA","allLocations":null},"workplaceType":"unspecified"`, []string{"EMEA"}, []posting.Workplace{posting.Remote}},
		{`"categories":{"location":"Cork"},"workplaceType":"onsite"`, []string{"Cork"}, []posting.Workplace{posting.OnSite}},
		{`"categories":{"allLocations":["Cork"]},"workplaceType":"on-site"`, []string{"Cork"}, []posting.Workplace{posting.OnSite}},
		{`"categories":{},"country":"IE","workplaceType":null`, []string{"IE"}, nil},
	} {
		b, in, s := on(t, "lever", "acme", `[{"id":"1","text":"t",`+c.fields+`}]`)
		job := mustPage(t, b, in, s, "").Jobs[0]
		if !slices.Equal(job.Locations, c.places) || !slices.Equal(job.Workplace, c.ways) {
			t.Errorf("%s: %q %v, want %q %v", c.fields, job.Locations, job.Workplace, c.places, c.ways)
		}
	}
}

func TestLever_J46_PayIsOptional(t *testing.T) {
	for fields, want := range map[string]string{
		`"salaryRange":{"currency":"EUR","interval":"per-year-salary","min":60000,"max":80000}`: "60000 80000 EUR year",
		`"salaryRange":{"currency":"USD","interval":"per-hour-wage","min":25}`:                  "25 - USD hour",
		`"salaryRange":{"currency":"USD","interval":"something-new","min":"25","max":0}`:        "25 - USD ",
		`"salaryRange":{}`:            "",
		`"salaryRange":null`:          "",
		`"salaryDescription":"great"`: "",
	} {
		b, in, s := on(t, "lever", "acme", `[{"id":"1","text":"t",`+fields+`}]`)
		p := mustPage(t, b, in, s, "")
		if len(p.Jobs) != 1 {
			t.Errorf("%s: the row is broken", fields)
			continue
		}
		got := ""
		for _, pay := range p.Jobs[0].Pay {
			high := "-"
			if pay.Max != nil {
				high = fmt.Sprint(*pay.Max)
			}
			got += fmt.Sprintf("%v %s %s %s", *pay.Min, high, pay.Currency, pay.Period)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", fields, got, want)
		}
	}
}
