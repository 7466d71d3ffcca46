package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelpHasFiveGroups: each group of "weir --help" has at most nine lines with its title, and the daemons are the last.
func TestHelpHasFiveGroups(t *testing.T) {
	t.Parallel()
	_, groups, _ := strings.Cut(weir("--help").stdout, "[command]\n")
	groups, _, _ = strings.Cut(groups, "\nFlags:\n")
	blocks := strings.Split(strings.Trim(groups, "\n"), "\n\n")
	if len(blocks) != 5 || !strings.HasPrefix(blocks[len(blocks)-1], "Daemons:\n") {
		t.Errorf("%d groups, want 5 with the daemons last:\n%s", len(blocks), groups)
	}
	for _, block := range blocks {
		if strings.Contains(block, "\n     ") {
			t.Errorf("a line is folded:\n%s", block)
		}
		if lines := strings.Count(block, "\n") + 1; lines > 9 {
			t.Errorf("%d lines, want at most 9:\n%s", lines, block)
		}
	}
}

// TestHelpFitsInTerminal: no line of help has more than 80 columns, but for examples and data in braces, which are copied. A command with a
// short form is listed once.
func TestHelpFitsInTerminal(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			walk(c)
		}
		if cmd.Hidden || cmd.HasParent() && cmd.Parent().Name() == "completion" {
			return
		}
		path := strings.Fields(cmd.CommandPath())[1:]
		r := weir(append(path, "--help")...)
		if r.code != 0 {
			t.Errorf("weir %q --help: %+v", path, r)
		}
		before, after, _ := strings.Cut(r.stdout, "\nExamples:\n")
		if _, rest, ok := strings.Cut(after, "\n\n"); ok {
			after = rest
		}
		for line := range strings.Lines(before + after) {
			if line = strings.TrimSuffix(line, "\n"); len([]rune(line)) > 80 && !strings.HasPrefix(strings.TrimLeft(line, " -"), "{") {
				t.Errorf("weir %q --help has a line of %d columns: %s", path, len([]rune(line)), line)
			}
		}
		if _, commands, ok := strings.Cut(r.stdout, "\nCommands:\n"); ok && cmd.Name() == "pool" && strings.Contains(commands, "\n  pause ") {
			t.Errorf("weir pool --help lists pause again:\n%s", commands)
		}
	}
	walk(commandTree())
	if !strings.Contains(weir("pool", "pauze").stderr, `did you mean "pause"?`) {
		t.Error("weir pool pauze suggests nothing")
	}
}
