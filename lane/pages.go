package lane

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"layover/budget"
)

// Place is where in a source a page begins. The zero Place is the beginning.
type Place struct {
	Token  string `json:"token,omitempty"`  // what the page before gave as its Next
	Offset int    `json:"offset,omitempty"` // rows of the pages before, as the source counts them: repeated ones count
	Page   int    `json:"page,omitempty"`   // pages before
}

// Page is what a Paging's Fetch returns. The zero Page is an empty last one.
type Page[T any] struct {
	Items  []T
	Rows   int    // how many rows the source gave; default: as many as there are Items
	More   bool   // there is a page behind this one
	Next   string // its token, for sources that have tokens
	Capped bool   // there would be more, and the source does not give it
}

// Paging says how a source's pages are fetched and when they end. Fetch is required.
type Paging[T any] struct {
	// Fetch returns the page at a place, as a rule by Lane.Do with ctx.
	Fetch func(ctx context.Context, at Place) (Page[T], error)
	// ID tells items apart. Those that were there before are left out, and a page that has rows and nothing new ends it: the
	// source has begun again, or shows its last page for ever. Default: all items are new.
	ID func(T) string
	// From is where to begin: the Next of an earlier Outcome, or the beginning, which is the default.
	From Place
	// MaxPages is how many pages are fetched at most. Default 1000.
	MaxPages int
	// MaxItems is how many items there are at most; as many IDs are remembered. Default 100,000.
	MaxItems int
	// MinUseful is the time that a page is not worth beginning with: more must be left. Default 0.
	MinUseful time.Duration
	// EmptyPages is how many pages without rows in a row are no end, for sources that filter after they have cut. Default 0:
	// the first one is the end.
	EmptyPages int
	// SameTokenEnds: the source says that there is no more by giving the token that it was given. Default: that is an error,
	// as is any other token that was there before.
	SameTokenEnds bool
	// Restarts is how often to go back to From when the token has expired on the way, see ErrCursorExpired. It takes an ID, or
	// items come again. Default 0: it ends there, with what there is.
	Restarts int
}

// Outcome says how Pages ended.
type Outcome struct {
	Stop     Stop
	Err      error     // what Fetch said, or ErrNoBudget, ErrRepeated or a *budget.Exhausted; nil if there is nothing to say
	RetryAt  time.Time // of an *Error: when asking again makes sense; zero: not known
	Next     Place     // the first page that is not, or not wholly, among those given; what From takes. Its use ends with Done.
	Pages    int       // fetched
	Rows     int       // of these, as the source counts them
	Items    int       // given
	Repeated int       // items left out because they were there before
	Restarts int
}

// Pages fetches one page after the other and yields the items of each that are new, until one of the reasons of Stop. What was
// yielded stays good, whatever comes after: *end says why there is no more, from the end of the loop on, also if the loop was left
// early. No page is begun that the budget of ctx cannot pay for, and memory and number of pages are bounded, so it always ends.
func Pages[T any](ctx context.Context, p Paging[T], end *Outcome) iter.Seq[[]T] {
	if p.MaxPages <= 0 {
		p.MaxPages = 1000
	}
	if p.MaxItems <= 0 {
		p.MaxItems = 100_000
	}
	return func(yield func([]T) bool) {
		w := &walk[T]{Paging: p, ids: make(map[string]bool)}
		w.begin()
		for w.end.Stop == "" {
			items := w.step(ctx)
			if len(items) > 0 && !yield(items) && w.end.Stop == "" {
				w.end.Stop = Enough
			}
		}
		*end = w.end
	}
}

// walk is Pages under way. It goes on while end.Stop is empty.
type walk[T any] struct {
	Paging[T]
	end    Outcome // Next is where the next page begins
	tokens map[string]bool
	ids    map[string]bool
	empty  int // pages without rows, in a row
	known  int // pages that were there before the restart
}

func (w *walk[T]) begin() {
	w.end.Next, w.empty = w.From, 0
	w.tokens = map[string]bool{"": true, w.From.Token: true}
}

// step fetches a page and decides whether there is another one.
func (w *walk[T]) step(ctx context.Context) []T {
	if err := w.affordable(ctx); err != nil {
		w.stop(StopOf(err), err)
		return nil
	}
	at := w.end.Next
	page, err := w.Fetch(ctx, at)
	w.end.Pages++
	if err != nil {
		w.failed(ctx, err)
		return nil
	}
	if page.Rows == 0 {
		page.Rows = len(page.Items)
	}
	w.end.Rows += page.Rows
	items, fit := w.fresh(page.Items)
	w.end.Items += len(items)
	if !fit {
		w.stop(Enough, nil) // the rest of this page is still to come, so Next stays
		return items
	}
	w.end.Next = Place{Token: page.Next, Offset: at.Offset + page.Rows, Page: at.Page + 1}
	w.goOn(at, page, len(items))
	return items
}

func (w *walk[T]) affordable(ctx context.Context) error {
	b := budget.From(ctx)
	if _, ok := b.End(); !ok {
		return ErrNoBudget
	}
	if err := budget.Wait(ctx, 0); err != nil {
		return err
	}
	return b.Afford(min(max(w.MinUseful, 0), century) + 1)
}

// failed ends it, or begins again if only the cursor is gone.
func (w *walk[T]) failed(ctx context.Context, err error) {
	if errors.Is(err, ErrCursorExpired) && w.end.Restarts < w.Restarts && w.end.Pages < w.MaxPages {
		w.end.Restarts++
		w.known = max(w.known, w.end.Next.Page)
		w.begin()
		return
	}
	var e *Error
	if errors.As(err, &e) {
		w.end.RetryAt = e.RetryAt
	}
	stop := StopOf(err)
	if ctx.Err() == context.Canceled {
		stop = Cancelled
	}
	w.stop(stop, err)
}

// fresh returns those of items that were not there before, and whether all of them fit.
func (w *walk[T]) fresh(items []T) (added []T, fit bool) {
	added = make([]T, 0, len(items))
	for _, item := range items {
		id := ""
		if w.ID != nil {
			if id = w.ID(item); w.ids[id] {
				w.end.Repeated++
				continue
			}
		}
		if w.end.Items+len(added) == w.MaxItems {
			return added, false
		}
		if w.ID != nil {
			w.ids[id] = true
		}
		added = append(added, item)
	}
	return added, true
}

// goOn decides whether another page follows the one at that place, of which so many items were new.
func (w *walk[T]) goOn(at Place, page Page[T], added int) {
	if page.Rows > 0 {
		w.empty = 0
	} else {
		w.empty++
	}
	switch next := page.Next; {
	case page.Capped:
		w.stop(SourceCap, nil)
	case !page.More, w.empty > w.EmptyPages, w.SameTokenEnds && next != "" && next == at.Token:
		w.stop(Done, nil)
	case page.Rows > 0 && added == 0 && w.ID != nil && at.Page >= w.known:
		w.stop(SourceCap, nil)
	case (next != "" || at.Token != "") && w.tokens[next]:
		w.stop(Failed, fmt.Errorf("%w: page %d leads to one that was there before", ErrRepeated, at.Page+1))
	case w.end.Items >= w.MaxItems, w.end.Pages >= w.MaxPages:
		w.stop(Enough, nil)
	default:
		w.tokens[next] = true
	}
}

func (w *walk[T]) stop(why Stop, err error) { w.end.Stop, w.end.Err = why, err }
