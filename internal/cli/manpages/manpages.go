//go:build man

package manpages

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// Commands returns the command that writes the pages of all commands of its root. version is that of the program.
func Commands(version string) []*cobra.Command {
	return []*cobra.Command{{
		Use:    "man FOLDER",
		Short:  "Write a manual page for each command into an existing folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			markdown(cmd.Root())
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Source: "weir " + version, Manual: "Weirkeeper"}, args[0])
		},
	}}
}

// markdown makes Markdown of the texts of a command and of all commands below: the library reads them as Markdown. An
// indented line becomes a part of a block of code, and other lines have no markup. The text lists the commands below.
func markdown(cmd *cobra.Command) {
	escape := strings.NewReplacer("<", `\<`, "_", `\_`, "*", `\*`, "[", `\[`, "`", "\\`")
	text := cmp.Or(cmd.Long, cmd.Short+".") + "\n"
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			text += "\n  " + c.CommandPath() + ": " + c.Short
		}
	}
	lines := strings.Split(text, "\n")
	block := false
	for i, line := range lines {
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		switch {
		case !indented:
			lines[i] = escape.Replace(line)
		case block:
			lines[i] = "    " + line
		default:
			lines[i] = "\n    " + line
		}
		block = indented
	}
	plain := func(f *pflag.Flag) { f.Usage = escape.Replace(f.Usage) }
	cmd.LocalNonPersistentFlags().VisitAll(plain)
	cmd.PersistentFlags().VisitAll(plain)
	for _, c := range cmd.Commands() {
		markdown(c)
	}
	cmd.Long, cmd.Use, cmd.DisableAutoGenTag = strings.Join(lines, "\n"), strings.ReplaceAll(cmd.Use, "[", `\[`), true
}
