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
// Run it once; Changes may be used concurrently.
type Watcher struct {
	paths   []string
	log     *slog.Logger
	changes chan struct{}
	last    string
}

// NewWatcher returns a watcher that compares with how the files are now.
func NewWatcher(log *slog.Logger, paths ...string) *Watcher {
	return &Watcher{paths: paths, log: log, changes: make(chan struct{}, 1), last: digest(paths)}
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
	for _, path := range w.paths {
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
	now := digest(w.paths)
	if now == w.last {
		return
	}
	w.last = now
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
