package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

// shownFiles loads the three files of a folder and returns them as Show does, by name.
func shownFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	s, p, err := Load(dir, "prod", "default")
	if err != nil {
		t.Fatal(err)
	}
	h, _, err := LoadHarmonizer(dir)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, f := range Show(s, p, h) {
		encoded, err := json.Marshal(f.Content)
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.JSONToYAML(encoded)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(dir, f.File)
		if err != nil {
			name = f.File
		}
		texts[filepath.ToSlash(name)] = string(text)
	}
	return texts
}

// The shown files are files with the same values.
func TestShownFilesLoadAgain(t *testing.T) {
	blocks, dir, again := documented(t, "configuration.md"), t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"weir.yaml": blocks[0], "prod/default.yaml": blocks[1], "harmonizer.yaml": blocks[2]} {
		writeFile(t, filepath.Join(dir, name), text)
	}
	first := shownFiles(t, dir)
	if len(first) != 3 {
		t.Fatalf("Show returned %d files", len(first))
	}
	for name, text := range first {
		writeFile(t, filepath.Join(again, name), text)
		schema := map[string]string{"weir.yaml": "service", "prod/default.yaml": "pool", "harmonizer.yaml": "harmonizer"}[name]
		if problems := against(t, schema, text); problems != nil {
			t.Errorf("%s does not match its schema: %s\n%s", name, strings.Join(problems, "\n"), text)
		}
	}
	if diff := cmp.Diff(first, shownFiles(t, again)); diff != "" {
		t.Errorf("the shown files load as other values (-first +again):\n%s", diff)
	}
}

// Without files of the service and the harmonizer, all their values are defaults.
func TestShowHasDefaults(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "prod/default.yaml"), goodPool+signals(""))
	shown := shownFiles(t, dir)
	for name, wants := range map[string][]string{
		"weir.yaml":         {"bootstrap: 127.0.0.1:9463", "signal_users: 60706-61183", "require_signature: false", "period: 10m"},
		"prod/default.yaml": {"setpoint: 0.7", "lease: 15s", "drift: obey", "hold_for: 30m", "max_age: 336h", "draining_time_threshold_seconds: 1800"},
		"harmonizer.yaml":   {"disruption_limit: 0.3", "min_restart_delay: 1m", "dialect: health"},
	} {
		for _, want := range wants {
			if !strings.Contains(shown[name], want+"\n") {
				t.Errorf("%s lacks %q:\n%s", name, want, shown[name])
			}
		}
	}
}

// Show hides passwords and keeps the paths of files with secrets.
func TestShowHidesSecrets(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "weir.yaml"), "nats: {servers: [\"nats://user:pa55word@n1:4222\"]}\nadmin: {token_file: /run/admin}\n")
	writeFile(t, filepath.Join(dir, "prod/default.yaml"), goodPool+signals(`, parameters: {db_password: pa55word, url: "http://u:pa55word@h/x", nested: [{api_key: pa55word}]}`))
	writeFile(t, filepath.Join(dir, "harmonizer.yaml"), "mbus: \"nats://a:pa55word@n1:4222,nats://a:pa55word@n2:4222\"\nstatus: {user: u, password: pa55word}\n")
	shown := shownFiles(t, dir)
	for name, text := range shown {
		if strings.Contains(text, "pa55word") || !strings.Contains(text, hidden) {
			t.Errorf("%s shows a password, or hides none:\n%s", name, text)
		}
	}
	if !strings.Contains(shown["weir.yaml"], "token_file: /run/admin") {
		t.Errorf("weir.yaml lacks the path of a file with a secret:\n%s", shown["weir.yaml"])
	}
	if _, err := os.Stat("/run/admin"); err == nil {
		t.Error("the test needs a path without a file")
	}
}
