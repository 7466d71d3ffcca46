package cli

import (
	"slices"
	"testing"
)

// TestCompletedArguments: the completion of an argument ignores the brackets in a usage line.
func TestCompletedArguments(t *testing.T) {
	for use, want := range map[string][]string{
		"where NAMESPACE/NAME[@VERSION]": {"NAMESPACE/NAME@VERSION"},
		"check [POOL] [NODE...]":         {"POOL", "NODE..."},
		"list":                           nil,
	} {
		if got := argumentsOf(use); !slices.Equal(got, want) {
			t.Errorf("argumentsOf(%q) = %q, want %q", use, got, want)
		}
	}
}
