package board

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"layover/internal/jobs/posting"
)

var answered = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func TestClassify_J21_J22_J27_EachStatusHasItsOwnMeaning(t *testing.T) {
	const page = "<!doctype html><html><title>Welcome</title></html>"
	for _, c := range []struct {
		status int
		body   string
		want   Verdict // empty: nothing is wrong
	}{
		{200, `{}`, ""},
		{200, page, ""}, // for an adapter to refuse
		{204, ``, ""},
		{200, "<html><head><title>Just a moment...</title>", Blocked},
		{200, "\ufeff \n<!-- x --><HTML><h1>Error 1015</h1>You are being rate limited", Blocked},
		{403, "<html><title>Attention Required! | Cloudflare</title>", Blocked},
		{429, "<html>error 1015 you are being rate limited", RateLimited},
		{429, ``, RateLimited},
		{401, ``, Blocked},
		{403, ``, Blocked},
		{451, ``, Blocked},
		{404, `{"error":"x"}`, UnknownBoard},
		{404, page, UnknownBoard},
		{410, ``, Gone},
		{405, ``, Gone},
		{400, ``, Unavailable},
		{422, ``, Unavailable},
		{301, ``, Unavailable},
		{302, ``, Unavailable},
		{500, ``, Unavailable},
		{503, ``, Unavailable},
		{503, "<html>Access denied", Blocked},
		{599, ``, Unavailable},
		{0, ``, Unavailable},
		{200, `{"title":"Captcha engineer, just a moment..."}`, ""}, // a posting may speak of it
	} {
		got := Classify(Answer{Status: c.status, Body: []byte(c.body)})
		switch {
		case c.want == "" && got != nil, c.want != "" && (got == nil || got.Verdict != c.want):
			t.Errorf("Classify(%d %.40q) = %v, want %q", c.status, c.body, got, c.want)
		case got != nil && (got.Detail == "" || len(got.Detail) > 300):
			t.Errorf("Classify(%d %.40q) says %q", c.status, c.body, got.Detail)
		}
	}
	if got := Classify(Answer{Status: 200, Header: http.Header{"Cf-Mitigated": {"challenge"}}}); got == nil || got.Verdict != Blocked {
		t.Errorf("Classify of an answer that says it is a challenge: %v", got)
	}
}

func TestClassifyNamesWhereARedirectLeads(t *testing.T) {
	for location, want := range map[string]string{"https://careers.acme.example/o?token=secret": "sends to careers.acme.example,", "/login": "sends elsewhere,", "": "sends elsewhere,"} {
		got := Classify(Answer{Status: 302, Header: http.Header{"Location": {location}}})
		if got == nil || got.Verdict != Unavailable || !strings.Contains(got.Detail, want) || strings.Contains(got.Detail, "secret") {
			t.Errorf("Classify of a redirect to %q: %v, want %q", location, got, want)
		}
	}
}

func TestClassify_J12_ReadsRetryAfterInAllItsForms(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	for _, c := range []struct {
		hint, date string
		want       time.Duration // 0: no hint
	}{
		{"120", "", 2 * time.Minute},
		{"1.5", "", 1500 * time.Millisecond},
		{" 30 ", "", 30 * time.Second},
		{"Sun, 29 Nov 2026 12:01:00 GMT", "", time.Minute},
		{"Sunday, 29-Nov-26 12:01:00 GMT", "", time.Minute},
		{"Sun, 29 Nov 2026 15:01:00 GMT", "Sun, 29 Nov 2026 15:00:00 GMT", time.Minute}, // the board's clock is wrong
		{"Sun, 29 Nov 2026 11:00:00 GMT", "", 0},
		{"0", "", 0}, {"-5", "", 0}, {"soon", "", 0}, {"NaN", "", 0}, {"", "", 0},
		{"1e300", "", 0}, {"Inf", "", 0}, {"0x10", "", 0}, {"99999999999999999999", "", century},
		{"Fri, 31 Dec 9999 23:59:59 GMT", "", century},
	} {
		a := Answer{Status: 429, Header: http.Header{"Retry-After": {c.hint}, "Date": {c.date}}, At: answered}
		want := time.Time{}
		if c.want > 0 {
			want = answered.Add(c.want)
		}
		if got := Classify(a).RetryAt; !got.Equal(want) {
			t.Errorf("Retry-After %q at %q: %v, want %v", c.hint, c.date, got, want)
		}
	}
}

