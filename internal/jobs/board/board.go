// Package board reads public job boards: one file per board, and one table of
// what is known about each.
//
// A board is read page by page through a Fetch, which brings politeness, cache
// and limits with it, so that an adapter holds nothing but the board's own
// shape: how its addresses are built, how it pages, what its fields mean.
// Adapters have no state, start no goroutine and keep no time.
package board

import (
	"context"
	"net/http"
	"time"

	"layover/internal/jobs/posting"
)

// Board is one row of the table of boards.
type Board struct {
	Name  string // as users write it: "greenhouse"
	Title string // as people call it: "Greenhouse"

	// Parse reads how a user names a company on this board, and refuses what
	// cannot be one: its result is what addresses are built from. Nil for a
	// board that lists many companies and takes no name.
	Parse func(company string) (Company, error)
	Where string                 // where people find that name: "it is the part after ..."
	Home  func(c Company) string // the company's page for people; nil for boards without companies

	// Hosts are the only hosts that this board is read from; each "*." in front
	// stands for one label.
	Hosts []string

	Every   time.Duration // least time between the beginnings of two requests to one host
	AtOnce  int           // most requests to one host at a time
	Fresh   time.Duration // an answer younger than this is not asked for again
	Least   time.Duration // the board's terms: never ask again within this time; 0: no such term
	MaxBody int64         // most bytes of an answer, unpacked
	Terms   string        // what the board asks of those who read it, for people

	// Whole says that one page is the whole board; Text that a listing's rows
	// have their descriptions.
	Whole, Text bool

	// Ambiguous says that the board answers for a company that it does not know
	// as it does for one that lists nothing. In All, an empty first page of such
	// a board is a Trouble with the Verdict EmptyOrUnknown.
	Ambiguous bool

	// mayBeOff says that the board answers for a company that has switched off
	// its listing for programs, while its pages for people go on, as it does for
	// one that it does not know.
	mayBeOff bool

	// ownErrors says that the board's own 404s are JSON: one that is a page means
	// that something else answers at its address.
	ownErrors bool

	// Page reads the page that token names; the empty token is the first page.
	// Errors of Page and Get are a *Trouble, or those of the Fetch.
	Page func(ctx context.Context, fetch Fetch, in Listing, token string) (Page, error)

	// Get reads one job, description included.
	Get func(ctx context.Context, fetch Fetch, company Company, local string) (posting.Job, error)
}

// Company is a company on one board, as its Parse understood it.
type Company struct {
	Slug string // canonical: equal slugs are one company
	Host string // where it lives, for boards that give each company a host
	Path string // what else its addresses need
}

// Listing is what a listing asks a board for. Everything but Company is a
// hint: a board that can search narrows what it sends, and whoever asked still
// checks every job.
type Listing struct {
	Company  Company
	Query    string // words that must all be there; empty if what is asked says more
	Location string
	Since    time.Time // zero: any age
}

// Page is one answer of a board.
type Page struct {
	Jobs     []posting.Job
	Received int    // rows in the answer, broken and unlisted ones too
	Broken   int    // rows that could not be read
	Total    int    // what the board says it has in all; -1: it does not say
	Next     string // token of the next page; empty: this was the last
	Capped   bool   // the board has more than it will ever send
}

// Fetch sends one request and returns its answer. Answers that are not 2xx,
// and those that are no answer of the board at all, are a *Trouble.
type Fetch func(ctx context.Context, r Request) (Answer, error)

// Request describes a request to a board. It has no time of its own: the
// operation's budget is in the context.
type Request struct {
	Method string // empty: GET
	URL    string // https, and its host one of the board's
	Header http.Header
	Body   []byte

	// Query says that this POST changes nothing: it may be sent again, and its
	// answer may be kept.
	Query bool
}

// Answer is what a board answered, read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	At     time.Time // when the board said it: an answer from the cache is older
}
