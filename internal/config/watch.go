package config

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
)

const (
	// settle is how long a changed file must stay as it is before the change counts. A file that is written in steps, or
	// saved twice, is read once, and complete.
	settle = time.Second
	// gather is the time between a notification and the first comparison, for the other notifications of the same change.
	gather = 50 * time.Millisecond
	// pollInterval is how often files are compared without a notification: the target of a link may be in an unwatched
	// folder.
	pollInterval = 30 * time.Second
)

// Watcher reports changed texts of some files, which need not exist. A change counts after the file stayed the same for a
// second while no process had it open for writing. Run it once. The other methods are safe for concurrent use.
type Watcher struct {
	log     *slog.Logger
	changes chan struct{}
	roused  chan struct{} // capacity 1; Follow changed the paths, or a text was not read

	mu      sync.Mutex
	paths   []string
	last    map[string]string // digest of the text by path, as reported last
	pending string            // states of the changed files at since; empty: no file changed
	since   time.Time
	waiting bool // the log has that a file is open for writing
}

// NewWatcher returns a watcher that compares with the current texts. Create it before reading the files, so that it
// reports later changes.
func NewWatcher(log *slog.Logger, paths ...string) *Watcher {
	w := &Watcher{log: log, changes: make(chan struct{}, 1), roused: make(chan struct{}, 1), last: map[string]string{}}
	w.Follow(paths...)
	return w
}

// Follow replaces the watched files. The replacement itself is not a change. A file that was watched before is compared
// with its last reported text.
func (w *Watcher) Follow(paths ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Equal(paths, w.paths) {
		return
	}
	last := make(map[string]string, len(paths))
	for _, path := range paths {
		digest, known := w.last[path]
		if !known {
			digest = look(path).digest
		}
		last[path] = digest
	}
	w.paths, w.last = paths, last
	w.rouse()
}

// rouse makes Run watch the folders of the paths, and compare.
func (w *Watcher) rouse() {
	select {
	case w.roused <- struct{}{}:
	default:
	}
}

// Stands reports whether all files have the texts of the last report, and no process has one of them open for writing. If
// it returns false, the files that were read since are not valid, and another report follows.
func (w *Watcher) Stands() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	changing := func(path string) bool { return look(path).digest != w.last[path] || inputfile.BeingWritten(path) }
	if !slices.ContainsFunc(w.paths, changing) {
		return true
	}
	for path := range w.last {
		w.last[path] = "not read"
	}
	w.rouse()
	return false
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
	gathering := true // due is at most gather away
	soon := func() {
		if !gathering {
			gathering = true
			due.Reset(gather)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-notify.Events:
			soon()
		case err := <-notify.Errors:
			w.log.Warn("file watch failed", "err", err)
			soon()
		case <-w.roused:
			w.follow(notify)
			soon()
		case <-again.C:
			w.follow(notify)
			soon()
		case <-due.C:
			gathering = false
			if wait := w.compare(time.Now()); wait > 0 {
				due.Reset(wait)
			}
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

// compare reports a change that stands since settle. It returns when to compare again; 0: no change waits.
func (w *Watcher) compare(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	states, open, changed := "", "", map[string]string{}
	for _, path := range w.paths {
		file := look(path)
		if file.digest == w.last[path] {
			continue
		}
		changed[path] = file.digest
		states += path + file.digest + file.stamp
		if inputfile.BeingWritten(path) {
			open = path
		}
	}
	switch left := settle - now.Sub(w.since); {
	case states == "":
		w.pending, w.waiting = "", false
		return 0
	case open != "" || states != w.pending || left > settle:
		if open != "" && !w.waiting {
			w.log.Info("configuration file is open for writing, waiting for its writer", "file", open)
		}
		w.pending, w.since, w.waiting = states, now, open != ""
		return settle
	case left > 0:
		return left
	}
	maps.Copy(w.last, changed)
	w.pending, w.waiting = "", false
	w.report()
	return 0
}

func (w *Watcher) report() {
	select {
	case w.changes <- struct{}{}:
	default: // an entry is waiting
	}
}

// fileState is what a comparison uses of a file.
type fileState struct{ digest, stamp string }

// look returns the digest of a file's text, and a stamp that each write changes.
func look(path string) fileState {
	text, err := read(path)
	if err != nil { // a file that cannot be read is as good as another text
		return fileState{digest: fmt.Sprintf("unreadable, missing: %t", errors.Is(err, fs.ErrNotExist))}
	}
	sum := sha256.Sum256(text)
	state := fileState{digest: string(sum[:])}
	var s unix.Stat_t
	if unix.Stat(path, &s) == nil {
		state.stamp = fmt.Sprint(s.Dev, s.Ino, s.Size, s.Mtim, s.Ctim)
	}
	return state
}
