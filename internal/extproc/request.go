package extproc

import (
	"net/http"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// Request is what Envoy tells of a request.
type Request struct {
	Method string
	Host   string // as the client sent it, with its port if it has one
	Path   string // raw, with the query; empty for a CONNECT

	headers []*corev3.HeaderValue
	port    uint16
	badHost string // what is wrong with Host; empty: nothing
}

func newRequest(m *extprocv3.HttpHeaders) Request {
	r := Request{headers: m.GetHeaders().GetHeaders()}
	for _, h := range r.headers {
		switch h.GetKey() {
		case ":method":
			r.Method = valueOf(h)
		case ":path":
			r.Path = valueOf(h)
		case ":authority":
			r.Host = valueOf(h)
		}
	}
	if r.Host == "" {
		r.Host = r.Header("host")
	}
	r.port, r.badHost = readHost(r.Host, r.Method == http.MethodConnect)
	return r
}

// valueOf returns a header's value: Envoy fills one of two fields, by a switch
// of its own.
func valueOf(h *corev3.HeaderValue) string {
	if raw := h.GetRawValue(); len(raw) > 0 {
		return string(raw)
	}
	return h.GetValue()
}

// Header returns the first value of the header called name, in any case of
// letters, or "".
func (r *Request) Header(name string) string {
	for _, h := range r.headers {
		if len(h.GetKey()) == len(name) && strings.EqualFold(h.GetKey(), name) {
			return valueOf(h)
		}
	}
	return ""
}

// longestID is the most of a request's id that is kept: it may be the client's.
const longestID = 128

// id returns the request's id; empty: it has none.
func (r *Request) id() string {
	id := r.Header("x-request-id")
	return strings.ToValidUTF8(id[:min(len(id), longestID)], "")
}

// Values returns all values of the header called name, in any case of letters.
func (r *Request) Values(name string) []string { return r.header(name)[name] }

// Port returns the port that a CONNECT asks for: that of its authority. Zero:
// it names none, or the request is no CONNECT.
func (r *Request) Port() uint16 { return r.port }

// tunnels reports whether the request asks for a connection of its own rather
// than a response.
func (r *Request) tunnels() bool {
	return r.Method == http.MethodConnect || r.Header("upgrade") != ""
}

// header returns the named headers, for readers that want a map. It is nil if
// there is none of them.
func (r *Request) header(names ...string) map[string][]string {
	var found map[string][]string
	for _, h := range r.headers {
		for _, name := range names {
			if len(h.GetKey()) != len(name) || !strings.EqualFold(h.GetKey(), name) {
				continue
			}
			if found == nil {
				found = make(map[string][]string)
			}
			found[name] = append(found[name], valueOf(h))
		}
	}
	return found
}
