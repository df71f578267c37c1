package posting

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var now = time.Date(2026, 11, 29, 22, 15, 0, 0, time.UTC)

func TestText_J36_J37_OneDecoderForEntities(t *testing.T) {
	for in, want := range map[string]string{
		"R&amp;D":                              "R&D",
		"Engineer,\u00a0 Data &#38; Platform ": "Engineer, Data & Platform",
		"Caf&eacute; &#x2F; Bar":               "Café / Bar",
		"&amp;lt;b&amp;gt;":                    "&lt;b&gt;", // once, not until nothing is left
		"a\u200bb\u202ec\x00d\xff":             "abcd",
		"می\u200cخواهم":                        "می\u200cخواهم",
		"  ":                                   "",
		"R&D":                                  "R&D",
		"as it is":                             "as it is",
		"two  blanks":                          "two blanks",
		"blank at the end ":                    "blank at the end",
		"\x7f":                                 "",
	} {
		if got := Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Plain(Unescape("&lt;p&gt;R&amp;amp;D &amp;mdash; S&atilde;o Paulo&lt;/p&gt;")); got != "R&D — São Paulo" {
		t.Errorf("Plain(Unescape(escaped twice)) = %q", got)
	}
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"<p>a&amp;b<br>c<ul><li>x<li>y</ul><script>if(a<b){}</script>z <b>q</b>r": "a&b\nc\nx\ny\nz qr",
		"<style>p{}</style><title>t</title><p hidden>seen</p>":                    "seen",
		"no tags < at all":     "no tags < at all",
		"<svg><text>x</text>":  "",
		"a<custom-tag>b":       "a\nb",
		"<p>unclosed <b>bold":  "unclosed bold",
		"<!-- gone -->text":    "text",
		"&lt;script&gt; shown": "<script> shown",
	} {
		if got := Plain(in); got != want {
			t.Errorf("Plain(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestBlank(t *testing.T) {
	for in, want := range map[string]bool{"": true, " \n": true, "<p>&nbsp;</p>": true, "<div>\u00a0<br/></div>": true, "<img alt='x'>": true,
		"<p>&mdash;</p>": false, "<p>a</p>": false, "語": false, "<p>&amp;</p>": false, "a < b": false, "&": false, "é": false} {
		if got := Blank(in); got != want {
			t.Errorf("Blank(%q) = %v, want %v", in, got, want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	const source = `<h2>About &amp; <b>you</b></h2><p>See <a href="javascript:alert(1)">this</a>, <a href="mailto:a@b.example">mail</a> and
		<a href="https://acme.example/a(b)?c=1">that [one]</a>.<img src="https://track.example/p.gif" alt="pixel"><script>x()</script></p>
		<ul><li>Go</li><li>SQL</li></ul><form><input value="v"><button>Send</button></form><p>&#x202e;1 * 2</p>`
	const want = "## About & **you**\n\nSee this, mail and [that \\[one\\]](https://acme.example/a%28b%29?c=1).\n\n- Go\n- SQL\n\n1 * 2"
	md, cut := Markdown(source, 0)
	if md != want || cut {
		t.Errorf("Markdown() = %q, %v, want %q, false", md, cut, want)
	}
	if md, _ := Markdown("<p>[text](javascript:alert(1)) ![x](y) [a</p>", 0); md != `\[text](javascript:alert(1)) !\[x](y) \[a` {
		t.Errorf("Markdown of text that looks like links = %q", md)
	}
	if md, cut := Markdown(strings.Repeat(`\`, 100), 50); md != strings.Repeat(`\`, 44) || !cut {
		t.Errorf("Markdown of backslashes = %q, %v", md, cut)
	}
	if md, _ := Markdown("<ul><li>a</li></ul><ul><li>b</li></ul>", 0); md != "- a\n\n\n- b" && md != "- a\n\n- b" {
		t.Errorf("Markdown of two lists = %q", md)
	}
	if md, cut := Markdown("<p>"+strings.Repeat("a", most)+"</p><p>b</p>", 0); len(md) > most || !cut || strings.Contains(md, "b") {
		t.Errorf("Markdown of more than is read: %d bytes, %v", len(md), cut)
	}
	if md, cut := Markdown("", 10); md != "" || cut {
		t.Errorf("Markdown of nothing = %q, %v", md, cut)
	}
}

func TestMarkdownCuts(t *testing.T) {
	link := `<p>` + strings.Repeat("word ", 10) + `<a href="https://acme.example/` + strings.Repeat("x", 60) + `">the page</a> after</p>`
	for _, c := range []struct {
		what, html string
		limit      int
		want       string
	}{
		{"between paragraphs", "<p>" + strings.Repeat("a ", 30) + "</p><p>" + strings.Repeat("b ", 30) + "</p>", 80, strings.TrimSpace(strings.Repeat("a ", 30))},
		{"between sentences", "<p>First one here. Second one here. Third one is long</p>", 45, "First one here. Second one here."},
		{"between words", "<p>" + strings.Repeat("word ", 20) + "</p>", 30, "word word word word"},
		{"before a link, not inside it", link, 80, strings.TrimSpace(strings.Repeat("word ", 10))},
		{"before a link whose text it would cut", `<p>` + strings.Repeat("word ", 10) + `<a href="https://acme.example/">` + strings.Repeat("page ", 20) + `</a></p>`, 90, strings.TrimSpace(strings.Repeat("word ", 10))},
		{"after a link", `<p><a href="https://acme.example/">the [page]</a> ` + strings.Repeat("word ", 20) + `</p>`, 60, `[the \[page\]](https://acme.example/) word word word`},
		{"between lines", "<ul><li>" + strings.Repeat("a ", 12) + "</li><li>" + strings.Repeat("b ", 30) + "</li></ul>", 50, "- " + strings.TrimSpace(strings.Repeat("a ", 12))},
		{"with code closed", "<pre>" + strings.Repeat("x = [y](z)\n", 20) + "</pre>", 60, "```\n" + strings.Repeat("x = [y](z)\n", 4) + "```"},
		{"with bold text that only begins left out", "<p>" + strings.Repeat("a ", 14) + "<b>" + strings.Repeat("b", 60) + "</b></p>", 40, strings.TrimSpace(strings.Repeat("a ", 14))},
		{"between runes", "<p>" + strings.Repeat("語", 30) + "</p>", 21, strings.Repeat("語", 5)},
		{"after a full stop that has no blank", "<p>" + strings.Repeat("語", 8) + "。" + strings.Repeat("字", 30) + "</p>", 50, strings.Repeat("語", 8) + "。"},
		{"with bold text closed", "<p><b>" + strings.Repeat("word ", 20) + "</b></p>", 30, "**word word word word**"},
	} {
		got, cut := Markdown(c.html, c.limit)
		if got != c.want || !cut {
			t.Errorf("%s: Markdown(_, %d) = %q, %v, want %q, true", c.what, c.limit, got, cut, c.want)
		}
	}
}

func TestMarkdownOfWhatIsNestedTooDeeplyIsItsText(t *testing.T) {
	md, _ := Markdown(strings.Repeat("<div>", 5000)+"text <b>here</b>", 0)
	if md != "text here" {
		t.Errorf("Markdown(deep) = %.80q, want its text", md)
	}
}

func TestWhen_J42_KeepsAValueAndItsPrecision(t *testing.T) {
	for _, c := range []struct {
		in   string
		want string
		is   Precision
	}{
		{"2026-09-01T10:00:00-04:00", "2026-09-01T14:00:00Z", Instant},
		{"2026-10-10T08:00:00.000Z", "2026-10-10T08:00:00Z", Instant},
		{"1764201600123", "2025-11-27T00:00:00.123Z", Instant},
		{"1795000000", "2026-11-18T11:06:40Z", Instant},
		{"2026-10-01 08:00:00 UTC", "2026-10-01T08:00:00Z", Instant},
		{"2026-11-01T10:00:00.1234567Z", "2026-11-01T10:00:00.1234567Z", Instant},
		{"Mon, 02 Nov 2026 15:04:05 +0000", "2026-11-02T15:04:05Z", Instant},
		{"Mon, 02 Nov 2026 15:04:05 GMT", "2026-11-02T15:04:05Z", Instant},
		{"Mon, 02 Nov 2026 15:04:05 EST", "2026-11-02T00:00:00Z", Day},
		{"2026-10-14", "2026-10-14T00:00:00Z", Day},
		{"20261014", "2026-10-14T00:00:00Z", Day},
		{"2026-10-16T13:28:02", "2026-10-16T00:00:00Z", Day},
		{"2026-11-01T10:00:00.1234567", "2026-11-01T00:00:00Z", Day},
		{"Posted Today", "2026-11-29T00:00:00Z", Relative},
		{"Posted Yesterday", "2026-11-28T00:00:00Z", Relative},
		{"Posted 3 Days Ago", "2026-11-26T00:00:00Z", Relative},
		{"Posted 23 Hours Ago", "2026-11-28T00:00:00Z", Relative},
		{"2 weeks ago", "2026-11-15T00:00:00Z", Relative},
		{"Posted 30+ Days Ago", "2026-10-30T00:00:00Z", AtLeast},
		{"Heute ausgeschrieben", "2026-11-29T00:00:00Z", Relative},
		{"Vor 2 Tagen ausgeschrieben", "2026-11-27T00:00:00Z", Relative},
		{"Vor mehr als 30 Tagen ausgeschrieben", "2026-10-30T00:00:00Z", AtLeast},
		{"Publié aujourd'hui", "2026-11-29T00:00:00Z", Relative},
		{"Publié il y a plus de 30 jours", "2026-10-30T00:00:00Z", AtLeast},
		{"Publicado hace 3 días", "2026-11-26T00:00:00Z", Relative},
		{"Publicado há mais de 30 dias", "2026-10-30T00:00:00Z", AtLeast},
		{"Pubblicato 5 giorni fa", "2026-11-24T00:00:00Z", Relative},
		{"Meer dan 30 dagen geleden geplaatst", "2026-10-30T00:00:00Z", AtLeast},
		{"Publicerad för 3 dagar sedan", "2026-11-26T00:00:00Z", Relative},
		{"Opublikowano ponad 30 dni temu", "2026-10-30T00:00:00Z", AtLeast},
		{"30日以上前", "2026-10-30T00:00:00Z", AtLeast},
		{"3 天前", "2026-11-26T00:00:00Z", Relative},
		{"오늘 게시됨", "2026-11-29T00:00:00Z", Relative},
	} {
		got := When(c.in, now)
		if got.Precision != c.is || got.At.Format(time.RFC3339Nano) != c.want {
			t.Errorf("When(%q) = %s %q, want %s %q", c.in, got.At.Format(time.RFC3339Nano), got.Precision, c.want, c.is)
		}
	}
	for _, in := range []string{"", "0", "12", "soon", "Posted", "0001-01-01T00:00:00Z", "1970-01-01", "9999-12-31", "2026-13-01", "Posted 99999 days ago",
		"between 3 and 5 days ago", "todays", strings.Repeat("1", 200)} {
		if got := When(in, now); got != (Date{}) {
			t.Errorf("When(%q) = %v, want no date", in, got)
		}
	}
	if got := When("Posted Today", time.Time{}); got != (Date{}) {
		t.Errorf("When(relative, unknown now) = %v, want no date", got)
	}
	if got := epoch(0); got != (Date{}) {
		t.Errorf("epoch(0) = %v, want no date", got)
	}
}

func TestSalaryText(t *testing.T) {
	for _, c := range []struct {
		in               string
		low, high        float64 // 0: unknown
		currency, period string
	}{
		{"€90K – €120K", 90000, 120000, "EUR", ""},
		{"€90K – €120K • 0.1% – 0.5%", 90000, 120000, "EUR", ""},
		{"$36k", 36000, 36000, "", ""}, // dollars of several countries
		{"US$36k", 36000, 36000, "USD", ""},
		{"$90-120k", 90000, 120000, "", ""},
		{"up to $36k", 0, 36000, "", ""},
		{"bis zu 70.000 €", 0, 70000, "EUR", ""},
		{"£45,000+", 45000, 0, "GBP", ""},
		{"from 50k USD", 50000, 0, "USD", ""},
		{"50 000 - 60 000 PLN per month", 50000, 60000, "PLN", "month"},
		{"EUR 60.000 - 80.000 / Jahr", 60000, 80000, "EUR", "year"},
		{"$120,000.00 - $150,000.00 a year", 120000, 150000, "", "year"},
		{"R$ 5.000,00 a R$ 7.000,50 por mês", 5000, 7000.5, "BRL", "month"},
		{"USD 25 - 35 per hour", 25, 35, "USD", "hour"},
		{"US$1.125M", 1125000, 1125000, "USD", ""},
		{"CHF 100'000 – 120'000", 100000, 120000, "CHF", ""},
		{"60k€/an", 60000, 60000, "EUR", "year"},
		{"$150k + 401(k)", 150000, 150000, "", ""},
		{"$130K – $150K • Offers Equity", 130000, 150000, "", ""},
		{"36k", 36000, 36000, "", ""},
		{"up to 36k", 0, 36000, "", ""},
		{"90-120k base", 90000, 120000, "", ""},
		{"USD $120k", 120000, 120000, "USD", ""},
		{"45 000 kr per month", 45000, 45000, "", "month"},
		{"50000 per year", 50000, 50000, "", "year"},
		{"120k – 90k GBP", 90000, 120000, "GBP", ""},
	} {
		pay, ok := SalaryText(c.in)
		if !ok || number(pay.Min) != c.low || number(pay.Max) != c.high || pay.Currency != c.currency || pay.Period != c.period ||
			pay.Source != "text" || pay.Text != c.in {
			t.Errorf("SalaryText(%q) = %v..%v %q %q %+v, %v, want %v..%v %q %q", c.in, number(pay.Min), number(pay.Max), pay.Currency, pay.Period,
				pay, ok, c.low, c.high, c.currency, c.period)
		}
	}
	for _, in := range []string{"", "competitive", "401k match", "2026", "ALL 3 OFFICES", "5k employees", "35 hours", "40 hours per week", "4 days", "10k users a day or 2", "100000", "€", "10% bonus", strings.Repeat("€90K ", 200)} {
		if pay, ok := SalaryText(in); ok {
			t.Errorf("SalaryText(%q) = %+v, want nothing", in, pay)
		}
	}
}

func number(n *float64) float64 {
	if n == nil {
		return 0
	}
	return *n
}

func TestSalary_J46_WhatIsNotStatedStaysUnknown(t *testing.T) {
	zero, low, high := 0.0, 60000.0, 80000.0
	for _, c := range []struct {
		what      string
		low, high *float64
		ok        bool
		min, max  float64
	}{
		{"both", &low, &high, true, 60000, 80000},
		{"exchanged", &high, &low, true, 60000, 80000},
		{"only a minimum", &low, nil, true, 60000, 0},
		{"zero is unknown", &low, &zero, true, 60000, 0},
		{"nothing", nil, nil, false, 0, 0},
		{"zeros", &zero, &zero, false, 0, 0},
	} {
		pay, ok := Salary(c.low, c.high, "eur", "per-year-salary")
		if ok != c.ok || number(pay.Min) != c.min || number(pay.Max) != c.max {
			t.Errorf("%s: Salary = %v..%v, %v", c.what, number(pay.Min), number(pay.Max), ok)
		}
		if ok && (pay.Currency != "EUR" || pay.Period != "year" || pay.Kind != "salary" || pay.Source != "stated") {
			t.Errorf("%s: Salary = %+v", c.what, pay)
		}
	}
	if got := number(Cents(6_000_050)); got != 60000.5 {
		t.Errorf("Cents(6000050) = %v", got)
	}
	for in, want := range map[string]float64{"60000.00": 60000, "60,000": 60000, "60.000,50": 60000.5, "60k": 60000, "abc": 0, "": 0, "60 per": 0} {
		if got := number(Amount(in)); got != want {
			t.Errorf("Amount(%q) = %v, want %v", in, got, want)
		}
	}
}

func TestPeriodAndCurrency(t *testing.T) {
	for in, want := range map[string]string{"per-year-salary": "year", "per-hour-wage": "hour", "1 YEAR": "year", "1 MONTH": "month", "NONE": "",
		"annual": "year", "PA": "year", "PH": "hour", "hourly": "hour", "per_month": "month", "": "", "月給": "month", "/h": "hour", "year_" + strings.Repeat("x", 300): "", "hour or day": ""} {
		if got := periodOf(in); got != want {
			t.Errorf("periodOf(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"eur": "EUR", " USD ": "USD", "€": "EUR", "$": "", "US$": "USD", "kr": "", "XXX": "", "THE": "", "": "", "100 zł": "PLN"} {
		if got := currencyOf(in); got != want {
			t.Errorf("currencyOf(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestWorkplaces_J38_J39_APlaceAndAWayToWorkAreTakenApart(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []Workplace
		rest string
	}{
		{"Hybrid", []Workplace{Hybrid}, ""},
		{"In-Office; Distributed", []Workplace{Remote, OnSite}, ""},
		{"Remote - EU", []Workplace{Remote}, "EU"},
		{"Berlin (Remote)", []Workplace{Remote}, "Berlin"},
		{"Remote, Germany; Berlin", []Workplace{Remote}, "Germany; Berlin"},
		{"Home Office, Berlin", []Workplace{Remote}, "Berlin"},
		{"100% Remote", []Workplace{Remote}, ""},
		{"on-site", []Workplace{OnSite}, ""},
		{"onsite", []Workplace{OnSite}, ""},
		{"OnSite", []Workplace{OnSite}, ""},
		{"on_site", []Workplace{OnSite}, ""},
		{"unspecified", nil, "unspecified"},
		{"Télétravail", []Workplace{Remote}, ""},
		{"praca zdalna, Kraków", []Workplace{Remote}, "praca , Kraków"},
		{"リモート", []Workplace{Remote}, ""},
		{"Anywhere", []Workplace{Remote}, ""},
		{"WFH", []Workplace{Remote}, ""},
		{"München, vor Ort", []Workplace{OnSite}, "München"},
		{"Partially remote", []Workplace{Hybrid}, ""},
		{"Modelo híbrido - Lisboa", []Workplace{Hybrid}, "Modelo - Lisboa"},
		{"In person", []Workplace{OnSite}, ""},
		{"Remoteville", nil, "Remoteville"},
		{"Lisbon", nil, "Lisbon"},
		{"", nil, ""},
	} {
		got, rest := Workplaces(c.in)
		if !slices.Equal(got, c.want) || rest != c.rest {
			t.Errorf("Workplaces(%q) = %v, %q, want %v, %q", c.in, got, rest, c.want, c.rest)
		}
	}
}

func TestTypeAndLevel(t *testing.T) {
	for in, want := range map[string]Type{"FullTime": FullTime, "Full-time": FullTime, "fulltime_fixed_term": FullTime, "full_time": FullTime,
		"Vollzeit": FullTime, "parttime": PartTime, "PartTime": PartTime, "working_student": PartTime, "Intern": Internship, "trainee": Internship,
		"Contract": Contract, "freelance": Contract, "Temporary": Temporary, "permanent": Other, "": ""} {
		if got := TypeOf(in); got != want {
			t.Errorf("TypeOf(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]Seniority{"Mid-Senior": Mid, "mid_senior_level": Mid, "Entry level": Junior, "entry-level": Junior,
		"experienced": Senior, "Senior": Senior, "mid_level": Mid, "Director": Executive, "Lead": Lead, "Internship": Intern,
		"Not applicable": "", "": "", "student_college": Intern} {
		if got := LevelOf(in); got != want {
			t.Errorf("LevelOf(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"pt": "pt", "en-us": "en-US", "pt_BR": "pt-BR", "": "", "english language": ""} {
		if got := LanguageTag(in); got != want {
			t.Errorf("LanguageTag(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCanonicalURL_J44_CosmeticVariantsAreOneAddress(t *testing.T) {
	for in, want := range map[string]string{
		"HTTP://Boards.Greenhouse.io:80/acme/jobs/1/?utm_source=x&gh_jid=12&gh_src=1#app": "https://boards.greenhouse.io/acme/jobs/1?gh_jid=12",
		"https://boards.greenhouse.io/acme/jobs/1?gh_jid=12":                              "https://boards.greenhouse.io/acme/jobs/1?gh_jid=12",
		"https://jobs.lever.co/acme/1?lever-source=X&lever-origin=applied":                "https://jobs.lever.co/acme/1",
		"https://acme.example/j?b=2&a=1":                                                  "https://acme.example/j?a=1&b=2",
		"https://acme.example./j/":                                                        "https://acme.example/j",
		"https://acme.example/j?ref=newsletter":                                           "https://acme.example/j",
		"https://acme.example/j?ref=REQ123":                                               "https://acme.example/j?ref=REQ123",
		"https://acme.example/x%2fy":                                                      "https://acme.example/x%2Fy",
		"https://acme.example/#/jobs/12":                                                  "https://acme.example#/jobs/12",
		"http://[::1]:8080/a":                                                             "http://[::1]:8080/a",
		"javascript:alert(1)":                                                             "",
		"https://user:secret@acme.example/":                                               "",
		"//acme.example/x":                                                                "",
		"ftp://acme.example/x":                                                            "",
		"not an address":                                                                  "",
		"":                                                                                "",
	} {
		if got := CanonicalURL(in); got != want {
			t.Errorf("CanonicalURL(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestKey_J43_EveryScriptKeepsItsLetters(t *testing.T) {
	for in, want := range map[string]string{
		"  Senior   Go-Developer (m/w/d) ": "senior go developer m w d",
		"São Paulo":                        "sao paulo",
		"Łódź":                             "lodz",
		"STRASSE":                          "strasse",
		"Straße":                           "strasse",
		"Ｓｅｎｉｏｒ　Ｄｅｖ":                       "senior dev",
		"ソフトウェアエンジニア":                      "ソフトウェアエンジニア",
		"Инженер-программист":              "инженер программист",
		"مهندس برمجيات":                    "مهندس برمجيات",
		"हिन्दी":                           "हिन्दी",
		"C++ Developer":                    "c++ developer",
		"C# Developer":                     "c# developer",
		"C Developer":                      "c developer",
		"Node.js":                          "nodejs",
		"O’Neill":                          "oneill",
		"🚀":                                "🚀",
		"!!!":                              "!!!",
		" ":                                "",
	} {
		if got := Key(in); got != want {
			t.Errorf("Key(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestIDsComeApartAgain(t *testing.T) {
	for _, parts := range [][3]string{{"greenhouse", "acme", "12"}, {"remotive", "", "7"}, {"ashby", "Acme Corp", "6f"},
		{"workday", "acme.wd3/External", "/job/Lisbon/Analyst_R-1"}, {"x", "a%2Fb", "ä ö"}} {
		id := ID(parts[0], parts[1], parts[2])
		board, company, local, ok := SplitID(id)
		if !ok || board != parts[0] || company != parts[1] || local != parts[2] || strings.ContainsAny(id, " \n") {
			t.Errorf("SplitID(%q) = %q, %q, %q, %v, want %q", id, board, company, local, ok, parts)
		}
	}
	for _, id := range []string{"", "greenhouse", "greenhouse/acme", "greenhouse/acme/", "/acme/1", "a/%zz/1", "a/b/%zz"} {
		if board, company, local, ok := SplitID(id); ok {
			t.Errorf("SplitID(%q) = %q, %q, %q, want a refusal", id, board, company, local)
		}
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, seed := range []string{"<p>a <b>b</b></p>", `<a href="https://x.example/">t</a>`, "&lt;p&gt;", "<pre>x\n</pre>", "語\xff", "**a", "<table><tr><td>x", `a\b`} {
		f.Add(seed, 20)
	}
	f.Fuzz(func(t *testing.T, source string, limit int) {
		limit &= 0xfff
		md, _ := Markdown(source, limit)
		if limit > 0 && len(md) > limit {
			t.Errorf("Markdown(%q, %d) has %d bytes: %q", source, limit, len(md), md)
		}
		for what, got := range map[string]string{"Markdown": md, "Plain": Plain(source), "Text": Text(source)} {
			if !utf8.ValidString(got) {
				t.Errorf("%s(%q) is not UTF-8: %q", what, source, got)
			}
		}
		if Blank(source) && Plain(source) != "" {
			t.Errorf("Blank(%q), and it says %q", source, Plain(source))
		}
		if text := Plain(source); Text(text) == "" && text != "" {
			t.Errorf("Plain(%q) = %q: blank lines", source, text)
		}
	})
}

func FuzzText(f *testing.F) {
	for _, seed := range []string{"R&amp;D", "Łódź", "C++", "a.\u0301", "ﬁ", "İ", "https://a.example/%2f?b=1&a=%zz;", "Posted 3 Days Ago", "€90K – €120K", "ǰ", "ΐ", "Ünïcode ß – “x” 語", "a…b", "ǅ ŉ ſ", "한국어 カナ"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key := Key(s)
		if slow := anyKey(s); slow != key {
			t.Errorf("Key(%q) = %q, and without the short way %q", s, key, slow)
		}
		if again := Key(key); again != key || !utf8.ValidString(key) {
			t.Errorf("Key(%q) = %q, and its key %q", s, key, again)
		}
		if address := CanonicalURL(s); address != "" && CanonicalURL(address) != address {
			t.Errorf("CanonicalURL(%q) = %q, and of that %q", s, address, CanonicalURL(address))
		}
		if d := When(s, now); (d.Precision == None) != d.At.IsZero() {
			t.Errorf("When(%q) = %v", s, d)
		}
		if pay, ok := SalaryText(s); ok && pay.Min == nil && pay.Max == nil {
			t.Errorf("SalaryText(%q) = %+v: nothing stated", s, pay)
		}
		if _, rest := Workplaces(s); !utf8.ValidString(rest) {
			t.Errorf("Workplaces(%q) leaves %q", s, rest)
		}
		id := ID("b", s, s+"x")
		if _, company, local, ok := SplitID(id); !ok || company != s || local != s+"x" {
			t.Errorf("SplitID(ID(%q)) = %q, %q, %v", s, company, local, ok)
		}
		TypeOf(s)
		LevelOf(s)
		LanguageTag(s)
	})
}
