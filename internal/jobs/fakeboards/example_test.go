package fakeboards_test

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"time"

	"layover/internal/jobs/fakeboards"
)

// A board that refuses the second request, and what it was asked.
func Example() {
	script, err := fakeboards.ReadScript(strings.NewReader(`
- board: remotive
  from: 2
  times: 1
  status: 429
  headers: {Retry-After: "60"}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	world := fakeboards.Generate(fakeboards.Plan{Seed: 1, Now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)})
	boards := fakeboards.New(world)
	boards.Play(script)

	for range 3 {
		w := httptest.NewRecorder()
		boards.ServeHTTP(w, httptest.NewRequest("GET", "https://remotive.com/api/remote-jobs", nil))
		body, _ := io.ReadAll(w.Body) // of a recorder
		fmt.Println(w.Code, w.Header().Get("Retry-After"), len(body) > 0)
	}
	fmt.Println(boards.Count("remotive.com", "/api/*"), "requests")
	// Output:
	// 200  true
	// 429 60 false
	// 200  true
	// 3 requests
}
