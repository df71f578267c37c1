package story

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const root = "../.."

// day is what the stranger has: a folder, a shell, the README.
type day struct {
	*testing.T
	began         time.Time
	dir, text     string
	listen, admin string
	good          string // the configuration before it was broken
	server        *exec.Cmd
	log           *log
	ended         chan error

	reloads  int
	chromium string // empty: there is none

	mu      sync.Mutex
	windows []window // in which preview-1 was broken
	answers []answer // of the load

	stopLoad func()
}

type window struct{ from, to time.Time }

// answer is what one request got.
type answer struct {
	actor      string
	sent, had  time.Time
	status     int
	reason, id string
	retryAfter string
	body       string
	err        error
}

// log is what the server prints. It may be used by several goroutines.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func newDay(t *testing.T) *day {
	for _, program := range []string{"python3", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("CI has no %s: add its package to .ci/packages", program)
			}
			t.Skipf("NOT TESTED: there is no %s on this machine", program)
		}
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal("CI has no chromium: add its package to .ci/packages")
	}
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	d := &day{T: t, began: time.Now(), dir: t.TempDir(), text: string(text), chromium: chromium, log: new(log), ended: make(chan error, 1)}
	d.listen, d.admin = fmt.Sprint("127.0.0.1:", d.freePort()), fmt.Sprint("127.0.0.1:", d.freePort())
	t.Setenv("XDG_STATE_HOME", filepath.Join(d.dir, "state"))
	return d
}

func (d *day) step(what string) {
	d.Helper()
	d.Logf("== %v: %s", time.Since(d.began).Round(time.Second), what)
}

func (d *day) freePort() int {
	d.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		d.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// section is the README's text below a heading.
func (d *day) section(heading string) string {
	d.Helper()
	_, rest, ok := strings.Cut(d.text, "\n## "+heading+"\n")
	if !ok {
		d.Fatalf("the README has no section %q", heading)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

// readme fails unless a section of the README says text.
func (d *day) readme(heading, text string) {
	d.Helper()
	if !strings.Contains(d.section(heading), text) {
		d.Fatalf("the README's section %q does not say %q", heading, text)
	}
}

// here is a text of the README with the ports of this day, on which nothing else
// listens.
func (d *day) here(text string) string {
	text = strings.ReplaceAll(text, "127.0.0.1:7070", d.admin)
	text = strings.ReplaceAll(text, "127.0.0.1:8080", d.listen)
	return strings.ReplaceAll(text, "localhost:8080", "localhost:"+d.listen[strings.LastIndex(d.listen, ":")+1:])
}

// config is the first configuration that the README shows.
func (d *day) config() string {
	d.Helper()
	_, rest, ok := strings.Cut(d.section("Use it"), "```yaml\n")
	config, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		d.Fatal("the README shows no configuration")
	}
	return d.here(config) + "admin: " + d.admin + "\n"
}

// find returns the command of a README's section that has the word in it, with
// the replacements made, without its comment.
func (d *day) find(heading, word string, replace ...string) string {
	d.Helper()
	for line := range strings.Lines(d.section(heading)) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if !ok || !strings.Contains(command, word) {
			continue
		}
		command, _, _ = strings.Cut(command, "  #")
		return strings.NewReplacer(replace...).Replace(d.here(command))
	}
	d.Fatalf("the README's section %q has no command with %q", heading, word)
	return ""
}

// command runs a command of the README. What it builds goes to the day's folder.
func (d *day) command(heading, word string, replace ...string) string {
	d.Helper()
	command := d.find(heading, word, replace...)
	if !strings.HasPrefix(command, "go ") {
		return d.run(command)
	}
	return d.shell(root, strings.Replace(command, "-o ", "-o "+d.dir+"/", 1))
}

// run runs a command in the day's folder, which must succeed, and returns what
// it printed.
func (d *day) run(command string) string {
	d.Helper()
	return d.shell(d.dir, command)
}

func (d *day) shell(dir, command string) string {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.Fatalf("$ %s\n%s%v\nlayover:\n%s", command, out, err, d.log)
	}
	return string(out)
}

