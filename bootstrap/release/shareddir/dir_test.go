package shareddir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// If the temporary folder cannot be locked, it is removed.
func TestTempWithoutDescriptors(t *testing.T) {
	d := Dir(t.TempDir())
	err := d.Locked(t.Context(), func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	lowered := before
	lowered.Cur = 100
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lowered); err != nil {
		t.Fatal(err)
	}
	var taken []*os.File
	restore := func() {
		for _, f := range taken {
			f.Close()
		}
		unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
	}
	for err == nil {
		var f *os.File
		if f, err = os.Open(os.DevNull); err == nil {
			taken = append(taken, f)
		}
	}
	taken[0].Close() // one descriptor is free, for the lock
	err = d.WithTemp(t.Context(), func(string) error { return nil })
	restore()
	if !errors.Is(err, unix.EMFILE) {
		t.Errorf("WithTemp = %v, want EMFILE", err)
	}
	if left, _ := filepath.Glob(filepath.Join(string(d), tempPrefix+"*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestWriteReplacesWhole(t *testing.T) {
	d := Dir(t.TempDir())
	path := filepath.Join(string(d), "a.json")
	for _, want := range []string{"long content", "short"} {
		if err := d.Write(path, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("content %q, %v, want %q", got, err, want)
		}
	}
	if err := d.Write(filepath.Join(string(d), "missing", "a.json"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Write into a missing folder = %v, want ErrNotExist", err)
	}
	if left, _ := filepath.Glob(filepath.Join(string(d), tempPrefix+"*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
