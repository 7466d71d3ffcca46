package wholefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/platform/wholefile"
)

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	slices.Sort(out)
	return out
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	for _, text := range []string{"one", "two, and longer", ""} {
		if err := wholefile.Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("the file has %q, %v, want %q", got, err, text)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
		}
	}
	if got := names(t, dir); !slices.Equal(got, []string{"a.json"}) {
		t.Errorf("the folder has %q, want the file alone", got)
	}
}

// A file with the same content is not written, because there may be no space.
func TestSameContentIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	if err := wholefile.Write(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := wholefile.Write(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the file is another one, %v", err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := wholefile.Write(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600: other users could read it", info.Mode(), err)
	}
}

// A failed write leaves only the old file.
func TestFailedWriteLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := wholefile.Write(path, []byte("one")); err == nil {
		t.Fatal("a folder was replaced by a file")
	}
	if got := names(t, dir); !slices.Equal(got, []string{"folder"}) {
		t.Errorf("the folder has %q, want no temporary file", got)
	}
}

func TestSetAside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var got []string
	for _, text := range []string{"one", "two"} {
		if err := wholefile.Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		aside, err := wholefile.SetAside(path, now)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(aside); err != nil || string(data) != text {
			t.Errorf("%s has %q, %v, want %q", aside, data, err, text)
		}
		got = append(got, filepath.Base(aside))
	}
	if diff := cmp.Diff([]string{"a.json.damaged-20260102T030405Z", "a.json.damaged-20260102T030405Z-2"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if _, err := wholefile.SetAside(path, now); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("SetAside of no file = %v, want ErrNotExist", err)
	}
}
