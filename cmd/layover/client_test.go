package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"layover/internal/admin"
	"layover/internal/router"
)

// says runs a command about the router p, which must exit with code.
func (p *program) says(code int, args ...string) (stdout, stderr string) {
	p.t.Helper()
	if args[0] != "__complete" {
		args = append(args, "--config", filepath.Join(p.folder, "f.yaml"))
	}
	stdout, stderr, got := run(p.t, args...)
	if got != code {
		p.t.Errorf("layover %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, stdout, stderr)
	}
	return stdout, stderr
}

func TestARunningRouterIsLookedAtAndChanged(t *testing.T) {
	p := serving(t, t.TempDir(), "pools: {small: {workers: 1}}\n"+byName+"actors:\n"+testActor("a", 0, "")+testActor("b", 0, ""))
	has := func(out string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(out, text) {
				t.Errorf("no %q in\n%s", text, out)
			}
		}
	}
	out, _ := p.says(0, "ps")
	has(out, "ACTOR", "a ", "b ", "small", "asleep")
	out, _ = p.says(0, "wake", "a")
	has(out, "a: awake after ")
	out, _ = p.says(0, "ps", "awake")
	if has(out, "a "); strings.Contains(out, "\nb ") {
		t.Errorf("b is not awake:\n%s", out)
	}
	out, _ = p.says(0, "resize", "small", "2", "--json")
	var pool admin.Pool
	if err := json.Unmarshal([]byte(out), &pool); err != nil || pool.Workers != 2 {
		t.Errorf("%v in %s", err, out)
	}
	p.served("b.test")
	out, _ = p.says(0, "ps", "--state", "awake", "--json")
	var actors []admin.Actor
	if err := json.Unmarshal([]byte(out), &actors); err != nil || len(actors) != 2 || actors[1].WakesSeen != 1 {
		t.Errorf("%v in %s", err, out)
	}
	out, _ = p.says(0, "top", "-n", "1", "--json")
	var v view
	if err := json.Unmarshal([]byte(out), &v); err != nil || len(v.Actors) != 2 || len(v.Requests) != 1 || v.Pools[0].Used != 2 {
		t.Fatalf("%v in %s", err, out)
	}
	out, _ = p.says(0, "top", "-n", "1")
	has(out, "layover ready for", "2 awake", "pool small: 2 of 2 workers used", v.Requests[0].ID)
	out, _ = p.says(0, "why", v.Requests[0].ID)
	has(out, "route by-name, actor b, band 0\n", "200 after", "it began a wake-up", "wake ", "attempt ", "█")
	if out, stderr := p.says(0, "logs", "b"); out != "" || stderr != "b has printed nothing yet\n" {
		t.Errorf("logs says %q and %q", out, stderr)
	}
	out, _ = p.says(0, "sleep", "a", "b")
	has(out, "a: asleep after", "b: asleep after")
	out, _ = p.says(0, "__complete", "wake", "--config", filepath.Join(p.folder, "f.yaml"), "")
	has(out, "a\n", "b\n")
	out, _ = p.says(0, "__complete", "resize", "--config", filepath.Join(p.folder, "f.yaml"), "s")
	has(out, "small\n")
	for want, args := range map[string][]string{
		"none: there is no actor of this name":              {"wake", "none"},
		"no request of this id waits, and none is among":    {"why", "none"},
		"workers must be a number from 1 to 100000":         {"resize", "small", "0"},
		`"many" is not a number of workers`:                 {"resize", "small", "many"},
		"there is no actor of this name":                    {"logs", "none"},
		"--every 1ms is too short; write at least 100ms":    {"top", "--every", "1ms"},
		"no router answers at http://127.0.0.1:1; start it": {"ps", "--admin", "127.0.0.1:1"},
		"is it the admin address of a router?":              {"ps", "--admin", p.front},
	} {
		if _, stderr := p.says(1, args...); !strings.HasPrefix(stderr, "layover: ") || !strings.Contains(stderr, want) {
			t.Errorf("%q says\n%s, want %q", args, stderr, want)
		}
	}
	if err := os.Remove(filepath.Join(p.folder, "state", tokenFile)); err != nil {
		t.Fatal(err)
	}
	if _, stderr := p.says(1, "sleep", "a", "--token-file", "no-such-file"); !strings.HasPrefix(stderr, "layover: --token-file: ") {
		t.Errorf("a file that is not there: %q", stderr)
	}
	if _, stderr := p.says(1, "sleep", "a"); !strings.Contains(stderr, "name the file that has it with --token-file") {
		t.Errorf("without a token: %s", stderr)
	}
	p.signal(syscall.SIGTERM)
	p.exit()
	if _, stderr := p.says(1, "ps"); !strings.Contains(stderr, "no router with the file") || !strings.Contains(stderr, "layover serve") {
		t.Errorf("after its end: %s", stderr)
	}
}

