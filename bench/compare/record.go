package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// A record is what one part measured, and where and when.
type record struct {
	Part    string
	Machine string
	Load    string // average of the machine before the part began
	At      time.Time
	Took    time.Duration
	Notes   map[string]string `json:",omitempty"` // settings that the document shows

	points []point
	cache  string
}

// A point is one value of one round.
type point struct {
	cell, arm, metric string
	round             int
	value             float64
}

func (r *record) add(cell, arm, metric string, round int, value float64) {
	r.points = append(r.points, point{cell, arm, metric, round, value})
}

// addQuantiles adds the median and the 99th percentile, in microseconds.
func (r *record) addQuantiles(cell, arm, metric string, round int, durations []time.Duration) {
	micros := make([]float64, len(durations))
	for i, d := range durations {
		micros[i] = d.Seconds() * 1e6
	}
	slices.Sort(micros)
	r.add(cell, arm, metric+" p50", round, at(micros, 0.5))
	r.add(cell, arm, metric+" p99", round, at(micros, 0.99))
}

// rounds are the values of the rounds, in their order.
func (r *record) rounds(cell, arm, metric string) []float64 {
	var out []float64
	for _, p := range r.points {
		if p.cell == cell && p.arm == arm && p.metric == metric {
			out = append(out, p.value)
		}
	}
	return out
}

// value is the median over the rounds.
func (r *record) value(cell, arm, metric string) spread { return spreadOf(r.rounds(cell, arm, metric)) }

// ratio is that of arm to base, made in each round.
func (r *record) ratio(cell, arm, base, metric string) spread {
	ours, theirs := r.rounds(cell, arm, metric), r.rounds(cell, base, metric)
	var ratios []float64
	for i := range min(len(ours), len(theirs)) {
		ratios = append(ratios, ours[i]/theirs[i])
	}
	return spreadOf(ratios)
}

// cells are the cells in the order in which they were measured.
func (r *record) cells() []string {
	var out []string
	for _, p := range r.points {
		if !slices.Contains(out, p.cell) {
			out = append(out, p.cell)
		}
	}
	return out
}

// A spread is a median with its quartiles; all NaN if nothing was measured.
type spread struct{ low, mid, high float64 }

func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	return spread{at(sorted, 0.25), at(sorted, 0.5), at(sorted, 0.75)}
}

// at is a quantile of sorted values.
func at(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	place := q * float64(len(sorted)-1)
	i := int(place)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (place-float64(i))*(sorted[i+1]-sorted[i])
}

func (r *record) file(ending string) string { return filepath.Join(r.cache, r.Part+ending) }

func (r *record) save() error {
	about, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	rows := [][]string{{"cell", "arm", "metric", "round", "value"}}
	for _, p := range r.points {
		rows = append(rows, []string{p.cell, p.arm, p.metric, strconv.Itoa(p.round), strconv.FormatFloat(p.value, 'g', 6, 64)})
	}
	if err := writeCSV(r.file(".csv"), rows); err != nil {
		return err
	}
	return os.WriteFile(r.file(".json"), about, 0o644)
}

func writeCSV(file string, rows [][]string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	w.WriteAll(rows)
	if err := w.Error(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func load(cache, part string) (*record, error) {
	r := &record{Part: part, cache: cache}
	about, err := os.ReadFile(r.file(".json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(about, r); err != nil {
		return nil, fmt.Errorf("%s: %w", r.file(".json"), err)
	}
	f, err := os.Open(r.file(".csv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	for _, row := range rows[1:] {
		round, err := strconv.Atoi(row[3])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		value, err := strconv.ParseFloat(row[4], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		r.add(row[0], row[1], row[2], round, value)
	}
	return r, nil
}

// interleave runs n rounds, and one before them that does not count. In each every arm has one turn, and who begins changes. What an
// arm leaves behind is collected before the next one begins: it is not the next one's cost.
func interleave[A any](n int, arms []A, turn func(round int, arm A)) {
	for round := -1; round < n; round++ {
		for i := range arms {
			runtime.GC()
			turn(round, arms[(i+round+1)%len(arms)])
		}
	}
}
