package command

import (
	"bytes"
	"strings"
	"testing"
)

// The first cell of a row is one word, whatever a name contains.
func TestTableBeginsWithOneWord(t *testing.T) {
	for cell, want := range map[string]string{
		"web": "web", "web (shop/rps)": "web_(shop/rps)", "  beside it": "beside_it", "": "-", " ": "-", "a\nb": `a\nb`,
		"2026-03-01T12:00:00Z": "2026-03-01T12:00:00Z",
	} {
		var out bytes.Buffer
		printTable(&out, []string{"name", "note"}, [][]string{{cell, "two words"}})
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if fields := strings.Fields(lines[len(lines)-1]); len(lines) != 2 || len(fields) != 3 || fields[0] != want {
			t.Errorf("a row that begins with %q is %q, want %q and two words", cell, lines, want)
		}
	}
}
