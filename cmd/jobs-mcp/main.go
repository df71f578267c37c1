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
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"layover/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(execute(ctx, os.Args[1:]))
}

// incomplete ends list when something is missing, and get when the job could not
// be read; the answer was printed, and says so.
const incomplete cli.Exit = 3

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, args []string) int { return cli.Run(ctx, root(), args) }

// root is the command line.
func root() *cobra.Command {
	root := &cobra.Command{
		Use:   "jobs-mcp",
		Short: "An MCP server over public job boards, and the same at a terminal",
		Long: `jobs-mcp reads public job boards: for assistants by the Model Context Protocol (serve), and for people at a
terminal (list, get). One time limit covers a whole operation; the answer comes by then and says what is missing.

Exit codes: 0, it worked; 1, it did not; 3, list or get answered, and something is missing.`,
	}
	root.AddCommand(serveCommand(), listCommand(), getCommand(), boardsCommand(), demoCommand(), cli.VersionCommand())
	return root
}
