package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"layover/internal/cli"
	"layover/internal/jobs/fakeboards"
	"layover/internal/jobs/tools"
	"layover/internal/lateness"
)

// asProgram is the variable with which this test is the program itself.
const asProgram = "JOBS_MCP_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")) // else the race detector holds up each exit for a second
	os.Exit(m.Run())
}

// program is the program with these arguments, as a process.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "XDG_CACHE_HOME="+t.TempDir())
	return cmd
}

// boards plays the boards of a small world and returns their address.
func boards(t *testing.T, script string) (*fakeboards.Server, string) {
	t.Helper()
	faults, err := fakeboards.ReadScript(strings.NewReader(script))
	if err != nil {
		t.Fatal(err)
	}
	server := fakeboards.New(fakeboards.Generate(fakeboards.Plan{Seed: 1}))
	server.Play(faults)
	front := httptest.NewServer(server)
	t.Cleanup(front.Close)
	return server, front.Listener.Addr().String()
}

// run runs the program to its end.
func run(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := program(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

func TestJ60_EveryLineOfStdoutIsAMessage(t *testing.T) {
	_, address := boards(t, "- {board: hn, status: 500}")
	stdin := hello + `{"jsonrpc":"2.0","id":1,"method":"tools/list"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"jobs.list","arguments":{"timeout_seconds":1},"_meta":{"progressToken":1}}}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"jobs.get","arguments":{"id":"remotive//1"}}}
{"jsonrpc":"2.0","id":4,"method":"no/such"}
{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"jobs.list","arguments":{"limit":-1}}}
`
	for _, form := range []string{"text", "json"} {
		stdout, stderr, code := run(t, stdin, "serve", "--boards-at", address, "--log-level", "debug", "--log-format", form, "--state", "/proc/none")
		if code != 0 {
			t.Errorf("it ended with %d:\n%s", code, stderr)
		}
		answered := make(map[any]bool)
		for line := range strings.Lines(stdout) {
			var m struct {
				Version string `json:"jsonrpc"`
				ID      any    `json:"id"`
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil || m.Version != "2.0" {
				t.Errorf("stdout has %q, which is no message", line)
			}
			answered[m.ID] = true
		}
		for id := range 6 {
			if !answered[float64(id)] {
				t.Errorf("request %d was not answered", id)
			}
		}
		if !strings.Contains(stderr, "jobs.list") {
			t.Errorf("stderr does not have the log:\n%s", stderr)
		}
	}
}

func TestACancelReachesTheWireAtOnce(t *testing.T) {
	// The board sends a part of its answer and then nothing, until the
	// connection is closed.
	asked, closed := make(chan struct{}, 1), make(chan time.Time, 1)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"jobs": [`)
		http.NewResponseController(w).Flush()
		asked <- struct{}{}
		<-r.Context().Done()
		closed <- time.Now()
	}))
	defer front.Close()
	cmd := program(t, "serve", "--boards-at", front.Listener.Addr().String())
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(stdin, hello+`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"jobs.list","arguments":{"boards":["remotive"]}}}`)
	<-asked
	late, begun := lateness.Watch(), time.Now()
	fmt.Fprintln(stdin, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`)
	d, each := (<-closed).Sub(begun), late()
	if most := 100*time.Millisecond + 4*each; d > most { // steps: the message is read, the call ends, the connection closes, the board sees it
		t.Errorf("the connection to the board was closed %v after the cancel, want at most 100 ms, %v on a machine that is late by %v", d, most, each)
	}
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if strings.Contains(stdout.String(), `"id":1`) {
		t.Errorf("a cancelled call was answered: %s", &stdout)
	}
}

// served starts serve --http and returns its address, and what it logs.
func served(t *testing.T, args ...string) (cmd *exec.Cmd, url string, rest *bufio.Scanner) {
	t.Helper()
	cmd = program(t, append([]string{"serve", "--http", "127.0.0.1:0", "--log-format", "json"}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		var line struct{ Msg, URL string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			return cmd, line.URL, lines
		}
	}
	t.Fatal("it does not say where it listens")
	return nil, "", nil
}

func TestAStopOverHTTPAnswersWhatIsInProgress(t *testing.T) {
	_, address := boards(t, "- {board: remotive, stall: 10}")
	cmd, url, rest := served(t, "--boards-at", address, "--drain", "300ms")
	answer, half := make(chan string, 1), make(chan struct{}, 1)
	go func() {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"jobs.list","arguments":{"boards":["remotive","arbeitnow"]},"_meta":{"progressToken":1}}}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		events := bufio.NewReader(resp.Body)
		for text := ""; ; {
			line, err := events.ReadString('\n')
			text += line
			if strings.Contains(line, "1 of 2 sources answered") {
				select {
				case half <- struct{}{}:
				default: // it is said again
				}
			}
			if err != nil {
				answer <- fmt.Sprint(text, err)
				return
			}
		}
	}()
	select {
	case <-half:
	case text := <-answer:
		t.Fatalf("the call was answered before it was stopped: %s", text)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if text := <-answer; !strings.Contains(text, "arbeitnow ok") || !strings.Contains(text, "remotive: cancelled") {
		t.Errorf("the call was answered with %s", text)
	}
	for rest.Scan() { // to its end
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestListAndGetAtTheTerminal(t *testing.T) {
	_, address := boards(t, "- {board: hn, status: 503}")
	stdout, stderr, code := run(t, "", "list", "--boards-at", address, "--board", "remotive", "--limit", "2")
	if code != 0 || strings.Count(stdout, "remotive//") != 2 || !strings.Contains(stdout, "More: name a folder of its own with --state") || strings.Contains(stdout, "--cursor") {
		t.Errorf("without a state list ended with %d and printed\n%s%s", code, stdout, stderr)
	}
	stdout, stderr, code = run(t, "", "list", "--boards-at", address, "--board", "remotive", "--limit", "2", "--state", t.TempDir())
	if code != 0 || !strings.Contains(stdout, "More: --cursor j1.") {
		t.Errorf("with a state list ended with %d and printed\n%s%s", code, stdout, stderr)
	}
	stdout, stderr, code = run(t, "", "list", "--boards-at", address, "--board", "remotive", "--source", "greenhouse:nobody", "--limit", "2")
	if code != int(incomplete) || !strings.Contains(stdout, "1 of 2 sources in trouble") {
		t.Errorf("with an unknown company and more than the limit list ended with %d and printed\n%s%s", code, stdout, stderr)
	}
	stdout, _, code = run(t, "", "list", "--boards-at", address, "--board", "remotive", "--board", "hn", "--limit", "100", "--json", "--timeout", "2s")
	var l tools.List
	if err := json.Unmarshal([]byte(stdout), &l); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if code != int(incomplete) || l.Complete || len(l.Jobs) == 0 {
		t.Errorf("with a board that fails list ended with %d, complete %v, %d jobs", code, l.Complete, len(l.Jobs))
	}
	stdout, stderr, code = run(t, "", "get", "--boards-at", address, l.Jobs[0].ID)
	if code != 0 || !strings.Contains(stdout, l.Jobs[0].Title) {
		t.Errorf("get ended with %d and printed\n%s%s", code, stdout, stderr)
	}
	if _, stderr, code = run(t, "", "get", "--boards-at", address, "remotive//nothing"); code != int(incomplete) {
		t.Errorf("get of nothing ended with %d: %s", code, stderr)
	}
}

func TestMistakesAreNamedByTheirFlag(t *testing.T) {
	for _, test := range []struct {
		args string
		want string
	}{
		{"list --boards-at 10.0.0.1:80", `--boards-at: "10.0.0.1:80" is no address of this machine alone`},
		{"list --boards-at 127.0.0.1:1 --limit 101", `--limit "101": 1 to 100`},
		{"list --boards-at 127.0.0.1:1 --limit 0", `--limit "0": 1 to 100`},
		{"list --boards-at 127.0.0.1:1 --salary-min 7", `--salary-currency "": needed with --salary-min`},
		{"list --boards-at 127.0.0.1:1 --source nope:x", `--source "nope:x": board:company, where board is one of`},
		{"list --boards-at 127.0.0.1:1 --timeout 0s", `--timeout: 0s: write a time above 0`},
		{"list --boards-at 127.0.0.1:1 --deadline soon", `--deadline: "soon": write an instant`},
		{"list --boards-at 127.0.0.1:1 --deadline 2001-01-01T00:00:00Z", `--deadline: 2001-01-01T00:00:00Z is past`},
		{"get --boards-at 127.0.0.1:1 7", `id "7": the id of a job`},
		{`list --boards-at 127.0.0.1:1 "go`, `words "\"go": a quote that opens must close`},
		{"get", "the ID is missing; write it like 'jobs-mcp get remotive//1234567'; see 'jobs-mcp get --help'"},
		{"list --log-level info+3", `--log-level: "info+3": write debug`},
		{"serve --names dashes", `--names: "dashes": write dots or underscores`},
		{"serve --timeout 5m", `--timeout: 5m0s is more than --max-timeout, 3m30s`},
		{"serve --heartbeat 1m", `--heartbeat: 1m0s: write at most 15s`},
		{"serve --text-bytes 10", `--text-bytes: 10: write 4000 to 1000000`},
		{"serve --log-level loud", `--log-level: "loud": write debug`},
		{"serve --http nowhere", `--http: listen tcp`},
		{"boards --listen 0.0.0.0:80", `--listen: "0.0.0.0:80": made-up boards are served on this machine only`},
		{"boards --script /nonexistent", `--script: open /nonexistent`},
		{"boards --jobs 0", `--companies: 1 to 1000`},
	} {
		_, stderr, code := run(t, "", strings.Fields(test.args)...)
		if code != int(cli.Failed) || !strings.HasPrefix(stderr, "jobs-mcp: "+test.want) {
			t.Errorf("jobs-mcp %s ended with %d and said\n%swant %q", test.args, code, stderr, test.want)
		}
	}
}

func TestBoardsSayHowToReachThem(t *testing.T) {
	cmd := program(t, "boards", "--listen", "127.0.0.1:0")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	var address string
	for address == "" && lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "jobs-mcp serve --boards-at "); ok {
			address = rest
		}
	}
	out, stderr, code := run(t, "", "list", "--boards-at", address, "--source", "greenhouse:acme", "--limit", "100")
	if code != 0 || !strings.Contains(out, "20 jobs; complete") {
		t.Errorf("list ended with %d and printed\n%s%s", code, out, stderr)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestTheDemoHoldsItsClaims(t *testing.T) {
	stdout, stderr, code := run(t, "", "demo")
	if code != 0 || strings.Contains(stdout, "BROKEN") || strings.Count(stdout, "\nheld ") != 7 {
		t.Errorf("the demo ended with %d and printed\n%s%s", code, stdout, stderr)
	}
}

func TestACursorSurvivesARestart(t *testing.T) {
	_, address := boards(t, "")
	state := t.TempDir()
	seen := make(map[string]bool)
	cursor := ""
	for range 3 { // processes
		stdout, stderr, code := run(t, "", "list", "--boards-at", address, "--state", state, "--source", "greenhouse:acme", "--limit", "7", "--cursor", cursor, "--json")
		var l tools.List
		if err := json.Unmarshal([]byte(stdout), &l); err != nil || code != 0 {
			t.Fatalf("list ended with %d: %v\n%s%s", code, err, stdout, stderr)
		}
		for _, j := range l.Jobs {
			if seen[j.ID] {
				t.Errorf("%s came twice", j.ID)
			}
			seen[j.ID] = true
		}
		cursor = l.Cursor
	}
	if len(seen) != 20 || cursor != "" {
		t.Errorf("three processes gave %d of 20 jobs, and the cursor %q", len(seen), cursor)
	}
}
