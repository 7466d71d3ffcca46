package rowfile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/strictyaml"
)

const (
	// settle is how long a file rests before it is read: who writes it in steps
	// is not caught half-way.
	settle = 100 * time.Millisecond
	// writerWait is how long who has it open for writing is waited for before we
	// look again.
	writerWait = 250 * time.Millisecond
	// refreshWait gathers what asks for a pass.
	refreshWait = time.Second
	// lookAgain is how often a pass is made without being told of a change, at
	// most: a link may point where nobody watches.
	lookAgain = 30 * time.Second
	// slice is how many rows one event tells.
	slice = 500
	// shownRows bounds the lines logged about the unreadable rows of one file.
	shownRows = 10
)

// Config is which file.
type Config struct {
	Path string
	// ValidFor is how long what the file said stands when it cannot be read any
	// more (expected_state_lost); zero is three minutes.
	ValidFor time.Duration
}

// WithDefaults returns a copy in which zeros are replaced by defaults.
func (c Config) WithDefaults() Config {
	if c.ValidFor == 0 {
		c.ValidFor = 3 * time.Minute
	}
	return c
}

// Validate joins everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Path == "" {
		errs = append(errs, errors.New("path is empty"))
	}
	if c.ValidFor < time.Second {
		errs = append(errs, fmt.Errorf("valid for %v, want at least 1s", c.ValidFor))
	}
	return errors.Join(errs...)
}

// File is the source of a cluster's expected state. Make it with New.
type File struct {
	cfg     Config
	log     *slog.Logger
	refresh chan struct{}
}

var _ harmonizer.Source = (*File)(nil)

// New returns the source, or says what is wrong with the configuration. The
// file need not be there yet.
func New(cfg Config, log *slog.Logger) (*File, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("expected state in a file: %w", err)
	}
	return &File{cfg: cfg, log: log, refresh: make(chan struct{}, 1)}, nil
}

// Refresh has the file told once more within about a second.
func (f *File) Refresh() {
	select {
	case f.refresh <- struct{}{}:
	default: // one is asked for already
	}
}

// Watch tells the rows of the file, and again whenever it changes and every
// 30 seconds at least, until ctx ends.
func (f *File) Watch(ctx context.Context, tell harmonizer.Tell) error {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", f.cfg.Path, err)
	}
	defer notify.Close()
	w := &watch{cfg: f.cfg, log: f.log, tell: tell, notify: notify, due: time.NewTimer(0), armed: true, again: true}
	defer w.due.Stop()
	regular := time.NewTicker(min(lookAgain, f.cfg.ValidFor/3))
	defer regular.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-notify.Events:
			w.lookIn(settle)
		case err := <-notify.Errors:
			f.log.Warn("watching the expected state", "file", f.cfg.Path, "err", err)
			w.lookIn(settle)
		case <-f.refresh:
			w.again = true
			w.lookIn(refreshWait)
		case <-regular.C:
			err = w.regular(ctx)
		case <-w.due.C:
			w.armed = false
			err = w.look(ctx)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// watch is the state of one Watch, owned by its goroutine.
type watch struct {
	cfg    Config
	log    *slog.Logger
	tell   harmonizer.Tell
	notify *fsnotify.Watcher
	due    *time.Timer // the next look
	armed  bool        // due is to come
	again  bool        // a pass is wanted, whether the file changed or not
	owed   bool        // by the last regular look

	seen  stamp // at the last look
	taken stamp // of the last pass
	rows  rows  // of the last good one
}

// lookIn has the file looked at after d, or sooner if that is on its way.
func (w *watch) lookIn(d time.Duration) {
	if !w.armed {
		w.armed = true
		w.due.Reset(d)
	}
}

// regular makes the pass that is due without being told of a change. One that
// is still owed from the last time could not be made.
func (w *watch) regular(ctx context.Context) error {
	if w.owed {
		if err := w.fail(ctx, fmt.Errorf("%s: is being written all the time", w.cfg.Path)); err != nil {
			return err
		}
	}
	w.again, w.owed = true, true
	return w.look(ctx)
}

