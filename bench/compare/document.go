package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"layover/bench/chart"
)

// A section is what the document says of a part: tables and pictures. The words around it are written by hand.
type section struct {
	text    string
	plots   map[string]chart.Chart // by file name
	results map[contest]result
}

// A contest is one figure against one rival, over all cells in which both were measured.
type contest struct{ figure, rival string }

// A result is what a contest came to. A cell is lost if the turnstile is worse by more than a twentieth, and in three rounds of
// four.
type result struct {
	cells, lost int
	worst       spread // of the lost: times as much as the rival's; of what should be much, the rival's to ours
	where       string // the worst is
}

// writeDocument puts the sections between their marks in docs/benchmarks.md and draws the pictures. The other text stays.
func writeDocument(root, cache string) error {
	file := filepath.Join(root, "docs", "benchmarks.md")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	doc := string(text)
	plots := filepath.Join(root, "docs", "plots")
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return err
	}
	var where, lost table
	where.head("part", "measured (UTC)", "took", "load average before")
	lost.head("part", "figure", "against", "lost", "at worst, times the rival's (or part of it)", "where")
	judged, losses := 0, 0
	var machines []string
	for _, p := range parts {
		r, err := load(cache, p.name)
		if errors.Is(err, fs.ErrNotExist) {
			where.row(p.name, "never", "", "")
			if doc, err = between(doc, p.name, "Not measured on this machine."); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if !slices.Contains(machines, r.Machine) {
			machines = append(machines, r.Machine)
		}
		where.row(p.name, r.At.Format("2006-01-02 15:04"), fmt.Sprintf("%.0f s", r.Took.Seconds()), r.Load)
		s := p.write(r)
		contests := slices.SortedFunc(maps.Keys(s.results), func(a, b contest) int {
			return cmp.Or(cmp.Compare(a.figure, b.figure), cmp.Compare(a.rival, b.rival))
		})
		for _, c := range contests {
			sum := s.results[c]
			judged += sum.cells
			losses += sum.lost
			if sum.lost > 0 {
				lost.row(p.name, c.figure, c.rival, fmt.Sprintf("%d of %d", sum.lost, sum.cells), ratioText(sum.worst), sum.where)
			}
		}
		if doc, err = between(doc, p.name, s.text); err != nil {
			return err
		}
		for name, c := range s.plots {
			if err := os.WriteFile(filepath.Join(plots, name), []byte(c.SVG()), 0o644); err != nil {
				return err
			}
		}
	}
	if doc, err = between(doc, "where", strings.Join(machines, "; ")+".\n\n"+where.String()); err != nil {
		return err
	}
	summary := fmt.Sprintf("Of %d comparisons the turnstile loses %d.\n\n%s", judged, losses, lost.String())
	if doc, err = between(doc, "losses", summary); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(doc), 0o644)
}

// between puts text between the marks of that name.
func between(doc, name, text string) (string, error) {
	begin, end := "<!-- measured: "+name+" -->\n", "<!-- end of "+name+" -->"
	head, rest, ok := strings.Cut(doc, begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", fmt.Errorf("docs/benchmarks.md has no place %q", name)
	}
	return head + begin + "\n" + strings.TrimSpace(text) + "\n\n" + end + tail, nil
}

// judge compares the turnstile with rivals. more says that a larger value is better.
func (s *section) judge(r *record, cell, ours, figure, metric string, more bool, rivals ...string) {
	for _, rival := range rivals {
		times := r.ratio(cell, ours, rival, metric)
		if more {
			times = r.ratio(cell, rival, ours, metric)
		}
		if math.IsNaN(times.mid) || math.IsInf(times.mid, 0) {
			continue
		}
		if s.results == nil {
			s.results = make(map[contest]result)
		}
		c := contest{figure, rival}
		sum := s.results[c]
		sum.cells++
		if times.mid > 1.05 && times.low > 1 {
			sum.lost++
			if times.mid > sum.worst.mid {
				sum.worst, sum.where = times, cell
			}
		}
		s.results[c] = sum
	}
}

// A table is one in Markdown.
type table struct{ strings.Builder }

func (t *table) head(cells ...string) {
	t.row(cells...)
	t.WriteString("|" + strings.Repeat("---|", len(cells)) + "\n")
}

func (t *table) row(cells ...string) { t.WriteString("| " + strings.Join(cells, " | ") + " |\n") }

// number shows three digits.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case a >= 100 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.1g", v)
	}
}

func ratioText(s spread) string {
	if math.IsNaN(s.mid) {
		return "-"
	}
	return fmt.Sprintf("%s (%s to %s)", number(s.mid), number(s.low), number(s.high))
}

func share(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*v)
}

// picture is the line of Markdown that shows a plot.
func picture(alt, file string) string { return fmt.Sprintf("![%s](plots/%s)\n", alt, file) }

func dot(series int, s spread) chart.Dot {
	return chart.Dot{Series: series, Low: s.low, Mid: s.mid, High: s.high}
}

// quantileMillis is a quantile of durations, in milliseconds.
func quantileMillis(durations []time.Duration, q float64) float64 {
	millis := make([]float64, len(durations))
	for i, d := range durations {
		millis[i] = d.Seconds() * 1000
	}
	slices.Sort(millis)
	return at(millis, q)
}

// slug is s as part of a file's name.
func slug(s string) string { return strings.ReplaceAll(s, " ", "-") }
