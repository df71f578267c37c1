package board_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"layover/budget"
	"layover/internal/jobs/board"
	"layover/internal/jobs/courtesy"
	"layover/internal/jobs/fakeboards"
	"layover/internal/jobs/posting"
	"layover/turnstile"
)

// polite returns a Courtesy that asks s over connections in memory, until the
// test ends.
func polite(t *testing.T, s *fakeboards.Server) *courtesy.Courtesy {
	t.Helper()
	pipe := fakeboards.NewPipe(s)
	c, err := courtesy.New(courtesy.Options{Dial: pipe.Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		pipe.Close()
	})
	return c
}

// operation is the context of one operation.
func operation(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := budget.For(turnstile.Begin(context.Background(), 0), d)
	t.Cleanup(cancel)
	return ctx
}

// The pace in the table is slower than what any board is known to refuse:
// everything is listed and many single jobs are asked for, and nobody complains.
func TestNoBoardIsAskedMoreThanItAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeboards.Generate(fakeboards.Plan{Companies: 2, Jobs: 25})
		s := fakeboards.New(w)
		s.SetLimits(true)
		c := polite(t, s)
		ctx := operation(t, 24*time.Hour)
		var all sync.WaitGroup
		for _, b := range board.All {
			for _, listing := range sources(t, b, w) {
				all.Go(func() {
					for token := ""; ; {
						p, err := b.Page(ctx, c.Fetch(b), listing.in, token)
						if err != nil {
							t.Errorf("%s %s: page %q: %v", b.Name, listing.in.Company.Slug, token, err)
							return
						}
						for _, job := range p.Jobs[:min(6, len(p.Jobs))] {
							all.Go(func() {
								_, _, local, _ := posting.SplitID(job.ID)
								if _, err := b.Get(ctx, c.Fetch(b), listing.in.Company, local); err != nil {
									t.Errorf("%s: %v", job.ID, err)
								}
							})
						}
						if token = p.Next; token == "" {
							return
						}
					}
				})
			}
		}
		all.Wait()
		for _, seen := range s.Requests() {
			if seen.Status == 429 {
				t.Errorf("%s was asked for %s too early, at %v", seen.Host, seen.Path, seen.At)
			}
		}
		if n := s.Count("", ""); n < 60 {
			t.Errorf("only %d requests", n)
		}
	})
}

// Details go through the gate of their host, together with its pages.
func TestJ18_WorkdayDetailsShareTheGateOfTheirHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakeboards.New(fakeboards.Generate(world("workday", 1, 30)))
		s.Play(fakeboards.Script{{Delay: fakeboards.Duration(3 * time.Second)}})
		c, b := polite(t, s), board.Find("workday")
		company, err := b.Parse(acmeWorkday)
		if err != nil {
			t.Fatal(err)
		}
		ctx := operation(t, time.Hour)
		world, _ := s.Company("workday", acmeWorkday)
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := b.Page(ctx, c.Fetch(b), board.Listing{Company: company}, ""); err != nil {
				t.Error(err)
			}
		})
		for _, job := range world.Jobs[:7] {
			all.Go(func() {
				if _, err := b.Get(ctx, c.Fetch(b), company, job.Local); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		seen := s.Requests()
		if len(seen) != 8 {
			t.Fatalf("%d requests, want 8", len(seen))
		}
		for i := range seen {
			if i > 0 && seen[i].At.Sub(seen[i-1].At) < b.Every {
				t.Errorf("request %d came %v after the one before", i+1, seen[i].At.Sub(seen[i-1].At))
			}
			// Each takes three seconds: the one before the last must be over.
			if i >= b.AtOnce && seen[i].At.Sub(seen[i-b.AtOnce].At) < 3*time.Second {
				t.Errorf("request %d came while %d were under way", i+1, b.AtOnce)
			}
		}
	})
}

// One company of many finds the block, and none asks before it is over.
func TestJ15_AWorkableBlockHoldsForEveryCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeboards.Generate(world("workable", 4, 3))
		s := fakeboards.New(w)
		s.Play(fakeboards.Script{{From: 2, Times: 1, Status: 429, Headers: map[string]string{"Retry-After": "7200"}, Text: "<title>Error 1015</title>"}})
		c, b := polite(t, s), board.Find("workable")
		blocked := 0
		list := func() {
			for _, from := range sources(t, b, w) {
				_, err := b.Page(operation(t, time.Minute), c.Fetch(b), from.in, "")
				if verdict(err) == board.RateLimited {
					if at := trouble(t, err, board.RateLimited).RetryAt; time.Until(at) < time.Hour {
						t.Errorf("%s: retry at %v, in %v", from.in.Company.Slug, at, time.Until(at))
					}
					blocked++
				} else if err != nil {
					t.Error(err)
				}
			}
		}
		list()
		if n := s.Count("", ""); n != 2 || blocked != 3 {
			t.Errorf("%d requests, %d companies blocked, want 2 and 3", n, blocked)
		}
		time.Sleep(2 * time.Hour)
		blocked = 0
		if list(); blocked != 0 {
			t.Errorf("%d companies blocked two hours later", blocked)
		}
	})
}
