package atenet

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// What bootstrap writes is what this version of Envoy takes, without a warning
// that it will not do so for long.
func TestEnvoyAcceptsEveryBootstrap(t *testing.T) {
	path := realEnvoy(t)
	for _, args := range [][]string{{}, {"--static"}, {"--static", "--access-log=/dev/stdout", "--parked-request-max=0", "--route-timeout=0"},
		{"--static", "--parked-request-budget=50m", "--parked-request-max=100000", "--router-host=atenet-router.ate-system.svc"}} {
		file := filepath.Join(t.TempDir(), "envoy.yaml")
		if out, err := exec.Command(binary, append([]string{"bootstrap", "--output", file}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("bootstrap %q: %v\n%s", args, err, out)
		}
		out, err := exec.Command(path, "-c", file, "--mode", "validate", "--log-level", "warning", "--disable-hot-restart").CombinedOutput()
		if err != nil {
			t.Errorf("bootstrap %q: %v\n%s", args, err, out)
		}
		t.Logf("%q: %s", args, out)
	}
}
