// Command layover is a reverse proxy that starts programs when requests for
// them arrive, bounds how many run at once, and puts them to sleep again.
//
//	layover demo                        see it work, without any other software
//	layover check --example > layover.yaml
//	layover serve
//
// A request for a sleeping actor waits for it, at most until its budget ends;
// the requests that wait are bounded, and served in order of their band and
// age. docs/config.md describes the configuration file.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	if runDemoActor() {
		return
	}
	os.Exit(execute(context.Background(), os.Args[1:]))
}

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, args []string) int {
	root := &cobra.Command{
		Use:           "layover",
		Short:         "A reverse proxy that wakes sleeping programs, and makes requests wait well",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       versionLine(),
	}
	root.SetVersionTemplate("{{.Version}}")
	understood := false
	root.PersistentPreRun = func(*cobra.Command, []string) { understood = true }
	root.AddCommand(serveCommand(), checkCommand(), demoCommand(), versionCommand(),
		psCommand(), topCommand(), logsCommand(), whyCommand(), wakeCommand(), sleepCommand(), resizeCommand(), tokenCommand())
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return 0
	case !understood:
		fmt.Fprintf(os.Stderr, "layover: %s; see '%s --help'\n", strings.TrimSpace(err.Error()), cmd.CommandPath())
	case !errors.Is(err, errSaid):
		fmt.Fprintln(os.Stderr, "layover:", plain(err))
	}
	return 1
}

// packageName is how errors begin that say which package they come from.
var packageName = regexp.MustCompile(`(?m)(^|: )(?:router|local|proxy|parking|turnstile|budget): `)

// plain is err as people read it who do not know the packages.
func plain(err error) string { return packageName.ReplaceAllString(err.Error(), "$1") }

// errSaid ends a command that has already said what is wrong.
var errSaid = errors.New("said")
