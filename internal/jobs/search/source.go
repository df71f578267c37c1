package search

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"layover/budget"
	"layover/internal/jobs/board"
)

// listing is one operation of List.
type listing struct {
	engine   *Engine
	plan     *plan
	enough   func()        // ends the reading of further pages
	changed  chan struct{} // what happened since progress was last told
	finished chan struct{}

	mu      sync.Mutex
	closed  bool // the answer is being made: what comes now comes too late
	sources []*source
	pile    *pile
	waiting int // sources that have given neither a page nor a verdict
	running int // sources being read
	cost    int // of all items, if they have a size
}

// source is one target of a listing. Its fields are guarded by the listing's mu.
type source struct {
	target
	index    int
	position // as it was; as it will be, once settled

	asked    bool    // it is being read in this answer
	ended    bool    // that is over
	reason   Verdict // why it is over early: "" if it is not
	detail   string
	next     string // the page to read
	at       int    // its index
	last     bool   // there is no such page
	pages    []page // that were read
	received int    // not counted in an earlier answer
	barren   int    // pages without a job, just now
	tokens   map[string]bool
	ids      map[digest]bool // received so far, in this answer and on the first page
	oddity   string          // why its next pages are not believed in
}

// page is one page that was read, with what it brought that was not yet given.
type page struct {
	token string
	items []*item
}

// Reasons.
const (
	deadline     = board.Deadline
	rateLimited  = board.RateLimited
	tooManyPages = Verdict("pages")
)

const (
	maxFirst = 128 // ids of a first page that are remembered
	maxTries = 5   // answers in a row for which a source failed at one place, after which it is given up
)

func newListing(e *Engine, p *plan, mark bookmark) *listing {
	o := &listing{engine: e, plan: p, changed: make(chan struct{}, 1), finished: make(chan struct{})}
	o.pile = newPile(len(p.targets) == 1, decodeGiven(mark.Given))
	for i, t := range p.targets {
		s := &source{target: t, index: i, tokens: make(map[string]bool), ids: make(map[digest]bool)}
		s.Report = Report{Source: t.name, Board: t.board.Name, Company: t.company.Slug, Total: -1}
		if mark.At != nil {
			s.position = mark.At[i]
		}
		s.next, s.at = s.Token, s.Index
		if s.at > 0 {
			for _, id := range s.First {
				s.ids[id] = true
			}
		}
		s.Report.Elapsed = 0
		if !s.Done {
			s.asked = true
			s.Status, s.Reason, s.Detail, s.Page, s.RetryAt = "", "", "", "", time.Time{}
			o.waiting++
			o.running++
		}
		o.sources = append(o.sources, s)
	}
	return o
}

// read reads s page by page, the first on work and the others on more.
func (o *listing) read(work, more context.Context, s *source) {
	begun := time.Now()
	defer o.end(s, begun)
	fetch := o.engine.fetch(s.board)
	for ctx := work; ; ctx = more {
		p, rows, err := o.page(ctx, fetch, s)
		if !o.take(ctx, s, p, rows, err) {
			return
		}
	}
}

// row is a job of a page that passed the filters, or did not.
type row struct {
	id    digest
	found *found // nil: not asked for
	lacks bool
}

// page reads one page and filters it.
func (o *listing) page(ctx context.Context, fetch board.Fetch, s *source) (p board.Page, rows []row, err error) {
	defer guard(&err)
	if err := late(ctx); err != nil {
		return p, nil, err
	}
	ctx, end := budget.Phase(ctx, s.board.Name)
	defer end()
	p, err = s.board.Page(ctx, fetch, board.Listing{
		Company: s.company, Query: o.plan.text.plain, Location: o.plan.place.at.key, Since: o.plan.since,
	}, s.next)
	if err != nil {
		return p, nil, err
	}
	rows = make([]row, 0, len(p.Jobs))
	for i := range p.Jobs {
		if ctx.Err() != nil { // a page half filtered is a page not read
			return p, nil, context.Cause(ctx)
		}
		job := &p.Jobs[i]
		if job.ID == "" { // nobody could ask for it
			p.Broken++
			continue
		}
		r := row{id: digestOf(job.ID)}
		ok, unverified, lacks := o.plan.match(s.board, job)
		if ok {
			r.found = find(*job, s.index, s.board.Parse != nil, unverified)
			r.found.job.HTML = "" // megabytes of what no item says
			if cost := o.engine.o.Cost; cost != nil && o.plan.size > 0 {
				r.found.cost = cost((&item{found: []*found{r.found}}).answer())
			}
		}
		r.lacks = lacks
		rows = append(rows, r)
	}
	return p, rows, nil
}

// take books the page, and says whether the next one should be read.
func (o *listing) take(ctx context.Context, s *source, p board.Page, rows []row, err error) bool {
	more, enough := o.enter(ctx, s, p, rows, err)
	if enough {
		o.enough()
	}
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return more
}

func (o *listing) enter(ctx context.Context, s *source, p board.Page, rows []row, err error) (more, enough bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false, false
	}
	if len(s.pages) == 0 {
		o.waiting--
	}
	if err != nil {
		s.fail(ctx, err)
	} else {
		o.book(s, p, rows)
	}
	return err == nil && !s.last && s.reason == "" && !o.full(), o.waiting == 0 && o.full()
}

// full reports whether there is enough for an answer.
func (o *listing) full() bool {
	return len(o.pile.items) >= o.plan.limit || o.plan.size > 0 && o.cost >= o.plan.size
}

