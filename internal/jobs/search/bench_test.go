package search

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"layover/internal/jobs/board"
	"layover/internal/jobs/fakeboards"
)

// memory asks the fakes without a network, a pace or a cache; every answer is
// made once, so that what is measured is the reading of it.
func memory(server *fakeboards.Server) func(*board.Board) board.Fetch {
	var mu sync.Mutex
	made := make(map[string]board.Answer)
	return func(*board.Board) board.Fetch {
		return func(ctx context.Context, r board.Request) (board.Answer, error) {
			mu.Lock()
			defer mu.Unlock()
			key := r.URL + string(r.Body)
			a, ok := made[key]
			if !ok {
				w := httptest.NewRecorder()
				server.ServeHTTP(w, httptest.NewRequest(cmp.Or(r.Method, http.MethodGet), r.URL, bytes.NewReader(r.Body)))
				a = board.Answer{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes(), At: time.Now()}
				made[key] = a
			}
			if t := board.Classify(a); t != nil {
				return board.Answer{}, t
			}
			return a, nil
		}
	}
}

// BenchmarkList reads 5,000 jobs of 12 boards and makes an answer of them: the
// work that one listing of everything is, decoding included.
func BenchmarkList(b *testing.B) {
	world := fakeboards.Generate(fakeboards.Plan{Seed: 1, Companies: 2, Jobs: 209})
	var names []string
	for _, d := range board.All {
		if d.Parse == nil {
			names = append(names, d.Name)
			continue
		}
		for _, c := range world.Boards[d.Name] {
			names = append(names, d.Name+":"+c.Slug)
		}
	}
	e := New(board.All, memory(fakeboards.New(world)), Options{})
	for name, q := range map[string]Query{
		"newest":       {Sources: names, Limit: 100},
		"words":        {Sources: names, Limit: 100, Text: `kubernetes OR "zero of these words" -php`},
		"nothing fits": {Sources: names, Limit: 100, Text: "xyzzy", Location: "berlin"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r := ask(b, e, time.Minute, q) // the fakes make their answers
			for b.Loop() {
				r = ask(b, e, time.Minute, q)
			}
			b.ReportMetric(float64(r.Received), "jobs")
			b.ReportMetric(float64(len(r.Items)+r.Left), "items")
		})
	}
}
