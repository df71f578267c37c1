package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// seen are the requests that an actor got: method, path and whole body.
type seen struct {
	mu  sync.Mutex
	all []string
}

func (s *seen) handle(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	what := fmt.Sprintf("%s %s %q", r.Method, r.URL.Path, body)
	if err != nil {
		what = "cut off " + r.URL.Path
	}
	s.mu.Lock()
	s.all = append(s.all, what)
	s.mu.Unlock()
}

func (s *seen) got() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.all, ", ")
}

// whole is got without the requests that were cut off. An actor may hear of one
// of those long after the proxy is done with it.
func (s *seen) whole() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(slices.DeleteFunc(slices.Clone(s.all), func(what string) bool { return what == "cut off /first" }), ", ")
}

// smuggled stands behind each of the requests below, as what a parser that
// reads them in another way would take for a request.
const smuggled = "GET /second HTTP/1.1\r\nHost: a.test\r\n\r\n"

// What two parsers may read in two ways is refused, and nothing of it, nor of
// what comes behind it, reaches an actor.
func TestWhatTwoParsersReadInTwoWaysIsRefused(t *testing.T) {
	const post = "POST /first HTTP/1.1\r\nHost: a.test\r\n"
	cases := []struct{ what, header string }{
		{"a length and a transfer coding", post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"a transfer coding and a length", post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"},
		{"two lengths", post + "Content-Length: 0\r\nContent-Length: 40\r\n\r\n"},
		{"one length twice", post + "Content-Length: 0\r\nContent-Length: 0\r\n\r\n"},
		{"a length with a sign", post + "Content-Length: +5\r\n\r\nhello"},
		{"a negative length", post + "Content-Length: -5\r\n\r\nhello"},
		{"a hexadecimal length", post + "Content-Length: 0x5\r\n\r\nhello"},
		{"a list of lengths", post + "Content-Length:  5, 5\r\n\r\nhello"},
		{"an empty length", post + "Content-Length:\r\n\r\n"},
		{"a length with a space in it", post + "Content-Length: 1 0\r\n\r\n"},
		{"a length that overflows", post + "Content-Length: 18446744073709551621\r\n\r\nhello"},
		{"an unknown coding", post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
		{"chunked twice", post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"},
		{"chunked in two lines", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"identity", post + "Transfer-Encoding: identity\r\n\r\n"},
		{"a coding behind a control character", post + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"},
		{"a coding in HTTP/1.0", "POST /first HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"a folded line", post + "X-A: 1\r\n Content-Length: 5\r\n\r\nhello"},
		{"a folded line with a tab", post + "X-A: 1\r\n\tb\r\n\r\n"},
		{"a folded first line", "GET /first HTTP/1.1\r\n Host: a.test\r\n\r\n"},
		{"a folded coding", post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"},
		{"a space before the colon", post + "Content-Length : 5\r\n\r\nhello"},
		{"a tab before the colon", post + "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n"},
		{"no name", post + ": x\r\n\r\n"},
		{"no colon", post + "Content-Length\r\n\r\n"},
		{"a bare LF", "GET /first HTTP/1.1\nHost: a.test\r\n\r\n"},
		{"a bare LF in the header", post + "X-A: b\nContent-Length: 5\r\n\r\nhello"},
		{"a bare LF at the end", "GET /first HTTP/1.1\r\nHost: a.test\r\n\n"},
		{"a bare CR", post + "X-A: b\rContent-Length: 5\r\n\r\n"},
		{"a bare CR at the end of a line", post + "X-A: b\r\r\n\r\n"},
		{"NUL in a value", post + "X-A: b\x00c\r\n\r\n"},
		{"NUL in a name", post + "X-\x00A: b\r\n\r\n"},
		{"two Host headers", "GET /first HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n"},
		{"one Host twice", "GET /first HTTP/1.1\r\nHost: a.test\r\nHost: a.test\r\n\r\n"},
		{"an empty Host", "GET /first HTTP/1.1\r\nHost:\r\n\r\n"},
		{"no Host", "GET /first HTTP/1.1\r\n\r\n"},
		{"a target that is not at Host", "GET http://a.test/first HTTP/1.1\r\nHost: b.test\r\n\r\n"},
		{"a target with a user", "GET http://b.test@a.test/first HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		{"a tab in the request line", "GET\t/first HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		{"two targets", "GET /first /x HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		{"no version", "GET /first\r\nHost: a.test\r\n\r\n"},
		{"the preface of HTTP/2, half of it", "PRI * HTTP/2.0\r\n\r\nGET /first HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		{"the preface behind a request's begin", "PRI * HTTP/2.0\r\nHost: a.test\r\n\r\n"},
	}
	f := newFixture(t, setup{routes: catchAll()})
	actor := new(seen)
	f.actorH1("a", true, actor.handle)
	for _, c := range cases {
		for _, cut := range []int{0, 1, 7} { // in one write, byte by byte, in pieces
			conn := f.dial()
			go conn.pieces(c.header+smuggled, cut)
			all, _ := io.ReadAll(conn.r) // a reset comes behind the answer
			if !bytes.HasPrefix(all, []byte("HTTP/1.1 4")) || bytes.Count(all, []byte("HTTP/1.1 ")) != 1 {
				t.Errorf("%s, in pieces of %d: the answer is %.60q, want one 4xx and the end", c.what, cut, all)
			}
			if got := actor.got(); got != "" {
				t.Fatalf("%s, in pieces of %d: the actor got %s", c.what, cut, got)
			}
			conn.Close()
		}
	}
}

// pieces writes what in pieces of size bytes, until the connection is closed.
func (c *raw) pieces(what string, size int) {
	if size == 0 {
		size = len(what)
	}
	for what != "" {
		n := min(size, len(what))
		if _, err := io.WriteString(c, what[:n]); err != nil {
			return
		}
		what = what[n:]
	}
}

// A body whose chunks cannot be read is cut off, and nothing behind it is read.
func TestABodyThatCannotBeReadEndsItsConnection(t *testing.T) {
	for what, body := range map[string]string{
		"no size":                  "\r\nhello\r\n0\r\n\r\n",
		"junk behind a size":       "5 x\r\nhello\r\n0\r\n\r\n",
		"a space behind a size":    "5 \r\nhello\r\n0\r\n\r\n",
		"a size with a sign":       "+5\r\nhello\r\n0\r\n\r\n",
		"a size with 0x":           "0x5\r\nhello\r\n0\r\n\r\n",
		"a size that overflows":    "10000000000000005\r\nhello\r\n0\r\n\r\n",
		"a size of all ones":       "ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
		"a bare LF behind a size":  "5\nhello\r\n0\r\n\r\n",
		"a bare CR in extensions":  "5;a\rb\r\nhello\r\n0\r\n\r\n",
		"extensions above a limit": "5;a=" + strings.Repeat("x", maxChunkLine) + "\r\nhello\r\n0\r\n\r\n",
		"endless extensions":       "5;a=" + strings.Repeat("x", 10*maxChunkLine),
		"a chunk that is longer":   "5\r\nhello!\r\n0\r\n\r\n",
		"a chunk that ends in LF":  "5\r\nhello\n0\r\n\r\n",
		"a length in the trailer":  "0\r\nContent-Length: 5\r\n\r\n",
		"a coding in the trailer":  "0\r\nTransfer-Encoding: chunked\r\n\r\n",
		"a folded trailer":         "0\r\nA: b\r\n c\r\n\r\n",
		"a bare LF in the trailer": "0\r\nA: b\n\r\n",
	} {
		f := newFixture(t, setup{})
		actor := new(seen)
		f.actorH1("a", true, actor.handle)
		c := f.dial()
		go c.pieces("POST /first HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"+body+smuggled, 0)
		all, _ := io.ReadAll(c.r)
		if n := bytes.Count(all, []byte("HTTP/1.1 ")); n > 1 || bytes.HasPrefix(all, []byte("HTTP/1.1 2")) {
			t.Errorf("%s: %d answers: %.200q", what, n, all)
		}
		until(t, "the actor is done", func() bool { return f.rides() == 0 })
		if got := actor.whole(); got != "" {
			t.Errorf("%s: the actor got %s", what, got)
		}
	}
}

// What is unusual, but clear, is served as it always was.
func TestWhatIsClearIsServed(t *testing.T) {
	f := newFixture(t, setup{})
	actor := new(seen)
	f.actorH1("a", true, actor.handle)
	for _, size := range []int{0, 1, 3} {
		actor.all = nil
		c := f.dial()
		go c.pieces("POST /1 HTTP/1.1\r\nHost: a.test\r\nContent-Length: \t5 \r\n\r\nhello"+
			"POST /2 HTTP/1.1\r\nhost:a.test\r\nTRANSFER-ENCODING: Chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n06;x\r\n world\r\n0\r\nA: b\r\n\r\n"+
			"GET http://A.test/3 HTTP/1.1\r\nHost: a.test\r\n\r\n"+
			"POST /4 HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+
			"POST /5 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 00\r\n\r\n"+
			"GET /6 HTTP/1.0\r\nHost: a.test\r\n\r\n", size)
		for i := range 6 {
			if resp := c.response("POST"); resp.StatusCode != 200 {
				t.Fatalf("in pieces of %d: answer %d is %d", size, i+1, resp.StatusCode)
			}
		}
		const want = `POST /1 "hello", POST /2 "hello world", GET /3 "", POST /4 "", POST /5 "", GET /6 ""`
		if got := actor.got(); got != want {
			t.Errorf("in pieces of %d: the actor got %s, want %s", size, got, want)
		}
	}
}

// Behind a request for another protocol anything can come: if the actor does
// not switch, it is not taken for a request.
func TestNothingIsReadBehindAnUpgradeThatWasNotTaken(t *testing.T) {
	f := newFixture(t, setup{})
	actor := new(seen)
	f.actorH1("a", true, actor.handle)
	for _, request := range []string{
		"GET /first HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
		"GET /first HTTP/1.1\r\nHost: a.test\r\nUpgrade:\r\n\r\n",
		"GET /first HTTP/1.1\r\nHost: nobody\r\nUpgrade: x\r\n\r\n",
		"POST /first HTTP/1.1\r\nHost: nobody\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\nhi",
		"POST /first HTTP/1.1\r\nHost: a.test\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\nhi",
	} {
		actor.all = nil
		c := f.dial()
		go c.pieces(request+smuggled, 0)
		all, _ := io.ReadAll(c.r)
		if n := bytes.Count(all, []byte("HTTP/1.1 ")); n != 1 || strings.Contains(actor.got(), "second") {
			t.Errorf("%q: %d answers, the actor got %s", request, n, actor.got())
		}
	}
}

// frameClient speaks HTTP/2 frame by frame.
type frameClient struct {
	*http2.Framer
	*raw
	block bytes.Buffer
	enc   *hpack.Encoder
}

func (f *fixture) frames() *frameClient {
	f.t.Helper()
	c := &frameClient{raw: f.dialProto("h2")}
	c.Framer = http2.NewFramer(c.raw, c.raw.r)
	c.Framer.AllowIllegalWrites = true
	c.Framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.enc = hpack.NewEncoder(&c.block)
	if _, err := io.WriteString(c.raw, clientPreface); err != nil {
		f.t.Fatal(err)
	}
	c.WriteSettings()
	return c
}

// open sends a header of name, value, name, value ...
func (c *frameClient) open(stream uint32, end bool, fields ...string) {
	c.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		c.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.block.Bytes(), EndStream: end, EndHeaders: true})
}

// outcome reads frames until stream ended: its status, "RST" and a code, or
// "GOAWAY" and a code.
func (c *frameClient) outcome(stream uint32) string {
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return err.Error()
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			if frame.StreamID == stream {
				return frame.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == stream {
				return "RST " + frame.ErrCode.String()
			}
		case *http2.GoAwayFrame:
			return "GOAWAY " + frame.ErrCode.String()
		}
	}
}

func TestMalformedRequestsOverHTTP2AreRefused(t *testing.T) {
	usual := []string{":method", "POST", ":scheme", "http", ":path", "/first", ":authority", "a.test"}
	with := func(more ...string) []string { return append(usual[:len(usual):len(usual)], more...) }
	cases := []struct {
		what   string
		fields []string
		body   string
		want   string
	}{
		{"transfer-encoding", with("transfer-encoding", "chunked"), "", "400"},
		{"connection", with("connection", "close"), "", "400"},
		{"keep-alive", with("keep-alive", "1"), "", "400"},
		{"proxy-connection", with("proxy-connection", "x"), "", "400"},
		{"upgrade", with("upgrade", "x"), "", "400"},
		{"te that is not trailers", with("te", "gzip"), "", "400"},
		{"an upper-case name", with("X-A", "b"), "", "RST PROTOCOL_ERROR"},
		{"a pseudo header behind others", []string{":method", "POST", "x-a", "b", ":scheme", "http", ":path", "/first", ":authority", "a.test"}, "", "RST PROTOCOL_ERROR"},
		{"a pseudo header twice", with(":path", "/second"), "", "RST PROTOCOL_ERROR"},
		{"an unknown pseudo header", with(":x", "y"), "", "RST PROTOCOL_ERROR"},
		{"no path", []string{":method", "POST", ":scheme", "http", ":authority", "a.test"}, "", "RST PROTOCOL_ERROR"},
		{"CR LF in a value", with("x-a", "b\r\ncontent-length: 0\r\n\r\n"+smuggled), "", "RST PROTOCOL_ERROR"},
		{"LF in a value", with("x-a", "b\nc: d"), "", "RST PROTOCOL_ERROR"},
		{"NUL in a value", with("x-a", "b\x00"), "", "RST PROTOCOL_ERROR"},
		{"CR LF in the path", []string{":method", "POST", ":scheme", "http", ":path", "/first HTTP/1.1\r\nHost: x\r\n\r\n", ":authority", "a.test"}, "", "RST PROTOCOL_ERROR"},
		{"a space in the path", []string{":method", "POST", ":scheme", "http", ":path", "/first HTTP/1.1", ":authority", "a.test"}, "", "400"},
		{"CR LF in the method", []string{":method", "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET", ":scheme", "http", ":path", "/first", ":authority", "a.test"}, "", "RST PROTOCOL_ERROR"},
		{"a space in the method", []string{":method", "GET /", ":scheme", "http", ":path", "/first", ":authority", "a.test"}, "", "400"},
		{"a space in a name", with("x a", "b"), "", "RST PROTOCOL_ERROR"},
		{"a colon in a name", with("x-a:b", "b"), "", "RST PROTOCOL_ERROR"},
		{"another host", with("host", "b.test"), "", "400"},
		{"two hosts", with("host", "a.test", "host", "a.test"), "", "400"},
		{"CR LF in the authority", []string{":method", "POST", ":scheme", "http", ":path", "/first", ":authority", "a.test\r\nx: y"}, "", "RST PROTOCOL_ERROR"},
		{"two lengths", with("content-length", "5", "content-length", "6"), "hello", "400"},
		{"a length with a sign", with("content-length", "+5"), "hello", "400 or RST PROTOCOL_ERROR"},
		{"a body that is longer than its length", with("content-length", "3"), "hello", "RST PROTOCOL_ERROR"},
		{"a body that is shorter than its length", with("content-length", "10"), "hello", "400"},
		{"a length and no body", with("content-length", "10"), "", "400"},
	}
	f := newFixture(t, setup{routes: catchAll()})
	actor := new(seen)
	f.actorH1("a", true, actor.handle)
	for _, c := range cases {
		client := f.frames()
		client.open(1, c.body == "", c.fields...)
		if c.body != "" {
			client.WriteData(1, true, []byte(c.body))
		}
		if got := client.outcome(1); !strings.Contains(c.want, got) {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
		client.raw.Close()
		until(t, "the actor is done", func() bool { return f.rides() == 0 })
		if got := actor.whole(); got != "" {
			t.Fatalf("%s: the actor got %s", c.what, got)
		}
	}
}

func TestTheProtocolIsTheOneThatWasAgreedUpon(t *testing.T) {
	f := newFixture(t, setup{tls: true, routes: catchAll()})
	actor := new(seen)
	f.actorH1("a", true, actor.handle)
	c := f.dialProto("h2")
	go c.pieces(smuggled, 0)
	if all, err := io.ReadAll(c.r); err == nil && !bytes.HasPrefix(all, []byte("HTTP/1.1 400")) {
		t.Errorf("HTTP/1.1 after h2 was agreed upon: %.60q", all)
	}
	c = f.dialProto("http/1.1")
	go c.pieces(clientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00", 0)
	if all, err := io.ReadAll(c.r); err == nil && !bytes.HasPrefix(all, []byte("HTTP/1.1 400")) {
		t.Errorf("HTTP/2 after http/1.1 was agreed upon: %.60q", all)
	}
	if got := actor.got(); got != "" {
		t.Errorf("the actor got %s", got)
	}
}

func TestWhoSpeaksNoTLSIsToldSo(t *testing.T) {
	f := newFixture(t, setup{tls: true})
	f.tls = nil
	c := f.dial()
	c.send("GET / HTTP/1.1\nHost: a.test\n\n")
	if resp := c.response("GET"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d, want 400", resp.StatusCode)
	}
}

func TestAScannerIsNoWayPastTheHeaderLimit(t *testing.T) {
	f := newFixture(t, setup{})
	c := f.dial()
	go c.pieces("GET / HTTP/1.1\r\nHost: a.test\r\nX: "+strings.Repeat("x", 1<<20), 0)
	all, err := io.ReadAll(c.r)
	if !bytes.HasPrefix(all, []byte("HTTP/1.1 431")) {
		t.Errorf("a line of a mebibyte: %.60q, %v; want 431", all, err)
	}
}

func TestARefusalSaysWhatIsWrong(t *testing.T) {
	s := new(scanner)
	s.scan([]byte("GET / HTTP/1.1\r\nA : b\r\n"))
	if !errors.Is(s.failed, errMalformed) || !strings.Contains(s.failed.Error(), "name") {
		t.Errorf("the error is %v", s.failed)
	}
}
