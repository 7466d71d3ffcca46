package terminal

import (
	"io"
	"testing"
)

// TestColorFlag applies each value of --color to a stream that is no terminal.
func TestColorFlag(t *testing.T) {
	for value, want := range map[string]bool{"auto": false, "always": true, "never": false} {
		p := New(io.Discard)
		if err := SetColor(p, value); err != nil || p.color != want {
			t.Errorf("--color %s: color %v, %v, want %v", value, p.color, err, want)
		}
	}
	if err := SetColor(New(io.Discard), "blue"); err == nil {
		t.Error("--color blue is accepted")
	}
}