// write writes a file as an editor does: another one takes its place.
func (d *day) write(name, text string) {
	d.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.WriteFile(path+"~", []byte(text), 0o700); err != nil {
		d.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		d.Fatal(err)
	}
}

func (d *day) until(what string, is func() bool) {
	d.Helper()
	limit := time.After(30 * time.Second)
	for tick := time.NewTicker(20 * time.Millisecond); !is(); {
		select {
		case <-tick.C:
		case err := <-d.ended:
			d.ended <- err
			d.Fatalf("layover ended (%v) before: %s\n%s", err, what, d.log)
		case <-limit:
			d.Fatalf("waited 30 s for: %s\n%s", what, d.log)
		}
	}
}

// serve starts the README's `layover serve` and waits until it listens.
func (d *day) serve() {
	d.Helper()
	d.server = exec.Command("sh", "-c", "exec "+d.find("Use it", "serve"))
	d.server.Dir, d.server.Stdout, d.server.Stderr = d.dir, d.log, d.log
	if err := d.server.Start(); err != nil {
		d.Fatal(err)
	}
	go func() { d.ended <- d.server.Wait() }()
	d.Cleanup(func() {
		d.server.Process.Kill()
		<-d.ended
	})
	d.until("it listens", func() bool { return strings.Contains(d.log.String(), "listening on http://"+d.listen) })
}

// stop ends the server as the README says, and looks whether all is clean.
func (d *day) stop() {
	d.Helper()
	d.readme("Use it", "`kill -TERM`")
	d.server.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-d.ended:
		d.ended <- nil
		if err != nil {
			d.Errorf("after TERM it ended with %v:\n%s", err, d.log)
		}
	case <-time.After(30 * time.Second):
		d.Fatalf("it does not end after TERM:\n%s", d.log)
	}
}

// breaks saves a configuration in which old is replaced, and waits until it is
// in force.
func (d *day) breaks(old, new string) {
	d.Helper()
	d.good = d.read()
	d.broken()
	d.replace(d.good, old, new)
}

// broken notes that preview-1 is, from now on.
func (d *day) broken() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.windows = append(d.windows, window{from: time.Now()})
}

// mends saves the configuration that was good, or the broken one with old
// replaced by new, waits until it is in force, and asks.
func (d *day) mends(oldNew ...string) {
	d.Helper()
	if len(oldNew) == 0 {
		d.save(d.good)
	} else {
		d.replace(d.read(), oldNew[0], oldNew[1])
	}
	d.whole()
}

// whole notes that preview-1 is, from now on, and asks it.
func (d *day) whole() {
	d.Helper()
	d.mu.Lock()
	d.windows[len(d.windows)-1].to = time.Now()
	d.mu.Unlock()
	if got := d.ask("preview-1"); got.status != http.StatusOK {
		d.Fatalf("mended, it answers %+v\n%s", got, d.log)
	}
}

func (d *day) read() string {
	d.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, "layover.yaml"))
	if err != nil {
		d.Fatal(err)
	}
	return string(text)
}

func (d *day) replace(text, old, new string) {
	d.Helper()
	if strings.Count(text, old) != 1 {
		d.Fatalf("the configuration has %q %d times:\n%s", old, strings.Count(text, old), text)
	}
	d.save(strings.Replace(text, old, new, 1))
}

func (d *day) save(text string) {
	d.Helper()
	d.write("layover.yaml", text)
	d.inForce()
}

// inForce waits until one reload more is done.
func (d *day) inForce() {
	d.Helper()
	d.reloads++
	d.until("the file to be in force", func() bool { return strings.Count(d.log.String(), `msg="reload: done"`) >= d.reloads })
}

// ask sends a request with curl.
func (d *day) ask(actor string, args ...string) answer {
	d.Helper()
	return d.parse(actor, d.curl(actor, args...))
}

