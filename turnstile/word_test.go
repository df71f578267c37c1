package turnstile

import (
	"math/bits"
	"testing"
)

func TestT17_AShrinkAndAGrowKeepTheFreePath(t *testing.T) {
	ts := New(fastSlots)
	a, b := take(t, ts), take(t, ts)
	ts.Resize(0) // the free ones go at once, the two held ones when they come back
	a.Return()
	b.Return()
	ts.Resize(fastSlots)
	if free := bits.OnesCount64(ts.word.Load() & freeMask); free != fastSlots || ts.reserve != 0 || ts.word.Load()&guard != 0 {
		t.Errorf("after a shrink to 0 and a grow: %d passes in the word, %d beyond it, word %#x; want %d, 0, open", free, ts.reserve, ts.word.Load(), fastSlots)
	}
}

func TestGenerationOfSlot0WrapsInItsOwnBits(t *testing.T) {
	s := free0<<3 | gen0Mask
	if got := nextGen0(s); got != free0<<3 {
		t.Errorf("nextGen0(%#x) = %#x, want the other bits untouched", s, got)
	}
}
