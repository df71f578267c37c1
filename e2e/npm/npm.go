// Package npm puts packages of npm, each of one version, into the project's
// cache, for tests with programs that are written in JavaScript or shipped that
// way.
package npm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// ErrNone is the error of Install on a machine that has no npm, or cannot reach
// its registry, when the packages are not in the cache.
var ErrNone = errors.New("npm: the packages cannot be had")

// Install returns a folder below cache that has node_modules with these
// packages, such as "left-pad@1.3.0". It is installed once, without running
// scripts of the packages, and then completed by finish, which may be nil.
func Install(ctx context.Context, cache, name string, finish func(folder string) error, packages ...string) (folder string, err error) {
	home := filepath.Join(cache, name)
	if _, err := os.Stat(home); err == nil {
		return home, nil // it is renamed into place when it is complete
	}
	program, err := exec.LookPath("npm")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNone, err)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	// Made aside and renamed, since several programs may do it at once.
	aside, err := os.MkdirTemp(cache, name+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(aside)
	os.Chmod(aside, 0o755) // the user who runs it may be another
	var out bytes.Buffer
	args := []string{"install", "--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", "--prefix", aside}
	cmd := exec.CommandContext(ctx, program, append(args, packages...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = aside, &out, &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: npm install %q: %w\n%s", ErrNone, packages, err, out.Bytes())
	}
	if finish != nil {
		if err := finish(aside); err != nil {
			return "", fmt.Errorf("npm: finish %q: %w", packages, err)
		}
	}
	if err := os.Rename(aside, home); err != nil {
		if _, there := os.Stat(home); there != nil {
			return "", err
		}
	}
	return home, nil
}

// Platform is how npm names this kind of machine: "linux-x64".
func Platform() string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	return runtime.GOOS + "-" + arch
}
