package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
)

// A decoded file is valid for every caller. An error names a place. Nothing panics.
func FuzzPool(f *testing.F) {
	for _, seed := range []string{
		"", goodPool, goodPool + signals("", ", parameters: [{a: [1, {b: .nan}]}]"), goodPool + "draining: &a {<<: *a}\n",
		"a: [", "- a\n- {b: c}\n", "? [a]\n: b\n", "---\n---\na: 1\n", "%YAML 1.2\n--- !!map\na: |\n  x\n", "autoscale_signals: [[null, {app: 5}]]\n",
		"scaling_limits: {max_tasks_to_kill: 1e3, min_capacity: 0x1p-2}\n", "\xff: \x00", "\"\\ud800\": '\n", "autoscaling: {tick: !!binary aGVsbG8=}\n",
	} {
		f.Add([]byte(seed))
	}
	file := filepath.Join(f.TempDir(), "p.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := ReadPool(file, "prod", "default")
		if err != nil {
			if ps, ok := errors.AsType[Problems](err); !ok || len(ps) == 0 || ps.Error() == "" {
				t.Fatalf("error %v, want Problems", err)
			}
			return
		}
		s, err := LoadService(filepath.Join(filepath.Dir(file), "none"))
		if err != nil {
			t.Fatal(err)
		}
		if c := Autoscaler(s, p); decide.ValidatePolicy(c.Policy) != nil || c.Tick < shortestPeriod {
			t.Fatalf("a pool file that is valid makes %+v: %v", c, decide.ValidatePolicy(c.Policy))
		}
		if got := Bootstrap(s, p); len(got.Signals) < 1 || len(got.Signals) > 1+len(p.Signals) {
			t.Fatalf("a pool file with %d signals makes %d processes", len(p.Signals), len(got.Signals))
		}
		_ = drainConfig(p)
	})
}

func FuzzService(f *testing.F) {
	for _, seed := range []string{"", "nats: {servers: [x]}\naws: {path_style: true}\n", "autoscale_signal: {required_metrics: [{}]}\n", "autoscaling:\n  tick: 1h\n"} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, "weir.yaml"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadService(dir); err != nil && err.Error() == "" {
			t.Fatalf("error %#v has no text", err)
		}
	})
}
