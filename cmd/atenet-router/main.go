// Command atenet-router wakes actors through agent-substrate's control plane
// and tells an Envoy where they are.
//
//	atenet-router demo                  see it work, with a real Envoy
//	atenet-router bootstrap > envoy.yaml
//	envoy -c envoy.yaml
//	atenet-router --ateapi-address ateapi:443
//
// A request for a sleeping actor is held in Envoy until the actor runs or its
// budget ends; those that are held are bounded, and served in order.
// docs/atenet-router.md describes it.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"layover/internal/cli"
)

func main() { os.Exit(execute(context.Background(), os.Args[1:])) }

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, args []string) int { return cli.Run(ctx, root(), args) }

// root is the command line. Without a command it serves, as deployments of this name expect.
func root() *cobra.Command {
	root := serveCommand("atenet-router")
	root.Short = "Wakes actors through agent-substrate's control plane, for an Envoy in front"
	root.AddCommand(serveCommand("serve"), bootstrapCommand(), demoCommand(), cli.VersionCommand())
	return root
}
