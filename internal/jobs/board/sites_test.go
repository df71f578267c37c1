package board_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
)

// script answers requests one after the other, and keeps them. An answer is a
// body, or a status as in "404 Not Found".
type script struct {
	answers []string
	asked   []board.Request
}

func (s *script) fetch(_ context.Context, r board.Request) (board.Answer, error) {
	s.asked = append(s.asked, r)
	text := s.answers[min(len(s.asked), len(s.answers))-1]
	a := board.Answer{Status: 200, Header: http.Header{}, Body: []byte(text), At: now}
	if n, err := fmt.Sscanf(text, "%d ", &a.Status); n != 1 || err != nil {
		a.Status = 200
	}
	if trouble := board.Classify(a); trouble != nil {
		return board.Answer{}, trouble
	}
	return a, nil
}

// on returns a board, a company of it, and a script of answers.
func on(t *testing.T, name, company string, answers ...string) (*board.Board, board.Listing, *script) {
	t.Helper()
	b := board.Find(name)
	c, err := b.Parse(company)
	if err != nil {
		t.Fatal(err)
	}
	return b, board.Listing{Company: c}, &script{answers: answers}
}

func mustPage(t *testing.T, b *board.Board, in board.Listing, s *script, token string) board.Page {
	t.Helper()
	p, err := b.Page(t.Context(), s.fetch, in, token)
	if err != nil {
		t.Fatalf("%s, page %q: %v", b.Name, token, err)
	}
	return p
}

// many is a list of n rows made by a format with the number in it.
func many(from, n int, format string) string {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf(format, from+i)
	}
	return "[" + strings.Join(rows, ",") + "]"
}

func TestGreenhouse_J38_OfficesAreThePlaceIfItSaysHowOneWorks(t *testing.T) {
	for location, want := range map[string][]string{
		`{"name":"Hybrid"}`:                  {"São Paulo, Brazil", "Cork"},
		`{"name":"In-Office; Distributed"}`:  {"São Paulo, Brazil", "Cork"},
		`{"name":null}`:                      {"São Paulo, Brazil", "Cork"},
		`null`:                               {"São Paulo, Brazil", "Cork"},
		`{"name":"Remote - Poland"}`:         {"Poland"},
		`{"name":"London; Paris; (Remote)"}`: {"London", "Paris"},
	} {
		b, in, s := on(t, "greenhouse", "acme", `{"jobs":[{"id":1,"title":"a","location":`+location+
			`,"offices":[{"name":"SP","location":"São Paulo, Brazil"},{"name":"Cork","location":null},{"name":"Remote"}]}]}`)
		if got := mustPage(t, b, in, s, "").Jobs[0].Locations; !slices.Equal(got, want) {
			t.Errorf("location %s: %q, want %q", location, got, want)
		}
	}
}

func TestGreenhouse_J36_J37_J40_ContentIsAskedForAndDecodedOnceMore(t *testing.T) {
	const row = `{"id":1,"title":"R&amp;D","content":"&lt;p&gt;R&amp;amp;D &amp;lt;b&amp;gt;&lt;/p&gt;"}`
	b, in, s := on(t, "greenhouse", "acme", `{"jobs":[`+row+`]}`, row)
	listed := mustPage(t, b, in, s, "").Jobs[0]
	got, err := b.Get(t.Context(), s.fetch, in.Company, "1")
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range []posting.Job{listed, got} {
		if job.Title != "R&D" || job.HTML != "<p>R&amp;D &lt;b&gt;</p>" || posting.Plain(job.HTML) != "R&D <b>" {
			t.Errorf("title %q, description %q", job.Title, job.HTML)
		}
	}
	if !strings.HasSuffix(s.asked[0].URL, "/jobs?content=true") || !strings.Contains(s.asked[1].URL, "pay_transparency=true") {
		t.Errorf("asked for %q and %q", s.asked[0].URL, s.asked[1].URL)
	}
}

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

