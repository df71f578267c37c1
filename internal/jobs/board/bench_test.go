package board_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"layover/internal/jobs/board"
	"layover/internal/jobs/fakeboards"
)

// BenchmarkRead reads 5,040 jobs of twelve boards from answers that are in
// memory: what is measured is the adapters. "decode" is the floor: the same
// answers read as JSON or XML, and nothing made of them.
func BenchmarkRead(b *testing.B) {
	w := fakeboards.Generate(fakeboards.Plan{Seed: 1, Now: now, Companies: 4, Jobs: 105})
	s := fakeboards.New(w)
	kept := make(map[string]board.Answer)
	fetch := func(ctx context.Context, r board.Request) (board.Answer, error) {
		key := r.URL + string(r.Body)
		a, ok := kept[key]
		if !ok {
			var err error
			if a, err = answerOf(ctx, s, r); err != nil {
				return a, err
			}
			kept[key] = a
		}
		return a, nil
	}
	read := func(of *board.Board) (jobs int) {
		for _, c := range w.Boards[of.Name] {
			var in board.Listing
			if of.Parse != nil {
				company, err := of.Parse(c.Slug)
				if err != nil {
					b.Fatal(err)
				}
				in.Company = company
			}
			for token := ""; ; {
				p, err := of.Page(context.Background(), fetch, in, token)
				if err != nil {
					b.Fatal(err)
				}
				if jobs += len(p.Jobs); p.Next == "" {
					break
				}
				token = p.Next
			}
			if of.Parse == nil {
				break // one listing has the jobs of all companies
			}
		}
		return jobs
	}
	for _, of := range board.All {
		jobs := read(of) // fills kept
		if jobs != 420 {
			b.Fatalf("%s has %d jobs, want 420", of.Name, jobs)
		}
		b.Run(of.Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read(of)
			}
		})
	}
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, of := range board.All {
				read(of)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, a := range kept {
				if err := decoded(a.Body); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func decoded(body []byte) error {
	if body[0] != '<' {
		var v any
		return json.Unmarshal(body, &v)
	}
	d := xml.NewDecoder(strings.NewReader(string(body)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