func TestDecode_J27_SaysWhatIsNoAnswer(t *testing.T) {
	var into struct{ Jobs []json.RawMessage }
	for body, detail := range map[string]string{
		"":                               "empty",
		" \n":                            "empty",
		"\ufeff":                         "empty",
		"<!DOCTYPE html><p>Hello":        "HTML",
		`{"jobs":[{"id":1},{"id"`:        "ends in the middle, after 23 bytes",
		`{"jobs":`:                       "ends in the middle",
		"Not Found":                      "no JSON at byte 1",
		`{"jobs":{"ok":false}}`:          "object in Jobs",
		`["a","list"]`:                   "array in the whole",
		`{"jobs":[]} and something else`: "no JSON at byte",
	} {
		trouble := decode(Answer{Status: 200, Body: []byte(body)}, &into)
		if trouble == nil || trouble.Verdict != Malformed || !strings.Contains(trouble.Detail, detail) {
			t.Errorf("decode(%q) = %v, want malformed, %q", body, trouble, detail)
		}
	}
	if trouble := decode(Answer{Status: 200, Body: []byte("\ufeff{\"jobs\":[1,2]}\n")}, &into); trouble != nil || len(into.Jobs) != 2 {
		t.Errorf("decode with a byte order mark: %v, %d rows", trouble, len(into.Jobs))
	}
}

func TestPage_J7_ABrokenRowCostsNothingButItself(t *testing.T) {
	var rows []json.RawMessage
	for _, row := range []string{`{"id":1,"title":"a"}`, `null`, `17`, `{"id":{},"title":"b"}`, `{"id":2}`, `{"title":"c"}`, `{"id":3,"title":["d"]}`,
		`{"id":"hidden","title":"e"}`, `{"id":4,"title":"f"}`} {
		rows = append(rows, json.RawMessage(row))
	}
	type row struct {
		ID    text
		Title string
	}
	p := page(rows, func(r row) (posting.Job, error) {
		if r.ID == "hidden" {
			return posting.Job{}, errUnlisted
		}
		return posting.Job{ID: posting.ID("board", "acme", string(r.ID)), Title: r.Title}, nil
	})
	if p.Received != 9 || p.Broken != 6 || len(p.Jobs) != 2 || p.Jobs[1].ID != "board/acme/4" || p.Total != -1 {
		t.Errorf("page = %+v, want 9 rows, 6 broken, jobs 1 and 4", p)
	}
}

func TestTextAndAmountTakeWhatBoardsWrite(t *testing.T) {
	var got struct {
		ID, Word, Gone text
		A, B, C, D, E  amount
	}
	const body = `{"id":9007199254740993,"word":"12","gone":null,"a":60000,"b":"60000.50","c":null,"d":"60,000","e":"none"}`
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if got.ID != "9007199254740993" || got.Word != "12" || got.Gone != "" {
		t.Errorf("texts = %q %q %q", got.ID, got.Word, got.Gone)
	}
	for i, want := range []float64{60000, 60000.5, 0, 60000, 0} {
		n := []amount{got.A, got.B, got.C, got.D, got.E}[i].n
		if want == 0 && n != nil || want != 0 && (n == nil || *n != want) {
			t.Errorf("amount %d = %v, want %v", i, n, want)
		}
	}
	for _, body := range []string{`{"id":{}}`, `{"id":[1]}`, `{"id":true}`, `{"a":{}}`} {
		if err := json.Unmarshal([]byte(body), &got); err == nil {
			t.Errorf("Unmarshal(%s) took it", body)
		}
	}
}

