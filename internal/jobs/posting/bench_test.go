package posting

import (
	"strings"
	"testing"
)

// What a listing of a few thousand jobs does for each of them.
func BenchmarkRead(b *testing.B) {
	html := "<h2>About</h2>" + strings.Repeat("<p>We run <b>distributed</b> systems &amp; care. <a href=\"https://acme.example/\">More</a></p><ul><li>Go<li>SQL</ul>", 20)
	for name, read := range map[string]func(){
		"text":            func() { Text("Senior Engineer, R&amp;D &ndash; São Paulo") },
		"key":             func() { Key("Senior Engineer, R&D – São Paulo (m/w/d)") },
		"description key": func() { Key(html) },
		"when":            func() { When("2026-09-01T10:00:00-04:00", now) },
		"ago":             func() { When("Posted 30+ Days Ago", now) },
		"salary":          func() { SalaryText("€90K – €120K") },
		"workplace":       func() { Workplaces("São Paulo, Brazil") },
		"type":            func() { TypeOf("FullTime") },
		"level":           func() { LevelOf("Mid-Senior level") },
		"url":             func() { CanonicalURL("https://boards.greenhouse.io/acme/jobs/1?gh_src=x&gh_jid=12") },
		"plain":           func() { Plain(html) },
		"markdown":        func() { Markdown(html, 1500) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read()
			}
		})
	}
}
