package folder

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/pooltest"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

func TestConformance(t *testing.T) {
	pooltest.Run(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.Harness {
		g, err := newGroup(selector{Name: s.ID, Path: t.TempDir(), Min: s.Min, Max: s.Max})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.SetTarget(t.Context(), s.Target); err != nil {
			t.Fatal(err)
		}
		return pooltest.Harness{
			Group: g,
			Lose:  func(t *testing.T, id string) { lose(t, g, id) },
			Pass:  func(context.Context) {}, // a change takes effect at once
		}
	})
}

// lose removes a record, as the program that runs the machines does.
func lose(t *testing.T, g *group, id string) {
	t.Helper()
	path := filepath.Join(g.of.Path, g.of.Name+".json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	f.Machines = slices.DeleteFunc(f.Machines, func(m machine) bool { return m.ID == id })
	if text, err = json.Marshal(f); err != nil {
		t.Fatal(err)
	}
	if err := replace(path, text); err != nil {
		t.Fatal(err)
	}
}

// A second process finds the machines of the first one, as does the same process after a restart.
func TestOpenFindsTheMachinesOfBefore(t *testing.T) {
	of := &selector{Name: "blue", Path: t.TempDir(), Min: 2, Max: 5}
	site := provider.Site{Groups: []provider.Group{of}}
	var before []pools.Instance
	for range 2 {
		opened, err := ProviderKind().Open(t.Context(), site)
		if err != nil {
			t.Fatal(err)
		}
		found, err := opened.Groups(t.Context())
		if err != nil || len(found.Groups) != 1 {
			t.Fatalf("Groups = %v, %v, want one", found, err)
		}
		s, err := found.Groups[0].Snapshot(t.Context())
		if err != nil || len(s.Instances) != 2 {
			t.Fatalf("Snapshot = %+v, %v, want 2 machines", s, err)
		}
		if diff := cmp.Diff(before, s.Instances); before != nil && diff != "" {
			t.Errorf("after a restart (-before +after):\n%s", diff)
		}
		before = s.Instances
	}
}

// A damaged file is an error, and is not changed, so that an operator can repair it.
func TestDamagedFileIsKept(t *testing.T) {
	of := selector{Name: "blue", Path: t.TempDir(), Min: 1, Max: 5}
	path := filepath.Join(of.Path, "blue.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newGroup(of); err == nil {
		t.Error("newGroup of a damaged file is no error")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "{" {
		t.Errorf("the file is %q, %v", text, err)
	}
}
