package local

import (
	"bytes"
	"slices"
	"sync"
)

// How much of an actor's output is kept.
const (
	keptLines   = 2000
	longestLine = 1 << 10
	keptBytes   = 128 << 10
	wordsLines  = 200 // of a life that has ended
	wordsBytes  = 16 << 10
	shownLines  = 20 // of an operator's look
)

// shown is the end of an actor's output that an operator's look has.
func shown(lines []string) []string { return lines[max(0, len(lines)-shownLines):] }

// ring keeps the last lines of an actor's output. The zero value is empty. It
// may be used from several goroutines.
type ring struct {
	mu    sync.Mutex
	lines []string // oldest first; at most keptLines and keptBytes
	bytes int
	ended uint64 // how many lines had an end, dropped ones too
	part  []byte // the line that has no end yet
	cut   bool   // part is full: the rest of its line is dropped
}

// Write implements io.Writer; it never fails.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		room := longestLine - len(r.part)
		if r.cut = r.cut || len(line) > room; r.cut {
			line = line[:min(room, len(line))]
		}
		r.part = append(r.part, line...)
		if ended {
			r.endLineLocked()
		}
		rest = after
	}
	return len(p), nil
}

func (r *ring) endLineLocked() {
	line := string(bytes.TrimSuffix(r.part, []byte("\r")))
	if r.cut {
		line += "…"
	}
	r.part, r.cut = r.part[:0], false
	r.lines = append(r.lines, line)
	r.ended++
	r.bytes += len(line)
	drop := 0
	for len(r.lines)-drop > keptLines || r.bytes > keptBytes {
		r.bytes -= len(r.lines[drop])
		drop++
	}
	clear(r.lines[:drop]) // or append, which moves the others now and then, would keep them until it does
	r.lines = r.lines[drop:]
}

// tail returns the last n lines, oldest first, with one that has no end yet.
func (r *ring) tail(n int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	if len(r.part) > 0 {
		lines = append(slices.Clone(lines), string(r.part))
	}
	return slices.Clone(lines[max(0, len(lines)-n):])
}

// since returns the lines from the given one on that are kept and have an end,
// and how many had one.
func (r *ring) since(line uint64) (lines []string, ended uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	unread := int(min(r.ended-min(line, r.ended), uint64(len(r.lines))))
	return slices.Clone(r.lines[len(r.lines)-unread:]), r.ended
}

// finish ends a last line that has no end.
func (r *ring) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.part) > 0 {
		r.endLineLocked()
	}
}
