package courtesy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"layover/budget"
	"layover/internal/jobs/board"
	"layover/internal/jobs/fakeboards"
	"layover/turnstile"
)

// play is a board on connections in memory, and what asked it.
type play struct {
	t     *testing.T
	pipe  *fakeboards.Pipe
	began time.Time

	mu   sync.Mutex
	seen []seen
}

type seen struct {
	at     time.Duration // since the play began
	path   string
	header http.Header
}

func newPlay(t *testing.T, handler http.Handler) *play {
	p := &play{t: t, began: time.Now()}
	p.pipe = fakeboards.NewPipe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.seen = append(p.seen, seen{time.Since(p.began), r.URL.RequestURI(), r.Header})
		p.mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	return p
}

// ats returns when each request came.
func (p *play) ats() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ats []time.Duration
	for _, s := range p.seen {
		ats = append(ats, s.at)
	}
	return ats
}

func (p *play) last() seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) == 0 {
		p.t.Fatal("nothing was asked")
	}
	return p.seen[len(p.seen)-1]
}

func (p *play) wantAts(want ...time.Duration) {
	p.t.Helper()
	if got := p.ats(); !slices.Equal(got, want) {
		p.t.Errorf("requests came at %v, want %v", got, want)
	}
}

// open returns a Courtesy whose network is p.
func (p *play) open(o Options) *Courtesy {
	p.t.Helper()
	o.Dial = p.pipe.Dial
	c, err := New(o)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// on is the inside of a bubble: f with a play of handler and a Courtesy to it.
func on(handler http.HandlerFunc, f func(t *testing.T, p *play, c *Courtesy)) func(*testing.T) {
	return func(t *testing.T) {
		p := newPlay(t, handler)
		defer p.pipe.Close()
		c := p.open(Options{})
		defer c.Close()
		f(t, p, c)
	}
}

// acme is a board with one host, asked once a second at most.
func acme() *board.Board {
	return &board.Board{Name: "acme", Title: "Acme", Hosts: []string{"acme.example", "*.acme.example"}, Every: time.Second, AtOnce: 1, Fresh: time.Minute}
}

const jobsURL = "https://acme.example/jobs"

// within is the context of an operation, with a budget of d and a claim of its own.
func within(d time.Duration) (context.Context, context.CancelFunc) {
	return budget.For(turnstile.Begin(context.Background(), 0), d)
}

func get(c *Courtesy, b *board.Board, d time.Duration, url string) (board.Answer, error) {
	ctx, cancel := within(d)
	defer cancel()
	return c.Fetch(b)(ctx, board.Request{URL: url})
}

func mustGet(t *testing.T, c *Courtesy, b *board.Board, url string) board.Answer {
	t.Helper()
	a, err := get(c, b, time.Minute, url)
	if err != nil {
		t.Fatalf("fetch %s: %v", url, err)
	}
	return a
}

// wantTrouble checks the verdict of err.
func wantTrouble(t *testing.T, err error, want board.Verdict) *board.Trouble {
	t.Helper()
	var trouble *board.Trouble
	if !errors.As(err, &trouble) || trouble.Verdict != want {
		t.Fatalf("error %v, want the verdict %s", err, want)
	}
	return trouble
}

func body(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

// status answers with a status and header fields, given in pairs.
func status(w http.ResponseWriter, code int, header ...string) {
	for i := 0; i+1 < len(header); i += 2 {
		w.Header().Set(header[i], header[i+1])
	}
	w.WriteHeader(code)
}

// during lets d pass.
func during(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
