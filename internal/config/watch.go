package config

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long files rest before they count as changed: who writes one
	// in steps is not caught half-way.
	settle = 50 * time.Millisecond
	// lookAgain is how often files are compared without being told: a link may
	// point where nobody watches.
	lookAgain = 30 * time.Second
)

// Watcher tells when one of some files has another text. They need not exist.
// Run it once; the other methods may be used concurrently.
type Watcher struct {
	log     *slog.Logger
	changes chan struct{}
	moved   chan struct{} // has room for one: Follow named other files

	mu    sync.Mutex
	paths []string
	last  string // digest of the files
}

// NewWatcher returns a watcher that compares with how the files are now. Make it
// before they are read: then a change in between is told.
func NewWatcher(log *slog.Logger, paths ...string) *Watcher {
	return &Watcher{log: log, changes: make(chan struct{}, 1), moved: make(chan struct{}, 1), paths: paths, last: digest(paths)}
}

// Follow watches other files from now on. That they are others is no change.
func (w *Watcher) Follow(paths ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Equal(paths, w.paths) {
		return
	}
	changed := digest(w.paths) != w.last
	w.paths, w.last = paths, digest(paths)
	if changed {
		w.tell()
	}
	select {
	case w.moved <- struct{}{}:
	default:
	}
}

// Changes has an entry when the files have changed since the last one was taken.
func (w *Watcher) Changes() <-chan struct{} { return w.changes }

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch files: %w", err)
	}
	defer notify.Close()
	w.follow(notify)
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	due := time.NewTimer(0) // what changed before notify looked
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-notify.Events:
			due.Reset(settle)
		case err := <-notify.Errors:
			w.log.Warn("watching files", "err", err)
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

// follow watches the folders of the files: a file that is replaced is another one.
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
			w.log.Warn("folder is not watched, only looked at now and then", "folder", dir, "err", err)
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
	w.tell()
}

func (w *Watcher) tell() {
	select {
	case w.changes <- struct{}{}:
	default: // the last one is not taken yet
	}
}

// digest stands for the text of all files together.
func digest(paths []string) string {
	hash := sha256.New()
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			fmt.Fprintf(hash, "%s: %v\n", path, errors.Is(err, fs.ErrNotExist))
			continue
		}
		n, _ := io.Copy(hash, io.LimitReader(f, maxFile+1)) // a file that cannot be read is as good as another text
		f.Close()
		fmt.Fprintf(hash, "%s: %d bytes\n", path, n)
	}
	return string(hash.Sum(nil))
}
