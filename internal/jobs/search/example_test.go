package search_test

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"layover/budget"
	"layover/internal/jobs/board"
	"layover/internal/jobs/posting"
	"layover/internal/jobs/search"
)

// A board of a thousand jobs, fifty a page, takes 30 ms for each page: 200 ms are not enough for all of them. The answers
// say so, and together they are complete.
func Example() {
	slow := &board.Board{Name: "slow", Title: "Slow", Page: func(ctx context.Context, _ board.Fetch, _ board.Listing, token string) (board.Page, error) {
		if err := budget.Wait(ctx, 30*time.Millisecond); err != nil {
			return board.Page{}, err
		}
		n, _ := strconv.Atoi(token)
		p := board.Page{Received: 50, Total: 1000}
		for i := n * 50; i < (n+1)*50; i++ {
			p.Jobs = append(p.Jobs, posting.Job{ID: fmt.Sprintf("slow//%d", i), Title: "Engineer"})
		}
		if n < 19 {
			p.Next = strconv.Itoa(n + 1)
		}
		return p, nil
	}}
	engine := search.New([]*board.Board{slow}, func(*board.Board) board.Fetch { return nil }, search.Options{})
	jobs := make(map[string]bool)
	q := search.Query{Limit: 100}
	for {
		ctx, cancel := budget.For(context.Background(), 200*time.Millisecond)
		r, err := engine.List(ctx, q, nil)
		cancel()
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, item := range r.Items {
			jobs[item.ID] = true
		}
		if q.Cursor = r.Cursor; q.Cursor == "" {
			fmt.Println(len(jobs), "jobs, complete:", r.Complete)
			return
		}
	}
	// Output: 1000 jobs, complete: true
}
