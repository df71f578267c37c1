package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"layover/internal/cli"
)

const defaultConfig = "layover.yaml"

//go:embed example.yaml
var example string

func checkCommand() *cobra.Command {
	var file string
	var printExample, bootstrap bool
	cmd := &cobra.Command{
		Use:   "check [file]",
		Short: "Check a configuration file and print the times that follow from it",
		Long: `Check reads the file (default ./layover.yaml) as serve would. It prints all that is wrong with it and
exits with 1, or prints, for each route, which limits a request meets and which of them ends its wait.`,
		Args: cli.Args(0, 1, "check layover.yaml"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if printExample {
				_, err := io.WriteString(cmd.OutOrStdout(), example)
				return err
			}
			c, err := loadOrSay(named(file, args), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			c.warnings.print(cmd.ErrOrStderr())
			if bootstrap {
				return c.printBootstrap(cmd.OutOrStdout())
			}
			_, err = io.WriteString(cmd.OutOrStdout(), plan(c))
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", defaultConfig, "the configuration file")
	cmd.Flags().BoolVar(&bootstrap, "bootstrap", false, "print what the Envoy of the file's envoy section is started with, instead")
	cmd.Flags().BoolVar(&printExample, "example", false, "print a commented example file")
	return cmd
}

// named returns the file of a command: its argument, else the flag's.
func named(flag string, args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return flag
}

// loadOrSay loads the file, or prints to w what is wrong with it.
func loadOrSay(file string, w io.Writer) (*config, error) {
	c, err := load(file)
	if wrong, ok := errors.AsType[*problems](err); ok {
		fmt.Fprintln(w, wrong)
		return nil, cli.Failed
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; name the file with --config, or begin with the output of 'layover check --example'", err)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}