func TestACommandWithoutARouterSaysWhatToDo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	if _, stderr, code := run(t, "ps", "--config", file); code != 1 || !strings.Contains(stderr, "there is no file "+file+", and no router that was started with it runs here; start it with 'layover serve'") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if _, stderr, code := run(t, "ps", "--admin", "ftp://x"); code != 1 || !strings.Contains(stderr, "is not an address") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestLogsAreFollowedAcrossWakeUps(t *testing.T) {
	p := serving(t, t.TempDir(), byName+"actors:\n  a: {command: [sh, -c, 'echo first $$; sleep 100'], ready: /, start_timeout: 200ms}\n")
	var out string
	until(t, "the first line", func() bool { // of a wake-up that had the time for one
		p.get("a.test")
		out, _ = p.says(0, "logs", "a", "-n", "1")
		return strings.HasPrefix(out, "first ")
	})
	follower := layover("logs", "-f", "a", "--config", filepath.Join(p.folder, "f.yaml"))
	lines := new(logs)
	follower.Stdout = lines
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	defer follower.Process.Kill()
	until(t, "the first line", func() bool { return strings.Contains(lines.String(), out) })
	until(t, "lines of the next wake-up", func() bool {
		p.get("a.test")
		return strings.Count(lines.String(), "first ") >= 2
	})
	if err := follower.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := follower.Wait(); err != nil {
		t.Errorf("an interrupt ends it with %v", err)
	}
}

