package posting

import (
	"math/bits"
	"strings"
	"unicode"
)

// lexicon has words and phrases of at most three words in lower case, each with
// its group.
type lexicon map[string]int

// newLexicon makes one of groups; the phrases of a group stand between commas.
func newLexicon(groups ...string) lexicon {
	l := make(lexicon)
	for group, phrases := range groups {
		for phrase := range strings.SplitSeq(phrases, ",") {
			l[strings.Join(strings.Fields(phrase), " ")] = group
		}
	}
	return l
}

// groups are the groups of which s has a phrase, as bits.
func (l lexicon) groups(s string) (found uint) {
	s = spaced(s)
	var starts [3]int // of the last words, the newest first
	words := 0
	for start := 0; start < len(s); {
		end := start + strings.IndexByte(s[start:]+" ", ' ')
		starts[2], starts[1], starts[0] = starts[1], starts[0], start
		words++
		for _, from := range starts[:min(words, len(starts))] {
			if group, ok := l[s[from:end]]; ok {
				found |= 1 << group
			}
		}
		start = end + 1
	}
	return found
}

// first is the first group of which s has a phrase, or -1.
func (l lexicon) first(s string) int {
	found := l.groups(s)
	if found == 0 {
		return -1
	}
	return bits.TrailingZeros(found)
}

// spaced is s in lower case with one blank between its words. Words that
// programs write together come apart: "FullTime", "full_time".
func spaced(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 4)
	small, gap := false, false
	for _, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) {
			gap = b.Len() > 0
			small = false
			continue
		}
		if gap || small && unicode.IsUpper(r) {
			b.WriteByte(' ')
			gap = false
		}
		small = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