// book adds a page to s.
func (o *listing) book(s *source, p board.Page, rows []row) {
	read := page{token: s.next}
	counted := s.at < s.Counted // an earlier answer read it too
	fresh := 0
	for _, r := range rows {
		if s.ids[r.id] {
			continue // a page before had it
		}
		fresh++
		s.ids[r.id] = true
		if s.at == 0 && fresh <= maxFirst {
			if fresh == 1 {
				s.First = nil
			}
			s.First = append(s.First, r.id)
		}
		if r.lacks && !counted {
			s.Unstated++
		}
		if r.found == nil {
			continue
		}
		if !counted {
			s.Matched++
		}
		it, isNew := o.pile.add(r.found)
		if it != nil {
			read.items = append(read.items, it)
		}
		if isNew {
			o.cost += r.found.cost
		}
	}
	if !counted {
		s.Pages++
		s.Broken += p.Broken
		s.Received += p.Received
		s.received += p.Received
	}
	if p.Total > 0 || s.Total < 0 { // some boards say it on their first page only
		s.Total = p.Total
	}
	s.Capped = s.Capped || p.Capped
	s.pages = append(s.pages, read)
	o.turn(s, p, len(rows), fresh)
}

// turn decides whether the page that p names as its next one is worth reading.
func (o *listing) turn(s *source, p board.Page, rows, fresh int) {
	if s.at == 0 && p.Next == "" && p.Received == 0 {
		s.Status = board.Empty
	}
	if rows > 0 {
		s.barren = 0
	} else {
		s.barren++
	}
	s.tokens[s.next] = true
	s.next = p.Next
	s.at++
	s.Counted = max(s.Counted, s.at)
	switch {
	case s.next == "":
		s.last = true
	case rows > 0 && fresh == 0:
		s.distrust("a page brought nothing but jobs of earlier pages")
	case s.tokens[s.next]:
		s.distrust("its next page is one that was read already")
	case s.barren >= maxBarren:
		s.distrust("it names further pages, but several in a row were empty")
	case len(s.pages) >= o.engine.o.MaxPages:
		s.reason = tooManyPages
		s.detail = fmt.Sprintf("%d pages were read for this answer, and there are more", len(s.pages))
	}
}

// distrust ends a source whose next pages would go round in circles.
func (s *source) distrust(why string) {
	s.last, s.Capped, s.oddity = true, true, why
}

// fail books an error instead of a page.
func (s *source) fail(ctx context.Context, err error) {
	if context.Cause(ctx) == errEnough && blurred(err) {
		return // this page was not needed any more
	}
	t := troubleOf(ctx, err)
	s.reason, s.detail, s.Page, s.RetryAt = t.Verdict, t.Detail, t.Page, t.RetryAt
	s.last = s.at == 0 && final(t.Verdict)
}

// end is called when s is not read any more.
func (o *listing) end(s *source, begun time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	s.ended = true
	s.Elapsed = time.Since(begun)
	if o.running--; o.running == 0 {
		close(o.finished)
	}
}

// close makes the listing deaf to sources that are still being read.
func (o *listing) close(begun time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for _, s := range o.sources {
		if s.asked && !s.ended {
			s.Elapsed = time.Since(begun)
			s.reason, s.detail = deadline, "its answer was still being read when the time was up"
		}
	}
}

func (o *listing) progress(asked int) Progress {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := Progress{Sources: asked, Answered: asked - o.waiting, Matched: len(o.pile.items)}
	for _, s := range o.sources {
		p.Pages += len(s.pages)
		p.Received += s.received
	}
	return p
}

// settle finds where s stands once the answer is made, and what to say of it.
func (s *source) settle(hasText bool) {
	if !s.asked {
		return
	}
	if len(s.pages) > 0 || s.reason == rateLimited || s.reason == board.Cancelled {
		s.Tries = 0
	} else if s.Tries++; s.Tries >= maxTries {
		s.last = true
		s.detail += "; given up after failing like this for several answers"
	}
	index := s.at - len(s.pages)
	s.Token, s.Index, s.Done = s.next, s.at, s.last
	for _, p := range s.pages {
		if slices.ContainsFunc(p.items, func(it *item) bool { return !it.given }) {
			s.Token, s.Index, s.Done = p.token, index, false
			break
		}
		index++
	}
	if s.last {
		s.First = nil
	}
	s.More = !s.last
	switch {
	case s.reason == "" && s.Status == "":
		s.Status = board.OK
	case s.reason != "" && s.Counted > 0:
		s.Status, s.Reason = Some, s.reason
	case s.reason != "":
		s.Status = s.reason
	}
	var notes []string
	for _, note := range []string{s.detail, s.oddity} {
		if note != "" {
			notes = append(notes, note)
		}
	}
	if hasText && !s.board.Text {
		notes = append(notes, "its list has no descriptions: the words were looked for in titles, teams and places only")
	}
	s.Detail = strings.Join(notes, "; ")
}

// lacking reports whether something of the source is missing for good, or for
// now. Rows that could not be read are not missed if there are as many others as
// the board says it has jobs: some boards send rows that are none.
func (r Report) lacking() bool {
	whole := r.Broken == 0 || r.Total >= 0 && r.Received-r.Broken >= r.Total
	return r.Status != board.OK && r.Status != board.Empty || r.Capped || !whole
}
