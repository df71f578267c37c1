package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func example() Chart {
	return Chart{
		Title: "a < b", Axis: "ns & less is better", Series: []string{"one", "two"},
		Rows: []Row{
			{"first", []Dot{{0, 1, 2, 3}, {1, 10, 20, 30}}},
			{"second", []Dot{{0, 100, 200, 300}}},
		},
	}
}

func TestPictureIsXMLWithEveryName(t *testing.T) {
	c := example()
	for _, c.Log = range []bool{false, true} {
		svg := c.SVG()
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("log %v: %v", c.Log, err)
			}
		}
		for _, want := range []string{"a &lt; b", "ns &amp; less", "one", "two", "first", "second"} {
			if !strings.Contains(svg, want) {
				t.Errorf("log %v: no %q in the picture", c.Log, want)
			}
		}
	}
}

func TestDotsLieBetweenTheEndsOfTheAxis(t *testing.T) {
	c := example()
	for _, c.Log = range []bool{false, true} {
		s := c.scale()
		if len(s.ticks) < 3 {
			t.Errorf("log %v: ticks %v, want at least 3", c.Log, s.ticks)
		}
		last := 0.0
		for _, v := range []float64{1, 2, 3, 10, 20, 30, 100, 200, 300} {
			x := s.x(v)
			if x < labels || x > width-right {
				t.Errorf("log %v: x(%v) = %v, want within %v and %v", c.Log, v, x, labels, width-right)
			}
			if x <= last {
				t.Errorf("log %v: x(%v) = %v, not right of %v", c.Log, v, x, last)
			}
			last = x
		}
	}
}

func TestAllZeroIsDrawn(t *testing.T) {
	c := Chart{Series: []string{"one"}, Rows: []Row{{"none", []Dot{{}}}}}
	if svg := c.SVG(); strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("a chart of zeros has places that are no numbers:\n%s", svg)
	}
}
