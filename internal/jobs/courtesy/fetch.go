package courtesy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"layover/budget"
	"layover/internal/jobs/board"
	"layover/lane"
)

// Fetch returns the way to ask b. The context of a request must have a budget,
// and no other deadline. The bodies and headers of answers are shared: they
// must not be changed. Every error is a *board.Trouble.
func (c *Courtesy) Fetch(b *board.Board) board.Fetch {
	c.guard.allow(b.Hosts)
	return func(ctx context.Context, r board.Request) (board.Answer, error) {
		host, err := checked(b, r)
		if err != nil {
			return board.Answer{}, &board.Trouble{Verdict: board.Unavailable, Detail: err.Error(), Err: err}
		}
		if r.Method != "" && r.Method != http.MethodGet && !r.Query {
			return c.ask(ctx, b, host, r)
		}
		key := keyOf(r)
		a, err := c.shared.do(ctx, key, func(ctx context.Context) (board.Answer, error) {
			return c.answer(ctx, b, host, key, r)
		})
		return a, ownTrouble(err)
	}
}

// ownTrouble is the *board.Trouble that err is, for one caller alone: adapters
// complete what they get. What is none yet is the end of the caller's wait.
func ownTrouble(err error) error {
	if err == nil {
		return nil
	}
	t := troubleOf(err)
	if t == nil {
		return ended(err)
	}
	own := *t
	return &own
}

// answer returns what is kept under key, or asks.
func (c *Courtesy) answer(ctx context.Context, b *board.Board, host, key string, r board.Request) (board.Answer, error) {
	now := time.Now()
	e := c.cache.find(key)
	if e == nil {
		c.cache.count(&c.cache.stats.Misses)
		return c.askAndKeep(ctx, b, host, key, r)
	}
	body, err := c.cache.open(e)
	switch old := age(e.At, now); {
	case err == nil && old < max(b.Fresh, b.Least):
		c.cache.count(&c.cache.stats.Hits)
		return board.Answer{Status: http.StatusOK, Header: e.Header, Body: body, At: e.At}, nil
	case old < b.Least:
		c.cache.count(&c.cache.stats.Withheld)
		return board.Answer{}, withheld(b, now.Add(b.Least-old))
	}
	c.cache.count(&c.cache.stats.Misses)
	if err != nil || !e.validator() || r.Method == http.MethodPost {
		return c.askAndKeep(ctx, b, host, key, r)
	}
	return c.revalidate(ctx, b, host, e, body, r)
}

func (c *Courtesy) askAndKeep(ctx context.Context, b *board.Board, host, key string, r board.Request) (board.Answer, error) {
	a, err := c.ask(ctx, b, host, r)
	if err == nil && sound(a) {
		c.cache.put(newEntry(key, b, a), a.At)
		c.changed()
	}
	return a, err
}

// sound reports whether an answer may be kept. A page for people or half an
// answer would be given again and again, where the next try would bring a whole
// one.
func sound(a board.Answer) bool {
	text := bytes.TrimPrefix(bytes.TrimSpace(a.Body), []byte("\xef\xbb\xbf"))
	switch {
	case a.Status != http.StatusOK:
		return false
	case bytes.HasPrefix(text, []byte("<")):
		start := bytes.ToLower(text[:min(len(text), 64)])
		return !bytes.HasPrefix(start, []byte("<!doctype html")) && !bytes.HasPrefix(start, []byte("<html")) && wholeXML(text)
	case strings.Contains(a.Header.Get("Content-Type"), "json"), bytes.HasPrefix(text, []byte("{")), bytes.HasPrefix(text, []byte("[")):
		return json.Valid(text)
	}
	return true
}

// wholeXML reports whether text can be read to its end. Like the boards' readers
// it forgives a loose ampersand or an entity of HTML.
func wholeXML(text []byte) bool {
	d := xml.NewDecoder(bytes.NewReader(text))
	d.Strict, d.Entity = false, xml.HTMLEntity
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	for {
		if _, err := d.Token(); err != nil {
			return err == io.EOF
		}
	}
}

// revalidate asks for what has changed since e.
func (c *Courtesy) revalidate(ctx context.Context, b *board.Board, host string, e *entry, body []byte, r board.Request) (board.Answer, error) {
	r.Header = maps.Clone(r.Header)
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	for name, from := range map[string]string{"If-None-Match": "Etag", "If-Modified-Since": "Last-Modified"} {
		if v := e.Header.Get(from); v != "" {
			r.Header.Set(name, v)
		}
	}
	a, err := c.ask(ctx, b, host, r)
	switch {
	case err == nil && sound(a):
		c.cache.put(newEntry(e.Key, b, a), a.At)
	case err == nil && a.Status == http.StatusNotModified:
		c.cache.count(&c.cache.stats.Revalidated)
		e = c.cache.renewed(e, b, a)
		c.cache.put(e, a.At)
		a.Status, a.Header, a.Body = http.StatusOK, e.Header, body
	default:
		return a, err
	}
	c.changed()
	return a, nil
}

