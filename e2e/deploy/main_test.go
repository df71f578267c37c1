package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"layover/e2e/actor"
)

const root = "../.."

var built struct {
	sync.Once
	folder string
	err    error
}

func TestMain(m *testing.M) {
	if actor.Run() {
		return
	}
	code := m.Run()
	if built.folder != "" {
		os.RemoveAll(built.folder)
	}
	os.Exit(code)
}

// programs builds the programs, once, and returns their
// folder.
func programs(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "layover-programs-"); built.err != nil {
			return
		}
		if built.err = os.Chmod(built.folder, 0o755); built.err != nil { // for other users
			return
		}
		cmd := exec.Command("go", "build", "-o", built.folder, "./cmd/...")
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.folder
}
