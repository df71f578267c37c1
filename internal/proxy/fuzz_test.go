package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"testing"

	"layover/internal/router"
)

// FuzzScannerAgrees: where a scanner sees the end of a message, net/http sees
// it too, and however the bytes are cut, the scanner says the same.
func FuzzScannerAgrees(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=\"y\"\r\nhello\r\n0\r\nA: b\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\n\r\nanything",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var ends []int
		bytewise := new(scanner)
		for i := range data {
			before := bytewise.state
			if bytewise.scan(data[i : i+1]); bytewise.failed != nil {
				break
			}
			if ended := bytewise.state; before != scanStart && (ended == scanStart || ended == scanFree && before != scanFree) {
				ends = append(ends, i+1)
			}
		}
		whole := new(scanner)
		good := whole.scan(data)
		if (whole.failed == nil) != (bytewise.failed == nil) || whole.failed == nil && whole.state != bytewise.state {
			t.Fatalf("at once: %v, state %d; byte by byte: %v, state %d", whole.failed, whole.state, bytewise.failed, bytewise.state)
		}
		left := bytes.NewReader(data[:good])
		r := bufio.NewReader(left)
		for _, want := range ends {
			for { // as net/http does behind a POST, and the scanner always
				next, err := r.Peek(1)
				if err != nil || next[0] != '\r' && next[0] != '\n' {
					break
				}
				r.Discard(1)
			}
			req, err := http.ReadRequest(r)
			if err != nil {
				return // it is refused
			}
			if req.ProtoMajor != 1 { // refused by the server
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return // it is cut off
			}
			if end := good - left.Len() - r.Buffered(); end != want {
				t.Fatalf("%q: net/http ends a message at %d, the scanner at %d", data, end, want)
			}
		}
	})
}

// FuzzForwarded: what an actor is told of a stranger's request is the router's
// word alone, and a private header never arrives, however it is spelled.
func FuzzForwarded(f *testing.F) {
	f.Add("X-Forwarded-For", "10.0.0.1", "192.0.2.1:1234", "a.test")
	f.Add("X_Forwarded-Proto", "https", "[2001:db8::1]:1", "a.test:80")
	f.Add("Layover-Reason", "x", "", "")
	f.Add("x_band", "0", "x", "a")
	f.Fuzz(func(t *testing.T, name, value, remote, host string) {
		in, err := http.NewRequest("GET", "http://a.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		in.RemoteAddr, in.Host, in.RequestURI = remote, host, "/"
		in.Header.Add(name, value)
		x := &exchange{in: in, id: "id", trust: newTrust(Trust{BandHeader: "X-Band", ActorHeader: "X-Actor"})}
		out := in.Clone(t.Context())
		for _, own := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
			out.Header.Del(own) // as ReverseProxy does before Rewrite
		}
		x.rewrite(&httputil.ProxyRequest{In: in, Out: out})
		ours := []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Request-Id"}
		for name, values := range out.Header {
			plain := http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
			switch {
			case slices.Contains(ours, name):
				if len(values) != 1 {
					t.Errorf("%s: %q", name, values)
				}
			case plain == "Forwarded", plain == "X-Request-Id", strings.HasPrefix(plain, "X-Forwarded-"),
				strings.HasPrefix(plain, "Layover-"), plain == "X-Band", plain == "X-Actor", plain == "Proxy":
				t.Errorf("the actor gets %s: %q", name, values)
			}
		}
		if got := out.Header.Get("X-Forwarded-Proto"); got != "http" {
			t.Errorf("X-Forwarded-Proto: %q", got)
		}
		if got := out.Header.Get("X-Forwarded-Host"); got != host {
			t.Errorf("X-Forwarded-Host: %q, want %q", got, host)
		}
	})
}

// FuzzHost: all spellings of a host are for one actor.
func FuzzHost(f *testing.F) {
	for _, host := range []string{"a.test", "A.TEST", "a.test.", "a.test:80", "[::1]", "", "..", "a:b:c"} {
		f.Add(host)
	}
	names, err := router.NewNames([]router.Route{{Name: "n", Host: "{actor}.test", Budget: 1, MaxBudget: 1}})
	if err != nil {
		f.Fatal(err)
	}
	none := func(string) string { return "" }
	f.Fuzz(func(t *testing.T, host string) {
		_, actor, ok := names.Match(host, "/", none)
		if !ok {
			return
		}
		if strings.ContainsAny(actor, ".") || actor == "" {
			t.Errorf("%q is for the actor %q", host, actor)
		}
		plain := router.NormalHost(host)
		for _, spelling := range []string{plain, strings.ToUpper(plain), plain + ":8080", plain + "."} {
			if strings.ToLower(strings.ToUpper(plain)) != plain || strings.ContainsAny(plain, ":[]") || strings.HasSuffix(plain, ".") {
				continue
			}
			if _, same, ok := names.Match(spelling, "/", none); !ok || same != actor {
				t.Errorf("%q is for %q, but %q for %q, %v", host, actor, spelling, same, ok)
			}
		}
	})
}

// FuzzHopByHop: what Connection names stays on its hop.
func FuzzHopByHop(f *testing.F) {
	f.Add("X-Hop", "close, x-hop")
	f.Add("Keep-Alive", "")
	f.Add("Te", "te")
	f.Fuzz(func(t *testing.T, name, connection string) {
		if !isName(name) || name == "" {
			return
		}
		in, err := http.NewRequest("GET", "http://a.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		in.Header.Set("Connection", connection)
		in.Header.Add(name, "x")
		x := &exchange{in: in, id: "id", trust: newTrust(Trust{})}
		rp := httputil.ReverseProxy{Rewrite: x.rewrite, ErrorHandler: func(http.ResponseWriter, *http.Request, error) {},
			Transport: roundTrip(func(out *http.Request) (*http.Response, error) {
				for _, hop := range strings.Split(connection, ",") {
					hop = http.CanonicalHeaderKey(strings.Trim(hop, " \t"))
					if _, there := out.Header[hop]; there && !slices.Contains([]string{"", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Request-Id", "Te", "Upgrade", "Connection", "User-Agent"}, hop) {
						t.Errorf("%s passed although Connection is %q", hop, connection)
					}
				}
				for _, hop := range []string{"Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Proxy-Authenticate"} {
					if out.Header[hop] != nil {
						t.Errorf("%s passed", hop)
					}
				}
				return nil, io.EOF
			})}
		rp.ServeHTTP(nil, in)
	})
}

func isName(s string) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return true
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
