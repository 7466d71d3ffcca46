package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Help is what a command does that only has subcommands.
func Help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// Group refuses what is no subcommand, and names the one that was meant.
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

// NoArgs refuses arguments with a hint, as cobra.NoArgs does, as a usage error.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage(fmt.Errorf("%s takes no argument, but got %q\nSee %q", cmd.CommandPath(), args[0], cmd.CommandPath()+" --help"))
	}
	return nil
}

// TwoArgs wants exactly two arguments, named so in the message.
func TwoArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 {
			return Usage(fmt.Errorf("%s wants %s\nSee %q", cmd.CommandPath(), what, cmd.CommandPath()+" --help"))
		}
		return nil
	}
}

// OneArg wants exactly one argument, named so in the message.
func OneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return Usage(fmt.Errorf("%s wants one %s, but got %d arguments\nSee %q", cmd.CommandPath(), what, len(args), cmd.CommandPath()+" --help"))
		}
		return nil
	}
}
