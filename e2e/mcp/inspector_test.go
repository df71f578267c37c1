package mcp

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// inspect runs the inspector's command line.
func inspect(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	modules := installed(t, "mcp-inspector-"+inspectorVersion, "@modelcontextprotocol/inspector@"+inspectorVersion)
	script := filepath.Join(modules, ".bin", "mcp-inspector")
	return judge(t, append([]string{script, "--cli", "--format", "json"}, args...)...)
}

// answer is a result of tools/call as the inspector prints it.
type answer struct {
	Result struct {
		IsError           bool `json:"isError"`
		Content           []struct{ Type, Text string }
		StructuredContent struct {
			Jobs     []struct{ ID, Title, URL string }
			Complete bool
			Status   string
		}
	}
}

func TestTheInspectorAccepts(t *testing.T) {
	boards := playBoards(t)
	url := serveHTTP(t, boards)
	for transport, target := range map[string][]string{
		"stdio": {filepath.Join(programs, "jobs-mcp"), "serve", "--boards-at", boards, "--state", "off"},
		"http":  {"--transport", "http", "--server-url", url},
	} {
		for _, era := range []string{"legacy", "modern"} {
			t.Run(transport+" "+era, func(t *testing.T) {
				call := func(code int, args ...string) (a answer, stderr string) {
					t.Helper()
					// The inspector's own options come before a command of ours, which has options too.
					stdout, stderr, got := inspect(t, slices.Concat([]string{"--protocol-era", era}, args, target)...)
					if got != code {
						t.Fatalf("%q ended with %d, want %d\n%s%s", args, got, code, stdout, stderr)
					}
					if err := json.Unmarshal([]byte(stdout), &a); err != nil && code == 0 {
						t.Fatalf("%q printed %s: %v", args, stdout, err)
					}
					return a, stdout + stderr
				}
				_, said := call(0, "--strict", "--method", "tools/list")
				if !strings.Contains(said, `"jobs.list"`) || !strings.Contains(said, `"jobs.get"`) {
					t.Errorf("tools/list: %s", said)
				}
				list, _ := call(0, "--method", "tools/call", "--tool-name", "jobs.list", "--tool-args-json", `{"sources":["greenhouse:acme","remotive"],"limit":30}`)
				found := list.Result.StructuredContent.Jobs
				if len(found) != 30 || len(list.Result.Content) != 1 || !strings.Contains(list.Result.Content[0].Text, "30. ") {
					t.Fatalf("jobs.list: %d jobs in %+v, want 30 in data and text", len(found), list)
				}
				get, _ := call(0, "--method", "tools/call", "--tool-name", "jobs.get", "--tool-args-json", `{"id":"`+found[0].ID+`"}`)
				if get.Result.StructuredContent.Status != "ok" || !strings.Contains(get.Result.Content[0].Text, found[0].Title) {
					t.Errorf("jobs.get: %+v", get)
				}
				_, said = call(5, "--method", "tools/call", "--tool-name", "jobs.list", "--tool-args-json", `{"limit":1000}`)
				if !strings.Contains(said, "limit: 1000: expected a number from 1 to 100") {
					t.Errorf("a bad argument: %s", said)
				}
				_, said = call(5, "--method", "tools/call", "--tool-name", "jobs.delete", "--tool-args-json", `{}`)
				if !strings.Contains(said, "jobs.delete") {
					t.Errorf("an unknown tool: %s", said)
				}
			})
		}
	}
}