func TestAshby_J30_AnUnknownBoardMayBeAnEmptyListOrA404(t *testing.T) {
	for answer, want := range map[string]board.Verdict{
		"404 Not Found":                 board.UnknownBoard,
		`{"apiVersion":"1","jobs":[]}`:  board.EmptyOrUnknown,
		`{"apiVersion":"1"}`:            board.EmptyOrUnknown,
		`{"jobs":[{"isListed":false}]}`: board.OK, // it exists, and shows nothing
	} {
		b, in, s := on(t, "ashby", "acme", answer)
		if _, err := b.Page(t.Context(), s.fetch, in, ""); verdict(err) != want {
			t.Errorf("%s: %v, want %s", answer, err, want)
		}
	}
}

func TestAshby_J29_AListingThatIsOffNamesThePageThatMayBeLive(t *testing.T) {
	for answer, want := range map[string]board.Verdict{"404 Not Found": board.UnknownBoard, "503 ": board.Unavailable, "403 ": board.Blocked} {
		b, in, s := on(t, "ashby", "Quay Side", answer)
		_, err := b.Page(t.Context(), s.fetch, in, "")
		var trouble *board.Trouble
		if !asTrouble(err, &trouble) || trouble.Verdict != want || trouble.Page != "https://jobs.ashbyhq.com/Quay%20Side" {
			t.Errorf("%s: %+v, want %s and the company's page", answer, trouble, want)
			continue
		}
		if want == board.UnknownBoard && !strings.Contains(trouble.Detail, "switched its listing off") {
			t.Errorf("%s: %q leaves out that the listing may be off", answer, trouble.Detail)
		}
	}
}

func TestAshby_J25_ThePostingIsLookedForInTheList(t *testing.T) {
	const list = `{"jobs":[{"id":"a","title":"x"},{"id":"b","title":"by link","isListed":false},null]}`
	for local, want := range map[string]board.Verdict{"a": board.OK, "b": board.OK, "c": board.NotVisible} {
		b, in, s := on(t, "ashby", "acme", list)
		job, err := b.Get(t.Context(), s.fetch, in.Company, local)
		if verdict(err) != want || want == board.OK && job.ID != "ashby/acme/"+local {
			t.Errorf("Get(%q) = %q, %v, want %s", local, job.ID, err, want)
		}
	}
	b, in, s := on(t, "ashby", "acme", list)
	if p := mustPage(t, b, in, s, ""); len(p.Jobs) != 1 || p.Received != 3 || p.Broken != 1 {
		t.Errorf("the list has %d jobs of %d rows, %d broken, want the listed one", len(p.Jobs), p.Received, p.Broken)
	}
}

func TestAshby_J39_RemoteBesideAPlaceKeepsBoth(t *testing.T) {
	for _, c := range []struct {
		fields string
		places []string
		ways   []posting.Workplace
	}{
		{`"location":"Berlin","isRemote":true`, []string{"Berlin"}, []posting.Workplace{posting.Remote}},
		{`"location":"Remote","isRemote":true,"address":{"postalAddress":{"addressLocality":"Cork","addressCountry":"IE"}}`, []string{"Cork, IE"}, []posting.Workplace{posting.Remote}},
		{`"location":"Remote","isRemote":null,"address":{}`, nil, []posting.Workplace{posting.Remote}},
		{`"location":"Oslo","workplaceType":"Hybrid","isRemote":true,"secondaryLocations":[{"location":"Remote - Norway","address":null}]`, []string{"Oslo", "Norway"}, []posting.Workplace{posting.Hybrid, posting.Remote}},
	} {
		b, in, s := on(t, "ashby", "acme", `{"jobs":[{"id":"1","title":"t",`+c.fields+`}]}`)
		job := mustPage(t, b, in, s, "").Jobs[0]
		if !slices.Equal(job.Locations, c.places) || !slices.Equal(job.Workplace, c.ways) {
			t.Errorf("%s: %q %v, want %q %v", c.fields, job.Locations, job.Workplace, c.places, c.ways)
		}
	}
}

