package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
)

// TestColors paints warnings, errors and table heads. What a text has of escape sequences stays escaped.
func TestColors(t *testing.T) {
	for color, want := range map[bool]string{
		true: "\x1b[33m! a \\x1b[2J b\x1b[0m\n" + "\x1b[31mweir: no\x1b[0m\n" + "\x1b[33mweir: warning: x\x1b[0m\n" + "web: ok\n" +
			"\x1b[1mNAME  AT\x1b[0m\na     \\x1b[31m\n\x1b[32mok\x1b[0m",
		false: "! a \\x1b[2J b\nweir: no\nweir: warning: x\nweb: ok\nNAME  AT\na     \\x1b[31m\nok",
	} {
		var out strings.Builder
		p := terminal.New(&out)
		if err := terminal.SetColor(p, map[bool]string{true: terminal.ColorAlways, false: terminal.ColorNever}[color]); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(p, "! %s\n", "a \x1b[2J b")
		fmt.Fprintln(p, "weir: no")
		fmt.Fprintln(p, "weir: warning: x")
		fmt.Fprintln(p, "web: ok")
		printTable(p, []string{"name", "at"}, [][]string{{"a", "\x1b[31m"}})
		terminal.Paint(p, terminal.Good, "ok")
		if out.String() != want {
			t.Errorf("with color %v:\n%q\nwant\n%q", color, out.String(), want)
		}
	}
}

// TestTable has a table without rows, and one with a blank first cell.
func TestTable(t *testing.T) {
	for _, c := range []struct {
		rows [][]string
		want string
	}{
		{nil, "No resources found\n"},
		{[][]string{{"", "1"}, {"b", ""}}, "NAME  N\n-     1\nb\n"},
	} {
		var out strings.Builder
		if printTable(&out, []string{"name", "n"}, c.rows); out.String() != c.want {
			t.Errorf("%q is printed as\n%s\nwant\n%s", c.rows, out.String(), c.want)
		}
	}
}
