package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// unit reads a unit file: the values of each key, by section.
func unit(t *testing.T, name string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy/systemd", name))
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string][]string)
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		key, value, ok := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		case !ok:
			t.Errorf("%s: %q is no setting", name, line)
		default:
			values[section+"."+key] = append(values[section+"."+key], value)
		}
	}
	return values
}

func TestTheUnitsSayWhatTheProgramDoes(t *testing.T) {
	service, socket := unit(t, "layover.service"), unit(t, "layover.socket")
	for key, want := range map[string]string{
		"Service.Type": "notify", "Service.NotifyAccess": "main", "Service.KillMode": "mixed",
		"Service.ExecStart":  "/usr/local/bin/layover serve /etc/layover/layover.yaml",
		"Service.ExecReload": "/bin/kill -HUP $MAINPID", "Service.StateDirectory": "layover",
	} {
		if got := service[key]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if got := socket["Socket.ListenStream"]; !slices.Equal(got, []string{defaultListen}) {
		t.Errorf("the socket is for %q, want the default of listen, %s", got, defaultListen)
	}
	stop, err := time.ParseDuration(strings.Replace(service["Service.TimeoutStopSec"][0], "min", "m", 1))
	if need := defaultMaxBudget + drainSlack + defaultMaxDrain + defaultGrace; err != nil || stop < need {
		t.Errorf("a stop has %v, %v; with the default settings it can take %v", stop, err, need)
	}
}

func TestSystemdAcceptsTheUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI has no systemd-analyze: see .ci/packages")
		}
		t.Skip("NOT TESTED: there is no systemd-analyze here")
	}
	folder := t.TempDir()
	for _, name := range []string{"layover.service", "layover.socket"} {
		text, err := os.ReadFile(filepath.Join("../../deploy/systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.ReplaceAll(string(text), "/usr/local/bin/layover", os.Args[0])) // one that exists
		writeFile(t, filepath.Join(folder, name), string(text))
	}
	cmd := exec.Command(analyze, "verify", "--recursive-errors=no", filepath.Join(folder, "layover.service"), filepath.Join(folder, "layover.socket"))
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "layover.s") {
			t.Error(strings.TrimSpace(line))
		}
	}
	if err != nil {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// tally is what the clients of a load got.
type tally struct {
	answered, refused, unanswered, other atomic.Int64

	mu      sync.Mutex
	longest time.Duration
}

func (n *tally) ask(client *http.Client, addr string) {
	req, err := http.NewRequest("GET", "http://"+addr+"/", nil)
	if err != nil {
		panic(err)
	}
	req.Host = "a.test"
	began := time.Now()
	resp, err := client.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	switch {
	case err != nil && strings.Contains(err.Error(), "refused"):
		n.refused.Add(1)
	case err != nil:
		n.unanswered.Add(1)
	case resp.StatusCode != 200:
		n.other.Add(1)
	default:
		n.answered.Add(1)
	}
	n.mu.Lock()
	n.longest = max(n.longest, time.Since(began))
	n.mu.Unlock()
}

// restarts runs load against a router that is restarted n times as a service
// manager restarts it, with the socket handed down or without. With it there is
// a manager that hears of its states, too.
func restarts(t *testing.T, n int, activated bool) (all *tally, gaps []time.Duration) {
	t.Helper()
	m := newManager(t)
	t.Setenv("NOTIFY_SOCKET", m.name)
	file, addr := listenFile(t)
	if !activated {
		file.Close()
		file = nil
	}
	folder, config := t.TempDir(), "listen: "+addr+"\n"+byName+"actors:\n"+testActor("a", 0, "")
	p := servingOn(t, file, folder, config)
	p.served("a.test")
	all = new(tally)
	var done atomic.Bool
	var load sync.WaitGroup
	for i := range 6 {
		kept := i%2 == 0 // connections
		load.Go(func() {
			client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: !kept}}
			defer client.CloseIdleConnections()
			for !done.Load() {
				all.ask(&client, addr)
			}
		})
	}
	for range n {
		before := all.answered.Load()
		until(t, "load", func() bool { return all.answered.Load()+all.refused.Load() > before+500 })
		p.signal(syscall.SIGTERM)
		if code := p.exit(); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
		gap := time.Now()
		p = servingOn(t, file, folder, config)
		gaps = append(gaps, time.Since(gap).Round(time.Millisecond))
	}
	before := all.answered.Load()
	until(t, "answers of the last router", func() bool { return all.answered.Load() > before+500 })
	done.Store(true)
	load.Wait()
	p.signal(syscall.SIGTERM)
	p.exit()
	until(t, "the manager to hear of all", func() bool {
		return m.heard() == strings.TrimSuffix(strings.Repeat("READY=1 STOPPING=1 ", n+1), " ")
	})
	return all, gaps
}

