package mcp

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// conform runs the suite. It passes if what fails is exactly what the file says
// cannot apply; the suite also fails what is in the file and passes.
func conform(t *testing.T, version, list string, passed []string, args ...string) {
	t.Helper()
	modules := installed(t, "mcp-conformance-"+version, "@modelcontextprotocol/conformance@"+version)
	url := serveHTTP(t, playBoards(t))
	file, err := filepath.Abs(filepath.Join("testdata", list))
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(modules, ".bin", "conformance")
	stdout, stderr, code := judge(t, append([]string{script, "server", "--url", url, "--expected-failures", file}, args...)...)
	if code != 0 {
		t.Errorf("it ended with %d\n%s%s", code, stdout, stderr)
	}
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^✓ ([a-z0-9-]+): [1-9]`).FindAllStringSubmatch(stdout, -1) {
		got = append(got, m[1])
	}
	for _, scenario := range passed {
		if !slices.Contains(got, scenario) {
			t.Errorf("%s is not among what passed: %q\n%s", scenario, got, stdout)
		}
	}
}

func TestTheConformanceSuitePasses(t *testing.T) {
	conform(t, conformanceVersion, "not-applicable.yml", []string{
		"server-initialize", "ping", "tools-list", "server-sse-multiple-streams", "dns-rebinding-protection",
	})
}

func TestTheConformanceSuiteOf20260728Passes(t *testing.T) {
	conform(t, draftVersion, "not-applicable-2026-07-28.yml", []string{
		"tools-list", "server-sse-multiple-streams", "dns-rebinding-protection", "caching", "http-header-validation", "sep-2164-resource-not-found",
	}, "--requirements", "2026-07-28")
}
