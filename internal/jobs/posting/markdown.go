package posting

import (
	"html"
	"net/url"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	xhtml "golang.org/x/net/html"
)

// most is how much HTML of one description is read: what is longer is no
// description.
const most = 256 << 10

// Markdown reads a description's HTML as Markdown of at most limit bytes (0: of
// any length), and says whether something was left out. Only links to http and
// https pages stay links; pictures, scripts, styles and forms are left out. The
// cut falls between two paragraphs if there is a place for it in the second
// half, else between sentences or words; never inside a rune or a link. HTML
// that cannot be read gives its plain text.
func Markdown(source string, limit int) (md string, cut bool) {
	if len(source) > most {
		source, cut = source[:most], true
	}
	md, err := converters().ConvertString(visible(strings.ToValidUTF8(source, "")))
	if err != nil { // nested more deeply than any page is
		md = strings.ReplaceAll(html.EscapeString(Plain(source)), "\n", "\n\n")
	}
	md = strings.TrimSpace(visible(md))
	if limit <= 0 || len(md) <= limit {
		return md, cut
	}
	return shorten(md, limit), true
}

var converters = sync.OnceValue(func() *converter.Converter {
	c := converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(
		commonmark.WithLinkEmptyContentBehavior(commonmark.LinkBehaviorSkip), commonmark.WithListEndComment(false))))
	for _, name := range []string{"img", "picture", "svg", "math", "video", "audio", "canvas", "object", "embed", "template",
		"select", "button", "noembed", "noframes", "title"} {
		c.Register.TagType(name, converter.TagTypeRemove, converter.PriorityEarly)
	}
	// The plugin looks for the end of a link to the end of the text, once for each
	// bracket: a text full of them takes minutes. All of them are escaped.
	c.Register.UnEscaper(func(text []byte, at int) int {
		if text[at] == '[' {
			return 1
		}
		return -1
	}, converter.PriorityEarly)
	c.Register.PreRenderer(func(_ converter.Context, doc *xhtml.Node) { onlyWebLinks(doc) }, converter.PriorityEarly)
	return c
})

// onlyWebLinks makes plain text of links to anything but web pages.
func onlyWebLinks(n *xhtml.Node) {
	if n.Type == xhtml.ElementNode && n.Data == "a" {
		kept := n.Attr[:0]
		for _, a := range n.Attr {
			if a.Key == "href" && webLink(a.Val) {
				kept = append(kept, a)
			}
		}
		if n.Attr = kept; len(kept) == 0 {
			n.Data, n.DataAtom = "span", 0
		}
	}
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		onlyWebLinks(child)
	}
}

func webLink(href string) bool {
	u, err := url.Parse(strings.TrimSpace(href))
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}

// shorten cuts Markdown to at most limit bytes, at the best place there is.
func shorten(md string, limit int) string {
	const closing = len("**\n```") // what an open mark may need at the end
	most := max(0, limit-closing)
	for most > 0 && !utf8.RuneStart(md[most]) {
		most--
	}
	at := boundary(md[:most])
	if start, end := linkAround(md, at); start < at && at < end {
		at = start
	}
	if before := len(md[:at]) - len(strings.TrimRight(md[:at], `\`)); before%2 == 1 { // never between a backslash and what it escapes
		at--
	}
	short := strings.TrimRightFunc(md[:at], unicode.IsSpace)
	if strings.Count(short[strings.LastIndex(short, "\n\n")+1:], "**")%2 == 1 {
		if opened, ok := strings.CutSuffix(short, "**"); ok {
			short = strings.TrimRightFunc(opened, unicode.IsSpace)
		} else {
			short += "**"
		}
	}
	if strings.Count("\n"+short, "\n```")%2 == 1 {
		short += "\n```"
	}
	return short
}

// boundary is the best place at which to end s: between paragraphs, lines,
// sentences, words, in this order, if that leaves at least half of it.
func boundary(s string) int {
	if at := strings.LastIndex(s, "\n\n"); at >= len(s)/2 {
		return at
	}
	if at := strings.LastIndexByte(s, '\n'); at >= len(s)/2 {
		return at
	}
	sentence, word := 0, 0
	var before rune
	for at, r := range s {
		if unicode.IsSpace(r) {
			word = at
			if strings.ContainsRune(".!?…", before) {
				sentence = at
			}
		}
		if strings.ContainsRune("。！？｡", r) {
			sentence = at + utf8.RuneLen(r)
		}
		before = r
	}
	switch {
	case sentence >= len(s)/2:
		return sentence
	case word >= len(s)/2:
		return word
	}
	return len(s)
}

// linkAround is where the link begins and ends that at falls into. Without one,
// both are at. A bracket that is not escaped begins a link, or stands in code.
func linkAround(md string, at int) (start, end int) {
	for i := strings.LastIndex(md[:at], "\n\n") + 1; i < at; i++ {
		switch md[i] {
		case '\\':
			i++
		case '[':
			if end := linkEnd(md, i); end > at {
				return i, end
			}
		}
	}
	return at, at
}

// linkEnd is the place after "[text](address)" at from, or from if that is no
// link.
func linkEnd(md string, from int) int {
	for i := from; i < len(md); i++ {
		switch md[i] {
		case '\\':
			i++
		case ']':
			if end := strings.IndexByte(md[i:], ')'); end > 0 && md[i+1] == '(' {
				return i + end + 1
			}
			return from
		}
	}
	return from
}
