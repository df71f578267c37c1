package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"layover/internal/router"
)

func TestAColdRequestWaitsAndIsServed(t *testing.T) {
	for _, version := range []int{1, 2} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("h%d,tls=%v", version, secure), func(t *testing.T) {
				f := newFixture(t, setup{tls: secure})
				f.actorH1("a", false, hello)
				done := do(f.client(version), f.request("GET", "a", "/", nil))
				f.parked()
				f.wake("a")
				r := get(t, done)
				if r.resp.StatusCode != 200 || r.body != "hello" || r.resp.ProtoMajor != version {
					t.Errorf("GET = %d %q over HTTP/%d, want 200 hello over HTTP/%d", r.resp.StatusCode, r.body, r.resp.ProtoMajor, version)
				}
				rec := f.record()
				if rec.Actor != "a" || rec.Route != "all" || rec.Status != 200 || rec.Reason != "" || !rec.Parked ||
					rec.Wake != router.WakeTriggered || rec.ParkedFor <= 0 || rec.Took < rec.ParkedFor || rec.ID == "" {
					t.Errorf("record = %+v", rec)
				}
			})
		}
	}
}

func TestG1_AWarmRequestIsServedWithALotOfNone(t *testing.T) {
	f := newFixture(t, setup{})
	f.lot.Resize(0)
	f.actorH1("a", true, hello)
	r := get(t, do(f.client(1), f.request("GET", "a", "/", nil)))
	if r.resp.StatusCode != 200 {
		t.Errorf("GET = %d, want 200", r.resp.StatusCode)
	}
	if rec := f.record(); rec.Wake != router.WakeNone || rec.Parked {
		t.Errorf("record = %+v, want a request that did not park", rec)
	}
}

func TestShedAtOnceWhileTheClientIsStillSending(t *testing.T) {
	for _, head := range []string{"Content-Length: 1000000000", "Transfer-Encoding: chunked"} {
		f := newFixture(t, setup{})
		f.lot.Resize(0)
		f.actorH1("a", false, hello)
		c := f.dial()
		c.send("POST / HTTP/1.1\nHost: a.test\n%s\n\n", head)
		resp := c.response("POST") // though the body has not even begun
		f.wake("a")
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !resp.Close {
			t.Errorf("%s: status %d, Retry-After %q, close %v, want 503 with a time and a close",
				head, resp.StatusCode, resp.Header.Get("Retry-After"), resp.Close)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Errorf("%s: body: %v", head, err)
		}
		if rec := f.record(); rec.Reason != router.LotFull || rec.Status != 503 {
			t.Errorf("record = %+v, want reason %s", rec, router.LotFull)
		}
		f.sleep("a", "")
	}
}

func TestARefusalWithASmallBodyKeepsTheConnection(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", true, hello)
	c := f.dial()
	c.send("POST / HTTP/1.1\nHost: nobody.test\nContent-Length: 4\n\nsome")
	if resp := c.response("POST"); resp.StatusCode != 404 || resp.Close {
		t.Errorf("status %d, close %v, want 404 on a connection that stays", resp.StatusCode, resp.Close)
	} else {
		io.Copy(io.Discard, resp.Body)
	}
	c.send("GET / HTTP/1.1\nHost: a.test\n\n")
	if resp := c.response("GET"); resp.StatusCode != 200 {
		t.Errorf("status %d, want 200", resp.StatusCode)
	}
}

func TestAHeadIsRefusedWithoutABody(t *testing.T) {
	f := newFixture(t, setup{})
	c := f.dial()
	c.send("HEAD / HTTP/1.1\nHost: nobody.test\n\nGET / HTTP/1.1\nHost: nobody.test\n\n")
	if resp := c.response("HEAD"); resp.StatusCode != 404 || resp.ContentLength <= 0 {
		t.Errorf("HEAD: status %d, length %d, want 404 and the length of the body", resp.StatusCode, resp.ContentLength)
	}
	if resp := c.response("GET"); resp.StatusCode != 404 {
		t.Errorf("the next answer is %d, want 404", resp.StatusCode)
	}
}

func TestEachRefusalIsRecordedOnce(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", false, hello)
	client := f.client(1)
	for _, c := range []struct {
		host, header, value string
		status              int
		reason              router.Reason
	}{
		{"other.example", "", "", 404, router.NoRoute},
		{"b.test", "", "", 404, router.UnknownActor},
		{"a.test", "Operation-Timeout", "soon", 400, router.BadDeadline},
		{"a.test", "Operation-Timeout", "0s", 400, router.BadDeadline},
		{"a.test", "Operation-Deadline", "2001-01-01T00:00:00Z", 504, router.DeadlinePast},
		{"a.test", "Operation-Timeout", "200ms", 503, router.StillWaking},
		{"a.test", "X-Envoy-Upstream-Rq-Timeout-Ms", "200", 503, router.StillWaking},
	} {
		req := f.request("GET", "", "/", nil)
		req.Host = c.host
		if c.header != "" {
			req.Header.Set(c.header, c.value)
		}
		r := get(t, do(client, req))
		if r.resp.StatusCode != c.status || r.resp.Header.Get("Layover-Reason") != string(c.reason) {
			t.Errorf("%+v: status %d, reason %q", c, r.resp.StatusCode, r.resp.Header.Get("Layover-Reason"))
		}
		if rec := f.record(); rec.Reason != c.reason || rec.Status != c.status || !strings.Contains(r.body, rec.ID) {
			t.Errorf("%+v: record %+v", c, rec)
		}
	}
	select {
	case rec := <-f.records:
		t.Errorf("one more record: %+v", rec)
	default:
	}
}

func TestAFailedStartIsAnswered(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", false, hello)
	done := do(f.client(1), f.request("POST", "a", "/", bytes.NewReader([]byte("body"))))
	f.parked()
	f.fail("a", router.Fail(router.StartFailed, "exit status 1", nil))
	if r := get(t, done); r.resp.StatusCode != 502 {
		t.Errorf("status %d, want 502", r.resp.StatusCode)
	}
}

func TestAPanicWhileRoutingIsAnsweredAndRecorded(t *testing.T) {
	f := newFixture(t, setup{})
	f.add("a", router.ProtocolH1, "", false)
	closed := make(chan string)
	close(closed)
	f.plane.parks = closed // Resume panics as it sends
	if r := get(t, do(f.client(1), f.request("GET", "a", "/", nil))); r.resp.StatusCode != 500 {
		t.Errorf("status %d, want 500", r.resp.StatusCode)
	}
	if rec := f.record(); rec.Reason != router.Internal {
		t.Errorf("record = %+v, want reason %s", rec, router.Internal)
	}
}