func TestR71_ARestartUnderLoadWithSocketActivationRefusesAndLosesNothing(t *testing.T) {
	const n = 3
	t.Logf("%-18s %8s %8s %10s %6s %8s  %s", "the socket is", "answered", "refused", "unanswered", "other", "longest", "nobody listened for")
	for _, activated := range []bool{true, false} {
		got, gaps := restarts(t, n, activated)
		t.Logf("%-18s %8d %8d %10d %6d %8v  %v", map[bool]string{true: "the manager's", false: "the router's"}[activated],
			got.answered.Load(), got.refused.Load(), got.unanswered.Load(), got.other.Load(), got.longest.Round(time.Millisecond), gaps)
		if activated && got.refused.Load()+got.unanswered.Load()+got.other.Load() > 0 {
			t.Error("with socket activation a request was refused or lost")
		}
		if !activated && got.refused.Load() == 0 {
			t.Error("without it no connection was refused: the load does not meet the gap")
		}
	}
}

func TestActorsDoNotInheritTheSocketThatWasHandedDown(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	file, addr := listenFile(t)
	var socket syscall.Stat_t
	if err := syscall.Fstat(int(file.Fd()), &socket); err != nil {
		t.Fatal(err)
	}
	p := servingOn(t, file, t.TempDir(), "listen: "+addr+"\n"+byName+"actors:\n"+testActor("a", 0, ""))
	has := func(pid int) (found bool) {
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil || links == nil {
			t.Fatalf("process %d has no descriptors: %v", pid, err)
		}
		for _, link := range links {
			target, _ := os.Readlink(link)
			found = found || target == fmt.Sprintf("socket:[%d]", socket.Ino)
		}
		return found
	}
	if actor := p.served("a.test").pid; has(actor) || !has(p.cmd.Process.Pid) {
		t.Errorf("the actor has the router's socket: %t, the router: %t", has(actor), has(p.cmd.Process.Pid))
	}
}

// As the first process of a container it has to reap what actors leave behind,
// and nothing may be left when it ends.
func TestAsProcessOneItReapsOrphansAndLeavesNothing(t *testing.T) {
	if out, err := exec.Command("unshare", "-pf", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespace of processes can be made here: %v %s", err, out)
	}
	folder := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	// The actor leaves orphans that end at once, then becomes the test's own.
	script := fmt.Sprintf(`for i in 1 2 3 4 5; do (sh -c 'exit 0' &) ; done; exec %q`, os.Args[0])
	config := fmt.Sprintf("listen: %s\nadmin: \"off\"\nstate: %q\n%sactors:\n  a: {command: [sh, -c, %q], env: {%s: a, %s: /dev/null}}\n",
		addr, filepath.Join(folder, "state"), byName, script, demoName, demoEvents)
	writeFile(t, filepath.Join(folder, "f.yaml"), config)

	cmd := layover("serve", filepath.Join(folder, "f.yaml"))
	cmd.Args = append([]string{"unshare", "-pf", "--mount-proc", "--kill-child"}, cmd.Args...)
	if cmd.Path, err = exec.LookPath("unshare"); err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := new(logs)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill() // and its child with it
		if t.Failed() {
			t.Logf("it says\n%s", out)
		}
	}()
	until(t, "process 1 to listen", func() bool { return strings.Contains(out.String(), "listening on http://"+addr+", pid 1\n") })
	p := &program{t: t, front: addr, logs: out}
	if got := p.served("a.test"); got.pid < 2 {
		t.Errorf("the actor is process %d", got.pid)
	}
	first := childOf(t, cmd.Process.Pid)
	until(t, "the orphans to be reaped", func() bool { return len(children(t, first)) == 1 }) // the actor is left
	if got := p.served("a.test"); got.pid < 2 {
		t.Errorf("the actor is process %d", got.pid)
	}
	if err := syscall.Kill(first, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("process 1 ends with %v, want exit code 0", err)
	}
	if !p.logged("stopped") {
		t.Error("it did not stop by itself")
	}
}

func childOf(t *testing.T, pid int) int {
	t.Helper()
	all := children(t, pid)
	if len(all) != 1 {
		t.Fatalf("process %d has the children %v, want one", pid, all)
	}
	return all[0]
}

// children returns the processes, dead ones too, whose parent is pid.
func children(t *testing.T, pid int) (all []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // each thread has its own
	if err != nil || lists == nil {
		t.Fatalf("process %d has no lists of children: %v", pid, err)
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // empty when the thread has ended
		for _, field := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, child)
		}
	}
	return all
}
