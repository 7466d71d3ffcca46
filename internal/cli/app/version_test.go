package app

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// A version changes with what an instance is, not with the count. One that another writer named stays until then, and an earlier version
// keeps its name.
func TestVersionOfAChangedRow(t *testing.T) {
	old := api.App{Name: "web", Pool: "p", Instances: 2, Version: "v1", Command: "run", History: []api.AppVersion{{Version: "v0", Command: "old"}}}
	scaled, changed, back := old, old, old
	scaled.Instances = 5
	changed.Command = "walk"
	back = back.WithVersion(old.History[0])
	for _, tt := range []struct {
		name, version, earlier string
		row                    api.App
	}{
		{"scaled", "v1", "v0", scaled},
		{"changed", message.VersionOf(changed), "v1", changed},
		{"rolled back", "v0", "v1", back},
	} {
		got := withVersion(old, tt.row, time.Unix(1, 0))
		if got.Version != tt.version || got.History[0].Version != tt.earlier || got.Instances != tt.row.Instances || got.Command != tt.row.Command {
			t.Errorf("%s: %+v, want version %s after %s", tt.name, got, tt.version, tt.earlier)
		}
	}
}
