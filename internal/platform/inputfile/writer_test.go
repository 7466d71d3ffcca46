package inputfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if BeingWritten(path) {
		t.Error("a missing file is being written")
	}
	writer, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if !BeingWritten(path) {
		t.Error("a file with a writer is not being written")
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if BeingWritten(path) {
		t.Error("a file without a writer is being written")
	}
}
