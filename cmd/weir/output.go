package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/internal/command"
)

// outputFlag gives a command --output.
func (cli *shared) outputFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&cli.output, "output", "o", "table", "table or json")
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cli.output != "table" && cli.output != "json" {
			return command.Usage(fmt.Errorf("--output %q: want table or json", cli.output))
		}
		return inner(cmd, args)
	}
}

func (cli *shared) printJSON(v any) error {
	enc := json.NewEncoder(cli.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printTable prints rows for people, with no lines around them. If the table is wider than
// the terminal, each row is a block of lines.
func (cli *shared) printTable(header []string, rows [][]string) {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatUpper
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.AppendHeader(rowOf(header))
	for _, r := range rows {
		t.AppendRow(rowOf(r))
	}
	var lines []string
	widest := 0
	for line := range strings.Lines(t.Render()) {
		line = strings.TrimRight(line, " \n")
		lines, widest = append(lines, line), max(widest, text.RuneWidthWithoutEscSequences(line))
	}
	if width := command.Width(cli.Stdout); width > 0 && widest > width && len(rows) > 0 {
		cli.printBlocks(header, rows)
		return
	}
	for _, line := range lines {
		fmt.Fprintln(cli.Stdout, line)
	}
}

// printBlocks prints each row as a block: the first cell, and below it each other cell that
// has a text, after the name of its column.
func (cli *shared) printBlocks(header []string, rows [][]string) {
	widest := 0
	for _, name := range header {
		widest = max(widest, len(name))
	}
	for _, row := range rows {
		fmt.Fprintf(cli.Stdout, "%s %s\n", strings.ToUpper(header[0]), command.OneLine(row[0]))
		for i, cell := range row[1:] {
			if cell != "" {
				fmt.Fprintf(cli.Stdout, "  %-*s  %s\n", widest, strings.ToUpper(header[i+1]), command.OneLine(cell))
			}
		}
	}
}

func rowOf(cells []string) table.Row {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = command.OneLine(c)
	}
	return row
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func (cli *shared) printProcesses(list []bootstrap.Process) {
	now := time.Now()
	var rows [][]string
	for _, p := range list {
		rows = append(rows, processRow(p, p.Title(), now))
		if c := p.Candidate; c != nil {
			rows = append(rows, processRow(*c, "  beside it", now))
		}
	}
	cli.printTable([]string{"process", "version", "state", "pid", "since", "restarts", "why"}, rows)
}
