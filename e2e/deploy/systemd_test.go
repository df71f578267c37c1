//go:build linux

package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"layover/e2e/actor"
)

// machine is a systemd that runs as process 1, and what the document says to
// install.
type machine struct {
	t     *testing.T
	pid   int // of systemd, as seen from here
	front string
}

// hierarchy is where control groups of version 2 are mounted here.
func hierarchy() string {
	for _, folder := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(folder, "cgroup.procs")); err == nil {
			if _, err := os.Stat(filepath.Join(folder, "cgroup.controllers")); err == nil {
				return folder
			}
		}
	}
	return ""
}

// boot boots a machine with script run on its root $R before.
func boot(t *testing.T, front, script string) *machine {
	t.Helper()
	skip := func(format string, args ...any) {
		t.Skipf("NOT TESTED: no systemd can be booted here: "+format, args...)
	}
	for _, path := range []string{"/lib/systemd/systemd", "/usr/bin/systemctl", "/usr/bin/unshare", "/usr/bin/nsenter"} {
		if _, err := os.Stat(path); err != nil {
			skip("%v", err)
		}
	}
	parent := hierarchy()
	if os.Getuid() != 0 || parent == "" {
		skip("it takes root, and control groups of version 2")
	}
	group := filepath.Join(parent, fmt.Sprintf("layover-test-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		skip("%v", err)
	}
	t.Cleanup(func() { remove(t, group) })
	folder := t.TempDir()
	before := filepath.Join(t.TempDir(), "before.sh")
	write(t, before, script)
	cmd := exec.Command("sh", "-c", `echo $$ > "$0/cgroup.procs" && exec unshare --pid --fork --mount --cgroup --uts --ipc --kill-child sh "$@"`,
		group, "testdata/boot.sh", folder, before)
	said := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // ends with the machine
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() // and the namespaces with it
		<-ended
	})
	m := &machine{t: t, front: front}
	for tries := 0; ; tries++ {
		select {
		case <-ended:
			skip("%s", said)
		case <-time.After(20 * time.Millisecond):
		}
		if tries > 3000 {
			skip("it does not come up in a minute: %s", said)
		}
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
		m.pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		if m.pid == 0 {
			continue
		}
		if out, err := m.try("systemctl", "is-active", "multi-user.target"); err == nil && strings.TrimSpace(out) == "active" {
			return m
		}
	}
}

