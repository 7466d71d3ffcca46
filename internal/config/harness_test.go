package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// goodPool is the shortest complete pool file, on lines 1 to 3.
const goodPool = `resource_groups:
  - local: {name: blue, min: 1, max: 3, machine: {cpus: 1, mem: 1024}}
scaling_limits: {min_capacity: 1, max_capacity: 3, max_weight_to_add: 2, max_weight_to_remove: 1}
`

// goodSignal is a complete entry of autoscale_signals on one line; %s is for more keys.
const goodSignal = `  - {app: web, namespace: shop, name: rps, version: v1.4.0, required_metrics: [{name: m, type: system_metrics, range: 1m}]%s}
`

func signals(more ...string) string {
	var text strings.Builder
	text.WriteString("autoscale_signals:\n")
	for _, m := range more {
		fmt.Fprintf(&text, goodSignal, m)
	}
	return text.String()
}

func writeFile(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// readPool reads that text as the file of pool "default" of cluster "prod".
func readPool(t testing.TB, text string) (Pool, error) {
	t.Helper()
	file := writeFile(t, filepath.Join(t.TempDir(), "p.yaml"), text)
	p, err := ReadPool(file, "prod", "default")
	return p, replaceText(err, file, "FILE")
}

// replaceText returns err with text replaced by another text.
func replaceText(err error, text, by string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s", strings.ReplaceAll(err.Error(), text, by))
}

func mustReadPool(t testing.TB, text string) Pool {
	t.Helper()
	p, err := readPool(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// expectError compares an error's text; want "" means no error.
func expectError(t testing.TB, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}
