package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"layover/internal/lateness"
)

// behindRouter starts layover with the example's configuration, in which
// jobs-mcp needs coldStart before it listens, and returns its address.
func behindRouter(t *testing.T, coldStart time.Duration, boards string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "examples", "jobs", "layover.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	listen := freeAddress(t)
	script := fmt.Sprintf(`sleep %f; exec %s "$@" --boards-at %s`, coldStart.Seconds(), filepath.Join(programs, "jobs-mcp"), boards)
	config := regexp.MustCompile(`(?m)^listen: .*`).ReplaceAllString(string(text), fmt.Sprintf("listen: %s\nadmin: \"off\"\nstate: %s", listen, filepath.Join(dir, "router")))
	config = strings.Replace(config, "[jobs-mcp, serve,", fmt.Sprintf("[sh, -c, %q, sh, serve,", script), 1)
	config = strings.Replace(config, "./jobs-mcp-state", filepath.Join(dir, "jobs"), 1)
	file := filepath.Join(dir, "layover.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, "listening on ", "layover", "serve", file)
	return listen
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// listed is what a test reads of an answer of jobs.list.
type listed struct {
	Jobs       []struct{ ID string }
	Complete   bool
	StopReason string `json:"stop_reason"`
	Cursor     string
	Sources    []struct {
		Source, Status string
		ElapsedMS      int64 `json:"elapsed_ms"`
	}
	Time struct {
		LimitMS int64 `json:"limit_ms"`
		SpentMS int64 `json:"spent_ms"`
	}
}

// list calls jobs.list through the router.
func list(t *testing.T, router, arguments, timeout string) (l listed, took time.Duration) {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"jobs.list","arguments":%s}}`, arguments)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+router+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return l, 0
	}
	req.Host = "jobs.localhost"
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Operation-Timeout", timeout)
	begun := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return l, 0
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 4<<20)
	var answer struct {
		Result struct{ StructuredContent *listed }
	}
	var all strings.Builder
	for lines.Scan() {
		all.WriteString(lines.Text())
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(data), &answer); err != nil {
				t.Error(err)
			}
		}
	}
	took = time.Since(begun)
	if resp.StatusCode != http.StatusOK || answer.Result.StructuredContent == nil {
		t.Errorf("status %d after %v: %s", resp.StatusCode, took, &all)
		return l, took
	}
	return *answer.Result.StructuredContent, took
}

// steps is how many processes an answer passes, the client's own included: each
// may be kept waiting for a processor.
const steps = 4

func TestOneDeadlineCrossesRouterServerAndBoards(t *testing.T) {
	script := filepath.Join(t.TempDir(), "faults.yaml")
	if err := os.WriteFile(script, []byte("- {board: remotive, stall: 100}\n- {board: arbeitnow, delay: 200ms}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const coldStart, deadline = 700 * time.Millisecond, 3 * time.Second
	router := behindRouter(t, coldStart, playBoards(t, "--script", script))

	late := lateness.Watch()
	l, took := list(t, router, `{"boards":["arbeitnow","remotive"],"limit":5,"timeout_seconds":60}`, deadline.String())
	busy := steps * late()
	atServer := time.Duration(l.Time.LimitMS) * time.Millisecond
	t.Logf("the caller had %v; %v were left when the sleeping server was awake and had the call; the answer came after %v (this machine's allowance: %v)", deadline, atServer, took, busy)
	if took > deadline+busy {
		t.Errorf("the answer came after %v, want at most %v", took, deadline)
	}
	if most := deadline - coldStart; atServer > most || atServer < most-time.Second-busy {
		t.Errorf("the server had %v, want what the wake-up left of it: at most %v", atServer, most)
	}
	if len(l.Jobs) != 5 || l.Complete || l.StopReason != "deadline" || l.Cursor == "" {
		t.Errorf("got %d jobs, complete %v, stop %q, cursor %q; want those of the board that answered, and how to go on", len(l.Jobs), l.Complete, l.StopReason, l.Cursor)
	}
	for _, s := range l.Sources {
		elapsed := time.Duration(s.ElapsedMS) * time.Millisecond
		t.Logf("%s: %s after %v", s.Source, s.Status, elapsed)
		if elapsed > atServer {
			t.Errorf("%s was read for %v, longer than the %v that its server had", s.Source, elapsed, atServer)
		}
	}

	// Awake now: nothing of the deadline is spent on waking.
	late = lateness.Watch()
	l, took = list(t, router, `{"cursor":"`+l.Cursor+`"}`, "1s")
	busy = steps * late()
	if atServer = time.Duration(l.Time.LimitMS) * time.Millisecond; atServer < 700*time.Millisecond-busy || atServer > time.Second || took > time.Second+busy {
		t.Errorf("awake, it had %v of 1s and the answer came after %v", atServer, took)
	}
}

func TestManyCallsThroughTheRouterAreAnsweredByTheirDeadline(t *testing.T) {
	script := filepath.Join(t.TempDir(), "faults.yaml")
	if err := os.WriteFile(script, []byte("- {board: remotive, stall: 100}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	router := behindRouter(t, 300*time.Millisecond, playBoards(t, "--script", script))
	const deadline = 3 * time.Second
	var all sync.WaitGroup
	var mu sync.Mutex
	var slowest time.Duration
	late := lateness.Watch()
	for id := range 20 { // all wait for one wake-up, and end at the same time
		all.Go(func() {
			l, took := list(t, router, `{"boards":["remotive","hn","arbeitnow"],"limit":50}`, deadline.String())
			mu.Lock()
			slowest = max(slowest, took)
			mu.Unlock()
			if len(l.Jobs) != 50 || l.StopReason != "deadline" {
				t.Errorf("call %d: %d jobs after %v, stopped by %s; want 50 within %v", id, len(l.Jobs), took, l.StopReason, deadline)
			}
		})
	}
	all.Wait()
	if busy := steps * late(); slowest > deadline+busy {
		t.Errorf("the slowest of 20 answers came after %v, want at most %v (this machine's allowance: %v)", slowest, deadline, busy)
	}
}
