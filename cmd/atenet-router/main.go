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
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

func main() { os.Exit(execute(context.Background(), os.Args[1:])) }

// execute runs the command line and returns the exit code. Without a command
// it serves, as deployments of this name expect.
func execute(ctx context.Context, args []string) int {
	root := serveCommand("atenet-router")
	root.Short = "Wakes actors through agent-substrate's control plane, for an Envoy in front"
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Version = version()
	root.SetVersionTemplate("atenet-router {{.Version}}\n")
	understood := false
	root.PersistentPreRun = func(*cobra.Command, []string) { understood = true }
	root.AddCommand(serveCommand("serve"), bootstrapCommand(), demoCommand(), versionCommand())
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return 0
	case !understood:
		fmt.Fprintf(os.Stderr, "atenet-router: %s; see '%s --help'\n", strings.TrimSpace(err.Error()), cmd.CommandPath())
	case !errors.Is(err, errSaid):
		fmt.Fprintln(os.Stderr, "atenet-router:", plain(err))
	}
	return 1
}

// packageName is how errors begin that say which package they come from.
var packageName = regexp.MustCompile(`(?m)(^|: )(?:router|proxy|substrate|envoy|extproc|controlplane|budget): `)

// plain is err as people read it who do not know the packages.
func plain(err error) string { return packageName.ReplaceAllString(err.Error(), "$1") }

// errSaid ends a command that has already said what is wrong.
var errSaid = errors.New("said")
