package proxy

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"layover/internal/router"
)

// net/http answers OPTIONS * by itself unless it is told not to: then what
// comes behind one that asks for another protocol would be read unscanned.
func TestNothingIsReadUnscannedBehindOptionsForTheServer(t *testing.T) {
	f := newFixture(t, setup{routes: catchAll()})
	actor := new(seen)
	f.actorH1("a", true, actor.handle)
	for _, upgrade := range []string{"", "Upgrade: x\r\n"} {
		c := f.dial()
		go c.pieces("OPTIONS * HTTP/1.1\r\nHost: a.test\r\n"+upgrade+"\r\n"+
			"GET /second HTTP/1.1\nHost: a.test\r\n\r\n", 0)
		all, _ := io.ReadAll(c.r)
		if strings.Contains(actor.got(), "second") || !strings.HasPrefix(string(all), "HTTP/1.1 200") {
			t.Errorf("with %q the actor got %s; the answers are %.200q", upgrade, actor.got(), all)
		}
		if rec := f.record(); rec.Method != "OPTIONS" || rec.Status != 200 { // net/http answers as the actor
			t.Errorf("with %q: %s, status %d; want 200 to OPTIONS", upgrade, rec.Method, rec.Status)
		}
	}
}

// What is malformed does not end the request before it.
func TestARequestIsServedAlthoughWhatComesBehindItIsMalformed(t *testing.T) {
	for _, bad := range []string{"GET /second HTTP/1.1\nHost: a.test\r\n\r\n", "GET / HTTP/1.1\r\nA : b\r\n" + strings.Repeat("x", 100_000)} {
		f := newFixture(t, setup{})
		f.actorH1("a", false, hello)
		f.actorH1("b", false, hello)
		c := f.dial()
		go c.pieces("GET /first HTTP/1.1\r\nHost: a.test\r\n\r\n"+bad, 0)
		f.parked()
		f.wake("a")
		resp := c.response("GET")
		if io.Copy(io.Discard, resp.Body); resp.StatusCode != 200 {
			t.Errorf("before %.30q: status %d, want 200", bad, resp.StatusCode)
		}
		if all, _ := io.ReadAll(c.r); len(all) > 0 && !strings.HasPrefix(string(all), "HTTP/1.1 400") {
			t.Errorf("the answer to %.30q is %.60q, want 400 or none", bad, all)
		}
		f.record()
		// That its client leaves is noticed all the same.
		c = f.dial()
		go c.pieces("GET /first HTTP/1.1\r\nHost: b.test\r\n\r\n"+bad, 0)
		f.parked()
		c.Close()
		if rec := f.record(); rec.Reason != router.ClientGone {
			t.Errorf("a client that left: %v, want %v", rec.Reason, router.ClientGone)
		}
	}
}

