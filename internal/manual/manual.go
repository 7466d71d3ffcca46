// Package manual writes manual pages of a command line, in the macros of man(7). Its functions have no state.
//
//	err := manual.Write(root, version, "/usr/local/share/man/man1")
//
// [Write] makes one file for each command below a folder, for the packages of Linux. [Page] returns one page. The
// text is the help of the command. The functions may be called concurrently for different folders.
package manual

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Write writes one page for each command that help lists, NAME-COMMAND.1, and creates the folder if it is missing.
func Write(root *cobra.Command, version, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write manual pages: %w", err)
	}
	return write(root, version, folder)
}

func write(cmd *cobra.Command, version, folder string) error {
	if err := os.WriteFile(filepath.Join(folder, title(cmd)+".1"), Page(cmd, version), 0o644); err != nil {
		return fmt.Errorf("write the manual page of %q: %w", cmd.CommandPath(), err)
	}
	for _, c := range listed(cmd) {
		if err := write(c, version, folder); err != nil {
			return err
		}
	}
	return nil
}

// listed returns the commands below cmd that its help lists.
func listed(cmd *cobra.Command) (all []*cobra.Command) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, c)
		}
	}
	return all
}

// title returns "weir-pool-list" for "weir pool list".
func title(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// Page returns the page of one command.
func Page(cmd *cobra.Command, version string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"weir %s\" \"Weirkeeper\"\n.nh\n.ad l\n", quoted(strings.ToUpper(title(cmd))), plain(version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", plain(title(cmd)), plain(cmd.Short))
	section(&b, "SYNOPSIS", cmd.UseLine())
	description(&b, cmd)
	if cmd.LocalFlags().HasAvailableFlags() {
		options(&b, "OPTIONS", cmd.NonInheritedFlags())
	}
	if cmd.HasAvailableInheritedFlags() {
		options(&b, "OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	}
	if below := listed(cmd); len(below) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, c := range below {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", quoted(c.CommandPath()), plain(c.Short))
		}
	}
	if cmd.Example != "" {
		section(&b, "EXAMPLES", cmd.Example)
	}
	seeAlso(&b, cmd)
	return b.Bytes()
}

// section writes lines as they are.
func section(b *bytes.Buffer, name, text string) {
	fmt.Fprintf(b, ".SH %s\n.nf\n%s\n.fi\n", quoted(name), plain(strings.TrimRight(text, "\n")))
}

// description fills paragraphs. Indented lines stay as they are.
func description(b *bytes.Buffer, cmd *cobra.Command) {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	b.WriteString(".SH DESCRIPTION\n")
	verbatim := false
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		line = strings.TrimRight(line, "\n")
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		if indented != verbatim && line != "" {
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[indented])
			verbatim = indented
		}
		if line == "" {
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(plain(line) + "\n")
	}
	if verbatim {
		b.WriteString(".fi\n")
	}
}

func options(b *bytes.Buffer, name string, flags *pflag.FlagSet) {
	fmt.Fprintf(b, ".SH %s\n", quoted(name))
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		b.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(b, "\\fB%s\\fR, ", plain("-"+f.Shorthand))
		}
		fmt.Fprintf(b, "\\fB%s\\fR %s\n%s", plain("--"+f.Name), plain(kind), plain(usage))
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
			fmt.Fprintf(b, " (default %s)", plain(f.DefValue))
		}
		b.WriteString("\n")
	})
}

func seeAlso(b *bytes.Buffer, cmd *cobra.Command) {
	near := listed(cmd)
	if cmd.HasParent() {
		near = append([]*cobra.Command{cmd.Parent()}, near...)
	}
	for i, c := range near {
		if i == 0 {
			b.WriteString(".SH SEE ALSO\n")
		}
		comma := ","
		if i == len(near)-1 {
			comma = ""
		}
		fmt.Fprintf(b, ".BR %s (1)%s\n", plain(title(c)), comma)
	}
}

// plain escapes text for roff: no line of it is a request, and a dash stays a dash in a copy.
func plain(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// quoted returns text as one argument of a request.
func quoted(text string) string { return `"` + strings.ReplaceAll(plain(text), `"`, `""`) + `"` }