func (d *day) curl(actor string, args ...string) func() (string, error) {
	url := d.here("http://" + actor + ".localhost:8080/")
	cmd := exec.Command("curl", append([]string{"-si", "--max-time", "60", url}, args...)...)
	return func() (string, error) {
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

func (d *day) parse(actor string, curl func() (string, error)) answer {
	a := answer{actor: actor, sent: time.Now()}
	text, err := curl()
	a.had, a.err = time.Now(), err
	header, body, _ := strings.Cut(text, "\r\n\r\n")
	a.body = body
	for i, line := range strings.Split(header, "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case i == 0 && len(strings.Fields(line)) > 1:
			a.status, _ = strconv.Atoi(strings.Fields(line)[1])
		case name == "Layover-Reason":
			a.reason = value
		case name == "X-Request-Id":
			a.id = value
		case name == "Retry-After":
			a.retryAfter = value
		}
	}
	return a
}

// refusal asks until the answer has the reason.
func (d *day) refusal(actor, reason string) (got answer) {
	d.Helper()
	d.until(actor+" to be refused as "+reason, func() bool {
		got = d.ask(actor)
		return got.reason == reason
	})
	d.mustBeRefused(got, reason)
	return got
}

func (d *day) mustBeRefused(got answer, reason string) {
	d.Helper()
	var problem struct {
		Status               int
		Reason, Actor, Title string
		RequestID            string `json:"request_id"`
	}
	err := json.Unmarshal([]byte(got.body), &problem)
	if err != nil || got.reason != reason || problem.Reason != reason || problem.Actor != got.actor || problem.Status != got.status ||
		got.status != statuses(d)[reason] || got.id == "" || problem.RequestID != got.id {
		d.Fatalf("the answer is %+v, want %s as operations.md has it", got, reason)
	}
}

// statuses are those of the reasons, as docs/operations.md has them.
func statuses(d *day) map[string]int {
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		d.Fatal(err)
	}
	all := make(map[string]int)
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([0-9]{3}) \\|").FindAllStringSubmatch(string(text), -1) {
		all[m[1]], _ = strconv.Atoi(m[2])
	}
	return all
}

func (d *day) mustSay(where, text string, causes ...string) {
	d.Helper()
	for _, cause := range causes {
		if !strings.Contains(text, cause) {
			d.Errorf("%s does not say %q:\n%.4000s", where, cause, text)
		}
	}
}

// findOutWhy looks for the cause of a refusal in each place that the README
// names, and that the client was told none of it.
func (d *day) findOutWhy(got answer, causes ...string) {
	d.Helper()
	why := d.command("When something does not wake", "why", "ID", got.id)
	d.Logf("$ layover why %s\n%s", got.id, why)
	d.mustSay("why", why, append(causes, got.reason)...)
	ps := d.command("When something does not wake", "ps")
	d.Logf("$ layover ps preview\n%s", ps)
	d.mustSay("ps", ps, causes...)
	d.mustSay("/statusz.json", d.get("/statusz.json"), causes...)
	d.mustSay("the page", html.UnescapeString(d.page()), causes...)
	d.until("the log to have the cause", func() bool {
		for _, cause := range causes {
			if !strings.Contains(strings.ReplaceAll(d.log.String(), `\"`, `"`), cause) {
				return false
			}
		}
		return true
	})
	for _, cause := range causes {
		if strings.Contains(got.body, cause) && !strings.HasPrefix(cause, "exited") {
			d.Errorf("the client is told %q:\n%s", cause, got.body)
		}
	}
}

func (d *day) logsShow(line string) {
	d.Helper()
	d.mustSay("logs", d.command("When something does not wake", "logs"), line)
}

func (d *day) get(path string) string {
	d.Helper()
	resp, err := http.Get("http://" + d.admin + path)
	if err != nil {
		d.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		d.Fatal(err)
	}
	return string(body)
}

