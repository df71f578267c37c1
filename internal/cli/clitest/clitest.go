// Package clitest checks that the documents agree with a program's commands and
// metrics.
package clitest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Documented wants each command below root, and each of its flags, in one of
// the documents.
func Documented(t *testing.T, root *cobra.Command, documents ...string) {
	t.Helper()
	var text strings.Builder
	for _, file := range documents {
		text.WriteString(read(t, file))
	}
	each(root, func(cmd *cobra.Command) {
		if path := cmd.CommandPath(); cmd != root && !strings.Contains(text.String(), path) {
			t.Errorf("'%s' is in none of %s", path, documents)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if named := regexp.MustCompile(`--` + f.Name + `\b`); f.Name != "help" && f.Name != "version" && !named.MatchString(text.String()) {
				t.Errorf("--%s of '%s' is in none of %s", f.Name, cmd.CommandPath(), documents)
			}
		})
	})
}

func each(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, c := range cmd.Commands() {
		each(c, do)
	}
}

// Exists wants each command line of the program in the documents, which are
// patterns of files, to be one that it understands: its commands and its flags.
func Exists(t *testing.T, root *cobra.Command, documents ...string) {
	t.Helper()
	root.InitDefaultCompletionCmd()
	lines := regexp.MustCompile(`(?m)(?:^\s*(?:\$ )?|` + "`" + `|'|\(|&& )` + root.Name() + ` ([^` + "`" + `'|>#)\n]*)`)
	found := 0
	for _, pattern := range documents {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no document %s, %v", pattern, err)
		}
		for _, file := range files {
			for _, m := range lines.FindAllStringSubmatch(read(t, file), -1) {
				found++
				if wrong := misunderstood(root, strings.Fields(m[1])); wrong != "" {
					t.Errorf("%s: '%s %s': %s", file, root.Name(), strings.TrimSpace(m[1]), wrong)
				}
			}
		}
	}
	if found == 0 {
		t.Errorf("no command line of %s is in %s", root.Name(), documents)
	}
}

// misunderstood returns what of a command line root does not know.
func misunderstood(root *cobra.Command, words []string) string {
	cmd, _, err := root.Find(words)
	if err != nil {
		return err.Error()
	}
	for _, word := range words {
		name, _, _ := strings.Cut(strings.Trim(word, "[]().,;:"), "=")
		long, is := strings.CutPrefix(name, "--")
		if is && long != "" && long != "help" && long != "version" && cmd.Flag(long) == nil {
			return "there is no flag " + name
		}
	}
	return ""
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Metrics wants the section "Metrics" of a document to name every metric in
// scraped, a page in Prometheus' form, and no other. Those of the language's
// libraries, go_... and process_..., do not count.
func Metrics(t *testing.T, scraped, document string) {
	t.Helper()
	_, section, found := strings.Cut(read(t, document), "\n## Metrics\n")
	if !found {
		t.Fatalf("%s has no section Metrics", document)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	said := make(map[string]bool)
	for _, m := range regexp.MustCompile("`((?:layover|atenet_router)_[a-z_]+)[`{]").FindAllStringSubmatch(section, -1) {
		said[m[1]] = true
	}
	there := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(scraped, -1) {
		if name := m[1]; !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			there[name] = true
		}
	}
	for name := range there {
		if !said[name] {
			t.Errorf("%s does not name %s", document, name)
		}
	}
	for name := range said {
		if !there[name] {
			t.Errorf("%s names %s, which is not exported", document, name)
		}
	}
	if len(there) < 10 {
		t.Errorf("only %d metrics are exported", len(there))
	}
}
