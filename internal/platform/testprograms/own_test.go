package testprograms

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What tests build has the flags of "make build". With others each package is compiled twice, the largest one in three times
// the memory.
func TestFlagsAreThoseOfTheMakefile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(text))
	for _, setting := range append(Flags(), CompilerMemory) {
		for flag := range strings.FieldsSeq(strings.TrimPrefix(setting, "GOFLAGS=")) {
			name, value, _ := strings.Cut(flag, "=")
			found := false
			for i, word := range want {
				// "CGO_ENABLED = 0" is three words, and a list of tags may go on
				found = found || word == flag || strings.HasPrefix(word, flag+"$") || word == name && i+2 < len(want) && want[i+1] == "=" && want[i+2] == value
			}
			if !found {
				t.Errorf("the Makefile does not have %s", flag)
			}
		}
	}
}
