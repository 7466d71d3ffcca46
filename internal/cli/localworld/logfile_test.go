package localworld

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// After the removal of the file, or of its folder, the next line is in a new file.
func TestRemovedLogFileIsMadeAgain(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	path := filepath.Join(folder, "weir.log")
	log, err := openLogFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for i, remove := range []string{"", path, folder} {
		if remove != "" {
			if err := os.RemoveAll(remove); err != nil {
				t.Fatal(err)
			}
		}
		line := fmt.Sprintf("line %d\n", i)
		if _, err := log.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil || string(text) != line {
			t.Errorf("after the removal of %q: %q, %v", remove, text, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode of the file: %v, %v", info.Mode(), err)
		}
	}
}

// The previous log is kept.
func TestLogFileKeepsThePreviousOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.log")
	for _, line := range []string{"first", "second"} {
		log, err := openLogFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
		log.Close()
	}
	for name, want := range map[string]string{path: "second", path + ".1": "first"} {
		if text, err := os.ReadFile(name); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v; want %q", name, text, err, want)
		}
	}
}
