package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// run runs the program as a process and returns what it prints.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	cmd.Run() // the exit code says it
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}

func TestCheckPrintsTheTimePlan(t *testing.T) {
	out, stderr, code := run(t, "check", filepath.Join("testdata", "plan.yaml"))
	warnings := "testdata/plan.yaml:10: warning: actor \"unused\" is not woken by any route\n" +
		"testdata/plan.yaml:11: warning: actor \"pr-*\" may start for 5s, but no request waits longer than 3s: a slow start is seen as still_waking, never as start_failed\n"
	if code != 0 || stderr != warnings {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	golden := filepath.Join("testdata", "plan.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || out != string(want) {
		t.Errorf("check prints\n%s\nwant\n%s%v", out, want, err)
	}
}

func TestCheckExitsWithOneAndAllProblems(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(file, []byte("lott: 1\n"+good+"linger: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, stderr, code := run(t, "check", file)
	want := file + ":1: the file has no field \"lott\"; did you mean \"lot\"?\n" +
		file + ":4: linger \"x\" is not a duration; write one like 500ms, 10s or 1m30s\n"
	if code != 1 || out != "" || stderr != want {
		t.Errorf("exit code %d, stdout %q, stderr\n%s\nwant\n%s", code, out, stderr, want)
	}
}

func TestCheckExamplePassesCheck(t *testing.T) {
	out, _, code := run(t, "check", "--example")
	file := filepath.Join(t.TempDir(), "layover.yaml")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil || code != 0 {
		t.Fatal(err, code)
	}
	if _, stderr, code := run(t, "check", file); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestAMissingFileIsSaidWithTheWayOut(t *testing.T) {
	for _, command := range []string{"serve", "check"} {
		_, stderr, code := run(t, command, "--config", "/no/such.yaml")
		want := "layover: there is no file /no/such.yaml; correct its name, or make one: layover check --example > /no/such.yaml\n"
		if code != 1 || stderr != want {
			t.Errorf("%s: exit code %d, stderr %q, want %q", command, code, stderr, want)
		}
	}
	for _, test := range [][]string{
		{"two files are named, a.yaml and --config b.yaml; leave one out", "check", "a.yaml", "--config", "b.yaml"},
		{"--example and --bootstrap each print a file; leave one out", "check", "--example", "--bootstrap"},
		{"--example prints a file and reads none; leave a.yaml out, or write > a.yaml", "check", "--example", "a.yaml"},
	} {
		if out, stderr, code := run(t, test[1:]...); code != 1 || out != "" || stderr != "layover: "+test[0]+"\n" {
			t.Errorf("%q: exit code %d, stderr %q", test[1:], code, stderr)
		}
	}
	folder := t.TempDir()
	if _, stderr, code := run(t, "serve", folder); code != 1 || stderr != "layover: read "+folder+": is a directory\n" {
		t.Errorf("exit code %d, stderr %q, want no hint about a missing file", code, stderr)
	}
}

func TestAJSONLogHasEverythingAfterTheFileWasRead(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "f.yaml")
	text := fmt.Sprintf("log: {format: json}\nlisten: %s\nadmin: \"off\"\n%s", taken.Addr(), strings.Replace(good, "sleep", "no-such-program", 1))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := run(t, "serve", file)
	var levels []string
	for line := range strings.Lines(stderr) {
		var record struct{ Level string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("%q is no record: %v", line, err)
		}
		levels = append(levels, record.Level)
	}
	if code != 1 || strings.Join(levels, " ") != "WARN ERROR" {
		t.Errorf("exit code %d, levels %q:\n%s", code, levels, stderr)
	}
}

func TestVersionNamesTheToolchain(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		out, _, code := run(t, arg)
		if code != 0 || !strings.HasPrefix(out, "layover ") || !strings.Contains(out, " go1.") || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: exit code %d, stdout %q", arg, code, out)
		}
	}
}

func TestAUsageErrorSaysWhereTheHelpIs(t *testing.T) {
	for want, args := range map[string][]string{
		"layover: there is no flag --lot; see 'layover serve --help'\n":                                                                                                      {"serve", "--lot", "5"},
		"layover: \"b\" is too much: 'layover check' takes [file]; write it like 'layover check layover.yaml'; see 'layover check --help'\n":                                 {"check", "a", "b"},
		"layover: \"b\" is too much: 'layover logs' takes an actor; write it like 'layover logs wiki'; see 'layover logs --help'\n":                                          {"logs", "a", "b"},
		"layover: the request-id is empty; write it like 'layover why 1c2d3e4f'; see 'layover why --help'\n":                                                                 {"why", ""},
		"layover: the actor is empty; write it like 'layover wake wiki'; see 'layover wake --help'\n":                                                                        {"wake", "a", "b", ""},
		"layover: \"x\" is too much: 'layover demo' takes no arguments, only flags; see 'layover demo --help'\n":                                                             {"demo", "x"},
		"layover: there is no command \"begin\"; use one of check, completion, demo, logs, ps, resize, serve, sleep, token, top, version, wake, why; see 'layover --help'\n": {"begin"},
	} {
		if _, stderr, code := run(t, args...); code != 1 || stderr != want {
			t.Errorf("layover %q: exit code %d, stderr %q, want %q", args, code, stderr, want)
		}
	}
}

func TestCheckWarnsOfAStateFolderThatServeWouldRefuse(t *testing.T) {
	folder := t.TempDir()
	file, state := filepath.Join(folder, "f.yaml"), filepath.Join(folder, "state")
	if err := errors.Join(os.Mkdir(state, 0o700), os.Chmod(state, 0o777), os.WriteFile(file, []byte("state: "+state+"\n"+good), 0o600)); err != nil {
		t.Fatal(err)
	}
	out, stderr, code := run(t, "check", file)
	if code != 0 || !strings.HasPrefix(stderr, file+":1: warning: state: "+state+" can be written by others (mode 0777): ") || !strings.Contains(out, "1 warning\n") {
		t.Errorf("exit code %d, stderr %q\n%s", code, stderr, out)
	}
}
