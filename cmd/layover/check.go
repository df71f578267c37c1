package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

const defaultConfig = "layover.yaml"

//go:embed example.yaml
var example string

func checkCommand() *cobra.Command {
	var printExample bool
	cmd := &cobra.Command{
		Use:   "check [file]",
		Short: "Check a configuration file and print the times that follow from it",
		Long: `Check reads the file (default ./layover.yaml) as serve would. It prints all that is wrong with it and
exits with 1, or prints, for each route, which limits a request meets and which of them ends its wait.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if printExample {
				_, err := io.WriteString(cmd.OutOrStdout(), example)
				return err
			}
			file := defaultConfig
			if len(args) > 0 {
				file = args[0]
			}
			c, err := loadOrSay(file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), plan(c))
			return err
		},
	}
	cmd.Flags().BoolVar(&printExample, "example", false, "print a commented example file")
	return cmd
}

// loadOrSay loads the file and prints to w what is wrong with it, and its
// warnings.
func loadOrSay(file string, w io.Writer) (*config, error) {
	c, err := load(file)
	if wrong, ok := errors.AsType[*problems](err); ok {
		fmt.Fprintln(w, wrong)
		return nil, errSaid
	}
	if err != nil {
		return nil, err
	}
	if warnings := c.warnings.lines("warning: "); len(warnings) > 0 {
		fmt.Fprintln(w, strings.Join(warnings, "\n"))
	}
	return c, nil
}
