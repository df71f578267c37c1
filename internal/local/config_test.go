package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestValidateSaysWhatIsWrongWithWhomAndTheFix(t *testing.T) {
	ok := Actor{Name: "a", Pool: "pool", Command: []string{"run"}}
	with := func(edit func(*Actor)) Config {
		a := ok
		edit(&a)
		return Config{Pools: []Pool{{Name: "pool", Workers: 1}}, Actors: []Actor{a}}
	}
	tests := []struct {
		config Config
		want   string // empty: valid
	}{
		{with(func(a *Actor) {}), ""},
		{with(func(a *Actor) { a.Name = "preview-*" }), ""},
		{with(func(a *Actor) { a.Name, a.Env = "preview-*", []string{"X={match}"} }), ""},
		{Config{}, "there is no pool: add one"},
		{Config{Pools: []Pool{{Name: "p"}}}, `pool "p": has 0 workers: it needs at least 1`},
		{Config{Pools: []Pool{{Name: "p", Workers: 1}, {Name: "p", Workers: 1}}}, `pool "p": is there twice`},
		{Config{Pools: []Pool{{Workers: 1}}}, "has no name"},
		{Config{Pools: []Pool{{Name: "p", Workers: 1, HeadStart: -1}}}, "negative head start"},
		{with(func(a *Actor) { a.Name = "A" }), `actor "A": the name is not a DNS label`},
		{with(func(a *Actor) { a.Name = strings.Repeat("a", 64) }), "not a DNS label"},
		{with(func(a *Actor) { a.Name = "*-*" }), "more than one '*'"},
		{with(func(a *Actor) { a.Command = nil }), "has no command"},
		{with(func(a *Actor) { a.Command = []string{"run", "{match}"} }), "the name has no '*'"},
		{with(func(a *Actor) { a.Pool = "q" }), `there is no pool "q": use one of "pool"`},
		{with(func(a *Actor) { a.Env = []string{"X"} }), `"X" is not KEY=VALUE`},
		{with(func(a *Actor) { a.Env = []string{"PORT=80"} }), "sets PORT"},
		{with(func(a *Actor) { a.Env = []string{"X=\x00"} }), "zero byte"},
		{with(func(a *Actor) { a.Protocol = "h3" }), `protocol "h3" is not known`},
		{with(func(a *Actor) { a.Ready.Kind = "magic" }), `readiness "magic" is not known`},
		{with(func(a *Actor) { a.Ready.Path = "/x" }), `has a readiness path, but readiness is "connect"`},
		{with(func(a *Actor) { a.Ready = Ready{ReadyHTTP, "x"} }), "must begin with a slash"},
		{with(func(a *Actor) { a.Idle = -1 }), "negative duration"},
		{with(func(a *Actor) { a.MinAwake, a.MaxHold = 2*time.Second, time.Second }), "max_hold 1s is below min_awake 2s"},
	}
	for _, tt := range tests {
		err := tt.config.Validate()
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%+v: %v, want no error", tt.config, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%+v: %v, want an error that says %q", tt.config, err, tt.want)
		}
	}
	two := with(func(a *Actor) { a.Protocol, a.Pool = "h3", "q" })
	if err := two.Validate(); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two mistakes give %v, want both", err)
	}
}

func TestTheFirstTemplateThatMatchesDefinesAnInstance(t *testing.T) {
	d := newDefinitions([]Actor{
		{Name: "pr-*", Command: []string{"first", "{match}"}},
		{Name: "pr-special", Command: []string{"own"}},
		{Name: "*-web", Command: []string{"second", "{actor}", "{match}"}, Dir: "/srv/{match}"},
	})
	for name, want := range map[string]string{
		"pr-1": "first 1", "pr-special": "own", "pr-web": "first web", "x-web": "second x-web x",
		"pr-": "", "-web": "", "web": "", "PR-1": "", "pr-1.x": "", "pr-" + strings.Repeat("x", 61): "",
	} {
		a, ok := d.of(name)
		if got := strings.Join(a.Command, " "); got != want || ok != (want != "") {
			t.Errorf("of(%q) = %q, %v, want %q", name, got, ok, want)
		}
	}
	if a, _ := d.of("x-web"); a.Dir != "/srv/x" || a.StartTimeout != time.Minute || a.Grace != 10*time.Second {
		t.Errorf("of(x-web) = %+v", a)
	}
}

func TestTheRingKeepsTheLastLines(t *testing.T) {
	var r ring
	write := func(s string) { r.Write([]byte(s)) }
	want := func(n int, lines ...string) {
		t.Helper()
		if got := r.tail(n); strings.Join(got, "|") != strings.Join(lines, "|") {
			t.Errorf("tail(%d) = %q, want %q", n, got, lines)
		}
	}
	want(5)
	write("one\r\ntwo\nth")
	want(5, "one", "two", "th")
	write("ree\n\n")
	want(2, "three", "")
	write(strings.Repeat("y", 3*longestLine))
	write("more\nend\n")
	want(2, strings.Repeat("y", longestLine)+"…", "end")
	for range 10 * keptLines {
		write(strings.Repeat("z", 900) + "\n")
	}
	if len(r.lines) > keptLines || r.bytes > keptBytes || cap(r.part) > 2*longestLine {
		t.Errorf("%d lines of %d bytes are kept, want at most %d of %d", len(r.lines), r.bytes, keptLines, keptBytes)
	}
}

func TestAStateFolderIsCheckedWithoutBeingMade(t *testing.T) {
	base := t.TempDir()
	file, closed, state := filepath.Join(base, "file"), filepath.Join(base, "closed"), filepath.Join(base, "a", "b")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(closed, 0o500)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := CheckState(state); err != nil {
			t.Errorf("CheckState of a folder that New would make = %v", err)
		}
	}
	if _, err := os.Stat(filepath.Dir(state)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the check made something: %v", err)
	}
	if err := CheckState(filepath.Join(file, "a", "b")); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("CheckState below a file = %v", err)
	}
	if err := CheckState(filepath.Join(closed, "a")); os.Geteuid() != 0 && !errors.Is(err, fs.ErrPermission) {
		t.Errorf("CheckState where this user can make nothing = %v", err)
	}
}
