// Command boards asks two job boards for all they have, as three operations with different budgets.
//
// One board is limited: in the middle it says "too many, come back in 300 ms". The operations share a lane per board, so they share
// that pause too: the one that can pay for it waits, the others stop at once, with the pages they have, the reason, and the time at
// which to come back. The line under each result is its budget's ledger: where its time went.
//
//	go run ./boards
//
// The boards are in this program, on loopback addresses.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"layover/budget"
	"layover/lane"
	"layover/turnstile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "boards:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	calm, limited := newBoard(0), newBoard(6)
	defer calm.Close()
	defer limited.Close()
	boards := []*board{{name: "calm", address: calm.URL}, {name: "limited", address: limited.URL}}
	for _, b := range boards {
		u, err := url.Parse(b.address)
		if err != nil {
			return err
		}
		if b.lane, err = lane.New(u.Host, lane.Options{Concurrency: 2, Rate: 40}); err != nil {
			return err
		}
	}

	var operations sync.WaitGroup
	var mu sync.Mutex // guards out
	for _, length := range []time.Duration{5 * time.Second, 450 * time.Millisecond, 250 * time.Millisecond} {
		operations.Go(func() {
			ctx, cancel := budget.For(turnstile.Begin(ctx, 0), length)
			defer cancel()
			ctx = lane.Allow(ctx, 40, 5) // no more than that, through both lanes
			results := make([]lane.Outcome, len(boards))
			var asking sync.WaitGroup
			for i, b := range boards {
				asking.Go(func() { results[i] = b.ask(ctx) })
			}
			asking.Wait()
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(out, "\n%v to spend:\n", length)
			for i, b := range boards {
				report(out, b.name, results[i])
			}
			fmt.Fprintf(out, "  %v\n", budget.From(ctx).Ledger())
		})
	}
	operations.Wait()
	fmt.Fprintln(out)
	for _, b := range boards {
		s := b.lane.Stats()
		fmt.Fprintf(out, "%s: %d requests, %d of them repeats, %d answers \"too many\"\n", b.name, s.Attempts, s.Retries, s.Limited)
	}
	return ctx.Err()
}

// board is a host, with the one lane that everything asked of it goes through.
type board struct {
	name, address string
	lane          *lane.Lane
}

// ask walks through a board's pages. What was found until it ends stays found.
func (b *board) ask(ctx context.Context) (end lane.Outcome) {
	for range lane.Pages(ctx, lane.Paging[string]{
		ID: func(job string) string { return job },
		Fetch: func(ctx context.Context, at lane.Place) (page lane.Page[string], err error) {
			answer, err := b.lane.Do(ctx, lane.Request{URL: b.address + "/jobs?offset=" + strconv.Itoa(at.Offset)})
			if err != nil {
				return page, err
			}
			var found struct {
				Jobs  []string
				Total int
			}
			if err := json.Unmarshal(answer.Body, &found); err != nil {
				return page, err
			}
			return lane.Page[string]{Items: found.Jobs, More: at.Offset+len(found.Jobs) < found.Total}, nil
		},
	}, &end) {
	}
	return end
}

func report(out io.Writer, name string, end lane.Outcome) {
	fmt.Fprintf(out, "  %-8s %2d jobs on %d pages, then %s", name, end.Items, end.Pages, end.Stop)
	if !end.RetryAt.IsZero() {
		fmt.Fprintf(out, ", come back at %s", end.RetryAt.Format("15:04:05.000"))
	}
	var spent *budget.Exhausted
	if errors.As(end.Err, &spent) {
		if asked, left, refused := spent.Refused(); refused {
			fmt.Fprintf(out, " (%v would not have fitted into %v)", asked.Round(time.Millisecond), left.Round(time.Millisecond))
		}
	}
	fmt.Fprintln(out)
}

// newBoard is a board of 20 jobs, 4 a page, that answers its n-th request with "too many"; 0: none.
func newBoard(n int32) *httptest.Server {
	var requests atomic.Int32
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(10 * time.Millisecond)
		if requests.Add(1) == n {
			w.Header().Set("Retry-After", "0.3")
			http.Error(w, "too many", http.StatusTooManyRequests)
			return
		}
		offset, err := strconv.Atoi(r.URL.Query().Get("offset"))
		if err != nil || offset < 0 {
			http.Error(w, "offset: give a number from 0", http.StatusBadRequest)
			return
		}
		var jobs []string
		for i := offset; i < min(offset+4, 20); i++ {
			jobs = append(jobs, "job "+strconv.Itoa(i))
		}
		json.NewEncoder(w).Encode(map[string]any{"jobs": jobs, "total": 20})
	}))
}
