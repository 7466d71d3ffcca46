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
	w.compare()
	select {
	case <-w.Changes():
		t.Error("a change is reported for the same text")
	default:
	}
	writeFile(t, file, "other")
	w.compare()
	select {
	case <-w.Changes():
	default:
		t.Error("no change is reported for another text")
	}
}

func TestWatcherFollow(t *testing.T) {
	dir := t.TempDir()
	one, other := writeFile(t, filepath.Join(dir, "a"), "first"), writeFile(t, filepath.Join(dir, "b"), "first")
	w := NewWatcher(slog.New(slog.DiscardHandler), one)
	changed := func() bool {
		select {
		case <-w.Changes():
			return true
		default:
			return false
		}
	}
	w.Follow(one, other)
	w.compare()
	if changed() {
		t.Error("Follow reported a change")
	}
	writeFile(t, other, "second")
	w.compare()
	if !changed() {
		t.Error("a change of the other file is not reported")
	}
	writeFile(t, one, "second")
	w.Follow(one)
	if !changed() {
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
		w.compare()
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
