package view

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
)

// WorkOf returns how far the work of an application is that ends: "2 of 3 done, 1 failed".
func WorkOf(n api.AppCount) string {
	text := fmt.Sprintf("%d of %d done", n.Done, n.Expected+n.Done+n.Failed)
	if n.Failed > 0 {
		text += fmt.Sprintf(", %d failed", n.Failed)
	}
	return text
}

// FailedLine returns the line about an application whose work failed.
func FailedLine(app string, n api.AppCount) string {
	return fmt.Sprintf("application %s: %d of %d instances failed, and are not started again; \"weir app crashes %s\" shows why, \"weir app retry %s\" starts them", app, n.Failed, n.Expected+n.Done+n.Failed, app, app)
}

// failedWork returns a line for each of the first applications whose work failed.
func failedWork(c api.InstanceCounts) (lines []string) {
	more := 0
	for _, name := range slices.Sorted(maps.Keys(c.Apps)) {
		switch n := c.Apps[name]; {
		case n.Failed == 0:
		case len(lines) == MaxReasons:
			more++
		default:
			lines = append(lines, FailedLine(name, n))
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("instances of %d more applications failed", more))
	}
	return lines
}
