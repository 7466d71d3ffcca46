package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirkeeper/weirkeeper/internal/config/verifiers"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// documented returns the YAML blocks of a page.
func documented(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for i, part := range strings.Split(string(text), "```") {
		if body, ok := strings.CutPrefix(part, "yaml\n"); ok && i%2 == 1 {
			blocks = append(blocks, body)
		}
	}
	return blocks
}

// TestDocumentedPolicies loads the policies of docs/node-health.md. The last one has every default.
func TestDocumentedPolicies(t *testing.T) {
	var last judge.Policy
	for i, block := range documented(t, "node-health.md") {
		pool, warnings, err := HealthPolicy(fmt.Sprintf("block %d", i+1), []byte(block))
		if err != nil || warnings != nil {
			t.Fatalf("%v %v\n%s", err, warnings, block)
		}
		last = pool.Health.WithDefaults()
	}
	bare := judge.Policy{Detection: judge.Detection{Modes: slices.Clone(last.Detection.Modes)}}
	for i, m := range bare.Detection.Modes {
		bare.Detection.Modes[i].Options = judge.Options{PollURL: m.Options.PollURL}
	}
	if diff := cmp.Diff(bare.WithDefaults(), last, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the last policy of the page, -defaults +page:\n%s", diff)
	}
}

// TestDocumentedForecast loads the signals of docs/guide-forecast.md.
func TestDocumentedForecast(t *testing.T) {
	blocks := documented(t, "guide-forecast.md")
	if len(blocks) != 1 {
		t.Fatalf("the page has %d YAML blocks, want one", len(blocks))
	}
	if _, err := readPool(t, goodPool+blocks[0]); err != nil {
		t.Error(err)
	}
}

// TestDocumentedFiles loads the files of docs/configuration.md.
func TestDocumentedFiles(t *testing.T) {
	blocks := documented(t, "configuration.md")
	if len(blocks) != 3 {
		t.Fatalf("the page has %d YAML blocks, want the service file, a pool file and the harmonizer's", len(blocks))
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "prod"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{"weir.yaml": blocks[0], "prod/default.yaml": blocks[1], "harmonizer.yaml": blocks[2]} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := Load(dir, "prod", "default"); err != nil {
		t.Error(err)
	}
	if _, warnings, err := LoadHarmonizer(dir); err != nil || warnings != nil {
		t.Error(err, warnings)
	}
}

// TestDocumentedIdentities loads the files of docs/identity.md: of "weir auth" and of a machine.
func TestDocumentedIdentities(t *testing.T) {
	blocks := documented(t, "identity.md")
	if len(blocks) != 2 {
		t.Fatalf("the page has %d YAML blocks, want two", len(blocks))
	}
	auth, err := serviceOf(t, blocks[0])
	if err != nil || len(auth.Auth.Verifiers.Values) != len(verifiers.All()) {
		t.Errorf("the file of weir auth has %d verifiers, want all: %v", len(auth.Auth.Verifiers.Values), err)
	}
	if machine, err := serviceOf(t, blocks[1]); err != nil || machine.Identity.Value == nil {
		t.Errorf("the file of a machine: %v", err)
	}
	if alone, err := serviceOf(t, "identity: {awsdocument: {}}"); err != nil || alone.Identity.Value == nil {
		t.Errorf("a verifier without settings: %v", err)
	}
}
