package board

import (
	"fmt"
	"time"
)

// Verdict says what a board's answer means for whoever asked. They are kept
// apart because they call for different things: a slug to be corrected, a wait,
// another way in.
type Verdict string

// The verdicts.
const (
	OK             Verdict = "ok"
	Empty          Verdict = "empty"            // the board exists and lists nothing
	UnknownBoard   Verdict = "unknown_board"    // no such company there
	EmptyOrUnknown Verdict = "empty_or_unknown" // the board does not tell these two apart
	Blocked        Verdict = "blocked"          // refused, or a challenge instead of an answer
	RateLimited    Verdict = "rate_limited"
	Gone           Verdict = "gone"        // the endpoint or the posting was retired
	NotVisible     Verdict = "not_visible" // not shown; that does not prove that it is gone
	Malformed      Verdict = "malformed"   // an answer, and not readable as what it should be
	Unavailable    Verdict = "unavailable" // no answer, or the board is in trouble
	Deadline       Verdict = "deadline"    // the operation's budget ended first
	Cancelled      Verdict = "cancelled"
)

// Trouble is an answer that brought no page, with its meaning.
type Trouble struct {
	Verdict Verdict
	Detail  string    // what was seen, for people; never the answer's body at length
	Page    string    // a page for people that may help, or empty
	RetryAt time.Time // when asking again makes sense; zero: not known
	Answer  Answer    // the answer itself, if there was one
	Err     error
}

func (t *Trouble) Error() string {
	return fmt.Sprintf("board: %s: %s", t.Verdict, t.Detail)
}

func (t *Trouble) Unwrap() error { return t.Err }
