// Package search answers one question about jobs from many public boards: what
// is there, or what one posting says, by the end of the caller's budget.
//
//	engine := search.New(boards, fetch, search.Options{Store: store})
//	ctx, cancel := budget.For(ctx, 20*time.Second)
//	defer cancel()
//	result, err := engine.List(ctx, search.Query{Sources: []string{"greenhouse:acme", "remotive"}, Text: "go -php"}, nil)
//
// # Contract
//
// A source is a company on a board, or a board that lists many companies. The
// sources of a listing are read side by side, each on the one budget of the
// context, which must have one (package budget); their work ends a tenth of it,
// at most 250 ms, before the budget does, and List answers within the budget,
// with what there is. A source that fails, is slow or breaks never costs another
// one its jobs, and a page that fails never those of the pages before it. Each
// source's Report says what became of it, and Result.Complete is true only if
// nothing is missing that the boards have.
//
// Every source is asked for one page. Further pages are read while fewer than
// the limit of jobs match. What was received and is not in the answer is not
// lost: Result.Cursor goes on from there. Whoever follows the cursors to the
// end gets every matching job exactly once, failed pages included once the board
// answers again, as long as the boards' own pages stay as they are. The order is
// newest first within an answer, not across them.
//
// A cursor is short and means nothing: what it stands for is in the Store, which
// keeps it for a day. It belongs to its query. Using it twice gives the same
// continuation.
//
// Jobs that several sources have are one item with several Sources: those with
// the same canonical URL, or with the same company, title and places. Two jobs
// of one source are never made one.
//
// # Concurrency
//
// An Engine may be used by any number of goroutines. A listing starts one
// goroutine per source, at most 64, and waits for all of them; only one that
// does not listen to its context is left behind when the answer is due, and Wait
// waits for that. An operation takes one claim (package turnstile) for all of
// its requests.
package search

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"layover/budget"
	"layover/internal/jobs/board"
	"layover/turnstile"
)

// Bounds of one operation.
const (
	maxSources  = 64
	maxLimit    = 100
	usualLimit  = 20
	cursorTTL   = 24 * time.Hour
	maxReserve  = 250 * time.Millisecond
	maxBarren   = 3      // pages without any job in a row, after which a source's next pages are not believed in
	maxHandedID = 16_000 // jobs that a cursor remembers to have given
)

// Options are what an Engine can do without.
type Options struct {
	// Store keeps what cursors stand for. Default: a Memory of 100 entries.
	Store Store
	// MaxPages is how many pages of one source one listing reads. Default 200.
	MaxPages int
	// Cost is the size of an item in the answer that is made of it, for
	// Query.Size. Default: nothing has a size.
	Cost func(Item) int
	// Now is the wall clock, asked once per listing, for ages such as "7d".
	// Default time.Now.
	Now func() time.Time
}

// Engine lists and gets jobs. Make one with New.
type Engine struct {
	boards []*board.Board
	fetch  func(*board.Board) board.Fetch
	o      Options
	key    []byte         // see cursorKey
	work   sync.WaitGroup // goroutines of sources
}

// New is an engine over these boards, in this order of preference when several
// have the same job. fetch gives the way to read a board; it is asked once for
// each source of each operation.
func New(boards []*board.Board, fetch func(*board.Board) board.Fetch, o Options) *Engine {
	seen := make(map[string]bool)
	for _, b := range boards {
		if b.Name == "" || b.Page == nil || seen[b.Name] {
			panic(fmt.Sprintf("search: the board %q has no Page or stands there twice", b.Name))
		}
		seen[b.Name] = true
	}
	if o.Store == nil {
		o.Store = NewMemory(100)
	}
	if o.MaxPages <= 0 {
		o.MaxPages = 200
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Engine{boards: boards, fetch: fetch, o: o, key: cursorKey(o.Store)}
}

// Wait returns when no goroutine of the engine is left. Call it when no
// operation is in progress and none will begin.
func (e *Engine) Wait() { e.work.Wait() }

// board is the board of that name, or nil.
func (e *Engine) board(name string) *board.Board {
	for _, b := range e.boards {
		if b.Name == name {
			return b
		}
	}
	return nil
}

var errNoBudget = errors.New("search: the context has no budget: begin one with budget.Start or budget.For")

// begin is the context on which the requests of one operation run, and the one
// at whose end the answer is due even if a board does not listen: both end
// before the budget of ctx does, so that there is time to answer.
func begin(ctx context.Context) (work, due context.Context, end func(), err error) {
	b := budget.From(ctx)
	if _, ok := b.End(); !ok {
		return nil, nil, nil, errNoBudget
	}
	left := b.Remaining()
	reserve := min(left/10, maxReserve)
	work, endWork := budget.For(turnstile.Begin(ctx, 0), left-reserve)
	due, endDue := budget.For(context.WithoutCancel(ctx), left-reserve/2)
	return work, due, func() { endWork(); endDue() }, nil
}
