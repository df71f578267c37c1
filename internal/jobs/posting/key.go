package posting

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Key is what two spellings of one thing have in common: case, width, blanks,
// punctuation and the accents of Latin letters do not count; letters of every
// script do. "C++", "C#" and "C" stay three things. Key of a text that has
// anything to see is never empty, and Key(Key(s)) is Key(s).
func Key(s string) string {
	if key, ok := simpleKey(s); ok {
		return key
	}
	return anyKey(s)
}

// simpleKey is Key for text of which each letter can be folded on its own, which
// is nearly all there is; ok is false for any other. Listings fold whole
// descriptions.
func simpleKey(s string) (key string, ok bool) {
	folded := foldedRunes()
	b := make([]byte, 0, len(s))
	gap, open := false, false // as in words
	for _, r := range s {
		if r >= foldedEnd {
			if !foldsToItself(r) {
				return "", false
			}
			b = utf8.AppendRune(appendGap(b, gap), r)
			gap, open = false, true
			continue
		}
		f := &folded[r]
		switch {
		case f.kind == alone, f.kind == attached && open:
			b = append(appendGap(b, gap), f.text...)
			gap, open = false, true
		case f.kind == dropped:
			open = false
		case f.kind == unfit:
			return "", false
		case f.kind != ignored:
			gap, open = true, false
		}
	}
	return string(b), len(b) > 0
}

func appendGap(b []byte, gap bool) []byte {
	if gap && len(b) > 0 {
		return append(b, ' ')
	}
	return b
}

// foldsToItself reports whether r is of a script without case whose letters
// stand alone: ideographs, kana, syllables of Korean.
func foldsToItself(r rune) bool {
	return r >= 0x4e00 && r <= 0x9fff || r >= 0x3041 && r <= 0x3096 || r >= 0x30a1 && r <= 0x30fa || r >= 0xac00 && r <= 0xd7a3
}

// foldedEnd is behind the last of the letters whose folded form is kept: Latin,
// Greek and Cyrillic ones.
const foldedEnd = 0x530

type foldedRune struct {
	text string
	kind byte
}

// The kinds of runes in a key, as words treats them.
const (
	parts    = iota // words come apart here
	alone           // part of a word
	attached        // part of a word behind another
	dropped         // not there, but nothing is attached to it
	ignored         // not there at all
	unfit           // needs its neighbours to be folded
)

var foldedRunes = sync.OnceValue(func() *[foldedEnd]foldedRune {
	var all [foldedEnd]foldedRune
	for r := range rune(foldedEnd) {
		text := fold(string(r))
		kind := byte(parts)
		switch {
		case r == '+' || r == '#':
			kind = attached
		case r == '\'' || r == '.':
			kind = dropped
		case text == "":
			kind = ignored
		case strings.ContainsFunc(text, unicode.IsMark):
			kind = unfit
		case words(text) == text && !strings.Contains(text, " "):
			kind = alone
		case words(text) != "":
			kind = unfit
		}
		all[r] = foldedRune{text, kind}
	}
	return &all
})

func anyKey(s string) string {
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
	if plain(s) { // most of what there is, and a good deal faster
		return strings.ToLower(s)
	}
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

// plain reports whether s is visible ASCII and blanks.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x7f || c < ' ' && c != '\t' && c != '\n' && c != '\r' {
			return false
		}
	}
	return true
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
