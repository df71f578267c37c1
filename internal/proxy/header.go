package proxy

import (
	"encoding/hex"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/textproto"
	"strconv"
	"strings"
)

// privatePrefix begins the headers that only Layover itself sets: they are
// taken from what clients and actors send.
const privatePrefix = "Layover-"

// forwardedPrefix begins the headers that only a trusted peer may send.
const forwardedPrefix = "X-Forwarded-"

// fallbackHeader names the actor that answered if it is not the one that was
// asked for.
const fallbackHeader = "Layover-Fallback"

const requestIDHeader = "X-Request-Id"

// trust is a Trust with headers in canonical form. It is immutable.
type trust struct{ Trust }

func newTrust(t Trust) *trust {
	peers := t.Peers
	t.Peers = nil
	for _, peer := range peers {
		t.Peers = append(t.Peers, peer.Masked())
	}
	t.BandHeader = textproto.CanonicalMIMEHeaderKey(t.BandHeader)
	t.ActorHeader = textproto.CanonicalMIMEHeaderKey(t.ActorHeader)
	return &trust{t}
}

// believes reports whether remote, a request's RemoteAddr, is a trusted peer.
func (t *trust) believes(remote string) bool {
	if len(t.Peers) == 0 {
		return false
	}
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	addr := peer.Addr().Unmap().WithZone("")
	for _, p := range t.Peers {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// The bands that there are, for routes and peers alike.
const (
	firstBand = 0
	lastBand  = 99
)

// band returns the band that a trusted peer chose for r, the nearest one if
// there is none of that number, else the route's.
func (t *trust) band(r *http.Request, trusted bool, ofRoute int) int {
	if !trusted || t.BandHeader == "" {
		return ofRoute
	}
	if band, err := strconv.Atoi(r.Header.Get(t.BandHeader)); err == nil {
		return min(max(band, firstBand), lastBand)
	}
	return ofRoute
}

// actor returns the actor that a trusted peer named, or "".
func (t *trust) actor(r *http.Request, trusted bool) string {
	if !trusted || t.ActorHeader == "" {
		return ""
	}
	return r.Header.Get(t.ActorHeader)
}

// private reports whether a header must neither come in nor go out.
func (t *trust) private(name string) bool {
	name = dashed(name)
	return strings.HasPrefix(name, privatePrefix) || name != "" && (name == t.BandHeader || name == t.ActorHeader)
}

// dashed is name as CGI, WSGI and their like read it: to them "_" is "-", so
// that a header with the one can pass for a header with the other.
func dashed(name string) string {
	if !strings.Contains(name, "_") {
		return name
	}
	return textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
}

// reserved reports whether only the router or a trusted peer may set a header.
func reserved(name string) bool {
	return name == "Forwarded" || name == requestIDHeader || strings.HasPrefix(name, forwardedPrefix)
}

// strip deletes the private headers from h.
func (t *trust) strip(h http.Header) {
	for name := range h {
		if t.private(name) {
			delete(h, name)
		}
	}
}

// malformedH2 says what is wrong with a request over HTTP/2 that net/http lets
// pass, and that would be another one to who reads it as HTTP/1.1, or "".
func malformedH2(r *http.Request) string {
	if r.ProtoMajor != 2 {
		return ""
	}
	for i := range len(r.Method) {
		if !tokenBytes[r.Method[i]] {
			return "the method is not a token"
		}
	}
	if hosts := r.Header["Host"]; len(hosts) > 1 || len(hosts) == 1 && !strings.EqualFold(hosts[0], r.Host) {
		return "the Host header is not the authority"
	}
	lengths, given := r.Header["Content-Length"]
	if !given {
		return ""
	}
	if length, err := strconv.ParseUint(lengths[0], 10, 63); err != nil || len(lengths) > 1 || int64(length) != r.ContentLength {
		return "the Content-Length header is not the body's length"
	}
	return ""
}

// requestID returns the id that a trusted peer gave r, else a new one.
func requestID(r *http.Request, trusted bool) string {
	if trusted {
		if id := r.Header.Get(requestIDHeader); isToken(id) {
			return id
		}
	}
	var raw [8]byte
	for i, bits := 0, rand.Uint64(); i < len(raw); i, bits = i+1, bits>>8 {
		raw[i] = byte(bits)
	}
	var text [2 * len(raw)]byte
	hex.Encode(text[:], raw[:])
	return string(text[:])
}

// isToken reports whether id can go into logs and headers as it is.
func isToken(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] >= 0x7f {
			return false
		}
	}
	return true
}

// rawPath returns r's path as the client sent it, without the query.
func rawPath(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if strings.HasPrefix(path, "/") {
		return path
	}
	return r.URL.EscapedPath() // absolute form
}