func TestNothingIsLostToAFollowerWhenAProgramDies(t *testing.T) {
	folder := t.TempDir()
	p := serving(t, folder, byName+"actors:\n  a: {command: [sh, -c, 'echo begun; until test -e "+folder+"/go; do sleep 0.02; done; seq -f \"line %g\" 1000; exit 3']}\n")
	follower := layover("logs", "-f", "a", "--config", filepath.Join(p.folder, "f.yaml"))
	lines := new(logs)
	follower.Stdout = lines
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	defer follower.Process.Kill()
	p.begin("a.test")
	until(t, "the first line", func() bool { return lines.String() == "begun\n" })
	if err := os.WriteFile(filepath.Join(folder, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "the last line", func() bool { return strings.HasSuffix(lines.String(), "line 1000\n") })
	if got := strings.Count(lines.String(), "\nline "); got != 1000 {
		t.Errorf("%d of 1000 lines are there", got)
	}
}

func TestAWakeUpThatFailsIsExplained(t *testing.T) {
	p := serving(t, t.TempDir(), byName+"actors:\n"+
		"  dies: {command: [sh, -c, 'echo reading; echo no key >&2; exit 7']}\n"+
		"  slow: {command: [sh, -c, 'echo starting; sleep 100']}\n"+
		"  gone: {command: [/no/such/program]}\n")
	for name, wants := range map[string][]string{
		"dies": {"layover: dies: it did not start: exited before it was ready (exit status 7)", "; the next start is possible in 1s\n", "\n  | reading\n  | no key\n", "mend it, then wake it again; 'layover logs dies' has more"},
		"slow": {"layover: slow: the actor was still starting when the request's budget ended: nothing listens at 127.0.0.1:", "its wake-up goes on; 'layover logs -f slow' shows it"},
		"gone": {"layover: gone: it did not start: cannot run /no/such/program: no such file or directory", "wake it again\n"},
		"none": {"layover: none: there is no actor of this name; 'layover ps' lists them\n"},
	} {
		out, stderr := p.says(1, "wake", name, "--wait", "2s")
		for _, want := range wants {
			if !strings.Contains(stderr, want) || out != "" {
				t.Errorf("wake %s says\n%s%swant %q", name, out, stderr, want)
			}
		}
	}
	if out, stderr := p.says(1, "wake", "dies", "none", "--json"); out != "[]\n" || !strings.Contains(stderr, "layover: dies: ") || !strings.Contains(stderr, "\nnone: ") {
		t.Errorf("wake --json prints %q and says %q", out, stderr)
	}
	if out, stderr := p.says(0, "ps", "nothing-like-it"); out != "" || !strings.HasPrefix(stderr, "no actor matches") {
		t.Errorf("ps of nothing prints %q and says %q", out, stderr)
	}
	if _, stderr := p.says(0, "ps", "nothing-like-it", "--state", "failed"); !strings.Contains(stderr, "but stays in ps --failing") {
		t.Errorf("ps of nothing that failed says %q", stderr)
	}
	if out, _ := p.says(0, "ps", "--failing"); !strings.Contains(out, "dies") || !strings.Contains(out, "gone") || strings.Contains(out, "slow") {
		t.Errorf("ps --failing prints\n%s", out)
	}
	if out, _ := p.says(0, "top", "-n", "1"); !strings.Contains(out, "; 2 failing\n") || strings.Index(out, "\ngone ") > strings.Index(out, "\nslow ") {
		t.Errorf("top prints\n%s", out)
	}
	if out, stderr := p.says(0, "ps", "--failing", "nothing-like-it"); out != "" || stderr != "no actor matches whose last start failed\n" {
		t.Errorf("ps --failing of nothing prints %q and says %q", out, stderr)
	}
	if _, stderr := p.says(0, "logs", "gone"); !strings.HasPrefix(stderr, "gone has printed nothing yet\ngone is ") ||
		!strings.Contains(stderr, ": the actor did not start: cannot run /no/such/program: no such file or directory\n") {
		t.Errorf("logs of who never ran: %q", stderr)
	}
}

func TestAValueThatNothingCanHaveIsRefused(t *testing.T) {
	p := serving(t, t.TempDir(), byName+"pools: {small: {workers: 1}}\nactors: {a: {command: [sleep, 1]}}\n")
	for args, want := range map[string]string{
		"ps --state sleepy":  `there is no state "sleepy"; use one of awake, waking, going to sleep, failed, asleep`,
		"ps --pool none":     `there is no pool "none"; use one of small`,
		"resize none 1":      `there is no pool "none"; use one of small`,
		"resize small x":     `"x" is not a number of workers; write one such as 4`,
		"resize small 0":     "workers must be a number from 1 to 100000",
		"logs -n 0 a":        "--lines 0 is not allowed; write a number from 1 to 2000",
		"logs none":          "none: there is no actor of this name; 'layover ps' lists them",
		"logs -f none":       "none: there is no actor of this name; 'layover ps' lists them",
		"top -n -1":          "--times -1 is not allowed; write a number from 1 up, or 0 for no end",
		"wake --wait 0s a":   "--wait 0s is not allowed; write a duration above 0s, at most 5m",
		"sleep --wait 10m a": "--wait 10m0s is not allowed; write a duration above 0s, at most 5m",
		"top --every 1ms":    "--every 1ms is too short; write at least 100ms",
		"logs -f --json a":   "--follow prints lines as they come: leave --json out",
	} {
		if out, stderr := p.says(1, strings.Fields(args)...); stderr != "layover: "+want+"\n" || out != "" {
			t.Errorf("layover %s: %q, %q, want %q", args, out, stderr, want)
		}
	}
}

func TestAWaterfallShowsWhatOverlapsAndWhatIsShort(t *testing.T) {
	got := waterfall(admin.Request{ID: "x", At: time.Date(2026, 1, 1, 10, 0, 0, 0, time.Local), Method: "GET", Route: "api", Actor: "a\x1b[2J", Band: 1, Wake: "joined", Parked: true, Waited: 800 * time.Millisecond,
		Status: 503, Reason: "still_waking", Took: time.Second, Detail: "it starts", Ledger: []admin.Phase{
			{Name: "line", First: 0, Last: 500 * time.Millisecond, Elapsed: 500 * time.Millisecond},
			{Name: "wake", First: 500 * time.Millisecond, Last: time.Second, Elapsed: 500 * time.Millisecond},
			{Name: "attempt", First: time.Second, Last: time.Second, Elapsed: 0},
		}})
	want := "10:00:00.000 GET, route api, actor a\uFFFD[2J, band 1\n503 still_waking after 1s; it joined a wake-up under way; it was parked for 800ms\nit starts\n\n" +
		"line     " + strings.Repeat("█", 25) + strings.Repeat("·", 25) + "  500ms\n" +
		"wake     " + strings.Repeat("·", 25) + strings.Repeat("█", 25) + "  500ms\n" +
		"attempt  " + strings.Repeat("·", 49) + "█  0s\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestARequestIsFoundByItsIDWhileItWaits(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	p := serving(t, t.TempDir(), byName+"actors:\n"+testActor("a", 0, gate))
	answered := make(chan struct{})
	go func() { // ends when the gate is open
		defer close(answered)
		p.served("a.test")
	}()
	var v view
	until(t, "a request to wait", func() bool {
		out, _ := p.says(0, "top", "-n", "1", "--json")
		return json.Unmarshal([]byte(out), &v) == nil && len(v.Waiting) == 1 && v.Waiting[0].Phase == "wake"
	})
	id := v.Waiting[0].ID
	if out, _ := p.says(0, "top", "-n", "1"); id == "" || !strings.Contains(out, "waits for wake ") || !strings.Contains(out, " "+id+"  a\n") {
		t.Errorf("top prints\n%s", out)
	}
	out, _ := p.says(0, "why", id)
	for _, want := range []string{", actor a, band 0\nstill waits, for ", " by now: the actor to start; ", " left\n\nwake  "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out, _ := p.says(0, "__complete", "why", "--config", filepath.Join(p.folder, "f.yaml"), ""); !strings.Contains(out, id+"\n") {
		t.Errorf("the shell is offered\n%s", out)
	}
	openGate(t, gate)
	<-answered
	if out, _ := p.says(0, "why", id); !strings.Contains(out, "200 after ") {
		t.Errorf("after its answer\n%s", out)
	}
}

func TestAWaterfallOfARequestThatWaitsSaysWhatFor(t *testing.T) {
	for want, w := range map[string]admin.ParkedRequest{
		"a worker of the pool (place 3 in line); 8s left\n":    {Phase: "line", Place: 3, Ends: true, Remaining: 8 * time.Second},
		"its turn with the actor (place 1 in line); 1s left\n": {Phase: "turn", Place: 1, Ends: true, Remaining: time.Second},
		"the actor to go to sleep, to wake it then\n":          {Phase: "sleep"},
		"the actor\n": {},
	} {
		got := waterfall(admin.Request{At: time.Date(2026, 1, 1, 10, 0, 0, 0, time.Local), Actor: "a", Took: 12 * time.Second, Waiting: &w})
		if want = "10:00:00.000, actor a, band 0\nstill waits, for 12s by now: " + want; got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestAWaterfallSaysThatAWaitingPageMovedOn(t *testing.T) {
	got := waterfall(admin.Request{Status: 202, MovedOn: true, Took: 3 * time.Second, Wake: "triggered"})
	if want := "\n202, a waiting page that moved on after 3s; it began a wake-up\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant in it %q", got, want)
	}
}

func TestAWaterfallOfABackOffSaysThatNothingWasStarted(t *testing.T) {
	got := waterfall(admin.Request{Status: 503, Reason: "backing_off", Took: time.Millisecond, Wake: "triggered"})
	if want := "\n503 backing_off after 1ms; no start was due yet\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant in it %q", got, want)
	}
}

