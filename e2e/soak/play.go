package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"layover/e2e/actor"
)

// outcome is how a request ended, for its client.
type outcome string

const (
	served  outcome = "served"
	own     outcome = "own error" // the actor's
	refused outcome = "refused"   // by layover, with a reason
	left    outcome = "left"      // the client did
	cut     outcome = "cut off"   // after the actor's header, by the actor's death
	hidden  outcome = "hidden"    // so early that the actor's header did not reach the client
	noDoor  outcome = "no door"   // the last three outcomes: see window
	hungUp  outcome = "hung up"
	killed  outcome = "killed"
	fault   outcome = "FAULT"
)

var outcomes = []outcome{served, own, refused, left, cut, hidden, noDoor, hungUp, killed, fault}

// shot is one request.
type shot struct {
	id, kind, to string
	role         *role
	band         int
	timeout      time.Duration // that the request asks for; 0: none
	leaveAfter   time.Duration // the client does not wait longer; 0: it does
	sip          time.Duration // how slowly the client reads; 0: as fast as it can
	began        time.Time
}

// ending is what became of it.
type ending struct {
	outcome outcome
	reason  string
	what    string        // of a fault
	took    time.Duration // to the final response header; 0: there was none
	without time.Duration // in which there was no router to see to it
	mayMiss bool          // layover may not have seen the request
}

func faulty(format string, args ...any) ending {
	return ending{outcome: fault, what: fmt.Sprintf(format, args...)}
}

// act sends a shot and says how it ended. ctx ends when the client leaves.
type act func(ctx context.Context, h *house, s *shot) ending

var shots atomic.Int64

func (h *house) newShot(kind, to string) *shot {
	return &shot{id: fmt.Sprintf("%s-%06d", h.name, shots.Add(1)), kind: kind, to: to, role: roleOf(to)}
}

// patience is after how long a request without an answer is lost.
const patience = 45 * time.Second

// play sends a shot and enters its ending in the books.
func (h *house) play(ctx context.Context, do act, s *shot, b *books) ending {
	s.began = time.Now()
	ctx, lost := context.WithTimeout(ctx, patience)
	defer lost()
	if s.leaveAfter > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.leaveAfter)
		defer cancel()
	}
	e := do(ctx, h, s)
	return h.enter(s, e, b)
}

// enter ends a shot.
func (h *house) enter(s *shot, e ending, b *books) ending {
	if e.outcome == left && time.Since(s.began) > patience-time.Second {
		e = faulty("lost: no end after %v", patience)
	}
	e.mayMiss = e.mayMiss || h.metKill(s)
	e.without = h.waited(s)
	b.enter(s, e)
	return e
}

// clients are those of one house. Each keeps its connections.
type clients struct {
	h1, h2 *http.Client
	grpc   grpcClient
}

func (c *clients) dial(h *house) error {
	transport := func(set func(*http.Protocols)) *http.Transport {
		protocols := new(http.Protocols)
		set(protocols)
		return &http.Transport{Protocols: protocols, MaxIdleConnsPerHost: 100, ExpectContinueTimeout: patience,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	}
	c.h1 = &http.Client{Transport: once{transport(func(p *http.Protocols) { p.SetHTTP1(true) })}}
	c.h2 = &http.Client{Transport: transport(func(p *http.Protocols) {
		p.SetHTTP2(h.tlsLine != "")
		p.SetUnencryptedHTTP2(h.tlsLine == "")
	})}
	return c.grpc.dial(h)
}

// once sends each request once. Transport would send one again whose reused
// connection ended without a byte, and then one shot has two ends.
type once struct{ *http.Transport }

func (o once) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil {
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(strings.NewReader("")) // nobody can say that it can be read twice
	}
	return o.Transport.RoundTrip(req)
}

// closeIdle leaves no connection behind. The next requests open new ones.
func (c *clients) closeIdle() {
	c.h1.CloseIdleConnections()
	c.h2.CloseIdleConnections()
	c.grpc.close()
}

func (h *house) url(path string) string {
	if h.tlsLine != "" {
		return "https://" + h.addr + path
	}
	return "http://" + h.addr + path
}

// header is what every shot has.
func (s *shot) header() http.Header {
	header := http.Header{"X-To": {s.to}, "X-Request-Id": {s.id}, "X-Band": {strconv.Itoa(s.band)}}
	if s.timeout > 0 {
		header.Set("Operation-Timeout", s.timeout.String())
	}
	return header
}

func get(ctx context.Context, h *house, s *shot) ending {
	return h.send(ctx, h.clients.h1, s, "GET", "/", nil, s.to+" is awake\n")
}

