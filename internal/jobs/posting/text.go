package posting

import (
	"html"
	"strings"
	"unicode"

	xhtml "golang.org/x/net/html"
)

// Text reads a short field (a title, a name, a place) as people see it:
// entities decoded once, blanks of any kind collapsed, what cannot be seen left
// out. It takes no tags out: see Plain for fields that have them.
func Text(s string) string {
	if clean(s) {
		return s
	}
	return strings.Join(strings.Fields(visible(html.UnescapeString(s))), " ")
}

// clean reports whether s is plain ASCII that Text would leave as it is.
func clean(s string) bool {
	before := byte(' ')
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c > '~' || c == '&' || c == ' ' && before == ' ' {
			return false
		}
		before = c
	}
	return s == "" || before != ' '
}

// Unescape takes one layer of entities off a field that carries HTML as text
// ("&lt;p&gt;"). It is for boards that are known to escape once more than the
// others, and its result is HTML.
func Unescape(s string) string {
	return html.UnescapeString(s)
}

// Plain reads HTML as text without marks, a line for each block. Scripts,
// styles and whatever else is not shown are left out. Any input has a result.
func Plain(source string) string {
	var lines []string
	var line strings.Builder
	flush := func() {
		if text := strings.Join(strings.Fields(visible(line.String())), " "); text != "" {
			lines = append(lines, text)
		}
		line.Reset()
	}
	hidden := "" // the element whose content is being skipped
	z := xhtml.NewTokenizer(strings.NewReader(source))
	for {
		switch z.Next() {
		case xhtml.ErrorToken:
			flush()
			return strings.Join(lines, "\n")
		case xhtml.TextToken:
			if hidden == "" {
				line.WriteString(html.UnescapeString(string(z.Raw())))
			}
		case xhtml.StartTagToken, xhtml.SelfClosingTagToken:
			name, _ := z.TagName()
			if hidden == "" && unseen[string(name)] {
				hidden = string(name)
			}
			if !inline[string(name)] {
				flush()
			}
		case xhtml.EndTagToken:
			name, _ := z.TagName()
			if string(name) == hidden {
				hidden = ""
			}
			if !inline[string(name)] {
				flush()
			}
		}
	}
}

// Blank reports whether HTML has no text, without reading more of it than it
// takes to see some.
func Blank(source string) bool {
	tag := false
	for i := 0; i < len(source); i++ {
		switch c := source[i]; {
		case c == '<':
			tag = true
		case c == '>':
			tag = false
		case tag, c <= ' ', c == 0xc2, c == 0xa0: // 0xc2 0xa0 is a blank as well
		case c == '&':
			if end := strings.IndexByte(source[i:min(len(source), i+12)], ';'); end > 0 {
				i += end
			}
		default:
			return false
		}
	}
	return Plain(source) == ""
}

// unseen elements have no text for people; all of them have an end tag.
var unseen = map[string]bool{
	"script": true, "style": true, "iframe": true, "noscript": true, "noembed": true, "noframes": true, "object": true,
	"svg": true, "math": true, "template": true, "textarea": true, "title": true, "head": true, "audio": true, "video": true,
	"canvas": true, "select": true,
}

// inline elements do not end a line. Unknown elements do: two words that stick
// together are worse than one line too many.
var inline = map[string]bool{
	"a": true, "abbr": true, "acronym": true, "b": true, "bdi": true, "bdo": true, "big": true, "cite": true, "code": true,
	"data": true, "del": true, "dfn": true, "em": true, "font": true, "i": true, "ins": true, "kbd": true, "label": true,
	"mark": true, "o:p": true, "q": true, "s": true, "samp": true, "small": true, "span": true, "strike": true,
	"strong": true, "sub": true, "sup": true, "time": true, "tt": true, "u": true, "var": true, "wbr": true,
}

// visible leaves out what has no place in text that a person or a program reads
// on: control characters, marks that turn the direction of what follows, tags
// that no screen shows. Joiners stay: Persian, Hindi and emoji need them.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t', r == '\n', r == '\r':
			return r
		case unicode.IsControl(r), r == unicode.ReplacementChar:
			return -1
		case r == '\u00ad', r == '\u200b', r == '\u2060', r == '\ufeff': // soft hyphen, zero-width blanks
			return -1
		case r == '\u200e', r == '\u200f', r == '\u061c', r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
			return -1
		case r >= 0xe0000 && r <= 0xe0fff: // tags and invisible variation selectors
			return -1
		}
		return r
	}, s)
}
