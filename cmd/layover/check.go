package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"layover/internal/cli"
	"layover/internal/local"
)

const defaultConfig = "layover.yaml"

//go:embed example.yaml
var example string

func checkCommand() *cobra.Command {
	var printExample, bootstrap bool
	cmd := &cobra.Command{
		Use:   "check [file]",
		Short: "Check a configuration file and print the times that follow from it",
		Long: `Check reads the file (default ./layover.yaml) as serve would. It prints all that is wrong with it and
exits with 1, or prints, for each route, which limits a request meets and which of them ends its wait. It warns
of what is allowed but doubtful, and of a state folder that serve would refuse if this user ran it.`,
		Args: cli.Args(0, 1, "check layover.yaml"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := named(cmd, args)
			if err != nil {
				return err
			}
			if printExample && bootstrap {
				return errors.New("--example and --bootstrap each print a file; leave one out")
			}
			if printExample {
				if len(args) > 0 {
					return errors.New("--example prints a file and reads none; leave " + file + " out, or write > " + file)
				}
				_, err := io.WriteString(cmd.OutOrStdout(), example)
				return err
			}
			c, err := loadOrSay(file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := local.CheckState(c.State); err != nil {
				c.warnings.add(c.root.at("state"), "state: %v; serve would refuse that, run by this user", err)
			}
			c.warnings.print(cmd.ErrOrStderr())
			if bootstrap {
				return c.printBootstrap(cmd.OutOrStdout())
			}
			_, err = io.WriteString(cmd.OutOrStdout(), plan(c))
			return err
		},
	}
	cmd.Flags().String("config", defaultConfig, "the configuration file")
	cmd.Flags().BoolVar(&bootstrap, "bootstrap", false, "print what the Envoy of the file's envoy section is started with, instead")
	cmd.Flags().BoolVar(&printExample, "example", false, "print a commented example file")
	return cmd
}

// named returns the file of a command: its argument, else the flag's.
func named(cmd *cobra.Command, args []string) (string, error) {
	flag := cmd.Flag("config")
	switch {
	case len(args) == 0:
		return flag.Value.String(), nil
	case flag.Changed && flag.Value.String() != args[0]:
		return "", fmt.Errorf("two files are named, %s and --config %s; leave one out", args[0], flag.Value)
	}
	return args[0], nil
}

// loadOrSay loads the file, or prints to w what is wrong with it.
func loadOrSay(file string, w io.Writer) (*config, error) {
	c, err := load(file)
	if wrong, ok := errors.AsType[*problems](err); ok {
		fmt.Fprintln(w, wrong)
		return nil, cli.Failed
	}
	if errors.Is(err, fs.ErrNotExist) {
		if file == defaultConfig {
			return nil, fmt.Errorf("there is no file %s here; name another one ('layover check my.yaml'), or make one: layover check --example > %[1]s", file)
		}
		return nil, fmt.Errorf("there is no file %s; correct its name, or make one: layover check --example > %[1]s", file)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}
