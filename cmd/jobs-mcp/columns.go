package main

import (
	"io"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// columns is how many columns of a terminal a character takes: two for those of
// East Asia and most emoji, none for what is written over the one before.
func columns(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

func widthOf(s string) (n int) {
	for _, r := range s {
		n += columns(r)
	}
	return n
}

// cut shortens s to so many columns, and leaves out what a terminal obeys.
func cut(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	if widthOf(s) <= most {
		return s
	}
	n := 0
	for i, r := range s {
		if n += columns(r); n >= most { // the last is for the dots
			return s[:i] + "…"
		}
	}
	return s
}

// writeColumns writes rows of the same length below each other, which
// text/tabwriter can only if each character takes one column.
func writeColumns(out io.Writer, rows [][]string) error {
	var widest []int
	for _, row := range rows {
		widest = append(widest, make([]int, len(row)-min(len(row), len(widest)))...)
		for i, cell := range row {
			widest[i] = max(widest[i], widthOf(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] {
			b.WriteString(cell + strings.Repeat(" ", widest[i]-widthOf(cell)+2))
		}
		b.WriteString(row[len(row)-1] + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
