package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Help prints the help of a command that only has subcommands.
func Help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// Group refuses an unknown subcommand and suggests a near one.
func Group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var text strings.Builder
	text.WriteString(fmt.Sprintf("%s has no command %q", cmd.CommandPath(), args[0]))
	for cmd.SuggestionsMinimumDistance = 1; cmd.SuggestionsMinimumDistance <= 2; cmd.SuggestionsMinimumDistance++ {
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			text.WriteString(fmt.Sprintf("; did you mean %q?", near[0]))
			break
		}
	}
	return Usage(fmt.Errorf("%s\nSee %q", text.String(), cmd.CommandPath()+" --help"))
}

// NoArgs refuses arguments with a usage error and a hint.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage(fmt.Errorf("%s takes no argument, but got %q\nSee %q", cmd.CommandPath(), args[0], cmd.CommandPath()+" --help"))
	}
	return nil
}

// TwoArgs requires exactly two arguments; what describes them in the error.
func TwoArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 {
			return Usage(fmt.Errorf("%s wants %s\nSee %q", cmd.CommandPath(), what, cmd.CommandPath()+" --help"))
		}
		return nil
	}
}

// OneArg requires exactly one argument; what describes it in the error.
func OneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return Usage(fmt.Errorf("%s wants one %s, but got %d arguments\nSee %q", cmd.CommandPath(), what, len(args), cmd.CommandPath()+" --help"))
		}
		return nil
	}
}