// rewrite makes the request that the actor gets, but for its address and its
// remaining time, which are the attempt's.
func (x *exchange) rewrite(pr *httputil.ProxyRequest) {
	out, in := pr.Out, pr.In
	out.URL.Scheme = "http"
	out.URL.RawQuery, out.URL.ForceQuery = in.URL.RawQuery, in.URL.ForceQuery // ReverseProxy cleans it
	if path := rawPath(in); strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") {
		out.URL.Opaque = path // else the path is encoded anew; "//" would read as a host
	}
	for name := range out.Header {
		if strings.Contains(name, "_") && reserved(dashed(name)) {
			delete(out.Header, name)
		}
	}
	delete(out.Header, "Proxy") // CGI programs would take it for their HTTP_PROXY
	x.forwarded(out.Header)
	out.Header[requestIDHeader] = []string{x.id}
	if x.trace != nil {
		maps.Copy(out.Header, x.trace.Header)
	}
	for name := range out.Header {
		if x.trust.private(name) {
			delete(out.Header, name)
		}
	}
	// The Transport takes this key for a promise that the method is idempotent,
	// and sends the request again without asking. It does not know it in lower
	// case, in which it means the same to the actor.
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := out.Header[name]; ok && !idempotent(in.Method) {
			delete(out.Header, name)
			out.Header[strings.ToLower(name)] = values
		}
	}
	if strings.EqualFold(out.Header.Get("Upgrade"), "h2c") {
		// An actor that accepted would speak HTTP/2 with the client behind our back.
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
		out.Header.Del("Http2-Settings")
	}
}

// forwarded sets what the actor is told of the client. ReverseProxy has removed
// Forwarded and the usual three from h.
func (x *exchange) forwarded(h http.Header) {
	in := x.in
	proto := "http"
	if conn, ok := in.Context().Value(connKey{}).(*clientConn); in.TLS != nil || ok && conn.secure() {
		proto = "https"
	}
	peer, _, err := net.SplitHostPort(in.RemoteAddr)
	if err != nil {
		peer = in.RemoteAddr
	}
	host := in.Host
	if x.trusted {
		if prior := in.Header["X-Forwarded-For"]; len(prior) > 0 {
			peer = strings.Join(prior, ", ") + ", " + peer
		}
		if prior := in.Header.Get("X-Forwarded-Host"); prior != "" {
			host = prior
		}
		if prior := in.Header.Get("X-Forwarded-Proto"); prior != "" {
			proto = prior
		}
		if prior, ok := in.Header["Forwarded"]; ok {
			h["Forwarded"] = prior
		}
	} else {
		for name := range h {
			if strings.HasPrefix(name, forwardedPrefix) {
				delete(h, name)
			}
		}
	}
	values := [...]string{peer, host, proto} // one allocation for three headers
	h["X-Forwarded-For"] = values[0:1:1]
	h["X-Forwarded-Host"] = values[1:2:2]
	h["X-Forwarded-Proto"] = values[2:3:3]
}

// modifyResponse makes the response that the client gets.
func (x *exchange) modifyResponse(resp *http.Response) error {
	x.trust.strip(resp.Header)
	x.trust.strip(resp.Trailer)
	if _, typed := resp.Header["Content-Type"]; !typed {
		x.w.Header()["Content-Type"] = nil // present, so that net/http guesses none: a guess can make a script of text
	}
	if resp.StatusCode != http.StatusSwitchingProtocols && (resp.ContentLength < 0 || resp.Trailer != nil) {
		resp.Body = &privateTrailer{resp.Body, resp, x.trust}
	}
	resp.Header[requestIDHeader] = []string{x.id} // also if the actor has one of its own: this one is in the log
	x.watchStream(resp)
	if x.instead != "" {
		resp.Header.Set(fallbackHeader, x.actor)
	}
	const buffering = "X-Accel-Buffering"
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") && resp.Header.Get(buffering) == "" {
		resp.Header.Set(buffering, "no") // an outer nginx would hold the events back
	}
	if len(resp.Trailer) > 0 && x.in.ProtoMajor == 1 && x.in.Method != http.MethodHead {
		// HTTP/1.1 has trailers only in chunked bodies; HTTP/2 has them beside a length.
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
	}
	if resp.StatusCode != http.StatusSwitchingProtocols && x.last() {
		resp.Header.Set("Connection", "close") // the actor may have answered without waiting for the whole body
	}
	return nil
}

// privateTrailer strips a response's trailer, which is complete when the body
// has been read and is passed on when it is closed.
type privateTrailer struct {
	io.ReadCloser
	resp  *http.Response
	trust *trust
}

func (b *privateTrailer) Close() error {
	err := b.ReadCloser.Close()
	b.trust.strip(b.resp.Trailer)
	return err
}

func idempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}
