package app

import (
	"slices"
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

func TestPortsOfFlags(t *testing.T) {
	old := []api.Port{{Name: "http", Port: 80}, {Name: "admin", Port: api.AutoPort}}
	for _, tt := range []struct {
		flags []string
		want  []api.Port // nil: an error
	}{
		{[]string{"x=auto", "http=8080"}, []api.Port{{Name: "http", Port: 8080}, {Name: "admin", Port: api.AutoPort}, {Name: "x", Port: api.AutoPort}}},
		{[]string{"http-"}, []api.Port{{Name: "admin", Port: api.AutoPort}}},
		{[]string{"none-"}, old},
		{[]string{"http"}, nil},
		{[]string{"http=0"}, nil},
		{[]string{"http=65536"}, nil},
		{[]string{"http=any"}, nil},
	} {
		row := api.App{Ports: old}
		err := (&versionFlags{ports: tt.flags}).applyPorts(&row)
		if (err != nil) != (tt.want == nil) || err == nil && !slices.Equal(row.Ports, tt.want) {
			t.Errorf("%q: %v, %v, want %v", tt.flags, row.Ports, err, tt.want)
		}
	}
}

func TestPortOfACheck(t *testing.T) {
	for text, want := range map[string]api.PortRef{"80": {Number: 80}, "http": {Name: "http"}, "": {}, "0": {}, "-1": {}, "70000": {}} {
		if got, err := portOf("--ready-tcp", text); got != want || (err == nil) == (want == api.PortRef{}) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}