// withheld is the answer to a question that b's terms forbid for now.
func withheld(b *board.Board, until time.Time) *board.Trouble {
	return &board.Trouble{
		Verdict: board.RateLimited,
		Detail:  fmt.Sprintf("%s asks not to be asked the same again within %v, and its last answer is not here any more", b.Title, b.Least),
		RetryAt: until,
	}
}

// ask sends r through the lane of host. An answer that is an error, or not the
// board's, is a *board.Trouble.
func (c *Courtesy) ask(ctx context.Context, b *board.Board, host string, r board.Request) (board.Answer, error) {
	on, done, err := c.lanes.use(b, host)
	if err != nil {
		return board.Answer{}, &board.Trouble{Verdict: board.Unavailable, Detail: err.Error(), Err: err}
	}
	defer done()
	header := maps.Clone(r.Header)
	if header == nil {
		header = make(http.Header)
	}
	header.Set("User-Agent", c.agent)
	before := on.State()
	resp, err := on.Do(ctx, lane.Request{Method: r.Method, URL: r.URL, Header: header, Body: r.Body, Safe: r.Query})
	if on.State() != before {
		c.changed()
	}
	var a board.Answer
	if resp != nil {
		a = board.Answer{Status: resp.Status, Header: resp.Header, Body: resp.Body, At: time.Now()}
	}
	if err != nil {
		return a, troubled(ctx, b, a, err)
	}
	conditional := header.Get("If-None-Match")+header.Get("If-Modified-Since") != ""
	if a.Status == http.StatusNotModified && conditional {
		return a, nil
	}
	if t := board.Classify(a); t != nil {
		t.Answer = a
		return a, t
	}
	return a, nil
}

// troubled is what the error of a lane to a host of b means.
func troubled(ctx context.Context, b *board.Board, a board.Answer, err error) *board.Trouble {
	var e *lane.Error
	if !errors.As(err, &e) {
		e = &lane.Error{Err: err, Stop: lane.StopOf(err)}
	}
	t := meaning(e, a, budget.Wait(ctx, 0) != nil, slices.Contains(b.Hosts, e.Host))
	t.Answer, t.Err = a, err
	if !e.RetryAt.IsZero() {
		t.RetryAt = e.RetryAt
	}
	return t
}

// meaning is that of e, with the last answer if there was one. over says that
// the operation has ended: otherwise what the host did comes before that there
// was no time to ask it once more. own says that the host is the board's, not a
// company's.
func meaning(e *lane.Error, a board.Answer, over, own bool) *board.Trouble {
	switch {
	case e.Stop == lane.Cancelled:
		return ended(context.Canceled)
	case e.Stop == lane.RateLimited && (a.Status == 0 || a.Status == http.StatusTooManyRequests):
		return &board.Trouble{Verdict: board.RateLimited, Detail: "the host asks to be asked later than there is time for"}
	case over, e.Stop == lane.Deadline && e.Last == nil:
		t := ended(context.DeadlineExceeded)
		if e.Last != nil {
			t.Detail += "; the last try: " + detailOf(e.Last, own)
		}
		return t
	case a.Status != 0:
		if t := board.Classify(a); t != nil {
			return t
		}
	}
	why := cmp.Or(e.Last, e.Err)
	return &board.Trouble{Verdict: verdictOf(why, own), Detail: detailOf(why, own)}
}

// ended is the Trouble of an operation that ended, or has too little time left.
func ended(err error) *board.Trouble {
	if errors.Is(err, context.DeadlineExceeded) {
		return &board.Trouble{Verdict: board.Deadline, Detail: "the operation's time did not suffice", Err: err}
	}
	return &board.Trouble{Verdict: board.Cancelled, Detail: "the operation was cancelled", Err: err}
}

// verdictOf is what it means that there is no answer. A host that does not exist
// is a company that does not, unless the host is the board's own.
func verdictOf(err error, own bool) board.Verdict {
	var name *net.DNSError
	switch {
	case errors.Is(err, lane.ErrTooLarge):
		return board.Malformed
	case errors.As(err, &name) && name.IsNotFound && !own:
		return board.UnknownBoard
	}
	return board.Unavailable
}

// detailOf says what went wrong, in a length for people.
func detailOf(err error, own bool) string {
	var (
		refused *refusal
		name    *net.DNSError
	)
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &name) && name.IsNotFound && own:
		return fmt.Sprintf("there is no host %s: this machine may be offline", name.Name)
	case errors.As(err, &name) && name.IsNotFound:
		return fmt.Sprintf("there is no host %s: if the company's name is right, this machine may be offline", name.Name)
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	for _, name := range []string{"lane: ", "turnstile: ", "budget: "} { // which means nothing to people
		text = strings.TrimPrefix(text, name)
	}
	return clip(text)
}

// troubleOf is the Trouble that err is, or nil.
func troubleOf(err error) *board.Trouble {
	var t *board.Trouble
	if errors.As(err, &t) {
		return t
	}
	return nil
}
