// Package chart draws measurements as SVG: a row for each thing measured, in it a dot for each of those compared, with its
// spread. The pictures have no scripts and can be read on a light and on a dark page.
package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// A Chart is one picture.
type Chart struct {
	Title  string
	Axis   string   // what the values are, with unit and which way is better
	Series []string // who is compared, at most as many as there are styles
	Rows   []Row
	Log    bool    // all values must be positive then
	Mark   float64 // a reference line; 0: none
}

// A Row is one thing measured.
type Row struct {
	Name string
	Dots []Dot
}

// A Dot is the value of one of the series and its spread.
type Dot struct {
	Series         int
	Low, Mid, High float64
}

const (
	width     = 860
	labels    = 250 // of which the names of the rows take
	right     = 40
	lineH     = 13 // one series in a row
	rowGap    = 10
	perLegend = 4
)

// style tells the series apart by colour and by shape, as some readers see no colours.
const style = `<style>
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-size: 14px; font-weight: 600 }
.back { fill: #ffffff } .grid { stroke: #d0d7de } .mark { stroke: #24292f; stroke-dasharray: 4 3 } .band { fill: #f6f8fa }
.s0 { fill: #6e7781; stroke: #6e7781 } .s1 { fill: #0969da; stroke: #0969da } .s2 { fill: #bc4c00; stroke: #bc4c00 }
.s3 { fill: #1a7f37; stroke: #1a7f37 } .s4 { fill: #8250df; stroke: #8250df } .s5 { fill: #bf3989; stroke: #bf3989 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.back { fill: #0d1117 } .grid { stroke: #30363d } .mark { stroke: #e6edf3 } .band { fill: #161b22 }
.s0 { fill: #9198a1; stroke: #9198a1 } .s1 { fill: #4493f8; stroke: #4493f8 } .s2 { fill: #f0883e; stroke: #f0883e }
.s3 { fill: #3fb950; stroke: #3fb950 } .s4 { fill: #ab7df8; stroke: #ab7df8 } .s5 { fill: #db61a2; stroke: #db61a2 }
}
</style>
`

// SVG is the picture.
func (c Chart) SVG() string {
	legendH := 20 * ((len(c.Series) + perLegend - 1) / perLegend)
	top := 34 + legendH
	height := top
	for _, r := range c.Rows {
		height += rowHeight(r)
	}
	bottom := height
	height += 44

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n%s", html.EscapeString(c.Title), style)
	fmt.Fprintf(&b, `<rect class="back" width="%d" height="%d"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text class="title" x="16" y="22">%s</text>`+"\n", html.EscapeString(c.Title))
	for i, name := range c.Series {
		x, y := 16+210*(i%perLegend), 42+20*(i/perLegend)
		shape(&b, i, float64(x+6), float64(y-4))
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`+"\n", x+18, y, html.EscapeString(name))
	}
	s := c.scale()
	y := top
	for i, r := range c.Rows {
		h := rowHeight(r)
		if i%2 == 0 {
			fmt.Fprintf(&b, `<rect class="band" x="8" y="%d" width="%d" height="%d"/>`+"\n", y, width-16, h)
		}
		y += h
	}
	for _, t := range s.ticks {
		x := s.x(t)
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n", x, top, x, bottom)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x, bottom+16, number(t))
	}
	if c.Mark != 0 {
		fmt.Fprintf(&b, `<line class="mark" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n", s.x(c.Mark), top, s.x(c.Mark), bottom)
	}
	y = top
	for _, r := range c.Rows {
		h := rowHeight(r)
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labels-12, y+h/2+4, html.EscapeString(r.Name))
		for i, d := range r.Dots {
			at := float64(y) + rowGap/2 + lineH*(float64(i)+0.5)
			fmt.Fprintf(&b, `<line class="s%d" stroke-width="1.5" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", d.Series, s.x(d.Low), at, s.x(d.High), at)
			shape(&b, d.Series, s.x(d.Mid), at)
		}
		y += h
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (labels+width-right)/2, bottom+36, html.EscapeString(c.Axis))
	b.WriteString("</svg>\n")
	return b.String()
}

func rowHeight(r Row) int { return rowGap + lineH*len(r.Dots) }

func shape(b *strings.Builder, series int, x, y float64) {
	switch series % 3 {
	case 0:
		fmt.Fprintf(b, `<circle class="s%d" cx="%.1f" cy="%.1f" r="4"/>`+"\n", series, x, y)
	case 1:
		fmt.Fprintf(b, `<rect class="s%d" x="%.1f" y="%.1f" width="7" height="7"/>`+"\n", series, x-3.5, y-3.5)
	default:
		fmt.Fprintf(b, `<path class="s%d" d="M%.1f %.1fl4.5 4.5l-4.5 4.5l-4.5 -4.5z"/>`+"\n", series, x, y-4.5)
	}
}

type scale struct {
	log    bool
	lo, hi float64
	ticks  []float64
}

// scale fits the values and the mark. A linear one begins at 0.
func (c Chart) scale() scale {
	lo, hi := math.Inf(1), math.Inf(-1)
	fit := func(v float64) { lo, hi = min(lo, v), max(hi, v) }
	for _, r := range c.Rows {
		for _, d := range r.Dots {
			fit(d.Low)
			fit(d.High)
		}
	}
	if c.Mark != 0 {
		fit(c.Mark)
	}
	s := scale{log: c.Log}
	if !c.Log {
		step := niceStep(max(hi, 1e-9) / 6)
		s.hi = math.Ceil(hi/step) * step
		for i := 0.0; i*step <= s.hi*1.0001; i++ {
			s.ticks = append(s.ticks, i*step)
		}
		s.hi = max(s.hi, step)
		return s
	}
	s.lo, s.hi = lo/1.15, hi*1.15
	steps := []float64{1, 2, 5}
	switch {
	case hi/lo > 2000:
		steps = []float64{1}
	case hi/lo < 8:
		steps = []float64{1, 1.5, 2, 3, 4, 5, 6, 8}
	}
	for decade := math.Floor(math.Log10(s.lo)); decade <= math.Ceil(math.Log10(s.hi)); decade++ {
		for _, m := range steps {
			if t := m * math.Pow(10, decade); t >= s.lo && t <= s.hi {
				s.ticks = append(s.ticks, t)
			}
		}
	}
	return s
}

func (s scale) x(v float64) float64 {
	part := (v - s.lo) / (s.hi - s.lo)
	if s.log {
		part = math.Log(v/s.lo) / math.Log(s.hi/s.lo)
	}
	return labels + part*(width-labels-right)
}

// niceStep is the least of 1, 2, 5 times a power of ten that is not below v.
func niceStep(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*p >= v {
			return m * p
		}
	}
	return 10 * p
}

func number(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= unit.size {
			return strconv.FormatFloat(v/unit.size, 'g', 3, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
