package turnstile

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Claim says where a job stands in line. It is the job's, not the call's: it is made once, when the job begins, and is the same
// for every turn the job takes, so that a job in progress finishes before a newer one begins.
type Claim struct {
	// Priority is the band. A lower band is served first. Any value is allowed, negative ones too.
	Priority int
	// Since is when the job began. Within a band the oldest is served first. Times with and without a monotonic reading may
	// be mixed. The zero time counts as older than any other.
	Since time.Time
	// Seq orders jobs of one band and one instant.
	Seq uint32
}

// Options are the choices of a turnstile that are made once.
type Options struct {
	// HeadStart is what one band is worth in age. A claim's place is its Since plus Priority times HeadStart, fixed when it
	// enters the line, so that no band can starve another for ever: a claim overtakes those of a better band that are
	// younger by more than the difference. Default 0: strict bands. Negative counts as 0.
	HeadStart time.Duration
	// MinUseful is the least time that a turn is worth having. One who has waited in line and has less than that left when
	// its turn comes is passed over: it gets no pass, and the Pass it gets says Doomed. Without it, a line that is older
	// than the deadlines in it does all of its work just too late. Default 0: nobody is passed over. Negative counts as 0.
	MinUseful time.Duration
}

// maxSize is the most passes a turnstile can have.
const maxSize = math.MaxInt32

// A Turnstile bounds how many hold something at once and decides, by claim, who is next. Make one with New: the zero
// Turnstile is not usable and panics. All methods may be called from several goroutines at once.
type Turnstile struct {
	word atomic.Uint64 // see word.go

	stray     atomic.Uint64
	unordered atomic.Uint64

	fast [fastSlots]slot

	// Fixed by NewWith.
	made      bool
	headStart time.Duration
	minUseful time.Duration

	mu       sync.Mutex
	size     int
	reserve  int    // free passes beyond the word
	debt     int    // passes that a shrink took away and that are still held
	idle     uint64 // free bits of the word's slots that are not in use: neither free nor held
	closed   bool
	rest     []*slot // slots beyond the word
	spare    []*slot // those of rest that name no pass
	line     line
	arrivals uint64
	pool     *waiter // waiters to use again, linked by next
	pooled   int
	counts   counts
}

// slot is what a pass names.
type slot struct {
	// gen is the generation: how many passes of this slot have been returned. That of slot 0 is in the word; beyond the word it
	// changes under mu only.
	gen atomic.Uint64
	t   *Turnstile
	i   uint32
	// last is the waiter that last got this slot from the line, guarded by mu. When the slot changes hands the next time,
	// its pass has been returned, so nobody uses that waiter any more and it goes back to the pool: the one who was woken
	// needs no lock for it.
	last *waiter
}

// New is a turnstile with that many passes and strict bands. A negative concurrency counts as zero, one above 2^31-1 as that.
func New(concurrency int) *Turnstile { return NewWith(concurrency, Options{}) }

// NewWith is New with options.
func NewWith(concurrency int, o Options) *Turnstile {
	t := &Turnstile{
		made:      true,
		headStart: max(0, o.HeadStart),
		minUseful: max(0, o.MinUseful),
		idle:      freeMask,
	}
	for i := range t.fast {
		t.fast[i].t, t.fast[i].i = t, uint32(i)
	}
	t.Resize(concurrency)
	return t
}

// WaitTurn waits until a pass is free and it is the claim's turn. ok is false, and there is no pass, when ctx is done, also if a
// pass is free; when the turnstile is or gets closed; and when the claim was passed over for having less than
// Options.MinUseful left of ctx's deadline, which Pass.Doomed tells. ctx.Err tells the first from the others.
func (t *Turnstile) WaitTurn(ctx context.Context, claim Claim) (pass Pass, ok bool) {
	if ctx.Err() != nil {
		return Pass{}, false
	}
	if gen, ok := t.tryTakeFirst(); ok {
		return Pass{slot: &t.fast[0], gen: gen}, true
	}
	return t.take(ctx, claim, nil)
}

// Resize changes the number of passes. Passes that are held stay held: if more are held than the new size, nobody is admitted
// until enough have been returned. A grow goes to the head of the line at once. Negative counts as zero, above 2^31-1 as that.
// Whatever changes the size of the resource must call it. It does nothing for those outside when the turnstile is closed.
func (t *Turnstile) Resize(concurrency int) {
	t.mustBeMade()
	n := min(max(concurrency, 0), maxSize)
	t.mu.Lock()
	t.guardLocked()
	var wake chain
	if n > t.size {
		wake = t.growLocked(n - t.size)
	} else {
		t.shrinkLocked(t.size - n)
	}
	t.size = n
	t.openLocked()
	t.mu.Unlock()
	wake.notify()
}

// Close lets every waiter go without a pass and admits nobody from then on, also after a later Resize. Passes that are held can
// still be returned, and a pass already kept for a Place can still be collected. Closing twice is the same as once.
func (t *Turnstile) Close() {
	t.mustBeMade()
	t.mu.Lock()
	t.guardLocked()
	t.closed = true
	var wake chain
	for w := range t.line.drain() {
		w.state = shutOut
		wake.add(w)
	}
	t.mu.Unlock()
	wake.notify()
}

// Size is the number of passes: the last Resize, held ones or not.
func (t *Turnstile) Size() int {
	t.mustBeMade()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.size
}

// Snapshot is for gauges: the passes that are free, negative while more are held than the size allows, and those in line. The
// durable measure of a line is what its turns waited: Pass.Waited.
func (t *Turnstile) Snapshot() (available, waiting int) {
	t.mustBeMade()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.availableLocked(), t.line.len()
}

func (t *Turnstile) mustBeMade() {
	if !t.made {
		panic("turnstile: use of the zero Turnstile; make one with New")
	}
}
