package posting

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Key is what two spellings of one thing have in common: case, width, blanks,
// punctuation and the accents of Latin letters do not count; letters of every
// script do. "C++", "C#" and "C" stay three things. Key of a text that has
// anything to see is never empty, and Key(Key(s)) is Key(s).
func Key(s string) string {
	key := s
	// Folding can make something that folds further (a ligature, a letter whose
	// mark was taken off, letters that a dot kept apart).
	for range 4 {
		folded := fold(key)
		next := words(folded)
		if next == "" { // "!!!" is still not ""
			next = strings.Join(strings.Fields(folded), " ")
		}
		if next == key {
			break
		}
		key = next
	}
	return key
}

func fold(s string) string {
	s = norm.NFKD.String(cases.Fold().String(norm.NFKC.String(visible(s))))
	var b strings.Builder
	b.Grow(len(s))
	latin := false
	for _, r := range s {
		switch {
		case r >= 0x300 && r <= 0x36f:
			if latin {
				continue
			}
		default:
			latin = unicode.Is(unicode.Latin, r)
		}
		if plain, ok := undecomposed[r]; ok {
			b.WriteString(plain)
			continue
		}
		b.WriteRune(r)
	}
	return norm.NFKC.String(b.String())
}

// undecomposed are Latin letters that Unicode does not take apart, although
// people write them without their mark.
var undecomposed = map[rune]string{
	'ł': "l", 'ø': "o", 'đ': "d", 'ð': "d", 'ħ': "h", 'ı': "i", 'æ': "ae", 'œ': "oe", 'þ': "th", 'ŧ': "t", 'ŋ': "n",
}

func words(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	gap, open := false, false // open: the last rune was part of a word
	for _, r := range s {
		switch {
		case unicode.IsLetter(r), unicode.IsNumber(r), unicode.IsMark(r),
			open && (r == '+' || r == '#' || r == '\u200c' || r == '\u200d'):
			if gap && b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteRune(r)
			gap, open = false, true
		case r == '\'', r == '’', r == '.': // "O'Neill", "U.S.": one word
			open = false
		default:
			gap, open = true, false
		}
	}
	return b.String()
}
