package inputfile_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
)

// Each file that cannot be read has an error that names it and the remedy.
func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(syscall.Mkfifo(path("pipe"), 0o600), os.Mkdir(path("folder"), 0o700), os.Symlink("loop", path("loop")),
		os.Symlink("/proc/self/mem", path("memory")))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"pipe":   "read DIR/pipe: a pipe to which no process writes: want a file",
		"folder": "read DIR/folder: is a folder: name a file",
		"loop":   "open DIR/loop: too many levels of symbolic links: name another file",
		"memory": "read DIR/memory: input/output error: name another file",
		"none":   "open DIR/none: no such file or directory: name a file that exists",
	} {
		data, err := inputfile.Read(path(name), 10)
		if err == nil || strings.ReplaceAll(err.Error(), dir, "DIR") != want || len(data) > 0 {
			t.Errorf("Read(%s) = %q, %v, want %s", name, data, err, want)
		}
		if errors.Is(err, fs.ErrNotExist) != (name == "none") {
			t.Errorf("Read(%s): fs.ErrNotExist is %v", name, errors.Is(err, fs.ErrNotExist))
		}
	}
}

// Read returns one byte more than the bound of a longer file, and the content of a pipe
// that has a writer.
func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int]string{0: "0", 9: "0123456789", 10: "0123456789", 20: "0123456789"} {
		if data, err := inputfile.Read(path, most); string(data) != want || err != nil {
			t.Errorf("Read of at most %d bytes = %q, %v, want %q", most, data, err, want)
		}
	}
	end, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	_, err = io.WriteString(writer, "from a pipe")
	if err := errors.Join(err, writer.Close()); err != nil {
		t.Fatal(err)
	}
	if data, err := inputfile.Read(fmt.Sprintf("/proc/self/fd/%d", end.Fd()), 20); string(data) != "from a pipe" || err != nil {
		t.Errorf("Read of a pipe = %q, %v", data, err)
	}
}

// A File is read as a stream, also by io.Copy.
func TestStream(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := inputfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := io.Copy(io.Discard, f); n != 0 || err == nil || !strings.Contains(err.Error(), "no process writes") {
		t.Errorf("Copy = %d, %v, want an error", n, err)
	}
}
