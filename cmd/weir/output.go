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
)

// outputFlag gives a command --output.
func (cli *cli) outputFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&cli.output, "output", "o", "table", "table or json")
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cli.output != "table" && cli.output != "json" {
			return &usageError{fmt.Errorf("--output %q: want table or json", cli.output)}
		}
		return inner(cmd, args)
	}
}

func (cli *cli) printJSON(v any) error {
	enc := json.NewEncoder(cli.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printTable prints rows for people, with no lines around them.
func (cli *cli) printTable(header []string, rows [][]string) {
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
	for line := range strings.Lines(t.Render()) {
		fmt.Fprintln(cli.stdout, strings.TrimRight(line, " \n"))
	}
}

func rowOf(cells []string) table.Row {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = c
	}
	return row
}

// ago prints how long ago t was, in the largest unit that says enough.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := now.Sub(t)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
