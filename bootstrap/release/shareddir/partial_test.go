package shareddir

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// OpenPartial waits for a download that another process holds, for a limited time.
func TestOpenPartialWaits(t *testing.T) {
	dir, temp := t.TempDir(), t.TempDir()
	d := Dir(dir)
	held, err := d.OpenPartial(t.Context(), "01", temp, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	other, err := d.OpenPartial(t.Context(), "01", temp, 50*time.Millisecond)
	if err != nil || filepath.Dir(other.Name()) != temp {
		t.Errorf("while it is held: %v, %v, want a file of one's own", other, err)
	}
	other.Close()
	got := make(chan *os.File, 1)
	go func() {
		f, err := d.OpenPartial(t.Context(), "01", temp, time.Minute)
		if err != nil {
			t.Error(err)
		}
		got <- f
	}()
	if err := os.Remove(held.Name()); err != nil {
		t.Fatal(err)
	}
	held.Close()
	f := <-got
	defer f.Close()
	if !isAt(f, f.Name()) || flock(f, unix.LOCK_EX|unix.LOCK_NB) != nil {
		t.Error("after that: not the file at its path")
	}
	if want := filepath.Join(dir, partialPrefix+"01"); f.Name() != want {
		t.Errorf("path %s, want %s", f.Name(), want)
	}
}
