package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// helpWidth is the width of help in columns. Lines that begin with a space, such as examples, keep their form.
const helpWidth = 80

// ShortForm is the annotation of commands that weir also has without the name of their group. Help lists them once.
const ShortForm = "weir-short-form"

// setHelp replaces cobra's help, which folds nothing.
func setHelp(root *cobra.Command) {
	root.SetUsageFunc(func(cmd *cobra.Command) error { return writeUsage(cmd.OutOrStderr(), cmd) })
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		cmd.InitDefaultHelpFlag()
		text := cmd.Long
		if text == "" {
			text = cmd.Short
		}
		out := cmd.OutOrStdout()
		fmt.Fprintf(out, "%s\n\n", fold(strings.TrimSpace(text), helpWidth))
		_ = writeUsage(out, cmd) // the writer escapes what it prints, and keeps its own error
	})
}

// writeUsage writes the usage line, the examples, the commands below cmd and the flags.
func writeUsage(w io.Writer, cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() && (!cmd.HasAvailableSubCommands() || cmd.HasAvailableLocalFlags() && cmd.HasParent()) {
		b.WriteString(indented(cmd.UseLine(), 2, 6))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", cmd.CommandPath())
	}
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAliases:\n  %s\n", cmd.NameAndAliases())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n "))
	}
	for _, g := range append(cmd.Groups(), &cobra.Group{Title: "Commands:"}) {
		writeCommands(&b, cmd, *g)
	}
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", cmd.LocalFlags().FlagUsagesWrapped(helpWidth))
	}
	if cmd.HasAvailableInheritedFlags() {
		fmt.Fprintf(&b, "\nFlags of all commands:\n%s", cmd.InheritedFlags().FlagUsagesWrapped(helpWidth))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\"%s [command] --help\" describes a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeCommands writes the commands of one group below its title.
func writeCommands(b *strings.Builder, cmd *cobra.Command, g cobra.Group) {
	title := "\n" + g.Title + "\n"
	for _, c := range cmd.Commands() {
		if c.GroupID != g.ID || c.Annotations[ShortForm] != "" || !c.IsAvailableCommand() && c.Name() != "help" {
			continue
		}
		b.WriteString(title)
		title = ""
		width := c.NamePadding()
		b.WriteString(indented(fmt.Sprintf("%-*s %s", width, c.Name(), c.Short), 2, width+3))
	}
}

// indented folds one line. The first part is indented by first columns, and each further one by rest.
func indented(text string, first, rest int) string {
	start := strings.Repeat(" ", first)
	var b strings.Builder
	for len(text) > helpWidth-len(start) {
		cut := strings.LastIndexByte(text[:helpWidth-len(start)+1], ' ')
		if cut <= 0 {
			break
		}
		b.WriteString(start + strings.TrimRight(text[:cut], " ") + "\n")
		text, start = text[cut+1:], strings.Repeat(" ", rest)
	}
	b.WriteString(start + text + "\n")
	return b.String()
}

// fold folds each paragraph that has a line of more than width columns.
func fold(text string, width int) string {
	var out, paragraph []string
	long := false
	end := func() {
		if long {
			line := ""
			for word := range strings.FieldsSeq(strings.Join(paragraph, " ")) {
				if line != "" && len(line)+1+len(word) > width {
					out, line = append(out, line), ""
				}
				line = strings.TrimPrefix(line+" "+word, " ")
			}
			paragraph = []string{line}
		}
		out, paragraph, long = append(out, paragraph...), nil, false
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || line[0] == ' ' || line[0] == '\t' {
			end()
			out = append(out, line)
			continue
		}
		paragraph, long = append(paragraph, line), long || len(line) > width
	}
	end()
	return strings.Join(out, "\n")
}
