package board_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
)

var update = flag.Bool("update", false, "write what was read into testdata")

// Each folder of testdata is a board. Its "list" and "get" files are answers in
// the board's shape, in the order of the requests, with invented values; what is
// read from them is beside them, in .golden.
var fixtures = map[string]struct{ company, local string }{
	"greenhouse":      {"quayside", "4012345678"},
	"lever":           {"quayside", "0b5c1d2e-0000-4000-8000-000000000002"},
	"ashby":           {"Quay Side", "6f000000-0000-4000-8000-000000000003"},
	"smartrecruiters": {"Quayside1", "744000012345678"},
	"recruitee":       {"quayside", "2600002"},
	"personio":        {"quayside", "1830001"},
	"workable":        {"quayside", "2A4C39EE51"},
	"workday":         {"quayside.wd3.External", "job/Lisbon/Analyst_R-1001"},
	"arbeitnow":       {"", "werkstudent-koeln-2"},
	"himalayas":       {"", "blue-heron/product-designer"},
	"remotive":        {"", "2000002"},
	"hn":              {"", "4001"},
}

func TestFixturesAreReadAsTheyStand(t *testing.T) {
	for name, f := range fixtures {
		t.Run(name, func(t *testing.T) {
			b := board.Find(name)
			var in board.Listing
			if b.Parse != nil {
				company, err := b.Parse(f.company)
				if err != nil {
					t.Fatal(err)
				}
				in.Company = company
			}
			p, err := b.Page(t.Context(), replay(t, name, "list"), in, "")
			if err != nil {
				t.Fatal(err)
			}
			compare(t, filepath.Join("testdata", name, "list.golden"), p, p.Jobs)
			job, err := b.Get(t.Context(), replay(t, name, "get"), in.Company, f.local)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, filepath.Join("testdata", name, "get.golden"), job, []posting.Job{job})
		})
	}
}

// replay answers requests with a board's fixtures, one after the other; the last
// one stays.
func replay(t *testing.T, name, what string) board.Fetch {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", name, what+"-*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures of %s for %s: %v", name, what, err)
	}
	next := 0
	return func(context.Context, board.Request) (board.Answer, error) {
		text, err := os.ReadFile(files[next])
		if err != nil {
			t.Fatal(err)
		}
		next = min(next+1, len(files)-1)
		return board.Answer{Status: 200, Body: text, At: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}, nil
	}
}

// compare holds what was read, and the descriptions as Markdown, against a file.
func compare(t *testing.T, file string, read any, jobs []posting.Job) {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "\t")
	if err := encoder.Encode(read); err != nil {
		t.Fatal(err)
	}
	for _, job := range jobs {
		if md, _ := posting.Markdown(job.HTML, 0); md != "" {
			text.WriteString("\n# " + job.ID + "\n" + md + "\n")
		}
	}
	got := text.Bytes()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs from what was read (-update writes it):\n%s", file, got)
	}
}
