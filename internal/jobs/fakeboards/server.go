// Package fakeboards serves the public job boards from a made-up world: each
// board's own shape, paging, limits and oddities, with faults after a script.
//
// One Server is all boards at once and tells them apart by the Host header. It
// keeps everything it knows in itself, so any number of them run side by side,
// and it waits only by timers and on the request's context, so that it works
// in a synctest bubble over Pipe as it does on a real port.
package fakeboards

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server is all boards, an http.Handler. Make it with New; it is safe for
// concurrent use.
type Server struct {
	fakes  []fake
	boards map[string]http.HandlerFunc // by board

	mu     sync.Mutex
	world  World
	limits bool
	rules  []*playing
	seen   []Seen
	counts map[[2]string]int      // by host and path
	recent map[string][]time.Time // admitted requests, by host: what its limit counts
	busy   map[string]int         // requests under way, by host
}

// maxSeen bounds what a server that runs for long remembers of single requests.
const maxSeen = 20_000

// maxShown bounds what is remembered of a request's body, in bytes.
const maxShown = 2 << 10

// maxRequest bounds the body of a request to a board, in bytes.
const maxRequest = 64 << 10

// New returns the boards of w. Nothing of w may be changed afterwards.
func New(w World) *Server {
	s := &Server{
		fakes:  fakes(),
		boards: make(map[string]http.HandlerFunc),
		world:  w.clone(),
		counts: make(map[[2]string]int),
		recent: make(map[string][]time.Time),
		busy:   make(map[string]int),
	}
	for _, f := range s.fakes {
		s.boards[f.name] = f.serve(s)
	}
	return s
}

// SetLimits says whether the boards refuse what is over their known limits.
// The default is that they do not.
func (s *Server) SetLimits(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = on
}

// Play makes script the faults from now on: requests are counted anew.
func (s *Server) Play(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = nil
	for _, r := range script {
		s.rules = append(s.rules, &playing{Rule: r})
	}
}

// Seen is one request that was received.
type Seen struct {
	At     time.Time
	Board  string // empty: no board lives at this host
	Host   string
	Method string
	Path   string // as it was sent, escaped
	Query  string
	Header http.Header
	Body   string // its beginning
	Rule   int    // the rule of the script that it met, from 1; 0: none
	Status int    // what was answered; 0: nothing yet, or the connection was reset
}

// Requests returns what was received so far, in order; of very many, the first.
func (s *Server) Requests() []Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Count returns how many requests were received whose host and path match the
// patterns, in which "*" stands for any text; an empty pattern matches all.
func (s *Server) Count(host, path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for at, count := range s.counts {
		if like(host, at[0]) && like(path, at[1]) {
			n += count
		}
	}
	return n
}

// Company returns a company as its board knows it now, shifts included.
func (s *Server) Company(board, slug string) (Company, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.world.Boards[board] {
		if strings.EqualFold(c.Slug, slug) {
			c.Jobs = slices.Clone(c.Jobs)
			return c, true
		}
	}
	return Company{}, false
}

// Jobs returns what a board that has no companies lists now, newest first.
func (s *Server) Jobs(board string) []Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world.Jobs(board)
}

// odd returns how many unreadable rows a board that has no companies lists.
func (s *Server) odd(board string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.world.Boards[board] {
		n += c.Odd
	}
	return n
}

// exchange is one request while it is answered.
type exchange struct {
	fake     *fake // nil: no board lives at its host
	host     string
	rule     *playing   // what it meets; never nil
	watching []*playing // rules that would repeat its answer later
	seen     int        // its place in Server.seen; -1: none
	refusal  *answer    // what the board says to one request too many; nil: it is not
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		return // whoever asked is gone
	}
	x := s.begin(r, body)
	defer s.end(x)
	if x.rule.Delay > 0 && !wait(r.Context(), time.Duration(x.rule.Delay)) {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	a := s.answer(x, r)
	s.mu.Lock()
	if x.seen >= 0 && !x.rule.Reset {
		s.seen[x.seen].Status = a.status
	}
	s.mu.Unlock()
	x.rule.send(w, r, a)
}

// begin records a request, finds the rule it meets and asks the board's limit.
func (s *Server) begin(r *http.Request, body []byte) exchange {
	x := exchange{host: hostOnly(r.Host), rule: &playing{}, seen: -1}
	x.fake = s.fakeOf(x.host)
	board := ""
	if x.fake != nil {
		board = x.fake.name
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	number := 0
	for i, p := range s.rules {
		if !p.matches(board, x.host, r, body) {
			continue
		}
		p.count++
		if p.due() && number == 0 {
			x.rule, number = p, i+1
		}
		if p.Repeat {
			x.watching = append(x.watching, p)
		}
	}
	if len(s.seen) < maxSeen {
		x.seen = len(s.seen)
		s.seen = append(s.seen, Seen{
			At: now, Board: board, Host: x.host, Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
			Header: r.Header.Clone(), Body: string(body[:min(len(body), maxShown)]), Rule: number,
		})
	}
	s.counts[[2]string{x.host, r.URL.EscapedPath()}]++
	if x.fake == nil {
		return x
	}
	s.busy[x.host]++
	if x.rule.Shift != 0 {
		s.world.shift(board, x.rule.Shift, now)
	}
	if s.limits {
		x.refusal = s.admitLocked(x.fake, x.host, now)
	}
	return x
}

func (s *Server) end(x exchange) {
	if x.fake == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[x.host]--
}

// answer asks the board, or the rule that comes before it.
func (s *Server) answer(x exchange, r *http.Request) *answer {
	if x.refusal != nil {
		return x.refusal
	}
	if x.rule.instead() {
		s.mu.Lock()
		defer s.mu.Unlock() // guards what is repeated
		return x.rule.alter(x.rule.replace())
	}
	a := newAnswer()
	if x.fake == nil {
		http.Error(a, "fakeboards: no board lives at "+x.host, http.StatusMisdirectedRequest)
		return x.rule.alter(a)
	}
	s.boards[x.fake.name](a, r)
	s.tell(x, a.header)
	a.validate(r)
	s.mu.Lock()
	for _, p := range x.watching {
		p.last = a.clone()
	}
	s.mu.Unlock()
	return x.rule.alter(a)
}

// answer is a board's answer before it is sent: an http.ResponseWriter.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func newAnswer() *answer { return &answer{status: http.StatusOK, header: make(http.Header)} }

func (a *answer) Header() http.Header  { return a.header }
func (a *answer) WriteHeader(code int) { a.status = code }
func (a *answer) Write(p []byte) (int, error) {
	a.body = append(a.body, p...)
	return len(p), nil
}

func (a *answer) clone() *answer {
	return &answer{status: a.status, header: a.header.Clone(), body: a.body}
}

// validate gives an answer a validator, and makes it a 304 if r has it already.
func (a *answer) validate(r *http.Request) {
	if r.Method != http.MethodGet || a.status != http.StatusOK {
		return
	}
	sum := fnv.New64a()
	sum.Write(a.body) // a hash takes everything
	tag := fmt.Sprintf(`W/"%x"`, sum.Sum64())
	a.header.Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		a.status, a.body = http.StatusNotModified, nil
	}
}

func hostOnly(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// like reports whether text is what pattern describes, in which "*" stands for
// any text. An empty pattern describes everything.
func like(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == "" || pattern == text
	}
	text, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}