// TestScannerAndServerAgree sends long rows of unlike requests over one
// connection each, cut at random: the actor gets them as they were meant.
func TestScannerAndServerAgree(t *testing.T) {
	f := newFixture(t, setup{routes: catchAll(), silent: true})
	actor := new(seen)
	f.actorH1("a", true, actor.handle)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		actor.all = nil
		var sent strings.Builder
		var want []string
		for i := range 20 {
			method := []string{"GET", "HEAD", "POST", "PUT", "DELETE"}[r.IntN(5)]
			body := strings.Repeat(smuggled, r.IntN(3)) + strings.Repeat("\r\n", r.IntN(3)) + strings.Repeat("0", r.IntN(3))
			fmt.Fprintf(&sent, "%s /%d HTTP/1.1\r\nHost: a.test\r\nX-Long: %s\r\n", method, i, strings.Repeat("x", r.IntN(2)*r.IntN(9000)))
			if r.IntN(4) == 0 && body != "" {
				sent.WriteString("Expect: 100-continue\r\n")
			}
			switch kind := r.IntN(3); {
			case kind == 0 && body == "":
				sent.WriteString("\r\n")
			case kind == 1:
				fmt.Fprintf(&sent, "Content-Length: %d\r\n\r\n%s", len(body), body)
			default:
				sent.WriteString("Transfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n")
				for rest := body; rest != ""; {
					n := 1 + r.IntN(len(rest))
					fmt.Fprintf(&sent, "%0*x%s\r\n%s\r\n", 1+r.IntN(4), n, []string{"", ";a", `;a="b;c"`}[r.IntN(3)], rest[:n])
					rest = rest[n:]
				}
				sent.WriteString([]string{"0\r\n\r\n", "000;x\r\n\r\n", "0\r\nX-End: GET / HTTP/1.1\r\nX-More: b\r\n\r\n"}[r.IntN(3)])
			}
			want = append(want, fmt.Sprintf("%s /%d %q", method, i, body))
		}
		c := f.dial()
		go c.pieces(sent.String(), 1+r.IntN(3000))
		for _, what := range want {
			method, _, _ := strings.Cut(what, " ")
			resp := c.response(method)
			for resp.StatusCode == 100 {
				resp = c.response(method)
			}
			if io.Copy(io.Discard, resp.Body); resp.StatusCode != 200 {
				t.Fatalf("the answer to %s is %d", what, resp.StatusCode)
			}
		}
		if got := actor.got(); got != strings.Join(want, ", ") {
			t.Fatalf("the actor got %s, want %s", got, strings.Join(want, ", "))
		}
		c.Close()
	}
}

// The limit of a line before a chunk does not depend on how it is cut.
func TestALineBeforeAChunkHasOneLimit(t *testing.T) {
	const header = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	for length := maxChunkLine - 3; length <= maxChunkLine+3; length++ {
		data := []byte(header + "5;" + strings.Repeat("x", length-4) + "\r\nhello\r\n")
		whole, bytewise := new(scanner), new(scanner)
		whole.scan(data)
		for i := range data {
			if bytewise.scan(data[i : i+1]); bytewise.failed != nil {
				break
			}
		}
		if refused := length > maxChunkLine; (whole.failed != nil) != refused || (bytewise.failed != nil) != refused {
			t.Errorf("a line of %d bytes: %v at once, %v byte by byte", length, whole.failed, bytewise.failed)
		}
	}
}

// Half a header over HTTP/2 has as much time as over HTTP/1.1, also beside a
// stream that keeps the connection from being idle.
func TestHalfAHeaderOverHTTP2IsCutOffAtItsTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 400 * time.Millisecond // in which a busy machine makes a TLS connection
	for _, secure := range []bool{false, true} {
		f := newFixture(t, setup{tls: secure, options: Options{ReadHeaderTimeout: timeout}})
		f.actorH1("a", false, hello)
		for i, half := range []func(*frameClient){
			func(c *frameClient) {
				c.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: c.block.Bytes(), EndStream: true})
			},
			func(c *frameClient) {
				c.WriteRawFrame(http2.FrameHeaders, 0, 3, c.block.Bytes())
				c.Write([]byte{0, 0})
			},
			func(c *frameClient) { c.Write([]byte{0, 0, 50, frameHeaders, flagEndHeaders, 0, 0, 0, 3, 1, 2, 3}) },
		} {
			c := f.frames()
			c.open(1, true, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a.test")
			f.parked()
			if i == 0 {
				<-time.After(2 * timeout) // a stream that waits is no header
			}
			began := time.Now()
			half(c)
			_, err := io.Copy(io.Discard, c.raw)
			if took := time.Since(began); took < timeout || took > timeout+2*time.Second {
				t.Errorf("tls=%v: half a header: %v after %v, want the end after %v", secure, err, took, timeout)
			}
			f.record()
		}
	}
}

// A client that does not read cannot hold a stop up.
func TestR72_TheFirstGoAwayIsNotWaitedForWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		h := &h2Conn{hear: func() {}}
		h.out.some = true
		h.leaving.Store(true)
		began := time.Now()
		h.leave(ours)
		if took := time.Since(began); took != goAwayTimeout {
			t.Errorf("leaving took %v, want %v", took, goAwayTimeout)
		}
		if _, err := theirs.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the client reads %v, want the end", err)
		}
	})
}