func TestTroublesAreCompletedInACopy(t *testing.T) {
	shared := &Trouble{Verdict: UnknownBoard, Detail: "nothing there"}
	b := rows(Board{
		Name: "x", Title: "X", Where: "look there", Parse: func(string) (Company, error) { return Company{}, nil },
		Home: func(Company) string { return "https://x.example/" },
		Page: func(context.Context, Fetch, Listing, string) (Page, error) { return Page{}, shared },
		Get:  func(context.Context, Fetch, Company, string) (posting.Job, error) { return posting.Job{}, shared },
	})[0]
	var list, one *Trouble
	_, err := b.Page(t.Context(), nil, Listing{}, "")
	if !errors.As(err, &list) || list.Verdict != UnknownBoard || list.Page != "https://x.example/" || !strings.Contains(list.Detail, "look there") {
		t.Errorf("Page: %+v", list)
	}
	_, err = b.Get(t.Context(), nil, Company{}, "1")
	if !errors.As(err, &one) || one.Verdict != NotVisible {
		t.Errorf("Get: %+v", one)
	}
	if shared.Detail != "nothing there" || shared.Page != "" || shared.Verdict != UnknownBoard {
		t.Errorf("the shared trouble became %+v", shared)
	}
}

func TestBoards_J27_ThatNoHostIsThereIsSaid(t *testing.T) {
	ask := func(context.Context, Request) (Answer, error) {
		return Answer{}, &Trouble{Verdict: UnknownBoard, Detail: "there is no such host", Err: &net.DNSError{IsNotFound: true}}
	}
	b := Find("recruitee")
	_, err := b.Page(t.Context(), ask, Listing{Company: Company{Slug: "acme", Host: "acme.recruitee.com"}}, "")
	var trouble *Trouble
	if !errors.As(err, &trouble) || trouble.Verdict != UnknownBoard || trouble.Detail != "there is no such host" {
		t.Errorf("%v, want what was seen", err)
	}
}

func TestBoards_J47_WithoutCompaniesA404MeansThatTheEndpointIsGone(t *testing.T) {
	ask := func(context.Context, Request) (Answer, error) {
		return Answer{}, Classify(Answer{Status: 404})
	}
	for _, b := range All {
		_, err := b.Page(t.Context(), ask, Listing{}, "")
		var trouble *Trouble
		want := Gone
		switch {
		case b.mayBeOff:
			want = EmptyOrUnknown
		case b.Parse != nil:
			want = UnknownBoard
		}
		if !errors.As(err, &trouble) || trouble.Verdict != want {
			t.Errorf("%s: a 404 is %v, want %s", b.Name, err, want)
		}
	}
}

func TestBoards_J47_A404ThatIsNotTheBoardsOwnIsNoVerdictOnACompany(t *testing.T) {
	for _, b := range All {
		for _, c := range []struct {
			body string
			want Verdict
		}{{`{"error":"not found"}`, UnknownBoard}, {"<html><h1>404 Not Found</h1></html>", Gone}} {
			ask := func(context.Context, Request) (Answer, error) {
				return Answer{}, Classify(Answer{Status: 404, Body: []byte(c.body)})
			}
			if !b.ownErrors {
				continue
			}
			var list, one *Trouble
			_, err := b.Page(t.Context(), ask, Listing{}, "")
			if !errors.As(err, &list) || list.Verdict != c.want {
				t.Errorf("%s: the list with %s is %v, want %s", b.Name, c.body, err, c.want)
			}
			want := c.want
			if want == UnknownBoard {
				want = NotVisible
			}
			_, err = b.Get(t.Context(), ask, Company{}, "1")
			if !errors.As(err, &one) || one.Verdict != want {
				t.Errorf("%s: a posting with %s is %v, want %s", b.Name, c.body, err, want)
			}
		}
	}
}

func TestPlacesAndWaysAreTakenApart(t *testing.T) {
	how, at := places("Remote, Germany; Berlin | berlin; ")
	if !slices.Equal(how, []posting.Workplace{posting.Remote}) || !slices.Equal(at, []string{"Germany", "Berlin"}) {
		t.Errorf("places = %v, %q", how, at)
	}
	if got := joined("", "Porto", "porto", "Portugal"); got != "Porto, Portugal" {
		t.Errorf("joined = %q", got)
	}
	if got := section("A & B", "<p>x</p>"); got != "<h3>A &amp; B</h3><p>x</p>" {
		t.Errorf("section = %q", got)
	}
	if got := section("A", "<p>&nbsp;</p>"); got != "" {
		t.Errorf("section without content = %q", got)
	}
}
