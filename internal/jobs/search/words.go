package search

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"layover/internal/jobs/posting"
)

// words is a text query: every one of all must match by one of its terms, and
// none of none may.
type words struct {
	all   [][]term
	none  []term
	plain string // the words as they were written, if they are nothing but words; a hint for boards that search
}

// term is a word or a phrase, as a posting.Key. It matches whole words, unless
// it may begin or end inside one.
type term struct {
	key        string
	head, tail bool // it may begin, end inside a word
}

const maxTerms = 40

func (w words) empty() bool { return len(w.all) == 0 && len(w.none) == 0 }

func parseWords(s string) (words, error) {
	var w words
	plain := true
	or := false // an OR stands before what comes
	terms := 0
	for rest := strings.TrimSpace(s); rest != ""; rest = strings.TrimSpace(rest) {
		var token string
		not := len(rest) > 1 && rest[0] == '-' && rest[1] != ' ' && rest[1] != '-'
		if not {
			rest = rest[1:]
		}
		quoted := rest[0] == '"'
		if quoted {
			var closed bool
			if token, rest, closed = strings.Cut(rest[1:], `"`); !closed {
				return words{}, &Invalid{"text", s, `a quote that opens must close`}
			}
		} else {
			end := strings.IndexAny(rest, " \"")
			if end < 0 {
				end = len(rest)
			}
			token, rest = rest[:end], rest[end:]
		}
		if token == "OR" && !quoted && !not {
			if or || len(w.all) == 0 {
				return words{}, &Invalid{"text", s, "OR stands between two words"}
			}
			or, plain = true, false
			continue
		}
		t := newTerm(token, quoted)
		if !strings.ContainsFunc(t.key, visibleInWord) {
			continue // a dash between words
		}
		if terms++; terms > maxTerms {
			return words{}, &Invalid{"text", s, "at most 40 words"}
		}
		plain = plain && !quoted && !not && !t.head && !t.tail
		switch {
		case not && or:
			return words{}, &Invalid{"text", s, "OR stands between two words, and neither may have a minus"}
		case not:
			w.none = append(w.none, t)
		case or:
			w.all[len(w.all)-1] = append(w.all[len(w.all)-1], t)
		default:
			w.all = append(w.all, []term{t})
		}
		or = false
	}
	if or {
		return words{}, &Invalid{"text", s, "OR stands between two words"}
	}
	if plain {
		w.plain = s
	}
	return w, nil
}

func newTerm(token string, quoted bool) term {
	var t term
	if !quoted {
		token, t.head = strings.CutPrefix(token, "*")
		token, t.tail = strings.CutSuffix(token, "*")
	}
	t.key = posting.Key(token)
	return t
}

func visibleInWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsSymbol(r)
}

// match reports whether a job matches whose short fields are head and whose
// description is what rest returns; rest is asked only if it matters. Both are
// made of posting.Keys, a line each.
func (w words) match(head string, rest func() string) bool {
	if slices.ContainsFunc(w.none, func(t term) bool { return t.in(head) }) {
		return false
	}
	var open [][]term
	for _, either := range w.all {
		if !slices.ContainsFunc(either, func(t term) bool { return t.in(head) }) {
			open = append(open, either)
		}
	}
	if len(open) == 0 && len(w.none) == 0 {
		return true
	}
	text := rest()
	if slices.ContainsFunc(w.none, func(t term) bool { return t.in(text) }) {
		return false
	}
	for _, either := range open {
		if !slices.ContainsFunc(either, func(t term) bool { return t.in(text) }) {
			return false
		}
	}
	return true
}

// in reports whether t stands in text.
func (t term) in(text string) bool {
	for from := 0; ; {
		at := strings.Index(text[from:], t.key)
		if at < 0 {
			return false
		}
		start, end := from+at, from+at+len(t.key)
		if (t.head || edge(text, start)) && (t.tail || edge(text, end)) {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[start:])
		from = start + size
	}
}

// edge reports whether a word may begin or end at that place of a key: at a
// blank, and anywhere beside letters of a script that does not part its words,
// or glues particles to them.
func edge(text string, at int) bool {
	if at == 0 || at == len(text) {
		return true
	}
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	after, _ := utf8.DecodeRuneInString(text[at:])
	return blank(before) || blank(after) || unparted(before) || unparted(after)
}

func blank(r rune) bool { return r == ' ' || r == '\n' }

func unparted(r rune) bool {
	return r >= 0xe00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai,
		unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
