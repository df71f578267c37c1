package fakeboards

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// replace is the answer that a rule has instead of the board's. The server's
// lock is held: it guards what is repeated.
func (p *playing) replace() *answer {
	a := newAnswer()
	switch {
	case p.Repeat && p.last != nil:
		return p.last.clone()
	case p.Challenge:
		a.header.Set("Content-Type", "text/html; charset=UTF-8")
		a.body = []byte(challengePage)
	case p.Redirect != "":
		a.status = http.StatusFound
		a.header.Set("Location", p.Redirect)
	case p.Bomb > 0:
		a.header.Set("Content-Type", "application/json")
		a.header.Set("Content-Encoding", "gzip")
		a.body = bomb(p.Bomb)
	case p.Status != 0 || p.Text != "":
		a.status = max(p.Status, http.StatusOK)
		a.header.Set("Content-Type", contentType(p.Text))
		a.body = []byte(p.Text)
	}
	return a
}

// alter does to an answer what the rule says.
func (p *playing) alter(a *answer) *answer {
	for name, value := range p.Headers {
		if value == "" {
			a.header.Del(name)
		} else {
			a.header.Set(name, value)
		}
	}
	if p.RetryDate > 0 {
		a.header.Set("Retry-After", time.Now().Add(time.Duration(p.RetryDate)).UTC().Format(http.TimeFormat))
	}
	if p.Type != "" {
		a.header.Set("Content-Type", p.Type)
	}
	if p.BOM {
		a.body = append([]byte("\xef\xbb\xbf"), a.body...)
	}
	if p.Truncate > 0 {
		a.body = a.body[:min(p.Truncate, len(a.body))]
	}
	return a
}

// send writes an answer, as far as the rule lets it.
func (p *playing) send(w http.ResponseWriter, r *http.Request, a *answer) {
	if p.Reset {
		reset(w)
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	body, end := a.body, len(a.body)
	switch {
	case p.Cut > 0:
		end = min(p.Cut, end)
	case p.Stall > 0:
		end = min(p.Stall, end)
	case p.Drip == 0:
		body = a.packed(w, r)
		end = len(body)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(a.status)
	if !p.pour(w, r, body[:end]) {
		return
	}
	flush := http.NewResponseController(w).Flush
	switch {
	case p.Cut > 0 && end < len(body):
		flush()
		panic(http.ErrAbortHandler)
	case p.Stall > 0 && end < len(body):
		flush()
		<-r.Context().Done()
	}
}

// pour writes a body, in drops if the rule says so, and reports whether it got
// through.
func (p *playing) pour(w http.ResponseWriter, r *http.Request, body []byte) bool {
	drop, pace := p.Drip, time.Duration(p.Pace)
	if drop == 0 {
		_, err := w.Write(body)
		return err == nil
	}
	if pace == 0 {
		pace = 100 * time.Millisecond
	}
	for i, part := range slices.Collect(slices.Chunk(body, drop)) {
		if i > 0 && !wait(r.Context(), pace) {
			return false
		}
		if _, err := w.Write(part); err != nil {
			return false
		}
		http.NewResponseController(w).Flush()
	}
	return true
}

// packed returns the body as it goes over the wire: compressed if whoever asks
// takes that and it pays.
func (a *answer) packed(w http.ResponseWriter, r *http.Request) []byte {
	if len(a.body) < 1400 || a.header.Get("Content-Encoding") != "" || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		return a.body
	}
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is one of those that exist
	}
	pack(z, a.body)
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Add("Vary", "Accept-Encoding")
	return out.Bytes()
}

// reset ends the connection of a request without an answer: by RST where there
// is a TCP connection.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		conn.Close()
	}
	panic(http.ErrAbortHandler)
}

// wait waits for d, or not as long if ctx ends: then it reports false.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func contentType(body string) string {
	switch trimmed := strings.TrimSpace(body); {
	case strings.HasPrefix(trimmed, "{"), strings.HasPrefix(trimmed, "["):
		return "application/json"
	case strings.HasPrefix(trimmed, "<"):
		return "text/html; charset=UTF-8"
	}
	return "text/plain; charset=UTF-8"
}

// bomb returns a gzip body that unpacks to so many MiB: one small member,
// repeated.
func bomb(mib int64) []byte {
	var member bytes.Buffer
	pack(gzip.NewWriter(&member), bytes.Repeat([]byte(" "), 1<<20))
	return bytes.Repeat(member.Bytes(), int(mib))
}

// pack writes all of body through z into a buffer, which cannot fail.
func pack(z *gzip.Writer, body []byte) {
	_, err := z.Write(body)
	if err := errors.Join(err, z.Close()); err != nil {
		panic(err)
	}
}
