package extproc

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

func TestHeadersAreReadInBothOfTheirForms(t *testing.T) {
	r := newRequest(&extprocv3.HttpHeaders{Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
		{Key: ":method", Value: "PUT"},
		{Key: ":path", RawValue: []byte("/a%2fb?c")},
		{Key: "host", Value: "a.example:80"},
		{Key: "actor", RawValue: []byte("raw"), Value: "text"},
		{Key: "Actor", Value: "second"},
	}}})
	for what, pair := range map[string][2]string{
		"method":           {r.Method, "PUT"},
		"path":             {r.Path, "/a%2fb?c"},
		"host":             {r.Host, "a.example:80"},
		"a raw value":      {r.Header("ACTOR"), "raw"},
		"no header":        {r.Header("acto"), ""},
		"all of one name":  {strings.Join(r.Values("actor"), ","), "raw,second"},
		"none of one name": {strings.Join(r.Values("other"), ","), ""},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s = %q, want %q", what, pair[0], pair[1])
		}
	}
}

// FuzzRequest holds what is read from headers of any content to what the rest
// of the package builds on.
func FuzzRequest(f *testing.F) {
	f.Add(":authority", "[::1]:8080", "upgrade", "websocket", true)
	f.Add(":method", "CONNECT", ":authority", "a:99999999999999999999", false)
	f.Add("Host", ":", "grpc-timeout", "1S", false)
	f.Add("", "", "\xff", "\xff", true)
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string, raw bool) {
		m := &corev3.HeaderMap{Headers: []*corev3.HeaderValue{nil, {Key: k1, Value: v1}, {Key: k2, Value: v2}}}
		if raw {
			m.Headers[1] = &corev3.HeaderValue{Key: k1, RawValue: []byte(v1)}
		}
		r := newRequest(&extprocv3.HttpHeaders{Headers: m})
		if first := r.Header(k1); k1 != "" && first != v1 {
			t.Errorf("Header(%q) = %q, want %q", k1, first, v1)
		}
		if port := r.Port(); port != 0 && r.Method != "CONNECT" {
			t.Errorf("port %d of a %s", port, r.Method)
		}
		all := r.header(timeHeaders...)
		for _, name := range timeHeaders {
			if first := r.Header(name); first != "" && (len(all[name]) == 0 || all[name][0] != first) {
				t.Errorf("%s is %q in one form, %q in the other", name, first, all[name])
			}
		}
		if r.tunnels() != (r.Method == "CONNECT" || r.Header("Upgrade") != "") {
			t.Errorf("tunnels = %v for %v", r.tunnels(), m)
		}
	})
}
