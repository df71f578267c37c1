package turnstile

import (
	"math/bits"
	"testing"
)

func TestT17_AShrinkAndAGrowKeepTheFreePath(t *testing.T) {
	ts := New(8)
	a, b := take(t, ts), take(t, ts)
	ts.Resize(0) // six free ones go at once, the two held ones when they come back
	a.Return()
	b.Return()
	ts.Resize(8)
	if free := bits.OnesCount64(ts.word.Load() & freeMask); free != 8 || ts.reserve != 0 || ts.word.Load()&guard != 0 {
		t.Errorf("after Resize(0) and Resize(8): %d passes in the word, %d beyond it, word %#x; want 8, 0, open", free, ts.reserve, ts.word.Load())
	}
}

func TestGenerationOfSlot0WrapsInItsOwnBits(t *testing.T) {
	s := free0<<3 | gen0Mask
	if got := nextGen0(s); got != free0<<3 {
		t.Errorf("nextGen0(%#x) = %#x, want the other bits untouched", s, got)
	}
}
