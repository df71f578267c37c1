package search

import (
	"context"
	"slices"
	"time"

	"layover/budget"
)

// List answers q by the end of ctx's budget. The error is an *Invalid, for what
// cannot be asked for, or says that ctx has no budget; trouble with boards is in
// the Result. If the caller cancels, the Result is what there was.
//
// progress may be nil. It is called from List's own goroutine, after something
// has changed; it must return at once.
func (e *Engine) List(ctx context.Context, q Query, progress func(Progress)) (Result, error) {
	p, mark, err := e.resume(q)
	if err != nil {
		return Result{}, err
	}
	work, due, end, err := begin(ctx)
	if err != nil {
		return Result{}, err
	}
	defer end()
	o := newListing(e, p, mark)
	o.run(work, due, progress)
	return o.result(ctx), nil
}

// resume understands q and what its cursor stands for.
func (e *Engine) resume(q Query) (*plan, bookmark, error) {
	if q.Cursor == "" {
		p, err := e.plan(q, time.Time{})
		return p, bookmark{}, err
	}
	mark, err := e.open(q.Cursor)
	if err != nil {
		return nil, bookmark{}, err
	}
	full := mark.Query
	full.Limit, full.Size = q.Limit, q.Size
	if asked := canonical(q); !equal(asked, Query{}) && !equal(asked, mark.Query) {
		return nil, bookmark{}, &Invalid{"cursor", q.Cursor,
			"belongs to another query: repeat the query it came from, or only the cursor, or begin again without it"}
	}
	p, err := e.plan(full, mark.Since)
	if err != nil {
		return nil, bookmark{}, err
	}
	var names []string
	for _, t := range p.targets {
		names = append(names, t.name)
	}
	if !slices.Equal(names, mark.Sources) || len(mark.At) != len(names) {
		return nil, bookmark{}, &Invalid{"cursor", q.Cursor, "made for other boards than this server has now: begin again without it"}
	}
	return p, mark, nil
}

// run reads the sources until there is enough, nothing is left, or work ends.
func (o *listing) run(work, due context.Context, progress func(Progress)) {
	more, enough := context.WithCancelCause(work)
	defer enough(nil)
	o.enough = func() { enough(errEnough) }
	asked := o.running
	if asked == 0 {
		return
	}
	begun := time.Now()
	for _, s := range o.sources {
		if s.asked {
			o.engine.work.Go(func() { o.read(work, more, s) })
		}
	}
	defer o.close(begun)
	for ended := false; !ended; {
		select {
		case <-o.changed:
		case <-o.finished:
			ended = true
		case <-due.Done():
			ended = true
		}
		if progress != nil {
			progress(o.progress(asked))
		}
	}
}

// result makes the answer of what was gathered. Nothing changes the listing any
// more.
func (o *listing) result(ctx context.Context) Result {
	o.pile.sort()
	r := Result{Items: []Item{}, Duplicates: o.pile.dups}
	bySize := o.cut(&r)
	r.Left = len(o.pile.items) - len(r.Items)
	at := make([]position, 0, len(o.sources))
	left := false
	for _, s := range o.sources {
		s.settle(!o.plan.text.empty())
		r.Received += s.received
		if s.asked && !s.RetryAt.IsZero() && (r.RetryAt.IsZero() || s.RetryAt.Before(r.RetryAt)) {
			r.RetryAt = s.RetryAt
		}
		r.Reports = append(r.Reports, s.Report)
		at = append(at, s.position)
		left = left || !s.Done
	}
	r.Stop = o.stop(ctx, bySize, r.Left > 0)
	r.Complete = !left && !slices.ContainsFunc(r.Reports, Report.lacking)
	if left {
		var names []string
		for _, s := range o.sources {
			names = append(names, s.name)
		}
		r.Cursor = o.engine.save(bookmark{o.plan.query, o.plan.since, names, at, encodeGiven(o.pile.log)})
	}
	r.Ledger = budget.From(ctx).Ledger()
	return r
}

// cut takes the first items into the answer, as many as fit.
func (o *listing) cut(r *Result) (bySize bool) {
	size := 0
	for _, it := range o.pile.items {
		if len(r.Items) == o.plan.limit {
			return false
		}
		answer := it.answer()
		if cost := o.engine.o.Cost; cost != nil && o.plan.size > 0 {
			size += cost(answer)
			if size > o.plan.size && len(r.Items) > 0 {
				return true
			}
		}
		it.given = true
		r.Items = append(r.Items, answer)
		for _, f := range it.found {
			o.pile.give(given{byte(f.source), f.id, f.keys})
		}
	}
	return false
}

// stop says why the listing ended.
func (o *listing) stop(ctx context.Context, bySize, left bool) Stop {
	ended := make(map[Verdict]bool)
	more := false
	for _, s := range o.sources {
		if s.asked {
			ended[s.reason] = true
			more = more || s.More && s.reason == ""
		}
	}
	switch {
	case ctx.Err() == context.Canceled:
		return Cancelled
	case ended[deadline]:
		return Deadline
	case bySize:
		return Size
	case left || more:
		return Limit
	case ended[rateLimited]:
		return RateLimited
	case ended[tooManyPages]:
		return Pages
	case slices.ContainsFunc(o.sources, func(s *source) bool { return !s.Done }):
		return Partial
	}
	return Done
}
