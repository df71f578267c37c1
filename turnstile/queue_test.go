package turnstile

import (
	"slices"
	"testing"
)

// TestLineServesInOrderWhateverLeaves pushes mostly in order, or in any order, so that run and heap are both used, and takes out from anywhere.
func TestLineServesInOrderWhateverLeaves(t *testing.T) {
	r := modelRand(t)
	for round := range 300 {
		inOrder := round%3 > 0 // otherwise nearly everybody is in the heap
		var l line
		var want []place // sorted
		at := map[place]*waiter{}
		next := int64(0)
		for range 200 {
			switch n := r.IntN(10); {
			case n < 5:
				next += int64(r.IntN(3))
				p := place{minor: next, arrival: uint64(len(at))}
				if n == 0 || !inOrder {
					p.minor = int64(r.IntN(1000))
				}
				at[p] = &waiter{}
				l.push(p, at[p])
				i, _ := slices.BinarySearchFunc(want, p, order)
				want = slices.Insert(want, i, p)
			case (n < 7 || !inOrder && n < 9) && len(want) > 0:
				i := r.IntN(len(want))
				l.remove(at[want[i]])
				want = slices.Delete(want, i, i+1)
			case len(want) > 0:
				if got := l.pop(); got != at[want[0]] {
					t.Fatalf("pop: not the first of %d", len(want))
				}
				want = want[1:]
			}
			if n := 0; l.len() != len(want) {
				t.Fatalf("len() = %d, want %d", l.len(), len(want))
			} else {
				for range l.all() {
					n++
				}
				if n != len(want) {
					t.Fatalf("all() has %d, want %d", n, len(want))
				}
			}
		}
		for w := range l.drain() {
			if w != at[want[0]] {
				t.Fatal("drain: out of order")
			}
			want = want[1:]
		}
	}
}

func TestRunStaysBoundedWhenItsHeadNeverLeaves(t *testing.T) {
	var l line
	l.push(place{}, &waiter{})
	for range 3 {
		l.push(place{minor: 1}, &waiter{})
	}
	last := &waiter{}
	l.push(place{minor: 1}, last)
	for i := range 10_000 {
		w := &waiter{}
		l.push(place{minor: 1, arrival: uint64(i)}, w)
		l.remove(last)
		last = w
	}
	if got := len(l.run.ring); got > 16 {
		t.Errorf("the ring has %d entries for %d waiters", got, l.len())
	}
}

func order(a, b place) int {
	if a.before(&b) {
		return -1
	}
	if b.before(&a) {
		return 1
	}
	return 0
}
