package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocumentedFiles loads the files that docs/configuration.md shows.
func TestDocumentedFiles(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for i, part := range strings.Split(string(page), "```") {
		if body, ok := strings.CutPrefix(part, "yaml\n"); ok && i%2 == 1 {
			blocks = append(blocks, body)
		}
	}
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
