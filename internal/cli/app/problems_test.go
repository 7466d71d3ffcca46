package app

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

func TestMissingCommandNamesTheNode(t *testing.T) {
	status := func(n int) *int { return &n }
	got := missingCommands([]api.AppCrash{
		{Node: "n1", Status: status(127), Index: 4}, {Node: "n2", Status: status(1)}, {Node: "n3", Status: nil}, {Node: "n4", Status: status(126)},
		{Node: "n5", Description: "release shop/web@v1 not started: access denied", Index: 2},
	})
	if len(got) != 3 || got[0] != `node n5: release shop/web@v1 not started: access denied (index 2); run "weir release verify shop/web@v1", or publish a new version` || !strings.Contains(got[1], "node n4 is not executable") || !strings.Contains(got[2], "does not exist on node n1 (exit status 127 of index 4)") {
		t.Errorf("lines %q", got)
	}
}
