package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
)

// NoResources is the line in place of a table without rows.
const NoResources = "No resources found"

// NoApps is the line in place of a table of applications without rows.
const NoApps = "No applications yet. Add one: weir app set NAME --instances 1 --command ..."

// printTable prints rows for people, without lines around them. If the table is wider than the terminal, each row is a
// block of lines. Without rows it prints NoResources. The first cell of a row is one word, so that "awk" and "cut" find the
// columns: "-" stands for an empty cell, and "_" for each blank.
func printTable(w io.Writer, header []string, rows [][]string) {
	if len(rows) == 0 {
		fmt.Fprintln(w, NoResources)
		return
	}
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatUpper
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.AppendHeader(rowOf(header))
	for _, r := range rows {
		row := rowOf(r)
		row[0] = firstCell(r[0])
		t.AppendRow(row)
	}
	var lines []string
	widest := 0
	for line := range strings.Lines(t.Render()) {
		line = strings.TrimRight(line, " \n")
		lines, widest = append(lines, line), max(widest, text.RuneWidthWithoutEscSequences(line))
	}
	if width := terminal.Width(w); width > 0 && widest > width {
		blocks(w, header, rows)
		return
	}
	for i, line := range lines {
		if i == 0 {
			terminal.Paint(w, terminal.Bold, line)
			fmt.Fprintln(w)
			continue
		}
		fmt.Fprintln(w, line)
	}
}

// blocks prints each row as a block: the first cell, and below it each other cell that has a
// text, after the name of its column.
func blocks(w io.Writer, header []string, rows [][]string) {
	widest := 0
	for _, name := range header {
		widest = max(widest, len(name))
	}
	for _, row := range rows {
		terminal.Paint(w, terminal.Bold, strings.ToUpper(header[0])+" "+firstCell(row[0]))
		fmt.Fprintln(w)
		for i, cell := range row[1:] {
			if cell != "" {
				fmt.Fprintf(w, "  %-*s  %s\n", widest, strings.ToUpper(header[i+1]), terminal.OneLine(cell))
			}
		}
	}
}

// firstCell returns the first cell of a row as one word.
func firstCell(text string) string {
	text = strings.Join(strings.Fields(terminal.OneLine(text)), "_")
	if text == "" {
		return "-"
	}
	return text
}

func rowOf(cells []string) table.Row {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = terminal.OneLine(c)
	}
	return row
}
