package main

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

func TestMissingCommandNamesTheNode(t *testing.T) {
	status := func(n int) *int { return &n }
	got := missingCommands([]apps.Crash{
		{Node: "n1", Status: status(127), Index: 4}, {Node: "n2", Status: status(1)}, {Node: "n3", Status: nil}, {Node: "n4", Status: status(126)},
	})
	if len(got) != 2 || !strings.Contains(got[0], "node n4 is not executable") || !strings.Contains(got[1], "does not exist on node n1 (exit status 127 of index 4)") {
		t.Errorf("lines %q", got)
	}
}
