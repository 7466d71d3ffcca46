package main

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The archive has the same bytes each time, and of this module the SDK alone, without tests.
func TestArchive(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		path := filepath.Join(t.TempDir(), "sdk.zip")
		if err := run(t.Context(), []string{"v1.2.3", path}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = text
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two runs write different bytes")
	}
	archive, err := zip.NewReader(bytes.NewReader(archives[0]), int64(len(archives[0])))
	if err != nil {
		t.Fatal(err)
	}
	allowed := regexp.MustCompile(`^(go\.(mod|sum)|sdk/(go\.mod|LICENSE|(resource|sigproto|signals|signals/(builtin|calendar|forecast|plugin|signaltest)|proto/signal/v1)/[\w.]+\.(go|proto))|vendor/.+)$`)
	for _, f := range archive.File {
		if !allowed.MatchString(f.Name) || regexp.MustCompile(`_test\.go$`).MatchString(f.Name) {
			t.Errorf("the archive has %s", f.Name)
		}
	}
	if len(archive.File) < 100 {
		t.Errorf("the archive has %d files", len(archive.File))
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"v1.2.3"}, {"1.2.3", "x"}, {"latest", "x"}, {"v1.2", "x"}, {"", "x"}} {
		if err := run(t.Context(), args); err == nil {
			t.Errorf("run(%q) succeeds", args)
		}
	}
}
