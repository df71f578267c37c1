package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Many is no bound on the number of arguments.
const Many = -1

// Args refuses less than least and more than most arguments (Many: none is too
// many), and an empty one. The arguments are called as in the command's Use, "wake actor...", and
// the example is such a call without the program's name: "wake wiki".
func Args(least, most int, example string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		as := fmt.Sprintf("write it like '%s %s'", cmd.Root().Name(), example)
		words := strings.Fields(cmd.Use)[1:]
		switch {
		case len(args) < least:
			return fmt.Errorf("the %s is missing; %s", strings.Trim(words[len(args)], ".[]"), as)
		case most != Many && len(args) > most:
			return fmt.Errorf("%q is too much: '%s' takes %s; %s", args[most], cmd.CommandPath(), strings.Join(withArticles(words), " and "), as)
		}
		if i := slices.Index(args, ""); i >= 0 {
			return fmt.Errorf("the %s is empty; %s", strings.Trim(words[min(i, len(words)-1)], ".[]"), as)
		}
		return nil
	}
}

// withArticles is words with "a" or "an" before each, but for those in brackets.
func withArticles(words []string) []string {
	with := make([]string, len(words))
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "["):
			with[i] = word
		case strings.ContainsRune("aeiouAEIOU", rune(word[0])):
			with[i] = "an " + word
		default:
			with[i] = "a " + word
		}
	}
	return with
}

// NoArgs refuses all arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasAvailableSubCommands():
		var known []string
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				known = append(known, c.Name())
			}
		}
		return fmt.Errorf("there is no command %q; %s", args[0], Suggest(args[0], known))
	}
	return fmt.Errorf("%q is too much: '%s' takes no arguments, only flags", args[0], cmd.CommandPath())
}

// strict has every command that only groups others refuse a word that is none
// of them, for which cobra would print a help and be content.
func strict(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		strict(c)
	}
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = NoArgs
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Print the help of a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if about, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, c := range about.Commands() {
					names = append(names, c.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = NoArgs(about, rest)
			}
			if err != nil {
				return err
			}
			about.InitDefaultHelpFlag()
			about.InitDefaultVersionFlag()
			return about.Help()
		},
	}
}

// forms is how values of flags are written, by their type.
var forms = map[string]string{
	"duration": "a duration; write one like 500ms, 10s or 1m30s",
	"bool":     "neither true nor false; write one of them, after '='",
	"int":      "a whole number", "uint16": "a whole number from 0 to 65535", "uint": "a whole number from 0 up", "uint64": "a whole number from 0 up",
	"float64": "a number",
}

// flagError says in our words what is wrong with a flag.
func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name, dashes := unknown.GetSpecifiedName(), "--"
		if unknown.GetSpecifiedShortnames() != "" {
			return fmt.Errorf("there is no flag -%s", name)
		}
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if fix := Suggest(name, known); strings.HasPrefix(fix, "did") {
			return fmt.Errorf("there is no flag %s%s; %s", dashes, name, strings.Replace(fix, `"`, `"--`, 1))
		}
		return fmt.Errorf("there is no flag %s%s", dashes, name)
	}
	if bare, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		f := bare.GetFlag()
		what, _ := pflag.UnquoteUsage(f)
		return fmt.Errorf("--%s has no value; write --%[1]s and then its %s", f.Name, what)
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := bad.GetFlag()
		if form := forms[f.Value.Type()]; form != "" {
			if f.Value.Type() != "bool" {
				form = "not " + form
			}
			return fmt.Errorf("--%s: %q is %s", f.Name, bad.GetValue(), form)
		}
	}
	return err
}

// Suggest returns the fix for a word that is not among the known ones: the one
// that was meant, else all of them.
func Suggest(word string, known []string) string {
	best, distance := "", 3
	for _, k := range known {
		if d := editDistance(word, k, distance); d < distance {
			best, distance = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(known) == 0 {
		return "there are none"
	}
	return "use one of " + strings.Join(known, ", ")
}

// editDistance returns how many letters must change to turn a into b, or
// enough if it is not less than that.
func editDistance(a, b string, enough int) int {
	if len(a)-len(b) >= enough || len(b)-len(a) >= enough {
		return enough
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(b)], enough)
}
