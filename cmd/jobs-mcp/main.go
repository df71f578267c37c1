// Command jobs-mcp is an MCP server over public job boards: jobs.list and
// jobs.get, one time limit for a whole operation, and honest answers when not
// everything could be had.
//
//	jobs-mcp serve                      for an assistant that starts it (stdio)
//	jobs-mcp serve --http 127.0.0.1:8090
//	jobs-mcp list --source greenhouse:acme go -php
//	jobs-mcp get greenhouse/acme/4012345678
//	jobs-mcp boards                     boards of a made-up world, for trying
//	jobs-mcp demo                       see it work, without the network
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(execute(ctx, os.Args[1:]))
}

// The exit codes beside 0.
const (
	exitFailed     = 1 // it did not work
	exitIncomplete = 3 // list: something is missing; get: the job could not be read
)

// errIncomplete ends a command that printed an answer in which something is
// missing, and said so.
var errIncomplete = errors.New("incomplete")

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, args []string) int {
	root := &cobra.Command{
		Use:   "jobs-mcp",
		Short: "An MCP server over public job boards, and the same at a terminal",
		Long: `jobs-mcp reads public job boards: for assistants by the Model Context Protocol (serve), and for people at a
terminal (list, get). One time limit covers a whole operation; the answer comes by then and says what is missing.

Exit codes: 0, it worked; 1, it did not; 3, list or get answered, and something is missing.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
	}
	root.SetVersionTemplate("jobs-mcp {{.Version}}\n")
	understood := false
	root.PersistentPreRun = func(*cobra.Command, []string) { understood = true }
	root.AddCommand(serveCommand(), listCommand(), getCommand(), boardsCommand(), demoCommand())
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errIncomplete):
		return exitIncomplete
	case !understood:
		fmt.Fprintf(os.Stderr, "jobs-mcp: %s; see '%s --help'\n", strings.TrimSpace(err.Error()), cmd.CommandPath())
	default:
		fmt.Fprintln(os.Stderr, "jobs-mcp:", plain(err))
	}
	return exitFailed
}

// packageName is how errors begin that say which package they come from.
var packageName = regexp.MustCompile(`(?m)(^|: )(?:board|search|courtesy|fakeboards|tools|budget|lane): `)

// plain is err as people read it who do not know the packages.
func plain(err error) string { return packageName.ReplaceAllString(err.Error(), "$1") }
