// Command release builds what is given to users of a version: for each platform
// an archive with the programs and the files to deploy them, a list of what is
// in them (CycloneDX), and the sums of all.
//
//	go run ./deploy/release -out .cache/release
//
// The same commit and the same Go give the same sums, whoever builds, wherever.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	var r release
	var platforms string
	flag.StringVar(&r.out, "out", filepath.Join(".cache", "release"), "folder for what is made")
	flag.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64,darwin/arm64", "what to build for")
	flag.BoolVar(&r.dirty, "dirty", false, "build although files are not committed: nobody else can build the same")
	flag.Parse()
	r.tree, r.platforms = ".", strings.Split(platforms, ",")
	if err := r.make(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one version of the programs in a tree.
type release struct {
	tree      string // a Go module in a git repository, with its programs in cmd/
	out       string
	platforms []string // GOOS/GOARCH
	dirty     bool

	version string
	time    time.Time // of the commit
}

// files are those that an archive has beside the programs, as git knows them.
var files = []string{"LICENSE", "README.md", "docs", ":!docs/api", "deploy", ":!deploy/release", "examples/*.yaml"}

func (r *release) make(w io.Writer) error {
	if err := r.identify(); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	extra, err := r.git(append([]string{"ls-files", "--"}, files...)...)
	if err != nil {
		return err
	}
	var made []string
	for _, platform := range r.platforms {
		names, err := r.build(platform, strings.Fields(extra))
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		made = append(made, names...)
	}
	sums, err := sums(r.out, made)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums), 0o644); err != nil {
		return err
	}
	_, err = io.WriteString(w, sums)
	return err
}

// identify finds the version and its time.
func (r *release) identify() error {
	changed, err := r.git("status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" && !r.dirty {
		return errors.New("there are changes that are not committed; commit them, or say -dirty to build what nobody else can build")
	}
	if r.version, err = r.git("describe", "--tags", "--always", "--dirty", "--abbrev=12"); err != nil {
		return err
	}
	seconds, err := r.git("log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	r.time = time.Unix(unix, 0).UTC()
	return nil
}

func (r *release) git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stderr = r.tree, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// build makes what there is for a platform, and returns the files' names.
func (r *release) build(platform string, extra []string) ([]string, error) {
	goos, goarch, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, errors.New("write a platform as linux/amd64")
	}
	bin, err := os.MkdirTemp("", "release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(bin)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", bin+string(filepath.Separator), "./cmd/...")
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.tree, os.Stderr, os.Stderr
	// Whatever else changes what is built has its default, and C is not linked.
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off", "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOAMD64=v1", "GOARM64=v8.0")
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	programs, err := os.ReadDir(bin)
	if err != nil {
		return nil, err
	}
	name := strings.Join([]string{"layover", r.version, goos, goarch}, "_")
	var entries []entry
	b := bill{Name: "layover", Version: r.version, Platform: platform, Time: r.time}
	for _, p := range programs {
		file := filepath.Join(bin, p.Name())
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return nil, err
		}
		sum, err := sumOf(file)
		if err != nil {
			return nil, err
		}
		b.add(p.Name(), sum, (*debug.BuildInfo)(info))
		entries = append(entries, entry{file, name + "/" + p.Name(), 0o755})
	}
	for _, f := range extra {
		entries = append(entries, entry{filepath.Join(r.tree, f), name + "/" + f, 0o644})
	}
	archive, list := name+".tar.gz", name+".cdx.json"
	if err := pack(filepath.Join(r.out, archive), entries, r.time); err != nil {
		return nil, err
	}
	text, err := b.json()
	if err != nil {
		return nil, err
	}
	return []string{archive, list}, os.WriteFile(filepath.Join(r.out, list), text, 0o644)
}

// sums is the text that sha256sum -c reads.
func sums(folder string, names []string) (string, error) {
	var text strings.Builder
	for _, name := range slices.Sorted(slices.Values(names)) {
		sum, err := sumOf(filepath.Join(folder, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, name)
	}
	return text.String(), nil
}

func sumOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return fmt.Sprintf("%x", h.Sum(nil)), err
}
