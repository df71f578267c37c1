package lane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"time"

	"layover/budget"
	"layover/lane"
	"layover/turnstile"
)

// board is a source of five jobs, two a page, which is too busy at the second page, once.
func board() *httptest.Server {
	busy := true
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cursor := r.URL.Query().Get("cursor")
		if cursor == "2" && busy {
			busy = false
			w.Header().Set("Retry-After", "0.01")
			http.Error(w, "busy", http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, map[string]string{
			"":  `{"jobs":["cook","baker"],"cursor":"2"}`,
			"2": `{"jobs":["baker","smith"],"cursor":"3"}`, // a new job has moved the others by one
			"3": `{"jobs":["judge"]}`,
		}[cursor])
	}))
}

// All that an operation asks of a host goes through the host's lane, on the operation's one budget.
func Example() {
	server := board()
	defer server.Close()
	there, _ := url.Parse(server.URL)

	// Once per host.
	boards, err := lane.New(there.Host, lane.Options{Rate: 1000})
	if err != nil {
		panic(err)
	}

	// Once per operation.
	ctx, cancel := budget.For(turnstile.Begin(context.Background(), 0), time.Minute)
	defer cancel()

	var end lane.Outcome
	for jobs := range lane.Pages(ctx, lane.Paging[string]{
		ID: func(job string) string { return job },
		Fetch: func(ctx context.Context, at lane.Place) (page lane.Page[string], err error) {
			answer, err := boards.Do(ctx, lane.Request{URL: server.URL + "/jobs?cursor=" + at.Token})
			if err != nil {
				return page, err
			}
			var found struct {
				Jobs   []string
				Cursor string
			}
			if err := json.Unmarshal(answer.Body, &found); err != nil {
				return page, err
			}
			return lane.Page[string]{Items: found.Jobs, Next: found.Cursor, More: found.Cursor != ""}, nil
		},
	}, &end) {
		fmt.Println(jobs)
	}
	fmt.Println(end.Stop, end.Pages, "pages", end.Items, "jobs")
	fmt.Println(boards.Stats().Attempts, "requests")
	// Output:
	// [cook baker]
	// [smith]
	// [judge]
	// done 3 pages 4 jobs
	// 4 requests
}

// A wait that the operation cannot pay for is not begun: the error says at once when to come back.
func ExampleLane_Do() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3600")
		http.Error(w, "come back in an hour", http.StatusTooManyRequests)
	}))
	defer server.Close()
	there, _ := url.Parse(server.URL)
	busy, err := lane.New(there.Host, lane.Options{})
	if err != nil {
		panic(err)
	}

	ctx, cancel := budget.For(context.Background(), 10*time.Second)
	defer cancel()
	begin := time.Now()
	answer, err := busy.Do(ctx, lane.Request{URL: server.URL})
	fmt.Println(lane.StopOf(err), answer.Status)
	if e, ok := err.(*lane.Error); ok {
		fmt.Println(e.RetryAt.Sub(begin).Round(time.Minute))
	}
	// Output:
	// rate_limited 429
	// 1h0m0s
}
