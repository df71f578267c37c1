package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"time"
)

// samples is a set of durations.
type samples []time.Duration

func (s *samples) add(d time.Duration) { *s = append(*s, d) }

func (s samples) quantile(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// ratios is what pairs of interleaved measurements gave, one ratio a pair.
type ratios []float64

func (r ratios) median() float64 { return slices.Sorted(slices.Values(r))[len(r)/2] }

// spread returns the quartiles.
func (r ratios) spread() (low, high float64) {
	sorted := slices.Sorted(slices.Values(r))
	return sorted[len(r)/4], sorted[len(r)*3/4]
}

// bound says how a figure and its limit compare when the promise holds.
type bound string

const (
	atMost  bound = "<="
	atLeast bound = ">="
)

// report prints figures as they come and remembers whether all held.
type report struct {
	out    io.Writer
	broken []string
}

func (r *report) begin(name string) {
	fmt.Fprintf(r.out, "\n%s (%s, %d cores)\n", name, runtime.Version(), runtime.GOMAXPROCS(0))
}

func (r *report) line(what, value string, held bool, promise string) {
	verdict := "ok"
	switch {
	case promise == "":
		verdict = ""
	case !held:
		verdict = "BROKEN"
		r.broken = append(r.broken, what)
	}
	fmt.Fprintf(r.out, "  %-66s %16s  %-10s %s\n", what, value, promise, verdict)
}

func (r *report) figure(what string, value float64, b bound, limit float64, args ...any) {
	held := value <= limit
	if b == atLeast {
		held = value >= limit
	}
	r.line(fmt.Sprintf(what, args...), number(value), held, fmt.Sprintf("%s %s", b, number(limit)))
}

// ratio prints the median of pairs with its quartiles; a limit of zero promises
// nothing.
func (r *report) ratio(what string, values ratios, b bound, limit float64) {
	median := values.median()
	held := median <= limit
	if b == atLeast {
		held = median >= limit
	}
	low, high := values.spread()
	promise := ""
	if limit > 0 {
		promise = fmt.Sprintf("%s %.2f", b, limit)
	}
	r.line(what, fmt.Sprintf("%.3f [%.2f-%.2f]", median, low, high), held, promise)
}

// duration prints a duration; a limit of zero promises nothing.
func (r *report) duration(what string, d, limit time.Duration, args ...any) {
	promise := ""
	if limit > 0 {
		promise = fmt.Sprintf("< %v", limit)
	}
	r.line(fmt.Sprintf(what, args...), fmt.Sprint(d.Round(time.Microsecond/10)), d < limit, promise)
}

func number(v float64) string {
	if v == math.Trunc(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// waitFor gives the processor to others until ready holds.
func waitFor(ready func() bool) {
	for !ready() {
		runtime.Gosched()
	}
}
