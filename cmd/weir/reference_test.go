package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
)

var update = flag.Bool("update", false, "write docs/commands.md and the table of docs/metrics.md anew")

// compareReference compares a page with the text that the code gives; with -update it writes the page.
func compareReference(t *testing.T, page, want string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", page)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/%s differs from the code: run \"go test ./cmd/weir -run %s -update\"", page, t.Name())
	}
}

// commandTree returns the command line.
func commandTree() *cobra.Command {
	return cli.Commands(&command.Root{Stdout: io.Discard, Stderr: io.Discard})
}

// TestCommandsPage compares docs/commands.md with the help of each command. Each command has an example.
func TestCommandsPage(t *testing.T) {
	for _, name := range []string{"WEIR_DATA", "WEIR_CONFIG_DIR", "WEIR_LOG_LEVEL", "WEIR_LOG_FORMAT", "CMAN_CLUSTER", "CMAN_POOL"} {
		t.Setenv(name, "") // defaults of flags
	}
	root := commandTree()
	var b bytes.Buffer
	b.WriteString("# Commands\n\nThis page has the help of each command. A test generates it from the code " +
		"(`go test ./cmd/weir -run TestCommandsPage -update`). `weir help COMMAND` prints the same, folded at 80 columns. `weir pool status`, `explain`, `plan`, `diff`, `pause`, " +
		"`resume` and `offset` are the same as `weir status` and so on. A word of other tools that has one meaning runs, such as `get nodes` and " +
		"`logs web`. Another one lists commands.\n\n" +
		"Listings take `--output json`; durations in it are seconds. Exit codes: 0 done, 1 could not be done, 2 wrong command line or file, or a pool, an application, " +
		"a node or a group that does not exist. Codes 10 to 22 are the reasons [why a release is rejected](signals.md#when-a-release-is-rejected).\n\n" +
		"On a terminal that is narrower than a table, each row is a block of lines. If the locale is not one of UTF-8 (`LANG=C`), " +
		"a terminal gets ASCII. Control characters are always escaped.\n\n")
	var leaves []*cobra.Command
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if !c.Hidden && c.Annotations[command.ShortForm] == "" && c.Name() != "help" && c.Name() != "completion" {
				if c.Runnable() && !isGroup(c) {
					leaves = append(leaves, c)
				}
				walk(c)
			}
		}
	}
	walk(root)
	b.WriteString("| command | what it does |\n|---|---|\n")
	for _, c := range leaves {
		path := c.CommandPath()
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", path, strings.ReplaceAll(path, " ", "-"), c.Short)
	}
	b.WriteString("| `weir help`, `weir completion` | Print help; print the completion of a shell |\n")
	fmt.Fprintf(&b, "\n## Flags of all commands\n\n```\n%s```\n", root.PersistentFlags().FlagUsages())
	for _, c := range leaves {
		if !strings.Contains(c.Example, "weir ") {
			t.Errorf("%s has no example: give its cobra.Command an Example", c.CommandPath())
		}
		fmt.Fprintf(&b, "\n## %s\n\n", c.CommandPath())
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		fmt.Fprintf(&b, "```\n%s\n\nUsage:\n  %s\n", strings.TrimSpace(text), c.UseLine())
		if flags := c.NonInheritedFlags(); flags.HasAvailableFlags() {
			fmt.Fprintf(&b, "\nFlags:\n%s", flags.FlagUsages())
		}
		fmt.Fprintf(&b, "\nExamples:\n%s\n```\n", strings.TrimRight(c.Example, "\n"))
	}
	compareReference(t, "commands.md", b.String())
}

// isGroup reports whether a command only lists other commands.
func isGroup(c *cobra.Command) bool {
	return c.HasSubCommands() && c.Flags().NFlag() == 0 && !c.NonInheritedFlags().HasAvailableFlags()
}

// TestMetricsPage compares the tables of docs/metrics.md with those of package metric.
func TestMetricsPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for name, table := range metricTables() {
		begin, end := "<!-- metrics of "+name+" -->\n", "<!-- end of "+name+" -->\n"
		before, rest, ok := strings.Cut(page, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("docs/metrics.md has no part between %q and %q", begin, end)
		}
		page = before + begin + metricRows(table) + end + after
	}
	compareReference(t, "metrics.md", page)
}

