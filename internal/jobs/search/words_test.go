package search

import (
	"errors"
	"testing"

	"layover/internal/jobs/posting"
)

func TestWordsMatch(t *testing.T) {
	const (
		title = "Senior Go Engineer (m/w/d), R&D"
		text  = "<p>We use <b>Kubernetes</b>, C++ &amp; SQL. No on-call.</p><ul><li>Straße und Café</li></ul>"
	)
	for _, c := range []struct {
		query string
		want  bool
	}{
		{"go", true},
		{"Go ENGINEER", true},
		{"go rust", false},
		{"goo", false},
		{"o", false},
		{"engin", false},
		{"engin*", true},
		{"*gineer", true},
		{"*gine*", true},
		{`"go engineer"`, true},
		{`"engineer go"`, false},
		{"rust OR go", true},
		{"rust OR python", false},
		{"go rust OR python", false},
		{"go rust OR kubernetes", true},
		{"rust OR python OR sql", true},
		{"or", false},
		{"go -kubernetes", false},
		{"go -rust", true},
		{"-rust", true},
		{"-senior", false},
		{`go -"on call"`, false},
		{`go -"call on"`, true},
		{"c++", true},
		{"c", false},
		{"r&d", true},
		{"strasse cafe", true},
		{"STRASSE", true},
		{"go - kubernetes", true},
		{"on-call", true},
		{`"sql no"`, true}, // blocks end phrases, sentences do not
		{"p li", false},
		{"amp", false},
	} {
		w, err := parseWords(c.query)
		if err != nil {
			t.Errorf("parseWords(%q): %v", c.query, err)
			continue
		}
		job := posting.Job{Title: title, HTML: text}
		if got := w.match(head(&job), func() string { return posting.Key(posting.Plain(text)) }); got != c.want {
			t.Errorf("%q matches: %v, want %v", c.query, got, c.want)
		}
	}
}

func TestWordsMatchInAllLanguages(t *testing.T) {
	for _, c := range []struct {
		query, title string
		want         bool
	}{
		{"エンジニア", "シニアエンジニア募集", true},
		{"ｴﾝｼﾞﾆｱ", "シニアエンジニア", true},
		{"go", "Go開発エンジニア", true},
		{"开发", "后端开发工程师", true},
		{"разработчик", "Старший Разработчик", true},
		{"разработ", "Старший Разработчик", false},
		{"개발자", "백엔드 개발자를", true},
		{"วิศวกร", "รับสมัครวิศวกรซอฟต์แวร์", true},
		{"มหาวิทยาลัย", "รับสมัครวิศวกร", false},
		{"מהנדס", "מהנדס תוכנה", true},
		{"şef", "Sef", true},
		{"ingenieur", "Ingénieur", true},
		{"engenheira", "ENGENHEIRA de Dados ", true},
	} {
		w, err := parseWords(c.query)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.match(head(&posting.Job{Title: c.title}), func() string { return "" }); got != c.want {
			t.Errorf("%q in %q: %v, want %v", c.query, c.title, got, c.want)
		}
	}
}

// Titles come decoded from the boards' adapters, so that a word beside an
// ampersand is found, whatever the query's own spelling.
func TestJ36_AmpersandsDoNotHideWords(t *testing.T) {
	job := posting.Job{Title: posting.Text("R&amp;D Engineer, Health &amp; Safety")}
	for _, query := range []string{"R&D", "r d", "health safety", `"health & safety"`, "-amp"} {
		w, err := parseWords(query)
		if err != nil {
			t.Fatal(err)
		}
		if !w.match(head(&job), func() string { return "" }) {
			t.Errorf("%q does not match %q", query, job.Title)
		}
	}
}

func TestWordsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, query := range []string{"OR go", "go OR", "go OR OR rust", `"go engineer`, "go OR -rust", "-rust OR go"} {
		_, err := parseWords(query)
		var bad *Invalid
		if !errors.As(err, &bad) || bad.Field != "text" || bad.Want == "" {
			t.Errorf("parseWords(%q): %v, want an *Invalid for text", query, err)
		}
	}
}

func TestHintIsOnlyPlainWords(t *testing.T) {
	for query, want := range map[string]string{
		"go engineer": "go engineer", "go -php": "", "go OR rust": "", `"go engineer"`: "", "engin*": "", "": "",
	} {
		if w, err := parseWords(query); err != nil || w.plain != want {
			t.Errorf("hint of %q is %q (%v), want %q", query, w.plain, err, want)
		}
	}
}

func FuzzWords(f *testing.F) {
	for _, seed := range []string{`go OR "c++ dev" -php`, `"`, `-`, `--a`, `*`, `a"b"c`, `-"x"`, "日本 OR 語*", "OR", `""`} {
		f.Add(seed, "Senior C++ dev 日本語")
	}
	f.Fuzz(func(t *testing.T, query, title string) {
		w, err := parseWords(query)
		if err != nil {
			return
		}
		text := head(&posting.Job{Title: title})
		got := w.match(text, func() string { return "" })
		if w.empty() && !got {
			t.Errorf("%q asks for nothing, and %q does not match", query, title)
		}
		for _, none := range w.none {
			if got && none.in(text) {
				t.Errorf("%q matches %q in spite of -%s", query, title, none.key)
			}
		}
	})
}
