package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// Help prints the help of a command that only has subcommands.
func Help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// Group rejects an unknown subcommand. For a word of other tools it lists the commands that do the same. Otherwise it
// suggests the nearest subcommand and lists all.
func Group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if err := instead(cmd, args); err != nil {
		return err
	}
	var all, begin []string
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		all = append(all, c.Name())
		if args[0] != "" && strings.HasPrefix(c.Name(), strings.ToLower(args[0])) {
			begin = append(begin, strconv.Quote(c.Name()))
		}
	}
	text := fmt.Sprintf("%s has no command %q", cmd.CommandPath(), args[0])
	if near := spelling.Nearest(strings.ToLower(args[0]), all); near != "" {
		begin = []string{strconv.Quote(near)}
	}
	if len(begin) > 0 {
		text += fmt.Sprintf("; did you mean %s?", strings.Join(begin, " or "))
	}
	return usage.New(fmt.Errorf("%s\nIts commands: %s\nSee %q", text, strings.Join(all, ", "), cmd.CommandPath()+" --help"))
}

// topic refuses what is not a command after "help".
func topic(cmd *cobra.Command, args []string) error {
	of, rest, err := cmd.Root().Find(args)
	switch {
	case err != nil:
		return usage.New(err)
	case of.HasSubCommands():
		return Group(of, rest)
	}
	return NoArgs(of, rest)
}

// wrongFlag returns a mistake in a flag: it suggests the nearest flag, or a value that the
// flag takes.
func wrongFlag(cmd *cobra.Command, err error) error {
	text, number, isNumber := strings.Cut(err.Error(), ": strconv.")
	if isNumber {
		text += ": " + wantedNumber(number, inMB(cmd, text))
	}
	if strings.Contains(text, "invalid argument") && strings.Contains(text, "time:") {
		text += "; want a duration such as 90s, 5m or 2h"
		if near := nearDuration(text); near != "" {
			text += "; did you mean " + near + "?"
		}
	}
	if rest, short := strings.CutPrefix(text, "unknown shorthand flag: '"); short && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		text += `; write "--" before a negative number`
	} else if name, unknown := strings.CutPrefix(text, "unknown flag: --"); unknown || short {
		var all []string
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" {
				all = append(all, f.Name)
			}
		})
		text += suggestFlag(cmd, name, all)
	}
	return usage.New(fmt.Errorf("%s\nSee %q", text, cmd.CommandPath()+" --help"))
}

// suggestFlag returns the flag that was meant, if it is near, and the flags of the command.
func suggestFlag(cmd *cobra.Command, name string, own []string) (text string) {
	if use := flagMeant(cmd, name); use != "" {
		return "; use " + use
	}
	all := slices.Clone(own)
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
	if near := spelling.Nearest(name, all); near != "" {
		text = fmt.Sprintf("; did you mean --%s?", near)
	}
	if len(own) > 0 {
		text += "\nIts flags: --" + strings.Join(own, ", --")
	}
	return text
}

// NoArgs refuses arguments with a usage error and a hint.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage.New(fmt.Errorf("%s takes no argument, but got %q\nSee %q", cmd.CommandPath(), args[0], cmd.CommandPath()+" --help"))
	}
	return nil
}

// TwoArgs requires exactly two arguments; what describes them in the error.
func TwoArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 {
			return usage.New(fmt.Errorf("%s wants %s\nSee %q", cmd.CommandPath(), what, cmd.CommandPath()+" --help"))
		}
		return nil
	}
}

// OneArg requires exactly one argument; what describes it in the error.
func OneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage.New(fmt.Errorf("%s wants one %s, but got %d arguments\nSee %q", cmd.CommandPath(), what, len(args), cmd.CommandPath()+" --help"))
		}
		return nil
	}
}
