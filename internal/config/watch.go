package config

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long files must stay unchanged before a change counts. So a file written in steps is not read
	// halfway.
	settle = 50 * time.Millisecond
	// pollInterval is how often files are compared without a notification: the target of a link may be in an unwatched
	// folder.
	pollInterval = 30 * time.Second
)

// Watcher reports changed texts of some files, which need not exist. Run it once. The other methods are safe for
// concurrent use.
type Watcher struct {
	log     *slog.Logger
	changes chan struct{}
	moved   chan struct{} // capacity 1; Follow changed the paths

	mu    sync.Mutex
	paths []string
	last  string // digest of the files
}

// NewWatcher returns a watcher that compares with the current texts. Create it before reading the files, so that it
// reports later changes.
func NewWatcher(log *slog.Logger, paths ...string) *Watcher {
	return &Watcher{log: log, changes: make(chan struct{}, 1), moved: make(chan struct{}, 1), paths: paths, last: digest(paths)}
}

// Follow replaces the watched files. The replacement itself is not a change.
func (w *Watcher) Follow(paths ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Equal(paths, w.paths) {
		return
	}
	changed := digest(w.paths) != w.last
	w.paths, w.last = paths, digest(paths)
	if changed {
		w.report()
	}
	select {
	case w.moved <- struct{}{}:
	default:
	}
}

// Changes receives an entry after each change, at most one at a time.
func (w *Watcher) Changes() <-chan struct{} { return w.changes }

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch files: %w", err)
	}
	defer notify.Close()
	w.follow(notify)
	again := time.NewTicker(pollInterval)
	defer again.Stop()
	due := time.NewTimer(0) // reports changes from before notify started
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-notify.Events:
			due.Reset(settle)
		case err := <-notify.Errors:
			w.log.Warn("file watch failed", "err", err)
			due.Reset(settle)
		case <-w.moved:
			w.follow(notify)
			due.Reset(settle)
		case <-again.C:
			w.follow(notify)
			w.compare()
		case <-due.C:
			w.compare()
		}
	}
}

// follow watches the folders of the files, because a replaced file is a new one.
func (w *Watcher) follow(notify *fsnotify.Watcher) {
	w.mu.Lock()
	paths := w.paths
	w.mu.Unlock()
	for _, path := range paths {
		dir := filepath.Dir(path)
		if slices.Contains(notify.WatchList(), dir) {
			continue
		}
		if err := notify.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.log.Warn("folder not watched, polling it", "folder", dir, "err", err)
		}
	}
}

func (w *Watcher) compare() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := digest(w.paths)
	if now == w.last {
		return
	}
	w.last = now
	w.report()
}

func (w *Watcher) report() {
	select {
	case w.changes <- struct{}{}:
	default: // an entry is waiting
	}
}

// digest returns one digest of all files.
func digest(paths []string) string {
	hash := sha256.New()
	for _, path := range paths {
		text, err := read(path)
		if err != nil { // a file that cannot be read is as good as another text
			fmt.Fprintf(hash, "%s: %v\n", path, errors.Is(err, fs.ErrNotExist))
			continue
		}
		hash.Write(text)
		fmt.Fprintf(hash, "%s: %d bytes\n", path, len(text))
	}
	return string(hash.Sum(nil))
}
