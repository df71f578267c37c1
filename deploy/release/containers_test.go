package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// stage is a stage of a container file: its instructions in order.
type stage struct {
	name, base   string
	instructions [][2]string // instruction, arguments
}

func (s stage) all(instruction string) (arguments []string) {
	for _, i := range s.instructions {
		if i[0] == instruction {
			arguments = append(arguments, i[1])
		}
	}
	return arguments
}

func stages(t *testing.T) (all []stage) {
	t.Helper()
	text, err := os.ReadFile("../Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	from := regexp.MustCompile(`^(?:--platform=\S+ )?(\S+) AS (\S+)$`)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		instruction, arguments, _ := strings.Cut(line, " ")
		if instruction == "FROM" {
			m := from.FindStringSubmatch(arguments)
			if m == nil {
				t.Fatalf("%s: want a base and a name", line)
			}
			all = append(all, stage{name: m[2], base: m[1]})
			continue
		}
		if len(all) == 0 {
			t.Fatalf("%s stands before the first FROM", line)
		}
		last := &all[len(all)-1]
		last.instructions = append(last.instructions, [2]string{instruction, arguments})
	}
	return all
}

func TestTheImagesAreBuiltInStagesAndRunAsNobody(t *testing.T) {
	all := stages(t)
	var names []string
	for _, s := range all {
		names = append(names, s.name)
		if s.base != "scratch" && (!strings.Contains(s.base, ":") || strings.HasSuffix(s.base, ":latest")) {
			t.Errorf("%s: the base %s has no tag", s.name, s.base)
		}
		if fetched := s.all("ADD"); fetched != nil {
			t.Errorf("%s: ADD %q: what ADD fetches nobody has checked", s.name, fetched)
		}
	}
	programs, err := os.ReadDir("../../cmd")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		if !slices.Contains(names, p.Name()) {
			t.Errorf("there is no image of %s", p.Name())
		}
	}
	if all[0].name != "build" || !slices.Contains(all[0].all("ENV"), "CGO_ENABLED=0") {
		t.Errorf("the first stage is %+v, want build, without C", all[0])
	}
	for _, s := range all[1:] {
		program := "/usr/local/bin/" + s.name
		if s.base != "scratch" {
			t.Errorf("%s is made on %s: a static program needs nothing", s.name, s.base)
		}
		if got := s.all("USER"); !slices.Equal(got, []string{"65532:65532"}) {
			t.Errorf("%s: USER is %q, want one number that a cluster can check", s.name, got)
		}
		if got := s.all("ENTRYPOINT"); !slices.Equal(got, []string{`["` + program + `"]`}) { // a shell would keep signals from it
			t.Errorf("%s: ENTRYPOINT is %q", s.name, got)
		}
		if s.all("RUN") != nil {
			t.Errorf("%s: RUN, but its base has no shell", s.name)
		}
		for _, copied := range s.all("COPY") {
			if !strings.HasPrefix(copied, "--from=build ") {
				t.Errorf("%s: COPY %s: only what was built belongs into an image", s.name, copied)
			}
		}
	}
}

func TestTheBuilderIsTheGoOfTheModule(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(text))[1]
	if base := stages(t)[0].base; base != "golang:"+want {
		t.Errorf("the builder is %s, want golang:%s", base, want)
	}
}

func TestImagesAreBuiltFromAllThatIsCommitted(t *testing.T) {
	ignored := make(map[string]bool)
	text, err := os.ReadFile("../../.gitignore")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		ignored[strings.Trim(strings.TrimSpace(line), "/")] = true
	}
	if text, err = os.ReadFile("../../.dockerignore"); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name := strings.Trim(strings.TrimSpace(line), "/"); name != "" && name[0] != '#' && !ignored[name] {
			t.Errorf(".dockerignore leaves out %s, which is committed: the version would say +dirty", name)
		}
	}
}