func get2(ctx context.Context, h *house, s *shot) ending {
	return h.send(ctx, h.clients.h2, s, "GET", "/", nil, s.to+" is awake\n")
}

func events(ctx context.Context, h *house, s *shot) ending {
	n := 1 + h.chance(20)
	var want strings.Builder
	for i := range n {
		fmt.Fprintf(&want, "data: %d\n\n", i)
	}
	return h.send(ctx, h.either(), s, "GET", fmt.Sprintf("/events?n=%d&ms=%d", n, h.chance(40)), nil, want.String())
}

func ownFailure(ctx context.Context, h *house, s *shot) ending {
	return h.send(ctx, h.either(), s, "GET", "/fail", nil, "a failure of its own\n")
}

func (h *house) either() *http.Client {
	return []*http.Client{h.clients.h1, h.clients.h2}[h.chance(2)]
}

// slowly reads a large answer bit by bit, and often leaves in the middle.
func slowly(ctx context.Context, h *house, s *shot) ending {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	if h.chance(2) == 0 {
		timer := time.AfterFunc(h.between(0, time.Second), leave)
		defer timer.Stop()
	}
	s.sip = h.between(0, 10*time.Millisecond)
	return h.send(ctx, h.either(), s, "GET", "/large", nil, actor.Large)
}

// drip is a body that comes bit by bit.
type drip struct {
	rest  []byte
	pause time.Duration
}

func (d *drip) Read(p []byte) (int, error) {
	if len(d.rest) == 0 {
		return 0, io.EOF
	}
	time.Sleep(d.pause)
	n := copy(p[:min(len(p), 16<<10)], d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// sipper reads little at a time.
type sipper struct {
	from  io.Reader
	pause time.Duration // before each of its reads; 0: it is none
}

func (s *sipper) Read(p []byte) (int, error) {
	if s.pause == 0 {
		return s.from.Read(p)
	}
	time.Sleep(s.pause)
	return s.from.Read(p[:min(len(p), 64<<10)])
}

var payload = []byte(strings.Repeat("0123456789abcde\n", 32<<10))

func upload(ctx context.Context, h *house, s *shot) ending {
	size := h.chance(1 << (6 + h.chance(14)))
	start := h.chance(16)
	body := payload[start:min(start+size, len(payload))]
	var reader io.Reader = strings.NewReader(string(body)) // of known length
	switch h.chance(4) {
	case 0:
		reader = &drip{rest: body} // chunked
	case 1:
		reader = &drip{rest: body, pause: time.Millisecond}
	}
	return h.send(ctx, h.either(), s, "POST", "/upload", reader, actor.Sum(body))
}

// send sends a request and judges what comes back; want is the body of an
// answer of the actor.
func (h *house) send(ctx context.Context, client *http.Client, s *shot, method, path string, body io.Reader, want string) ending {
	req, err := http.NewRequestWithContext(ctx, method, h.url(path), body)
	if err != nil {
		return faulty("%v", err)
	}
	req.Header = s.header()
	if body != nil && h.chance(4) == 0 {
		req.Header.Set("Expect", "100-continue")
	}
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ending{outcome: left, mayMiss: true}
		}
		return s.unanswered(h, err)
	}
	took := time.Since(s.began)
	defer resp.Body.Close()
	got, err := io.ReadAll(&sipper{resp.Body, s.sip})
	e := s.judge(h, resp, string(got), err, want, ctx)
	e.took = took
	return e
}

// unanswered is the ending of a request whose connection failed before its
// answer began.
func (s *shot) unanswered(h *house, err error) ending {
	if e, ok := h.excuse(s, err, false); ok {
		return e
	}
	if s.role.dies {
		return ending{outcome: hidden}
	}
	return faulty("no answer after %v: %v", time.Since(s.began), err)
}

// judge says how a request with a final response header ended.
func (s *shot) judge(h *house, resp *http.Response, got string, err error, want string, ctx context.Context) ending {
	mark, reason := resp.Header.Get(actor.MarkHeader), resp.Header.Get("Layover-Reason")
	if err != nil && ctx.Err() == nil {
		if e, ok := h.excuse(s, err, true); ok {
			return e
		}
	}
	switch {
	case reason != "":
		if mark != "" {
			return faulty("a refusal with the mark of %s", mark)
		}
		return s.judgeRefusal(resp.StatusCode, reason, resp.Header.Get("Retry-After"))
	case mark != s.to:
		return faulty("status %d with the mark %q and no reason", resp.StatusCode, mark)
	case resp.Header.Get(actor.EchoHeader) != s.id:
		return faulty("the answer to %s", resp.Header.Get(actor.EchoHeader))
	case err != nil && ctx.Err() != nil:
		return ending{outcome: left}
	case err != nil && s.role.dies:
		return ending{outcome: cut}
	case err != nil:
		return faulty("the body ended with %v", err)
	case got != want:
		return faulty("%d bytes of body, %.40q, want %.40q", len(got), got, want)
	case resp.StatusCode >= 400:
		return ending{outcome: own}
	}
	return ending{outcome: served}
}

