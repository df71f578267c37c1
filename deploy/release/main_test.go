package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"debug/macho"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// repository makes a small module with one program, committed.
func repository(t *testing.T) string {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "somewhere", t.Name())
	for name, text := range map[string]string{
		"go.mod":               "module layover\n\ngo 1.26.0\n",
		"LICENSE":              "license\n",
		"README.md":            "readme\n",
		"docs/a.md":            "a\n",
		"docs/plots/a.svg":     "a\n",
		"docs/api/a.txt":       "not in the archive\n",
		"examples/a/a.yaml":    "a\n",
		"examples/a/a.go":      "package a // not in the archive\n",
		"deploy/unit":          "unit\n",
		"deploy/release/x.txt": "not in the archive\n",
		"cmd/hello/main.go":    "package main\n\nfunc main() { println(\"hello\") }\n",
	} {
		file := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git(t, tree, "init", "-q")
	git(t, tree, "add", ".")
	git(t, tree, "commit", "-q", "-m", "all")
	return tree
}

func git(t *testing.T, tree string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=layover", "GIT_AUTHOR_EMAIL=layover@localhost", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z",
		"GIT_COMMITTER_NAME=layover", "GIT_COMMITTER_EMAIL=layover@localhost", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

func released(t *testing.T, tree string, platforms ...string) (out, sums string) {
	t.Helper()
	var text strings.Builder
	if platforms == nil {
		platforms = []string{runtime.GOOS + "/" + runtime.GOARCH}
	}
	r := release{tree: tree, out: t.TempDir(), platforms: platforms}
	if err := r.make(&text); err != nil {
		t.Fatal(err)
	}
	return r.out, text.String()
}

func TestTwoBuildsOfOneCommitHaveEqualSums(t *testing.T) {
	tree := repository(t)
	out, first := released(t, tree)
	clone := filepath.Join(t.TempDir(), "elsewhere")
	git(t, tree, "clone", "-q", tree, clone)
	if err := os.Chmod(filepath.Join(clone, "LICENSE"), 0o600); err != nil { // as another umask would
		t.Fatal(err)
	}
	if _, second := released(t, clone); first != second {
		t.Errorf("the sums are\n%s, and from a clone elsewhere\n%s", first, second)
	}
	if written, err := os.ReadFile(filepath.Join(out, "SHA256SUMS")); err != nil || string(written) != first {
		t.Errorf("SHA256SUMS is %q, %v; want %q", written, err, first)
	}

	archives, err := filepath.Glob(filepath.Join(out, "*.tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("there are the archives %q, %v; want one", archives, err)
	}
	folder := strings.TrimSuffix(filepath.Base(archives[0]), ".tar.gz")
	if !regexp.MustCompile(`^layover_[0-9a-f]{12}_` + runtime.GOOS + "_" + runtime.GOARCH + `$`).MatchString(folder) {
		t.Errorf("the archive is called %s", folder)
	}
	var names []string
	for _, h := range headers(t, archives[0]) {
		name, _ := strings.CutPrefix(h.Name, folder+"/")
		names = append(names, name)
		if want := int64(0o644); h.Uid != 0 || h.Uname != "" || h.Mode != want && (name != "hello" || h.Mode != 0o755) || h.ModTime.UTC().Format("2006-01-02 15:04:05") != "2026-01-02 03:04:05" {
			t.Errorf("%s has mode %o, owner %d %q, time %v", name, h.Mode, h.Uid, h.Uname, h.ModTime)
		}
	}
	if want := []string{"hello", "LICENSE", "README.md", "deploy/unit", "docs/a.md", "docs/plots/a.svg", "examples/a/a.yaml"}; !slices.Equal(names, want) {
		t.Errorf("the archive has %q, want %q", names, want)
	}
}

func TestProgramsAreForTheirPlatformAndNeedNoLibraries(t *testing.T) {
	out, _ := released(t, repository(t), "linux/arm64", "darwin/arm64")
	program := func(platform string) *bytes.Reader {
		archives, err := filepath.Glob(filepath.Join(out, "*_"+platform+".tar.gz"))
		if err != nil || len(archives) != 1 {
			t.Fatalf("there are the archives %q, %v; want one of %s", archives, err, platform)
		}
		text, err := exec.Command("tar", "-xzOf", archives[0], strings.TrimSuffix(filepath.Base(archives[0]), ".tar.gz")+"/hello").Output()
		if err != nil {
			t.Fatal(err)
		}
		return bytes.NewReader(text)
	}
	linux, err := elf.NewFile(program("linux_arm64"))
	if err != nil {
		t.Fatal(err)
	}
	interpreted := slices.ContainsFunc(linux.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if linux.Machine != elf.EM_AARCH64 || interpreted {
		t.Errorf("for linux/arm64 it is built for %v, for a loader: %t", linux.Machine, interpreted)
	}
	darwin, err := macho.NewFile(program("darwin_arm64"))
	if err != nil {
		t.Fatal(err)
	}
	libraries, err := darwin.ImportedLibraries()
	foreign := slices.ContainsFunc(libraries, func(l string) bool { return !strings.HasPrefix(l, "/usr/lib/") && !strings.HasPrefix(l, "/System/") })
	if darwin.Cpu != macho.CpuArm64 || err != nil || foreign {
		t.Errorf("for darwin/arm64 it is built for %v and needs %q, %v", darwin.Cpu, libraries, err)
	}
}

// README.md is for the tree, and links to sources too.
func TestWhatTheDocumentsLinkToIsInTheArchive(t *testing.T) {
	r := release{tree: "../.."}
	list, err := r.git(append([]string{"ls-files", "--"}, files...)...)
	if err != nil {
		t.Skipf("NOT TESTED: this tree is no repository: %v", err)
	}
	names := strings.Fields(list)
	link := regexp.MustCompile(`\]\(([^)#\s:]+)[^):]*\)`)
	found := 0
	for _, name := range names {
		if !strings.HasPrefix(name, "docs/") || filepath.Ext(name) != ".md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.tree, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target := filepath.Join(filepath.Dir(name), m[1])
			top, _, _ := strings.Cut(target, "/")
			if !slices.Contains([]string{"docs", "deploy", "examples"}, top) {
				continue
			}
			found++
			if !slices.ContainsFunc(names, func(n string) bool { return n == target || strings.HasPrefix(n, target+"/") }) {
				t.Errorf("%s links to %s, which is not in the archive", name, target)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d links were found", found)
	}
}

func headers(t *testing.T, archive string) (all []*tar.Header) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	compressed, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(compressed); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
}

func TestATreeWithChangesIsRefused(t *testing.T) {
	tree := repository(t)
	if err := os.WriteFile(filepath.Join(tree, "new"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r := release{tree: tree, out: t.TempDir()}
	if err := r.make(io.Discard); err == nil || !strings.Contains(err.Error(), "not committed") {
		t.Errorf("make = %v, want an error about changes", err)
	}
}

func TestTheBillNamesProgramsModulesAndGo(t *testing.T) {
	tree := repository(t)
	out, _ := released(t, tree)
	lists, err := filepath.Glob(filepath.Join(out, "*.cdx.json"))
	if err != nil || len(lists) != 1 {
		t.Fatalf("there are the lists %q, %v; want one", lists, err)
	}
	text, err := os.ReadFile(lists[0])
	if err != nil {
		t.Fatal(err)
	}
	var b struct {
		BOMFormat, SpecVersion, SerialNumber string
		Components                           []component
		Dependencies                         []dependency
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	if b.BOMFormat != "CycloneDX" || b.SpecVersion != "1.6" ||
		!regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`).MatchString(b.SerialNumber) {
		t.Errorf("it begins with %s", text[:200])
	}
	std := "pkg:golang/std@" + strings.TrimPrefix(strings.Fields(runtime.Version())[0], "go")
	if len(b.Components) != 2 || b.Components[0].Name != "hello" || len(b.Components[0].Hashes) != 1 || b.Components[1].Purl != std {
		t.Errorf("components are %+v, want hello and %s", b.Components, std)
	}
	refs := []string{"release"}
	for _, c := range b.Components {
		refs = append(refs, c.Ref)
	}
	for _, d := range b.Dependencies {
		for _, ref := range append(d.On, d.Ref) {
			if !slices.Contains(refs, ref) {
				t.Errorf("%s is a dependency and no component", ref)
			}
		}
	}
}

func TestAModuleHasItsOwnAddress(t *testing.T) {
	for _, c := range []struct {
		module     debug.Module
		purl, note string
	}{
		{debug.Module{Path: "example.org/a", Version: "v1.2.3", Sum: "h1:x"}, "pkg:golang/example.org/a@v1.2.3", "h1:x"},
		{debug.Module{Path: "example.org/a", Version: "v2.0.0+incompatible"}, "pkg:golang/example.org/a@v2.0.0%2Bincompatible", ""},
		{debug.Module{Path: "example.org/a", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/b", Version: "v1.1.0", Sum: "h1:y"}}, "pkg:golang/example.org/b@v1.1.0", "h1:y"},
	} {
		got := module(&c.module)
		note := ""
		if len(got.Properties) > 0 {
			note = got.Properties[0].Value
		}
		if got.Purl != c.purl || got.Ref != c.purl || note != c.note {
			t.Errorf("module(%+v) = %+v, want %s with sum %q", c.module, got, c.purl, c.note)
		}
	}
}
