package mcp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"layover/internal/lateness"
)

const sdkVersion = "1.32.2" // of the official SDK in TypeScript, which most clients are made of

// stalling stands before boards: greenhouse begins its answers and never ends
// them. It returns its address, and when each of these was given up.
func stalling(t *testing.T, boards string) (address string, givenUp <-chan time.Time) {
	t.Helper()
	closed := make(chan time.Time, 10)
	others := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: boards}) // keeps the Host
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Host, "boards-api.greenhouse.") {
			others.ServeHTTP(w, r)
			return
		}
		fmt.Fprint(w, `{"jobs": [`)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		closed <- time.Now()
	}))
	t.Cleanup(front.Close)
	return front.Listener.Addr().String(), closed
}

func TestAClientOfTheTypeScriptSDKStopsACall(t *testing.T) {
	sdk := filepath.Join(installed(t, "mcp-sdk-"+sdkVersion, "@modelcontextprotocol/sdk@"+sdkVersion), "@modelcontextprotocol", "sdk", "dist", "esm")
	script, err := filepath.Abs(filepath.Join("testdata", "client.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"stdio", "http"} {
		t.Run(kind, func(t *testing.T) {
			address, givenUp := stalling(t, playBoards(t))
			serve := []string{"serve", "--boards-at", address, "--heartbeat", "500ms"}
			args := []string{script, sdk, "stdio", filepath.Join(programs, "jobs-mcp")}
			if kind == "http" {
				_, said := start(t, "msg=listening url=", "jobs-mcp", append(serve, "--http", "127.0.0.1:0")...)
				address, _, _ := strings.Cut(said, " ")
				args = []string{script, sdk, "http", address}
			} else {
				args = append(args, serve...)
			}
			late := lateness.Watch()
			stdout, stderr, code := judge(t, args...)
			busy := steps * late()
			lines := strings.Split(strings.TrimSpace(stdout), "\n")
			if code != 0 || len(lines) != 3 {
				t.Fatalf("the client ended with %d\n%s%s", code, stdout, stderr)
			}
			if lines[0] != "patient deadline 20 true" {
				t.Errorf("a long call with progress: %q, want that its time was up, with 20 jobs", lines[0])
			}
			next := func() time.Time {
				select {
				case at := <-givenUp:
					return at
				case <-time.After(10 * time.Second):
					t.Fatal("a request to the board was not given up")
					return time.Time{}
				}
			}
			next() // by the deadline of the first call
			ms, ok := strings.CutPrefix(lines[1], "stopped ")
			at, err := strconv.ParseInt(ms, 10, 64)
			if !ok || err != nil {
				t.Fatalf("the stopped call: %q", lines[1])
			}
			if d := next().Sub(time.UnixMilli(at)); d > 100*time.Millisecond+busy {
				t.Errorf("the connection to the board was closed %v after the user's stop, want at most 100 ms (this machine's allowance: %v)", d, busy)
			}
			if lines[2] != "next 3" {
				t.Errorf("the call after that: %q, want 3 jobs", lines[2])
			}
		})
	}
}
