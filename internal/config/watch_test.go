package config

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

func TestWatcher(t *testing.T) {
	dir := t.TempDir()
	one, other := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "sub", "b.yaml")
	writeFile(t, one, "first")
	writeFile(t, other, "first")
	w := NewWatcher(slog.New(slog.DiscardHandler), one, other, filepath.Join(dir, "not-there"))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	for _, c := range []struct {
		name   string
		change func()
	}{
		{"written in place", func() { writeFile(t, one, "second") }},
		{"replaced by a rename", func() {
			writeFile(t, other+".new", "third")
			if err := os.Rename(other+".new", other); err != nil {
				t.Fatal(err)
			}
		}},
		{"removed", func() {
			if err := os.Remove(one); err != nil {
				t.Fatal(err)
			}
		}},
		{"there again", func() { writeFile(t, one, "fourth") }},
	} {
		c.change()
		select {
		case <-w.Changes():
		case <-time.After(await.Patience):
			t.Fatalf("%s: no change reported", c.name)
		}
	}
}

// TestWatcherSameText touches a file without changing its text: no change is reported.
func TestWatcherSameText(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "a.yaml"), "text")
	w := NewWatcher(slog.New(slog.DiscardHandler), file)
	writeFile(t, file, "text")
	if standing(w, time.Now()) {
		t.Error("a change is reported for the same text")
	}
	writeFile(t, file, "other")
	if !standing(w, time.Now()) {
		t.Error("no change is reported for another text")
	}
}

// standing compares now and after settle, and reports whether a change was reported.
func standing(w *Watcher, now time.Time) bool {
	w.compare(now)
	w.compare(now.Add(settle))
	return reported(w)
}

func reported(w *Watcher) bool {
	select {
	case <-w.Changes():
		return true
	default:
		return false
	}
}

// A file is read after its writer has closed it, and after it stayed the same for a second.
func TestWatcherWaitsForTheWriter(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "a.yaml"), "complete")
	w := NewWatcher(slog.New(slog.DiscardHandler), file)
	now := time.Now()
	writer, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.WriteString("a prefix"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if wait := w.compare(now); wait != settle || reported(w) || w.Stands() {
			t.Fatalf("while the file is open for writing: compare again in %v; want no report, and another comparison in %v", wait, settle)
		}
		now = now.Add(settle)
	}
	if _, err := writer.WriteString(", and the rest"); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if w.compare(now); reported(w) {
		t.Error("a change is reported at once")
	}
	if w.compare(now.Add(settle / 2)); reported(w) {
		t.Error("a change is reported after half a second")
	}
	if w.compare(now.Add(settle)); !reported(w) || !w.Stands() {
		t.Error("a complete file that stays the same is not reported")
	}
}

// Of two saves within a second only the second one counts, also if it has the length of the first one.
func TestWatcherOfTwoSavesInASecond(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "a.yaml"), "first")
	w := NewWatcher(slog.New(slog.DiscardHandler), file)
	now := time.Now()
	writeFile(t, file, "other")
	w.compare(now)
	writeFile(t, file, "third")
	if w.compare(now.Add(settle)); reported(w) {
		t.Error("a file is read that changed within the second")
	}
	if w.compare(now.Add(2 * settle)); !reported(w) {
		t.Error("the second save is not reported")
	}
}

func TestWatcherFollow(t *testing.T) {
	dir := t.TempDir()
	one, other := writeFile(t, filepath.Join(dir, "a"), "first"), writeFile(t, filepath.Join(dir, "b"), "first")
	w := NewWatcher(slog.New(slog.DiscardHandler), one)
	w.Follow(one, other)
	if standing(w, time.Now()) {
		t.Error("Follow reported a change")
	}
	writeFile(t, other, "second")
	if !standing(w, time.Now()) {
		t.Error("a change of the other file is not reported")
	}
	writeFile(t, one, "second")
	w.Follow(one)
	if !standing(w, time.Now()) {
		t.Error("a change between two comparisons is lost by Follow")
	}
}

// A pipe without a writer in place of a file is a change, and the watcher does not wait for it.
func TestWatcherOfAPipe(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "a.yaml"), "text")
	w := NewWatcher(slog.New(slog.DiscardHandler), file)
	if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	compared := make(chan struct{})
	go func() {
		defer close(compared)
		w.compare(time.Now())
		w.compare(time.Now().Add(settle))
	}()
	select {
	case <-compared:
	case <-time.After(time.Minute):
		t.Fatal("the watcher waits for the writer of a pipe")
	}
	select {
	case <-w.Changes():
	default:
		t.Error("the pipe is no change")
	}
}
