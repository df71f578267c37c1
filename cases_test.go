package layover_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFieldCasesNameTheirTests keeps docs/field-cases.md true: each case names
// tests that exist, or says why it has none, and a test that carries a case's
// id in its name stands in that case's row.
func TestFieldCasesNameTheirTests(t *testing.T) {
	text, err := os.ReadFile("docs/field-cases.md")
	if err != nil {
		t.Fatal(err)
	}
	exists := make(map[string]bool)
	carries := make(map[string][]string) // by case
	testName := regexp.MustCompile(`\bTest\w+|"[A-Z][A-Za-z0-9]*_\w+"|"A[A-Z]\w+"`)
	caseID := regexp.MustCompile(`(?:^|_)([ARJ]\d+)_`)
	for file := range goFiles(t) {
		if !strings.HasSuffix(file.path, "_test.go") && file.path != "internal/router/planetest/suite.go" {
			continue
		}
		for _, name := range testName.FindAllString(string(file.text), -1) {
			name = strings.Trim(name, `"`)
			if exists[name] {
				continue
			}
			exists[name] = true
			bare := strings.TrimPrefix(name, "Test")
			for m := caseID.FindStringSubmatchIndex(bare); m != nil; m = caseID.FindStringSubmatchIndex(bare) {
				carries[bare[m[2]:m[3]]] = append(carries[bare[m[2]:m[3]]], name)
				bare = "_" + bare[m[1]:]
			}
		}
	}
	rows := 0
	seen := make(map[string]bool)
	for n, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) < 5 || !caseID.MatchString("_"+cells[0]+"_") {
			continue
		}
		rows++
		id, here := cells[0], cells[len(cells)-1]
		seen[id] = true
		var named []string
		for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(here, -1) {
			named = append(named, m[1])
			if (strings.HasPrefix(m[1], "Test") || strings.Contains(m[1], "_")) && !exists[m[1]] {
				t.Errorf("docs/field-cases.md:%d: %s names the test %s, which does not exist", n+1, id, m[1])
			}
		}
		if len(named) == 0 && !strings.HasPrefix(here, "not here: ") && !strings.HasPrefix(here, "open: ") {
			t.Errorf("docs/field-cases.md:%d: %s names no test and gives no reason (\"not here: ...\", \"open: ...\")", n+1, id)
		}
		for _, name := range carries[id] {
			if !slices.Contains(named, name) {
				t.Errorf("docs/field-cases.md:%d: the row of %s does not name %s", n+1, id, name)
			}
		}
	}
	if rows < 140 {
		t.Errorf("docs/field-cases.md has %d cases: has its form changed?", rows)
	}
	for id, names := range carries {
		if !seen[id] {
			t.Errorf("%v carry the case %s, which docs/field-cases.md does not have", names, id)
		}
	}
}
