// Package cli is what the command lines of the programs have in common: how
// a mistake is said, exit codes, versions, the log and the second signal.
//
//	func main() {
//		root := &cobra.Command{Use: "thing", Short: "Does it"}
//		root.AddCommand(lookCommand(), cli.VersionCommand())
//		os.Exit(cli.Run(context.Background(), root, os.Args[1:]))
//	}
//
// Whatever is wrong is one error on stderr that says what, where and what to
// do, and an exit code that is not 0. Functions may be called from any
// goroutine.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Exit is the error of a command that has said all that there is to say: it
// ends the program with that code.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Failed is the Exit of a command that did not work.
const Failed Exit = 1

// Run executes a command line, prints to stderr what is wrong with it, and
// returns the exit code.
func Run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Version = fmt.Sprintf("%s %s %s %s/%s", root.Name(), Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	root.SetVersionTemplate("{{.Version}}\n")
	understood := false
	root.PersistentPreRun = func(*cobra.Command, []string) { understood = true }
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	root.SetArgs(args)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	strict(root)
	cmd, err := root.ExecuteContextC(ctx)
	exit, said := errors.AsType[Exit](err)
	switch {
	case err == nil:
		return 0
	case said:
		return int(exit)
	case !understood:
		fmt.Fprintf(os.Stderr, "%s: %s; see '%s --help'\n", root.Name(), strings.TrimSpace(err.Error()), cmd.CommandPath())
	default:
		fmt.Fprintf(os.Stderr, "%s: %s\n", root.Name(), Plain(err.Error()))
	}
	return int(Failed)
}

// packageName is how errors begin that say which package they come from.
var packageName = regexp.MustCompile(`(?m)(^|: )(?:router|local|proxy|substrate|envoy|extproc|controlplane|board|search|courtesy|fakeboards|tools|lane|parking|turnstile|budget): `)

// Plain is an error's text as people read it who do not know the packages.
func Plain(text string) string { return packageName.ReplaceAllString(text, "$1") }

// VersionCommand is the command that prints the version.
func VersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), cmd.Root().Version)
			return err
		},
	}
}

// Version returns the module's version, and the commit if the build knows it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	v := info.Main.Version
	if v == "" {
		v = "(devel)"
	}
	set := make(map[string]string)
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	if commit := set["vcs.revision"]; commit != "" {
		v += " commit " + commit[:min(12, len(commit))] + " of " + set["vcs.time"]
		if set["vcs.modified"] == "true" {
			v += ", modified"
		}
	}
	return v
}

// The formats of a log.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// Level reads the level of a log: debug, info, warn or error.
func Level(text string) (level slog.Level, err error) {
	switch text {
	case "debug", "info", "warn", "error":
		return level, level.UnmarshalText([]byte(text))
	}
	return level, fmt.Errorf("%q: write debug, info, warn or error", text)
}

// NewLog returns a log on w in one of the formats.
func NewLog(w io.Writer, level slog.Leveler, format string) *slog.Logger {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch v := a.Value.Any().(type) {
		case time.Duration: // JSON would have nanoseconds
			a.Value = slog.StringValue(Short(v))
		case error:
			a.Value = slog.StringValue(Plain(v.Error()))
		}
		return a
	}}
	if format == FormatJSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// Short writes a duration without its zero parts: 5m, not 5m0s.
func Short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Hidden stands for what may be a secret.
const Hidden = "(hidden)"

// userinfo is the part of a URL that can have a password.
var userinfo = regexp.MustCompile(`://[^/@\s]+@`)

// HideUserinfo returns text without the names and passwords in its URLs.
func HideUserinfo(text string) string { return userinfo.ReplaceAllString(text, "://"+Hidden+"@") }
