package board

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// People write heads as they like: whatever it is, something can be shown.
func FuzzHead(f *testing.F) {
	for _, line := range []string{
		"Acme | Go dev | Lisbon or REMOTE | https://acme.example", "||||", "Acme (www.acme.example) | ", "| Remote | 100% | or", "a ｜ b", "$|€5k|or and or",
		strings.Repeat("ö", 300) + "|" + strings.Repeat("ö", 300),
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		h := readHead(line)
		if longest := hnLongest + len("…"); len(h.title) > longest || len(h.company) > longest {
			t.Errorf("a title of %d bytes, a name of %d", len(h.title), len(h.company))
		}
		if utf8.ValidString(line) && !utf8.ValidString(h.title+h.company+strings.Join(h.places, "")) {
			t.Errorf("%q became %+v", line, h)
		}
		if len(h.places) > 3 {
			t.Errorf("places %q", h.places)
		}
		if strings.Contains(line, "Engineer | ") && h.title == "" {
			t.Errorf("%q has no title", line)
		}
	})
}