func TestTopSaysThatANewerConfigurationIsRefused(t *testing.T) {
	v := view{Status: admin.Status{Name: "layover", State: "ready", ConfigProblems: []string{"f.yaml:3: no", "f.yaml:4: no"}}}
	if got, want := v.text(80), "\na newer configuration is refused: f.yaml:3: no; and 1 more\nlot: "; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant in it %q", got, want)
	}
	v.Status.ConfigProblems = nil
	if got := v.text(80); strings.Contains(got, "refused:") {
		t.Errorf("got\n%s", got)
	}
}

func TestAScreenIsCutToTheTerminal(t *testing.T) {
	for want, got := range map[string]string{
		"abcdefgh\x1b[K\r\nxy\x1b[K\r\nq: end; 1 more line below\x1b[K": fitted("abcdefgh\nxy\nlost\n", 30, 3),
		"abcd\x1b[K\r\nxy\x1b[K\r\nq: e\x1b[K":                          fitted("abcdefgh\nxy\nlost\n", 4, 3),
		"abcd\x1b[K\r\n\x1b[K\r\n\x1b[K\r\nq: end\x1b[K":                fitted("abcd\n", 30, 4),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAnEmptyListOfActorsSaysWhichOnesItIsOf(t *testing.T) {
	for want, got := range map[string]string{
		"there is no actor; ":                 nobody(false, ""),
		"no actor matches; one of a template": nobody(true, router.Awake),
		"no actor matches; one that failed":   nobody(true, router.Failed),
	} {
		if !strings.HasPrefix(got, want) {
			t.Errorf("it is said %q, want %q", got, want)
		}
	}
}
