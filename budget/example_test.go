package budget_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"layover/budget"
)

// One budget for a request and all its retries: an attempt is told what is left, and a retry that the server wants later
// than that is not waited for.
func Example_retries() {
	hints := []string{"0.01", "0.01", "3600"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok, err := budget.ReadHeaders(r.Header); !ok || err != nil {
			panic("an attempt without a time-out")
		}
		w.Header().Set("Retry-After", hints[0])
		hints = hints[1:]
		http.Error(w, "busy", http.StatusServiceUnavailable)
	}))
	defer server.Close()

	attempt := func(ctx context.Context) (retryAfter time.Duration, err error) {
		defer budget.From(ctx).Phase("attempt")()
		request, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
		if err != nil {
			return 0, err
		}
		if err := budget.WriteHeaders(ctx, request.Header); err != nil {
			return 0, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return 0, err
		}
		if response.StatusCode == http.StatusOK {
			return 0, nil
		}
		retryAfter, _ = time.ParseDuration(response.Header.Get("Retry-After") + "s")
		return retryAfter, errors.New(response.Status)
	}

	ctx, cancel := budget.For(context.Background(), time.Minute)
	defer cancel()
	for {
		hint, err := attempt(ctx)
		if err == nil {
			break
		}
		budget.From(ctx).Note(err)
		fmt.Println(err)
		if err := budget.Wait(ctx, hint); err != nil {
			var e *budget.Exhausted
			if errors.As(err, &e) {
				asked, _, refused := e.Refused()
				fmt.Println("gave up at once:", refused, asked)
				fmt.Println("time is up:", errors.Is(err, context.DeadlineExceeded))
				fmt.Println("because of:", e.Last())
			}
			break
		}
	}
	fmt.Println("attempts:", budget.From(ctx).Ledger().Phases[0].Count)
	// Output:
	// 503 Service Unavailable
	// 503 Service Unavailable
	// 503 Service Unavailable
	// gave up at once: true 1h0m0s
	// time is up: true
	// because of: 503 Service Unavailable
	// attempts: 3
}

// A pager stops, with what it has, before a page that it cannot afford.
func Example_pages() {
	ctx, cancel := budget.For(context.Background(), time.Minute)
	defer cancel()
	b := budget.From(ctx)

	pages := []struct {
		jobs  int
		takes time.Duration // at worst
	}{{100, time.Second}, {80, 10 * time.Second}, {1000, 2 * time.Minute}}
	jobs, why := 0, error(nil)
	for _, page := range pages {
		if why = b.Afford(page.takes); why != nil {
			break
		}
		end := b.Phase("page")
		jobs += page.jobs
		end()
	}
	var e *budget.Exhausted
	if errors.As(why, &e) {
		asked, _, _ := e.Refused()
		fmt.Printf("%d jobs; the next page may take %v\n", jobs, asked)
	}
	// Output: 180 jobs; the next page may take 2m0s
}

// An inner budget limits one part of an operation; it cannot outlast the operation.
func ExampleFor() {
	ctx, cancel := budget.For(context.Background(), time.Minute)
	defer cancel()
	inner, cancelInner := budget.For(ctx, time.Hour)
	defer cancelInner()
	fmt.Println(budget.From(inner).Remaining() <= time.Minute)
	// Output: true
}
