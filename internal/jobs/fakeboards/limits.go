package fakeboards

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fake is one board: where it lives, what it allows, how it answers.
type fake struct {
	name  string
	hosts []string // "*." stands for one label
	limit limit
	serve func(*Server) http.HandlerFunc
}

// limit is what a board is known to allow on each of its hosts. Zero values allow everything.
type limit struct {
	requests int // so many requests ...
	per      time.Duration
	atOnce   int
	retry    time.Duration // what Retry-After says when over; 0: the time until the next request is allowed
	headers  bool          // tell the limit in X-RateLimit headers
	page     bool          // refuse with a page for people
}

// fakeOf returns the board that lives at a host, or nil.
func (s *Server) fakeOf(host string) *fake {
	for i, f := range s.fakes {
		if slices.ContainsFunc(f.hosts, func(pattern string) bool { return covers(pattern, host) }) {
			return &s.fakes[i]
		}
	}
	return nil
}

// covers reports whether pattern, in which "*" stands for one label, is host.
func covers(pattern, host string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(host, ".")
	return slices.EqualFunc(want, have, func(w, h string) bool { return w == h || w == "*" && h != "" })
}

// admitLocked counts a request, which is among the busy ones already, against
// its host's limit. The answer is how it is refused; nil: it is within.
func (s *Server) admitLocked(f *fake, host string, now time.Time) *answer {
	l := f.limit
	recent := slices.DeleteFunc(s.recent[host], func(t time.Time) bool { return now.Sub(t) >= l.per })
	s.recent[host] = recent
	switch {
	case l.atOnce > 0 && s.busy[host] > l.atOnce:
		return s.refuseLocked(f, host, time.Second)
	case l.requests == 0:
		return nil
	case len(recent) < l.requests:
		s.recent[host] = append(recent, now)
		return nil
	case l.retry > 0:
		return s.refuseLocked(f, host, l.retry)
	}
	return s.refuseLocked(f, host, recent[0].Add(l.per).Sub(now))
}

func (s *Server) refuseLocked(f *fake, host string, wait time.Duration) *answer {
	a := newAnswer()
	a.status = http.StatusTooManyRequests
	a.header.Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	if f.limit.headers {
		s.tellLocked(f, host, a.header)
	}
	if f.limit.page {
		a.header.Set("Content-Type", "text/html; charset=UTF-8")
		a.body = []byte(limitPage)
		return a
	}
	a.header.Set("Content-Type", "application/json")
	a.body = []byte(`{"message":"Too many requests"}`)
	return a
}

// tell writes a board's limit into an answer's headers, if the board does so.
func (s *Server) tell(x exchange, h http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limits && x.fake.limit.headers {
		s.tellLocked(x.fake, x.host, h)
	}
}

func (s *Server) tellLocked(f *fake, host string, h http.Header) {
	h.Set("X-RateLimit-Limit", strconv.Itoa(f.limit.requests))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(max(f.limit.requests-len(s.recent[host]), 0)))
	h.Set("X-RateLimit-Concurrent-Limit", strconv.Itoa(f.limit.atOnce))
	h.Set("X-RateLimit-Concurrent-Remaining", strconv.Itoa(max(f.limit.atOnce-s.busy[host], 0)))
}

// What stands before a board that has had enough, and before one that takes
// everybody for a robot.
const (
	limitPage = `<!doctype html><html><head><title>Access denied | Error 1015</title></head>` +
		`<body><h1>Error 1015</h1><p>You are being rate limited</p></body></html>`
	challengePage = `<!doctype html><html lang="en"><head><title>Just a moment...</title></head>` +
		`<body><div id="challenge-form">Checking your browser before you go on. Please enable JavaScript and cookies.</div></body></html>`
)
