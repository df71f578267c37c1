package proxy

import (
	"net/http"
	"strings"
)

// navigates reports whether r is a browser's, of a page for somebody to look at
// now: what may be answered with a page other than the actor's. In doubt it is
// not. Frames are not, because what they are in expects its own page in them; nor
// is what is fetched in advance, which nobody looks at.
func navigates(r *http.Request) bool {
	h := r.Header
	if r.Method != http.MethodGet || !r.ProtoAtLeast(1, 1) || r.ContentLength != 0 {
		return false
	}
	for _, name := range [...]string{"Upgrade", "Range", "Content-Type", "X-Requested-With", "Sec-Purpose", "Purpose", "X-Moz"} {
		if _, has := h[name]; has {
			return false
		}
	}
	mode, dest := h["Sec-Fetch-Mode"], h["Sec-Fetch-Dest"]
	if mode == nil && dest == nil { // browsers say neither in the clear, but to this machine
		return h.Get("Upgrade-Insecure-Requests") == "1" && prefersHTML(h["Accept"])
	}
	return len(mode) == 1 && mode[0] == "navigate" && len(dest) == 1 && dest[0] == "document"
}

// prefersHTML reports whether HTML is the first of what is accepted, without
// reserve: so it is for every browser that navigates.
func prefersHTML(accept []string) bool {
	if len(accept) != 1 {
		return false
	}
	first, _, _ := strings.Cut(accept[0], ",")
	kind, params, _ := strings.Cut(first, ";")
	for param := range strings.SplitSeq(params, ";") {
		if name, _, _ := strings.Cut(param, "="); strings.EqualFold(strings.TrimSpace(name), "q") {
			return false
		}
	}
	return strings.EqualFold(strings.TrimSpace(kind), "text/html")
}