// page is the status page as a real Chromium has it, or as it is sent if there
// is none.
func (d *day) page() string {
	d.Helper()
	d.readme("When something does not wake", "http://127.0.0.1:7070/statusz")
	if d.chromium == "" {
		d.Log("NOT TESTED in a browser: there is no chromium on this machine")
		return d.get("/statusz")
	}
	ctx, cancel := context.WithTimeout(d.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--user-data-dir="+filepath.Join(d.dir, "profile"), "--dump-dom", "http://"+d.admin+"/statusz")
	dom, err := cmd.Output()
	if err != nil {
		d.Fatalf("chromium: %v", err)
	}
	return string(dom)
}

// park sends n requests and returns when all of them wait.
func (d *day) park(actor string, n int) <-chan answer {
	d.Helper()
	answers := make(chan answer, n)
	for range n {
		go func() { answers <- d.parse(actor, d.curl(actor)) }() // areServed receives it
	}
	d.until("they are parked", func() bool {
		var lot struct{ Lot struct{ Active int } }
		json.Unmarshal([]byte(d.get("/statusz.json")), &lot)
		return lot.Lot.Active >= n
	})
	return answers
}

func (d *day) areServed(parked <-chan answer) {
	d.Helper()
	for range cap(parked) {
		if a := <-parked; a.err != nil || a.status != http.StatusOK {
			d.Errorf("a request that was parked when its program was mended got %+v after %v", a, a.had.Sub(a.sent))
		}
	}
}

// load has two clients each ask the actors all the time, until count.
func (d *day) load(actors ...string) {
	ctx, cancel := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	transport := &http.Transport{MaxIdleConnsPerHost: 4}
	for _, actor := range append(actors, actors...) {
		clients.Go(func() {
			tick := time.NewTicker(loadPause)
			defer tick.Stop()
			for ctx.Err() == nil {
				d.note(d.send(transport, actor))
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	d.stopLoad = sync.OnceFunc(func() {
		cancel()
		clients.Wait()
		transport.CloseIdleConnections()
	})
	d.Cleanup(d.stopLoad)
}

func (d *day) send(transport *http.Transport, actor string) answer {
	a := answer{actor: actor, sent: time.Now()}
	req, err := http.NewRequest(http.MethodGet, "http://"+d.listen+"/", nil)
	if err != nil {
		a.err = err
		return a
	}
	req.Host = actor + ".localhost"
	resp, err := transport.RoundTrip(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		a.status, a.reason, a.retryAfter = resp.StatusCode, resp.Header.Get("Layover-Reason"), resp.Header.Get("Retry-After")
	}
	a.had, a.err = time.Now(), err
	return a
}

func (d *day) note(a answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers = append(d.answers, a)
}

// count ends the load and looks at each of its answers: all came, and only
// preview-1 was refused, only while it was broken, for a reason that says so.
// still_waking is for a machine that is so busy that a budget ends.
func (d *day) count() {
	d.Helper()
	d.stopLoad()
	known, seen := statuses(d), make(map[string]int)
	for _, a := range d.answers {
		seen[fmt.Sprint(a.actor, " ", a.status, " ", a.reason)]++
		switch {
		case a.err != nil:
			d.Errorf("a request to %s has no answer: %v", a.actor, a.err)
		case a.status == http.StatusOK && a.reason == "":
		case a.actor != "preview-1" || !slices.Contains([]string{"start_failed", "backing_off", "still_waking"}, a.reason) || a.status != known[a.reason]:
			d.Errorf("a request to %s was answered %d %s", a.actor, a.status, a.reason)
		case a.status == http.StatusServiceUnavailable && a.retryAfter == "":
			d.Errorf("a refusal has no Retry-After: %+v", a)
		case !d.whileBroken(a):
			d.Errorf("preview-1 was whole and a request of %v was refused at %v: %s; it was broken %v", a.sent, a.had, a.reason, d.windows)
		}
	}
	d.Logf("%d requests: %v", len(d.answers), seen)
	for _, want := range []string{"hello 200 ", "preview-1 200 ", "preview-1 502 start_failed", "preview-1 503 backing_off"} {
		if seen[want] == 0 {
			d.Errorf("no request was answered %q: %v", want, seen)
		}
	}
}

func (d *day) whileBroken(a answer) bool {
	for _, w := range d.windows {
		if a.had.After(w.from) && a.sent.Before(w.to) {
			return true
		}
	}
	return false
}
