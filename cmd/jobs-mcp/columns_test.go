package main

import (
	"strings"
	"testing"

	"layover/internal/jobs/tools"
)

func TestATableIsAlignedWhateverItsCharacters(t *testing.T) {
	var b strings.Builder
	titles := []string{"Gopher", "ソフトウェアエンジニア", "한국어 개발자", "Rocketeer 🚀", "Ingénieur", "Inge\u0301nieur", strings.Repeat("長", 40), strings.Repeat("x", 60), "a\x1b[2Jb"}
	var l tools.List
	for _, title := range titles {
		job := tools.Job{ID: "board//1", Title: title, Company: "Acme"}
		l.Jobs = append(l.Jobs, job)
	}
	if err := writeTable(&b, l); err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(b.String(), "\n")[:len(titles)] {
		before, _, ok := strings.Cut(line, "Acme")
		if got := widthOf(before); !ok || got != 1+2+48+2 {
			t.Errorf("Acme stands at column %d in line %d:\n%s", got, i, line)
		}
		if strings.ContainsRune(line, '\x1b') {
			t.Errorf("a terminal would obey %q", line)
		}
	}
}

func TestWidthsOfCharacters(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "日本": 4, "🚀": 2, "e\u0301": 1, "Ａ": 2, "ｱ": 1, "é": 1, "…": 1, "\u200b": 0} {
		if got := widthOf(s); got != want {
			t.Errorf("widthOf(%q) = %d, want %d", s, got, want)
		}
	}
	for s, want := range map[string]string{"日本語": "日本語", "日本語日": "日本…", "abcdefg": "abcde…", "a日本語": "a日本…"} {
		if got := cut(s, 6); got != want {
			t.Errorf("cut(%q, 6) = %q, want %q", s, got, want)
		}
	}
}
