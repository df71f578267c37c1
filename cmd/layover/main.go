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
	"os"

	"github.com/spf13/cobra"

	"layover/internal/cli"
)

func main() {
	if runDemoActor() {
		return
	}
	os.Exit(execute(context.Background(), os.Args[1:]))
}

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, args []string) int { return cli.Run(ctx, root(), args) }

// root is the command line.
func root() *cobra.Command {
	root := &cobra.Command{
		Use:   "layover",
		Short: "A reverse proxy that wakes sleeping programs, and makes requests wait well",
	}
	root.AddCommand(serveCommand(), checkCommand(), demoCommand(), cli.VersionCommand(),
		psCommand(), topCommand(), logsCommand(), whyCommand(), wakeCommand(), sleepCommand(), resizeCommand(), tokenCommand())
	return root
}
