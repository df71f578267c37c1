//go:build linux

package deploy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"layover/e2e/actor"
)

// container is a program that runs as its image says.
type container struct {
	t     *testing.T
	cmd   *exec.Cmd // unshare, whose one child is the program
	lines chan string
	said  []string
}

// contain runs a program in a container of which folder, if there is one, can
// be written to.
func contain(t *testing.T, folder string, environment []string, program string, args ...string) *container {
	t.Helper()
	in := []string{"--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "testdata/container.sh"}
	if out, err := exec.Command("unshare", append(in, "true")...).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: no container can be made here, it takes root: %v %s", err, out)
	}
	cmd := exec.Command("unshare", append(append(in, filepath.Join(programs(t), program)), args...)...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=/nonexistent", "WRITABLE=" + folder}, environment...)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	c := &container{t: t, cmd: cmd, lines: make(chan string, 1000)} // more than any of them says
	go func() {                                                     // ends with the last process that has the pipe
		defer close(c.lines)
		defer read.Close()
		for lines := bufio.NewScanner(read); lines.Scan(); {
			c.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() // and the namespace with it
		cmd.Wait()
		for range c.lines {
		}
	})
	return c
}

// says waits for a line that has a text.
func (c *container) says(text string) {
	c.t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case line, ok := <-c.lines:
			c.said = append(c.said, line)
			if !ok {
				c.t.Fatalf("it ended without %q:\n%s", text, strings.Join(c.said, "\n"))
			}
			if strings.Contains(line, text) {
				return
			}
		case <-late:
			c.t.Fatalf("it does not say %q:\n%s", text, strings.Join(c.said, "\n"))
		}
	}
}

// stops sends TERM to process 1 and waits for its end.
func (c *container) stops() {
	c.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", c.cmd.Process.Pid))
	if err != nil {
		c.t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		c.t.Fatalf("children %q: %v", text, err)
	}
	began := time.Now()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("process 1 ends with %v, want exit code 0", err)
	}
	if took := time.Since(began); took > 4*time.Second { // whoever waits for requests has 5 s or more
		c.t.Errorf("a stop with nothing to wait for took %v", took)
	}
}

// open makes a folder that others can reach, too.
func open(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "layover-container-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestInAContainerLayoverWakesActorsAndStops(t *testing.T) {
	folder, addr := open(t), freeAddr(t)
	for _, name := range []string{"actor", "state"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, program := os.Args[0], filepath.Join(folder, "actor", "a")
	if out, err := exec.Command("cp", self, program).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	file, state := filepath.Join(folder, "layover.yaml"), filepath.Join(folder, "state")
	write(t, file, fmt.Sprintf("listen: %s\nadmin: \"off\"\nactors: {a: {command: [%q], env: {%s: a}}}\nroutes: [{host: a.test, actor: a}]\n", addr, program, actor.Name))

	c := contain(t, state, []string{"STATE_DIRECTORY=" + state}, "layover", "serve", file)
	c.says("pid 1")
	if got := get(t, "http://"+addr+"/", "a.test"); got == "" {
		t.Error("the actor answers nothing")
	}
	c.stops()

	c = contain(t, "", []string{"STATE_DIRECTORY=" + state}, "layover", "serve", file)
	c.says("make it writable for this user, or set another folder as state")
	if err := c.cmd.Wait(); err == nil {
		t.Error("without a state folder it ends with 0")
	}
}

func TestInAContainerTheRouterOfAClusterServesAndStops(t *testing.T) {
	addr := make([]string, 6)
	for i := range addr {
		addr[i] = freeAddr(t)
	}
	c := contain(t, "", nil, "atenet-router", "--ateapi-address="+addr[0], "--ateapi-insecure", "--extproc-address="+addr[1],
		"--xds-address="+addr[2], "--http-address="+addr[3], "--status-address="+addr[4], "--metrics-address="+addr[5], "--envoy-admin=off")
	c.says("pid 1")
	resp, err := http.Get("http://" + addr[4] + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("/healthz is %d", resp.StatusCode)
	}
	metrics := get(t, "http://"+addr[5]+"/metrics", "")
	c.stops()
	t.Run("metrics", func(t *testing.T) { promtool(t, metrics, "check", "metrics") })
}

func TestInAContainerTheJobsServerSaysThatItRemembersNothingAndStops(t *testing.T) {
	addr := freeAddr(t)
	c := contain(t, "", nil, "jobs-mcp", "serve", "--http", addr, "--boards-at", addr, "--state", "/var/lib/jobs-mcp")
	c.says("working without the state folder")
	c.says("listening")
	body := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/mcp", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), "serverInfo") {
		t.Errorf("it answers %d %q, %v", resp.StatusCode, text, err)
	}
	c.stops()
}

func TestPrometheusLikesTheNamesOfTheMetrics(t *testing.T) {
	promtool(t, scrape(t), "check", "metrics")
}
