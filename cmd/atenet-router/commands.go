package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"github.com/spf13/cobra"

	"layover/internal/cli"
	"layover/internal/envoy"
)

func bootstrapCommand() *cobra.Command {
	c := new(config)
	static, explain, output := false, false, ""
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Print what Envoy is started with",
		Long: `Bootstrap prints the configuration file that Envoy is started with: it names the router's xDS server, from which Envoy
gets the rest. --static prints all of it in one file, for an Envoy that is to start while there is no router.

The flags must be those of the router.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			plan, doubts, err := c.checkPlan()
			if err != nil {
				return err
			}
			for _, doubt := range doubts {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", doubt)
			}
			if explain {
				plan.Explain(cmd.ErrOrStderr())
			}
			if output == "" {
				return writeBootstrap(cmd.OutOrStdout(), plan, static)
			}
			var text bytes.Buffer
			if err := writeBootstrap(&text, plan, static); err != nil {
				return err
			}
			return os.WriteFile(output, text.Bytes(), 0o644)
		},
	}
	c.planFlags(cmd.Flags())
	cmd.Flags().BoolVar(&static, "static", false, "everything in one file, without xDS")
	cmd.Flags().StringVar(&output, "output", "", "write to this `file` (default stdout)")
	cmd.Flags().BoolVar(&explain, "explain", false, "print the time plan to stderr, too")
	return cmd
}

func writeBootstrap(w io.Writer, plan envoy.Plan, static bool) error {
	var boot *bootstrapv3.Bootstrap
	var err error
	if static {
		boot, err = plan.Static()
	} else {
		boot, err = plan.Bootstrap()
	}
	if err != nil {
		return err
	}
	return envoy.Write(w, boot)
}
