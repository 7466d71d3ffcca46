package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A changed, new or removed source is another digest. Pages, tests of other packages and the record are no sources.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.go", "package a")
	if err := check(dir); err == nil || !strings.Contains(err.Error(), `run "make test-kubernetes", and commit the file`) {
		t.Errorf("without a record: %v", err)
	}
	sources, err := digest(dir)
	if err != nil {
		t.Fatal(err)
	}
	write(record, `{"sources": "`+sources+`", "date": "2026-11-29"}`)
	write("README.md", "text")
	write("a_test.go", "package a")
	if err := os.Mkdir(filepath.Join(dir, scenarios), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := check(dir); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	for _, change := range []struct{ name, text string }{{"a.go", "package b"}, {"b.go", ""}, {"e2e/b_test.go", "package e2e"}, {"go.mod", "module m"}} {
		write(change.name, change.text)
		if err := check(dir); err == nil || !strings.Contains(err.Error(), "has changed since the scenarios passed on a real control plane (2026-11-29)") {
			t.Errorf("%v: %v", change, err)
		}
		if change.name == "a.go" {
			write("a.go", "package a")
		} else if err := os.Remove(filepath.Join(dir, change.name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := check(dir); err != nil {
		t.Errorf("as before: %v", err)
	}
}

func TestRead(t *testing.T) {
	var p proof
	p.Scenarios = map[string]float64{}
	var out strings.Builder
	skipped, err := read(strings.NewReader("=== RUN TestA\n    x_test.go:1: Kubernetes v1.37.2\n--- PASS: TestA (1.50s)\n    --- PASS: TestA/sub (1.0s)\n--- SKIP: TestB (0.00s)\n"), &out, &p)
	if err != nil || !skipped || p.Scenarios["TestA"] != 1.5 || len(p.Scenarios) != 2 || p.Kubernetes != "v1.37.2" || out.String() != "--- PASS: TestA (1.50s)\n--- SKIP: TestB (0.00s)\n" {
		t.Errorf("%v %v %+v %q", skipped, err, p, out.String())
	}
}
