package signalbucket

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Damaged keys are moved aside, and the bucket gets new ones.
func TestDamagedKeysAreSetAside(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "cut short": `{"access":"weir-`, "without a key": `{"access":"weir-1"}`, "another value": "[]",
		"too long": `{"access":"` + strings.Repeat("x", maxKeys) + `","secret":"y"}`,
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			if err := os.MkdirAll(filepath.Dir(keysFile(data)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(keysFile(data), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := LocalKeys(data); err == nil || !strings.Contains(err.Error(), keysFile(data)) || !strings.Contains(err.Error(), `restart "weir up"`) {
				t.Errorf("LocalKeys = %v, want an error with the file and what to do", err)
			}
			made, aside, err := MakeLocalKeys(data)
			if err != nil || made.Access == "" || made.Secret == "" {
				t.Fatalf("MakeLocalKeys = %+v, %v", made, err)
			}
			if old, err := os.ReadFile(aside); err != nil || string(old) != text {
				t.Errorf("set aside as %q: %q, %v, want the damaged file", aside, old, err)
			}
			if err := made.Save(data); err != nil {
				t.Fatal(err)
			}
			if kept, aside, err := MakeLocalKeys(data); err != nil || aside != "" || kept != made {
				t.Errorf("the next start has %+v, set aside %q, %v, want the same keys", kept, aside, err)
			}
		})
	}
}