// look makes a pass if one is wanted, or if the file is another than the one
// last told, and has come to rest.
func (w *watch) look(ctx context.Context) error {
	w.follow()
	now, err := stampOf(w.cfg.Path)
	if err != nil {
		again := w.again || w.taken != (stamp{})
		w.seen, w.taken, w.again, w.owed = stamp{}, stamp{}, false, false
		if !again { // told already
			return nil
		}
		return w.fail(ctx, err)
	}
	was := w.seen
	w.seen = now
	switch {
	case now != was:
		w.lookIn(settle)
	case now == w.taken && !w.again:
	case beingWritten(w.cfg.Path):
		w.lookIn(writerWait)
	default:
		return w.pass(ctx, now)
	}
	return nil
}

// pass reads the file and tells its rows.
func (w *watch) pass(ctx context.Context, now stamp) error {
	if err := w.tell(ctx, apps.ExpectedBegin{}); err != nil {
		return err
	}
	w.taken, w.again, w.owed = now, false, false
	data, err := read(w.cfg.Path, now)
	if errors.Is(err, errChanged) {
		w.seen, w.again = stamp{}, true
		w.lookIn(settle)
	}
	if err != nil {
		return w.fail(ctx, err)
	}
	if sum := digest(data); sum != w.rows.digest {
		rows, err := decode(w.cfg.Path, data)
		if err != nil {
			return w.fail(ctx, err)
		}
		rows.digest = sum
		w.rows = rows
		w.complain()
	}
	return w.tellRows(ctx)
}

func (w *watch) tellRows(ctx context.Context) error {
	for some := range slices.Chunk(w.rows.apps, slice) {
		if err := w.tell(ctx, apps.ExpectedRows{Rows: some}); err != nil {
			return err
		}
	}
	for _, bad := range w.rows.unreadable {
		if err := w.tell(ctx, apps.ExpectedUnreadable{Name: bad.name}); err != nil {
			return err
		}
	}
	return w.tell(ctx, apps.ExpectedComplete{ValidFor: w.cfg.ValidFor})
}

// fail tells that there is no pass, and why.
func (w *watch) fail(ctx context.Context, why error) error {
	w.log.Warn("expected state cannot be read, what it was last stands for a while", "valid_for", w.cfg.ValidFor, "err", why)
	return w.tell(ctx, apps.ExpectedFailed{Why: why.Error()})
}

// complain logs the rows that cannot be read, once for each text of the file.
func (w *watch) complain() {
	for i, bad := range w.rows.unreadable {
		if i == shownRows {
			w.log.Warn("more rows are unreadable", "rows", len(w.rows.unreadable)-shownRows)
			return
		}
		w.log.Warn("row is unreadable, the app stays as it was", "app", bad.name, "err", bad.err)
	}
}

// follow watches the folders in which a change of the file shows: its own, and
// where a link leads.
func (w *watch) follow() {
	folders := []string{filepath.Dir(w.cfg.Path)}
	if target, err := filepath.EvalSymlinks(w.cfg.Path); err == nil {
		folders = append(folders, filepath.Dir(target))
	}
	watched := w.notify.WatchList()
	for _, dir := range watched {
		if !slices.Contains(folders, dir) {
			_ = w.notify.Remove(dir) // fails if the folder is gone, and the watch with it
		}
	}
	for _, dir := range folders {
		if !slices.Contains(watched, dir) {
			_ = w.notify.Add(dir) // the folder may come later; until then we only look now and then
		}
	}
}

// rows is what a text of the file says.
type rows struct {
	digest     [32]byte // of the text
	apps       []message.App
	unreadable []unreadable
}

// unreadable is a row that means nothing.
type unreadable struct {
	name string
	err  *strictyaml.Problem
}