// metricTables returns the tables of docs/metrics.md.
func metricTables() map[string][]metric.Metric {
	return map[string][]metric.Metric{
		"autoscaler": metric.Autoscaler(), "health": metric.Health(), "harmonizer": metric.Harmonizer(), "placer": metric.Placer(), "bootstrap": metric.Bootstrap(), "notify": metric.Notify(), "auth": metric.Auth(), "bus": metric.Bus(),
	}
}

// metricRows has a row for each metric, sorted by name.
func metricRows(table []metric.Metric) string {
	var rows []string
	for _, m := range table {
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", m.Name, m.Type, m.Unit, strings.Join(m.Labels, ", "), m.Help))
	}
	slices.Sort(rows)
	return "| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n" + strings.Join(rows, "")
}

// TestDocumentedCommands requires that each command line of the documents names an existing command with existing
// flags.
func TestDocumentedCommands(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range documentedLines(string(text)) {
			if what := wrongLine(line); what != "" {
				t.Errorf("%s: %s: %s", filepath.Base(file), line, what)
			}
		}
	}
}

var inlineCode = regexp.MustCompile("`(weir [^`]+)`")

// documentedLines returns the command lines of a page: in code, and at the start of a line of a block, after "$ " or
// not.
func documentedLines(text string) (lines []string) {
	for _, b := range blocksOf(text) {
		for _, line := range b.lines {
			if line = strings.TrimPrefix(line, "$ "); strings.HasPrefix(line, "weir ") && b.info != "" || strings.HasPrefix(line, "weir ") && strings.Contains(line, " --") {
				lines = append(lines, line)
			}
		}
	}
	for _, found := range inlineCode.FindAllStringSubmatch(text, -1) {
		lines = append(lines, found[1])
	}
	return lines
}

var (
	word     = regexp.MustCompile(`^[a-z][a-z-]*$`)
	longFlag = regexp.MustCompile(`--([a-z][a-z-]*)`)
)

// wrongLine returns what a command line names that does not exist; empty if all exists. "a|b" names two commands.
func wrongLine(line string) string {
	line, _, _ = strings.Cut(line, "#")
	line, _, _ = strings.Cut(line, " | ")
	cmds := []*cobra.Command{commandTree()}
	rest := strings.Fields(line)[1:]
	for len(rest) > 0 && cmds[0].HasSubCommands() {
		var next []*cobra.Command
		for name := range strings.SplitSeq(strings.TrimRight(rest[0], ",.:;"), "|") {
			if !word.MatchString(name) {
				break
			}
			if name == "help" || name == "completion" {
				return ""
			}
			i := slices.IndexFunc(cmds[0].Commands(), func(c *cobra.Command) bool { return c.Name() == name })
			if i < 0 {
				if cmds[0].HasParent() && cmds[0].Args != nil && !isGroup(cmds[0]) {
					break // an argument of a command that has subcommands too
				}
				return fmt.Sprintf("%q is no command of %s", name, cmds[0].CommandPath())
			}
			next = append(next, cmds[0].Commands()[i])
		}
		if next == nil {
			break
		}
		cmds, rest = next, rest[1:]
	}
	for _, found := range longFlag.FindAllStringSubmatch(strings.Join(rest, " "), -1) {
		known := func(c *cobra.Command) bool {
			return c.Flags().Lookup(found[1]) != nil || c.InheritedFlags().Lookup(found[1]) != nil || found[1] == "help"
		}
		if !slices.ContainsFunc(cmds, known) {
			return fmt.Sprintf("%s has no flag --%s", cmds[0].CommandPath(), found[1])
		}
	}
	return ""
}

func TestWrongLines(t *testing.T) {
	for line, want := range map[string]string{
		"weir status":                 "",
		"weir pause --for 2h --why x": "",
		"weir app set|get|list":       "",
		"weir signal ps":              "", "weir harmonizer replay FILE --events": "",
		"weir harmonizer [--config FILE]":          "",
		"weir explain --output json | weir decide": "",
		"weir sttaus":         `"sttaus" is no command of weir`,
		"weir app st":         `"st" is no command of weir app`,
		"weir pause --fro 2h": "weir pause has no flag --fro",
	} {
		if got := wrongLine(line); got != want {
			t.Errorf("wrongLine(%q) = %q, want %q", line, got, want)
		}
	}
}
