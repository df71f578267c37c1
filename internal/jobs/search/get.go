package search

import (
	"context"
	"fmt"
	"time"

	"layover/budget"
	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
)

// Posting is what is known of one job.
type Posting struct {
	ID     string
	Status Verdict // OK: Job is there
	Detail string  // of other verdicts, for people
	Page   string  // a page for people that may help
	Job    *posting.Job

	Text    string // the job's description as Markdown; it has one only if HasText
	HasText bool   // false: the board sent none, which does not mean that there is none
	Cut     bool   // Text is not all of it

	RetryAt time.Time     // when asking again makes sense; zero: not known
	Ledger  budget.Ledger // where the time went
}

const idWant = `the id of a job, "board/company/job", or "board//job" for boards without companies`

// Get reads the job with that id, description included, by the end of ctx's
// budget. limit is the most bytes of the description; 0: all of it. The error is
// an *Invalid for what is no id, or says that ctx has no budget; trouble with the
// board is the Posting's Status. A Status other than OK and Gone does not say
// that the job is over.
func (e *Engine) Get(ctx context.Context, id string, limit int) (Posting, error) {
	b, company, local, err := e.parseID(id)
	if err != nil {
		return Posting{}, err
	}
	if limit < 0 {
		return Posting{}, &Invalid{"limit", fmt.Sprint(limit), "a number of bytes, or 0 for the whole description"}
	}
	work, due, end, err := begin(ctx)
	if err != nil {
		return Posting{}, err
	}
	defer end()
	answer := make(chan Posting, 1)
	e.work.Go(func() { answer <- e.get(work, b, company, local, id, limit) })
	var p Posting
	select {
	case p = <-answer:
	case <-due.Done():
		p = Posting{ID: id, Status: board.Deadline, Detail: "its answer was still being read when the time was up"}
	}
	p.Ledger = budget.From(ctx).Ledger()
	return p, nil
}

func (e *Engine) parseID(id string) (b *board.Board, company board.Company, local string, err error) {
	name, slug, local, ok := posting.SplitID(id)
	if !ok || len(id) > 2000 {
		return nil, company, "", &Invalid{"id", id, idWant}
	}
	if b = e.board(name); b == nil {
		return nil, company, "", &Invalid{"id", id, "there is no such board; " + idWant + "; boards are " + e.names()}
	}
	switch {
	case b.Parse != nil:
		if company, err = b.Parse(slug); err != nil {
			return nil, company, "", &Invalid{"id", id, fmt.Sprintf("%s: %v", b.Name, err)}
		}
	case slug != "":
		return nil, company, "", &Invalid{"id", id, b.Name + " has no companies; " + idWant}
	}
	return b, company, local, nil
}

func (e *Engine) get(ctx context.Context, b *board.Board, company board.Company, local, id string, limit int) Posting {
	job, err := e.one(ctx, b, company, local, id)
	if err != nil {
		t := troubleOf(ctx, err)
		return Posting{ID: id, Status: t.Verdict, Detail: t.Detail, Page: t.Page, RetryAt: t.RetryAt}
	}
	if job.Sources == nil {
		job.Sources = []posting.Source{{ID: job.ID, Board: b.Name, URL: job.URL}}
	}
	p := Posting{ID: id, Status: board.OK, Job: &job}
	if posting.Plain(job.HTML) != "" {
		p.Text, p.Cut = posting.Markdown(job.HTML, limit)
		p.HasText = p.Text != ""
	}
	return p
}

// one reads one job: by itself where the board can, else by looking through its
// list.
func (e *Engine) one(ctx context.Context, b *board.Board, company board.Company, local, id string) (job posting.Job, err error) {
	defer guard(&err)
	if err := late(ctx); err != nil {
		return job, err
	}
	ctx, end := budget.Phase(ctx, b.Name)
	defer end()
	fetch := e.fetch(b)
	if b.Get != nil {
		return b.Get(ctx, fetch, company, local)
	}
	token, seen := "", make(map[string]bool)
	for range e.o.MaxPages {
		if err := late(ctx); err != nil {
			return job, err
		}
		page, err := b.Page(ctx, fetch, board.Listing{Company: company}, token)
		if err != nil {
			return job, err
		}
		for _, job := range page.Jobs {
			if job.ID == id {
				return job, nil
			}
		}
		seen[token] = true
		if token = page.Next; token == "" || seen[token] {
			break
		}
	}
	return job, &board.Trouble{Verdict: board.NotVisible, Detail: "it is not in the board's list, which does not prove that it is over"}
}