// remove removes a control group with those below it.
func remove(t *testing.T, group string) {
	os.WriteFile(filepath.Join(group, "cgroup.kill"), []byte("1"), 0o644)
	var all []string
	filepath.WalkDir(group, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	slices.Reverse(all)
	for _, path := range all {
		var err error
		for range 200 { // its processes are on their way out
			if err = syscall.Rmdir(path); !errors.Is(err, syscall.EBUSY) {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		if err != nil {
			t.Errorf("control group %s: %v", path, err)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// try runs a command on the machine.
func (m *machine) try(args ...string) (string, error) {
	in := []string{"--target", strconv.Itoa(m.pid), "--mount", "--pid", "--cgroup", "--uts", "--ipc", "--root", "--wd", "--"}
	cmd := exec.Command("nsenter", append(in, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_PAGER=", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *machine) run(args ...string) string {
	m.t.Helper()
	out, err := m.try(args...)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

func (m *machine) property(name string) string {
	m.t.Helper()
	return m.run("systemctl", "show", "--value", "--property="+name, "layover.service")
}

// ask asks an actor.
func (m *machine) ask(client *http.Client, host string) (status int, body string, err error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+m.front+"/", nil)
	if err != nil {
		return 0, "", err
	}
	req.Host = host
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func (m *machine) served(when, host string) {
	m.t.Helper()
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	if status, body, err := m.ask(&client, host); err != nil || status != http.StatusOK {
		m.t.Fatalf("%s a request is answered %d %q, %v", when, status, body, err)
	}
}

func (m *machine) until(what string, is func() bool) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			m.t.Fatalf("a minute was not enough for %s; the service: %s\nits log: %s", what,
				first(m.try("systemctl", "status", "--no-pager", "--lines=0", "layover.service")), first(m.try("cat", "/run/log")))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func first(text string, _ error) string { return text }

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// service boots a machine and installs layover as the units say, with an
// address that is free.
func service(t *testing.T) *machine {
	t.Helper()
	front := freeAddr(t)
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	units, err := filepath.Abs(filepath.Join(root, "deploy/systemd"))
	if err != nil {
		t.Fatal(err)
	}
	m := boot(t, front, fmt.Sprintf(`
mkdir -p "$R/etc/layover" "$R/usr/local/bin"
cp %q/layover.service %[1]q/layover.socket "$R/etc/systemd/system/"
cp %q "$R/usr/local/bin/layover"
cp %q "$R/usr/local/bin/an-actor"
mkdir "$R/etc/systemd/system/layover.socket.d" "$R/etc/systemd/system/layover.service.d"
printf '[Socket]\nListenStream=\nListenStream=%s\n' > "$R/etc/systemd/system/layover.socket.d/address.conf"
printf '[Service]\nStandardOutput=append:/run/log\nStandardError=append:/run/log\nRestartSec=100ms\n' > "$R/etc/systemd/system/layover.service.d/test.conf"
cat > "$R/etc/layover/layover.yaml" <<'EOF'
%sEOF
`, units, filepath.Join(programs(t), "layover"), self, front, configuration(front, "a.test")))
	m.run("systemctl", "enable", "--now", "layover.socket", "layover.service")
	return m
}

// configuration has an actor that starts at once, and one that takes its time.
func configuration(front, host string) string {
	return fmt.Sprintf(`listen: %s
admin: "off"
actors:
  quick: {command: [/usr/local/bin/an-actor], env: {%s: quick}}
  slow: {command: [/usr/local/bin/an-actor], env: {%[2]s: slow, %s: 2s}}
  rights:
    command:
      - sh
      - -c
      - 'mkdir -p "$HOME" 2>/dev/null; touch /etc/x 2>/dev/null && exit 3; touch /var/x 2>/dev/null && exit 4; touch /var/lib/layover/mine /tmp/mine || exit 5; test "$(id -u)" -gt 0 || exit 6; exec /usr/local/bin/an-actor'
    env: {%[2]s: rights}
routes:
  - {host: %[4]s, actor: quick}
  - {host: slow.test, actor: slow}
  - {host: rights.test, actor: rights}
`, front, actor.Name, actor.Start, host)
}

func TestTheUnitsRunUnderARealSystemd(t *testing.T) {
	m := service(t)
	m.served("behind the socket", "a.test")
	m.served("of an actor that looks at its rights", "rights.test") // one without them does not start
	if left := m.run("ls", "/var/lib/private/layover"); !strings.Contains(left, "mine") {
		t.Errorf("the state folder has %q", left)
	}

	m.run("systemctl", "stop", "layover.service")
	if state := m.property("ActiveState"); state != "inactive" {
		t.Errorf("after a stop the service is %s", state)
	}
	m.served("that comes when the service is stopped", "a.test") // it starts it

	m.restart()

	m.configure(configuration(m.front, "b.test"))
	before := m.property("MainPID")
	m.run("systemctl", "reload", "layover.service")
	client := http.Client{Timeout: time.Minute}
	m.until("a reload", func() bool {
		status, _, err := m.ask(&client, "b.test")
		return err == nil && status == http.StatusOK
	})
	if after := m.property("MainPID"); after != before {
		t.Errorf("a reload has made process %s of %s", after, before)
	}

	m.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "layover.service")
	m.served("that comes after a crash", "b.test")
	if after, n := m.property("MainPID"), m.property("NRestarts"); after == before || n != "1" {
		t.Errorf("after a crash it is process %s, as before; it was started again %s times", after, n)
	}

	m.mendedLate()
	m.stopWithParked()
}

func (m *machine) configure(text string) {
	m.t.Helper()
	m.run("sh", "-c", "cat > /etc/layover/layover.yaml <<'EOF'\n"+text+"EOF")
}

// mendedLate restarts the service with a file that is wrong. Requests wait until
// somebody mends it, however often systemd has tried by then.
func (m *machine) mendedLate() {
	m.t.Helper()
	m.configure("listen: nowhere\n")
	if out, err := m.try("systemctl", "restart", "layover.service"); err == nil {
		m.t.Errorf("with a file that is wrong the service starts: %s", out)
	}
	answer := make(chan string, 1)
	go func() {
		client := http.Client{Timeout: time.Minute}
		status, _, err := m.ask(&client, "b.test")
		answer <- fmt.Sprint(status, " ", err)
	}()
	m.until("eight attempts", func() bool { // by default five in ten seconds are the last
		n, _ := strconv.Atoi(m.property("NRestarts"))
		return n >= 8 || m.property("ActiveState") == "failed"
	})
	if state := m.property("Result"); state == "start-limit-hit" {
		m.t.Error("systemd gives the service up")
		return
	}
	m.configure(configuration(m.front, "b.test"))
	if got := <-answer; got != "200 <nil>" {
		m.t.Errorf("a request that waited for a good file is answered %s", got)
	}
}

// restart restarts the service while clients have requests.
func (m *machine) restart() {
	m.t.Helper()
	var answered, lost atomic.Int64
	var done atomic.Bool
	var load sync.WaitGroup
	for i := range 4 {
		load.Go(func() {
			client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: i%2 == 0}}
			defer client.CloseIdleConnections()
			for !done.Load() {
				status, body, err := m.ask(&client, "a.test")
				if err != nil || status != http.StatusOK {
					m.t.Errorf("during a restart a request is answered %d %q, %v", status, body, err)
					lost.Add(1)
					return
				}
				answered.Add(1)
			}
		})
	}
	for range 2 {
		more := answered.Load() + 100
		m.until("load", func() bool { return answered.Load() > more || lost.Load() > 0 })
		m.run("systemctl", "restart", "layover.service")
	}
	more := answered.Load() + 100
	m.until("load after the restarts", func() bool { return answered.Load() > more || lost.Load() > 0 })
	done.Store(true)
	load.Wait()
	m.t.Logf("two restarts: %d answered, %d lost", answered.Load(), lost.Load())
}

// stopWithParked stops service and socket while a request waits for an actor.
func (m *machine) stopWithParked() {
	m.t.Helper()
	group := "/sys/fs/cgroup" + m.property("ControlGroup")
	processes := func() int { return len(strings.Fields(m.run("cat", group+"/cgroup.procs"))) }
	now := processes()
	answer := make(chan string, 1)
	go func() {
		client := http.Client{Timeout: time.Minute}
		status, _, err := m.ask(&client, "slow.test")
		answer <- fmt.Sprint(status, " ", err)
	}()
	m.until("the actor to start", func() bool { return processes() > now })
	m.run("systemctl", "stop", "layover.socket", "layover.service")
	if got := <-answer; got != "200 <nil>" {
		m.t.Errorf("a request that was parked at the stop is answered %s", got)
	}
	// How the service did: it was neither killed nor given up.
	if state, result := m.property("ActiveState"), m.property("Result"); state != "inactive" || result != "success" {
		m.t.Errorf("after the stop the service is %s, with %s", state, result)
	}
	if out, err := m.try("cat", group+"/cgroup.procs"); err == nil && strings.TrimSpace(out) != "" {
		m.t.Errorf("after the stop the processes %q are left", out)
	}
}

func TestTheServicesRightsAreBounded(t *testing.T) {
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI has no systemd-analyze: see .ci/packages")
		}
		t.Skip("NOT TESTED: there is no systemd-analyze here")
	}
	// In tenths; 10 is a service that may do everything.
	out, err := exec.Command(path, "security", "--offline=true", "--threshold=46", "--no-pager", filepath.Join(root, "deploy/systemd/layover.service")).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