// socket sends messages over a WebSocket and wants them back.
func socket(ctx context.Context, h *house, s *shot) ending {
	conn, resp, err := websocket.Dial(ctx, h.url("/socket"), &websocket.DialOptions{HTTPClient: h.clients.h1, HTTPHeader: s.header()})
	took := time.Since(s.began)
	if err != nil {
		switch {
		case resp != nil && resp.Header.Get("Layover-Reason") != "":
			e := s.judgeRefusal(resp.StatusCode, resp.Header.Get("Layover-Reason"), resp.Header.Get("Retry-After"))
			e.took = took
			return e
		case resp != nil && s.role.dies && resp.Header.Get(actor.MarkHeader) == s.to: // it answered something else before it died
			return ending{outcome: cut, took: took}
		case ctx.Err() != nil:
			return ending{outcome: left, mayMiss: true}
		}
		return s.unanswered(h, err)
	}
	defer conn.CloseNow()
	e := s.talk(ctx, h, conn)
	e.took = took
	return e
}

func (s *shot) talk(ctx context.Context, h *house, conn *websocket.Conn) ending {
	broken := func(err error) ending {
		switch {
		case ctx.Err() != nil:
			return ending{outcome: left}
		}
		if e, ok := h.excuse(s, err, true); ok {
			return e
		}
		if s.role.dies {
			return ending{outcome: cut}
		}
		return faulty("the socket broke: %v", err)
	}
	for range 1 + h.chance(5) {
		want := string(payload[:1+h.chance(3000)])
		if err := conn.Write(ctx, websocket.MessageText, []byte(want)); err != nil {
			return broken(err)
		}
		_, got, err := conn.Read(ctx)
		if err != nil {
			return broken(err)
		}
		if string(got) != want {
			return faulty("the socket sent %d other bytes back", len(got))
		}
	}
	if h.chance(3) == 0 {
		return ending{outcome: left} // without a word
	}
	if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		return broken(err)
	}
	return ending{outcome: served}
}

// rude sends a request by hand, or part of one, and hangs up with a reset at
// any moment.
func rude(ctx context.Context, h *house, s *shot) ending {
	conn, err := net.Dial("tcp", h.addr)
	if err != nil {
		return s.unanswered(h, err)
	}
	defer conn.Close()
	conn.(*net.TCPConn).SetLinger(0)
	var b strings.Builder
	fmt.Fprintf(&b, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n")
	s.header().Write(&b)
	b.WriteString("\r\n")
	b.Write(payload[:h.chance(50000)])
	text := b.String()
	if h.chance(3) == 0 {
		text = text[:h.chance(len(text))]
	}
	io.WriteString(conn, text) // it may be refused meanwhile
	select {
	case <-ctx.Done():
	case <-time.After(h.between(0, 800*time.Millisecond)):
	}
	return ending{outcome: left, mayMiss: true}
}

// rude2 uploads over a HTTP/2 connection of its own, which it resets at any
// moment.
func rude2(ctx context.Context, h *house, s *shot) ending {
	ctx, leave := context.WithTimeout(ctx, h.between(0, time.Second))
	defer leave()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := http.Client{Transport: &http.Transport{Protocols: protocols, DialContext: func(_ context.Context, network, addr string) (net.Conn, error) {
		conn, err := net.Dial(network, addr)
		if err == nil {
			conn.(*net.TCPConn).SetLinger(0)
			context.AfterFunc(ctx, func() { conn.Close() })
		}
		return conn, err
	}}}
	req, err := http.NewRequest("POST", h.url("/upload"), &drip{rest: payload, pause: 10 * time.Millisecond})
	if err != nil {
		return faulty("%v", err)
	}
	req.Header = s.header()
	if resp, err := client.Do(req); err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	<-ctx.Done()
	return ending{outcome: left, mayMiss: true}
}

// late is how long after its end a request may be answered, on a busy machine.
const late = 3 * time.Second

// limit is the end of a shot's budget.
func (s *shot) limit() time.Duration {
	if s.timeout > 0 {
		return min(routeBudget, s.timeout)
	}
	return routeBudget
}
