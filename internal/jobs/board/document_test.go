package board_test

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"

	"layover/internal/jobs/board"
)

func TestTheBoardsAreDocumented(t *testing.T) {
	const file, begin, end = "../../../docs/job-boards.md", "<!-- boards: begin -->\n", "<!-- boards: end -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has lost the marks of its table", file)
	}
	var b strings.Builder
	b.WriteString("\n| board | name | a company's name | a listing is | text | pay | pace | kept | terms |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, x := range board.All {
		yes := map[bool]string{true: "yes", false: "no"}
		pages := map[bool]string{true: "one answer", false: "pages"}
		kept := x.Fresh.String() // 6h0m0s, 15m0s
		for _, none := range []string{"m0s", "h0m"} {
			if whole, ok := strings.CutSuffix(kept, none); ok {
				kept = whole + none[:1]
			}
		}
		if x.Least > 0 {
			kept += ", never less"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s | %s | %v, %d at once | %s | %s |\n", x.Title, x.Name, cmp.Or(x.Where, "none: it lists many companies"),
			pages[x.Whole], yes[x.Text], yes[!strings.Contains(lacks[x.Name], "pay")], x.Every, x.AtOnce, kept, x.Terms)
	}
	b.WriteByte('\n')
	want := before + begin + b.String() + end + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s is not what the table says: run this test with -update", file)
	}
}
