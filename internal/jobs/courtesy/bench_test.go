package courtesy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"layover/internal/jobs/board"
)

// wholeBoard is an answer of about 5 MB, as a board with 700 jobs sends it.
func wholeBoard() []byte {
	var s strings.Builder
	s.WriteString(`{"jobs":[`)
	for i := range 700 {
		if i > 0 {
			s.WriteString(",")
		}
		fmt.Fprintf(&s, `{"id":%d,"title":"Engineer %d","content":"`, 4000000+i, i)
		for n := range 300 {
			fmt.Fprintf(&s, "&lt;p&gt;line %d of %d&lt;/p&gt;", n, i*n)
		}
		s.WriteString(`"}`)
	}
	s.WriteString(`]}`)
	return []byte(s.String())
}

// BenchmarkAnswer compares what a whole board costs from the cache with what it
// costs from a connection in memory, which is the least that a fetch can cost.
func BenchmarkAnswer(b *testing.B) {
	text := wholeBoard()
	for _, bench := range []struct {
		name  string
		fresh time.Duration
	}{{"kept", time.Hour}, {"asked", 0}} {
		b.Run(bench.name, func(b *testing.B) {
			p := newPlay(nil, body(string(text)))
			defer p.pipe.Close()
			c, err := New(Options{Dial: p.pipe.Dial})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			at := acme()
			at.Every, at.Fresh = time.Nanosecond, bench.fresh
			ctx, cancel := within(time.Hour)
			defer cancel()
			fetch := c.Fetch(at)
			fetch(ctx, board.Request{URL: jobsURL})
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := fetch(ctx, board.Request{URL: jobsURL}); err != nil {
					b.Fatal(err)
				}
			}
			if s := c.Stats().Cache; s.Entries > 0 {
				b.ReportMetric(float64(s.Bytes), "kept-bytes")
			}
		})
	}
}
