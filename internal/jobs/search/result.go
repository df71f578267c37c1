package search

import (
	"time"

	"layover/budget"
	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
)

// Result is the answer to a Query.
type Result struct {
	Items   []Item   // newest first, then by id; jobs without a date last
	Reports []Report // one a source, in the order of the sources

	// Complete says that nothing is missing: with the items of the answers
	// before it, this is every matching job that the sources have.
	Complete bool
	Stop     Stop      // why there are no more items
	Cursor   string    // goes on from here; empty: there is nothing to go on to
	RetryAt  time.Time // when the first of the sources that asked for a pause can be asked again; zero: none did

	Received   int           // jobs that this listing read, those of earlier answers not counted
	Left       int           // of those that match, how many the cursor still has
	Duplicates int           // jobs that are no items of their own because another source has them
	Ledger     budget.Ledger // where the time went: a phase for each board
}

// Item is a job, without its description.
type Item struct {
	posting.Job
	Unverified []string // filters that the job does not state enough for: "pay"
}

// Stop says why a listing ended.
type Stop string

// The reasons, in the order in which the first that applies is given.
const (
	Cancelled   Stop = "cancelled"    // by the caller
	Deadline    Stop = "deadline"     // sources were still being read when the time was up
	Size        Stop = "size"         // Query.Size: there are more
	Limit       Stop = "limit"        // Query.Limit: there are more
	RateLimited Stop = "rate_limited" // a source asked for a pause that does not fit; the cursor asks it again
	Partial     Stop = "partial"      // a source failed; the cursor asks it again
	Pages       Stop = "pages"        // a source has more pages than one listing reads; the cursor reads on
	Done        Stop = "done"         // there is nothing more to ask for
)

// Report is what became of one source. Its counts are of the whole listing, over
// all answers up to this one; a page that was read again counts once.
type Report struct {
	Source  string // "greenhouse:acme", "remotive"
	Board   string
	Company string `json:",omitempty"`

	Status Verdict // what the source is, or Some if it failed after pages that were kept
	Reason Verdict `json:",omitempty"` // of Some: what happened; else empty
	Detail string  `json:",omitempty"` // the same for people, and what else must be known
	Page   string  `json:",omitempty"` // a page for people that may help

	Pages    int // read
	Received int // jobs received, those that could not be read too
	Broken   int // of these, how many could not be read
	Matched  int // jobs that were asked for
	Unstated int // left out only because they do not state what a filter asks
	Total    int // what the board says it has; -1: it does not say

	Capped  bool          // the board has more than it shows
	More    bool          // there are pages that were not read
	RetryAt time.Time     `json:",omitzero"` // when asking again makes sense
	Elapsed time.Duration // in this answer
}

// Verdict is a board's verdict, or Some.
type Verdict = board.Verdict

// Some is the Status of a source of which some pages were read, and then one
// failed.
const Some Verdict = "partial"

// Progress counts what has happened so far in one operation.
type Progress struct {
	Sources  int // being asked
	Answered int // of these, how many have given a page or a verdict
	Pages    int
	Received int
	Matched  int // items so far
}
