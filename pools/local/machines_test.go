package local

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func TestReplacementBackoff(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newMachines(GroupConfig{ID: "g", Max: 5, Target: 2, Weight: 1}, savedGroup{}, false)
	serial := 0
	launch := func() string {
		serial++
		id := "i-" + strconv.Itoa(serial)
		m.launched(now, id)
		return id
	}
	expect := func(what string, n int, waits bool) {
		t.Helper()
		if gotN, wait := m.missing(now); gotN != n || (wait > 0) != waits {
			t.Errorf("%s: missing() = %d, %v; want %d, waits %v", what, gotN, wait, n, waits)
		}
	}
	expect("empty", 2, false)
	old := launch()
	launch()
	expect("full", 0, false)

	now = now.Add(time.Minute)
	m.ended(now, old, "exit", nil, false)
	expect("one died of age", 1, false)
	m.ended(now, launch(), "exit", nil, false)
	expect("one died at once", 1, false)
	m.ended(now, launch(), "exit", nil, false)
	expect("the next one too", 0, true)
	now = now.Add(15 * time.Second)
	expect("after a while", 1, false)
}

func TestKeptTargetIsClamped(t *testing.T) {
	for _, test := range []struct {
		name        string
		kept        *int
		first, want int
	}{
		{"none kept", nil, 2, 2},
		{"kept", new(3), 2, 3},
		{"above", new(9), 2, 4},
		{"below", new(0), 2, 1},
	} {
		m := newMachines(GroupConfig{ID: "g", Min: 1, Max: 4, Target: test.first, Weight: 1}, savedGroup{Target: test.kept}, false)
		if m.target != test.want {
			t.Errorf("%s: target = %d, want %d", test.name, m.target, test.want)
		}
	}
}

func TestWeights(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newMachines(GroupConfig{ID: "g", Max: 100, Target: 10, Weight: 4}, savedGroup{}, false)
	if n, _ := m.missing(now); n != 3 {
		t.Errorf("missing() = %d, want 3 machines of weight 4 for a target of 10", n)
	}
	for _, id := range []string{"a", "b", "c"} {
		m.launched(now, id)
	}
	ids, target, err := m.victims([]string{"b", "b"})
	if err != nil || len(ids) != 1 || target != 6 {
		t.Errorf("victims(b, b) = %v, %d, %v; want one, and a target of 6", ids, target, err)
	}
}

func TestSaveLoad(t *testing.T) {
	dir := t.TempDir()
	if k, err := load(dir); err != nil || k.Groups != nil {
		t.Errorf("load of nothing = %+v, %v", k, err)
	}
	want := savedGroup{Target: new(7), Known: []string{"a", "b"}}
	if err := save(dir, kept{Groups: map[string]savedGroup{"g": want}}); err != nil {
		t.Fatal(err)
	}
	k, err := load(dir)
	if got := k.Groups["g"]; err != nil || *got.Target != 7 || len(got.Known) != 2 {
		t.Errorf("load = %+v, %v", k, err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"groups":{"g":{"target":3,"known":["i-1"]}}}`))
	f.Add([]byte(`{"groups":{"g":null}}`))
	f.Add([]byte(`{"groups":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, stateFile), data, 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := load(dir)
		if err != nil {
			return
		}
		m := newMachines(GroupConfig{ID: "g", Min: 1, Max: 4, Target: 2, Weight: 1}, k.Groups["g"], k.RepairReleased)
		if m.target < 1 || m.target > 4 {
			t.Errorf("state %q gives the target %d", data, m.target)
		}
	})
}