func TestSmartRecruiters_PagesGoOnUntilTheTotalIsReached(t *testing.T) {
	page := func(from, n, total int) string {
		return fmt.Sprintf(`{"offset":%d,"limit":100,"totalFound":%d,"content":%s}`, from, total, many(from, n, `{"id":"%d","name":"t"}`))
	}
	b, in, s := on(t, "smartrecruiters", "Acme1", page(0, 100, 150), page(100, 40, 150), page(140, 10, 150))
	token, received := "", 0
	for token != "" || received == 0 {
		p := mustPage(t, b, in, s, token)
		if p.Total != 150 {
			t.Errorf("total %d, want 150", p.Total)
		}
		received, token = received+p.Received, p.Next
	}
	if received != 150 || len(s.asked) != 3 || !strings.HasSuffix(s.asked[2].URL, "?limit=100&offset=140") {
		t.Errorf("%d rows by %d requests, the last %q", received, len(s.asked), s.asked[len(s.asked)-1].URL)
	}
	// A total that is never reached ends with the rows.
	b, in, s = on(t, "smartrecruiters", "Acme1", page(0, 100, 150), page(100, 0, 150))
	mustPage(t, b, in, s, "")
	if p := mustPage(t, b, in, s, "100"); p.Next != "" {
		t.Errorf("an empty page leads to %q", p.Next)
	}
}

func TestSmartRecruiters_J23_J45_UnknownIsSaidAndLinksAreForPeople(t *testing.T) {
	b, in, s := on(t, "smartrecruiters", "Acme1", `{"offset":0,"limit":100,"totalFound":0,"content":[]}`)
	if _, err := b.Page(t.Context(), s.fetch, in, ""); verdict(err) != board.EmptyOrUnknown {
		t.Errorf("nothing found: %v, want %s", err, board.EmptyOrUnknown)
	}
	b, in, s = on(t, "smartrecruiters", "acme1", `{"totalFound":1,"content":[{"id":"744","name":"t","company":{"identifier":"Acme1"},"ref":"https://api.smartrecruiters.com/v1/companies/Acme1/postings/744"}]}`)
	if got := mustPage(t, b, in, s, "").Jobs[0].URL; got != "https://jobs.smartrecruiters.com/Acme1/744" {
		t.Errorf("the link is %q", got)
	}
	b, in, s = on(t, "smartrecruiters", "Acme1", `{"id":"744","name":"t","active":false}`)
	if _, err := b.Get(t.Context(), s.fetch, in.Company, "744"); verdict(err) != board.Gone {
		t.Errorf("an inactive posting: %v, want %s", err, board.Gone)
	}
}

func TestRecruitee_OnlyWhatIsPublishedIsListed(t *testing.T) {
	b, in, s := on(t, "recruitee", "acme", `{"offers":[{"id":1,"title":"a","status":"published"},{"id":2,"title":"b","status":"draft"},{"id":3,"title":"c"}]}`)
	p := mustPage(t, b, in, s, "")
	if len(p.Jobs) != 2 || p.Received != 3 || p.Broken != 0 {
		t.Errorf("%d jobs of %d rows, %d broken, want 2 of 3", len(p.Jobs), p.Received, p.Broken)
	}
}

func TestPersonio_J7_XMLIsReadAsItComes(t *testing.T) {
	const one = `<position><id>1</id><name>a</name></position>`
	for feed, want := range map[string]struct {
		jobs, broken int
		verdict      board.Verdict
	}{
		`<workzag-jobs>` + one + `</workzag-jobs>`:                                                  {1, 0, board.OK},
		"\ufeff" + `<?xml version="1.0"?><workzag-jobs></workzag-jobs>`:                             {0, 0, board.OK},
		`<workzag-jobs>` + one + `<position><id>2</id><office>x</office></position></workzag-jobs>`: {1, 1, board.OK},
		`<workzag-jobs><position><id>1</id><name>R&D &nbsp; Q&A</name></position></workzag-jobs>`:   {1, 0, board.OK},
		`<workzag-jobs>` + one + `<position><id>2</id><name>b</na`:                                  {0, 0, board.Malformed},
		`<workzag-jobs>` + one:                {0, 0, board.Malformed},
		`<other>` + one + `</other>`:          {0, 0, board.Malformed},
		`{"not":"xml"}`:                       {0, 0, board.Malformed},
		``:                                    {0, 0, board.Malformed},
		"<!doctype html><p>Feed disabled</p>": {0, 0, board.Malformed},
		"404 <!doctype html>":                 {0, 0, board.UnknownBoard},
		`<workzag-jobs><position><id>1</id><name><![CDATA[a </position> b]]></name></position>` + one + `</workzag-jobs>`: {2, 0, board.OK},
	} {
		b, in, s := on(t, "personio", "acme", feed)
		p, err := b.Page(t.Context(), s.fetch, in, "")
		if verdict(err) != want.verdict || len(p.Jobs) != want.jobs || p.Broken != want.broken {
			t.Errorf("%s: %d jobs, %d broken, %v, want %d, %d, %s", feed, len(p.Jobs), p.Broken, err, want.jobs, want.broken, want.verdict)
		}
	}
}

