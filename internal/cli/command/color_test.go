package command

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestColors paints warnings, errors and table heads. What a text has of escape sequences stays escaped.
func TestColors(t *testing.T) {
	for color, want := range map[bool]string{
		true: "\x1b[33m! a \\x1b[2J b\x1b[0m\n" + "\x1b[31mweir: no\x1b[0m\n" + "\x1b[33mweir: warning: x\x1b[0m\n" + "web: ok\n" +
			"\x1b[1mNAME  AT\x1b[0m\na     \\x1b[31m\n\x1b[32mok\x1b[0m",
		false: "! a \\x1b[2J b\nweir: no\nweir: warning: x\nweb: ok\nNAME  AT\na     \\x1b[31m\nok",
	} {
		var out strings.Builder
		p := &printable{to: &out, screen: &out, color: color}
		fmt.Fprintf(p, "! %s\n", "a \x1b[2J b")
		fmt.Fprintln(p, "weir: no")
		fmt.Fprintln(p, "weir: warning: x")
		fmt.Fprintln(p, "web: ok")
		Table(p, []string{"name", "at"}, [][]string{{"a", "\x1b[31m"}})
		Paint(p, Good, "ok")
		if out.String() != want {
			t.Errorf("with color %v:\n%q\nwant\n%q", color, out.String(), want)
		}
	}
}

// TestColorFlag applies each value of --color to a stream that is no terminal.
func TestColorFlag(t *testing.T) {
	for value, want := range map[string]bool{"auto": false, "always": true, "never": false} {
		p := newPrintable(io.Discard)
		if err := (&Root{Stdout: p, Stderr: io.Discard, Color: value}).setColor(); err != nil || p.color != want {
			t.Errorf("--color %s: color %v, %v, want %v", value, p.color, err, want)
		}
	}
	if err := (&Root{Stdout: newPrintable(io.Discard), Color: "blue"}).setColor(); ExitCode(err) != ExitUsage {
		t.Errorf("--color blue: %v, want a usage error", err)
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
		if Table(&out, []string{"name", "n"}, c.rows); out.String() != c.want {
			t.Errorf("%q is printed as\n%s\nwant\n%s", c.rows, out.String(), c.want)
		}
	}
}