func TestPersonio_PostingsHaveAddressesThatTheFeedLeavesOut(t *testing.T) {
	for company, want := range map[string]string{"acme": "https://acme.jobs.personio.de/job/1", "com:acme": "https://acme.jobs.personio.com/job/1"} {
		b, in, s := on(t, "personio", company, `<workzag-jobs><position><id>1</id><name>a</name></position></workzag-jobs>`)
		if job := mustPage(t, b, in, s, "").Jobs[0]; job.URL != want || job.ID != "personio/"+url.PathEscape(company)+"/1" {
			t.Errorf("%s: %q %q, want %q", company, job.ID, job.URL, want)
		}
	}
}

func TestDescriptions_J41_NothingIsNotAText(t *testing.T) {
	for name, answer := range map[string]string{
		"greenhouse":      `{"jobs":[{"id":1,"title":"t","content":""}]}`,
		"lever":           `[{"id":"1","text":"t","description":"","lists":[{"text":"You have","content":" "}],"additional":"<div></div>"}]`,
		"ashby":           `{"jobs":[{"id":"1","title":"t","descriptionHtml":null,"descriptionPlain":" \n\n "}]}`,
		"smartrecruiters": `{"totalFound":1,"content":[{"id":"1","name":"t"}]}`,
		"recruitee":       `{"offers":[{"id":1,"title":"t","description":null,"requirements":null}]}`,
		"personio":        `<workzag-jobs><position><id>1</id><name>t</name><jobDescriptions><jobDescription><name>Tasks</name><value/></jobDescription></jobDescriptions></position></workzag-jobs>`,
	} {
		b, in, s := on(t, name, "acme", answer)
		if html := mustPage(t, b, in, s, "").Jobs[0].HTML; html != "" {
			t.Errorf("%s: a description of nothing is %q", name, html)
		}
	}
}

func asTrouble(err error, t **board.Trouble) bool {
	found, ok := err.(*board.Trouble)
	*t = found
	return ok
}

func FuzzBoardsTakeAnyAnswer(f *testing.F) {
	for _, seed := range []string{`{"jobs":[{"id":1,"title":"a"}]}`, `[{"id":"1","text":"t"}]`, `<workzag-jobs><position><id>1</id></position></workzag-jobs>`,
		`{"offers":[null]}`, `{"totalFound":-5,"content":[{}]}`, "<html>", "\ufeff[]", `{"data":[{"created_at":1e400}]}`, `{"total":2000,"jobPostings":[null,{"title":"x","externalPath":"/job/x"}]}`} {
		f.Add([]byte(seed))
	}
	companies := map[string]string{"workday": "acme.wd1.External"}
	f.Fuzz(func(t *testing.T, body []byte) {
		ask := func(context.Context, board.Request) (board.Answer, error) {
			return board.Answer{Status: 200, Body: body, At: now}, nil
		}
		for _, b := range board.All {
			var c board.Company
			if b.Parse != nil {
				name := companies[b.Name]
				if name == "" {
					name = "acme"
				}
				c, _ = b.Parse(name)
			}
			p, err := b.Page(t.Context(), ask, board.Listing{Company: c}, "")
			if err != nil && (len(p.Jobs) > 0 || p.Next != "") {
				t.Errorf("%s: %v, and a page beside it: %+v", b.Name, err, p)
			}
			if p.Received < len(p.Jobs)+p.Broken {
				t.Errorf("%s: %d jobs and %d broken rows of %d", b.Name, len(p.Jobs), p.Broken, p.Received)
			}
			for _, job := range p.Jobs {
				if name, company, local, ok := posting.SplitID(job.ID); !ok || name != b.Name || company != c.Slug || local == "" || job.Title == "" {
					t.Errorf("%s: a job with the id %q and the title %q", b.Name, job.ID, job.Title)
				}
			}
			if _, err := json.Marshal(p); err != nil {
				t.Errorf("%s: %v", b.Name, err)
			}
		}
	})
}
