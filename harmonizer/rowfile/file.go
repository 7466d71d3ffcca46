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

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
)

const (
	// settle is how long a file must be unchanged before it is read, so that a file written in
	// steps is complete.
	settle = 100 * time.Millisecond
	// writerWait is the time between checks while a process has the file open for writing.
	writerWait = 250 * time.Millisecond
	// refreshWait is the time in which several requests for a pass are joined.
	refreshWait = time.Second
	// recheckEvery is the longest time between two passes. A link may point to a folder whose
	// changes are not reported.
	recheckEvery = 30 * time.Second
	// slice is the number of rows in one event.
	slice = 500
	// shownRows bounds the log lines about the unreadable rows of one file.
	shownRows = 10
)

// Config configures a File.
type Config struct {
	Path string
	// ValidFor is how long the last valid content counts when the file cannot be read
	// (expected_state_lost); default three minutes.
	ValidFor time.Duration
}

// WithDefaults returns a copy in which each zero field has its default.
func (c Config) WithDefaults() Config {
	if c.ValidFor == 0 {
		c.ValidFor = 3 * time.Minute
	}
	return c
}

// Validate joins all problems of the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Path == "" {
		errs = append(errs, errors.New("path is empty"))
	}
	if c.ValidFor < time.Second {
		errs = append(errs, fmt.Errorf("expected_state_lost is %v; it must be at least 1s", c.ValidFor))
	}
	return errors.Join(errs...)
}

// File is the source of a cluster's expected state. New makes it.
type File struct {
	cfg     Config
	log     *slog.Logger
	refresh chan struct{}
}

var _ harmonizer.Source = (*File)(nil)

// New returns the source, or an error if the configuration is invalid. The file need not exist
// yet.
func New(cfg Config, log *slog.Logger) (*File, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("expected state in a file: %w", err)
	}
	return &File{cfg: cfg, log: log, refresh: make(chan struct{}, 1)}, nil
}

// Refresh makes the file be read again within about a second.
func (f *File) Refresh() {
	select {
	case f.refresh <- struct{}{}:
	default: // already requested
	}
}

// Watch sends the rows of the file, again after each change and at least every 30 seconds,
// until ctx ends.
func (f *File) Watch(ctx context.Context, report harmonizer.Enqueue) error {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", f.cfg.Path, err)
	}
	defer notify.Close()
	w := &watch{cfg: f.cfg, log: f.log, report: report, notify: notify, due: time.NewTimer(0), armed: true, passRequested: true}
	defer w.due.Stop()
	regular := time.NewTicker(min(recheckEvery, f.cfg.ValidFor/3))
	defer regular.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-notify.Events:
			w.checkIn(settle)
		case err := <-notify.Errors:
			f.log.Warn("watch of the expected state failed", "file", f.cfg.Path, "err", err)
			w.checkIn(settle)
		case <-f.refresh:
			w.passRequested = true
			w.checkIn(refreshWait)
		case <-regular.C:
			err = w.regular(ctx)
		case <-w.due.C:
			w.armed = false
			err = w.check(ctx)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// watch is the state of one Watch. Its goroutine owns it.
type watch struct {
	cfg           Config
	log           *slog.Logger
	report        harmonizer.Enqueue
	notify        *fsnotify.Watcher
	due           *time.Timer // the next check
	armed         bool        // due is running
	passRequested bool        // make a pass even if the file is unchanged
	regularDue    bool        // the regular pass was not made yet

	seen  stamp // at the last check
	taken stamp // of the last pass
	rows  rows  // of the last valid pass
}

// checkIn plans a check of the file after d, unless an earlier one is planned.
func (w *watch) checkIn(d time.Duration) {
	if !w.armed {
		w.armed = true
		w.due.Reset(d)
	}
}

// regular makes the regular pass. If the previous one could not be made, it reports a failure.
func (w *watch) regular(ctx context.Context) error {
	if w.regularDue {
		if err := w.fail(ctx, fmt.Errorf("%s: is written without a pause; replace it by a rename", w.cfg.Path)); err != nil {
			return err
		}
	}
	w.passRequested, w.regularDue = true, true
	return w.check(ctx)
}

// check makes a pass if one is requested, or if the file changed since the last pass and is at
// rest.
func (w *watch) check(ctx context.Context) error {
	w.follow()
	now, err := stampOf(w.cfg.Path)
	if err != nil {
		passRequested := w.passRequested || w.taken != (stamp{})
		w.seen, w.taken, w.passRequested, w.regularDue = stamp{}, stamp{}, false, false
		if !passRequested { // already reported
			return nil
		}
		return w.fail(ctx, err)
	}
	was := w.seen
	w.seen = now
	switch {
	case now != was:
		w.checkIn(settle)
	case now == w.taken && !w.passRequested:
	case inputfile.BeingWritten(w.cfg.Path):
		w.checkIn(writerWait)
	default:
		return w.pass(ctx, now)
	}
	return nil
}

// pass reads the file and sends its rows.
func (w *watch) pass(ctx context.Context, now stamp) error {
	if err := w.report(ctx, apps.ExpectedBegin{}); err != nil {
		return err
	}
	w.taken, w.passRequested, w.regularDue = now, false, false
	data, err := read(w.cfg.Path, now)
	if errors.Is(err, errChanged) {
		w.seen, w.passRequested = stamp{}, true
		w.checkIn(settle)
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
		w.logUnreadable()
	}
	return w.reportRows(ctx)
}

func (w *watch) reportRows(ctx context.Context) error {
	for some := range slices.Chunk(w.rows.apps, slice) {
		if err := w.report(ctx, apps.ExpectedRows{Rows: some}); err != nil {
			return err
		}
	}
	for _, bad := range w.rows.unreadable {
		if err := w.report(ctx, apps.ExpectedUnreadable{Name: bad.name}); err != nil {
			return err
		}
	}
	return w.report(ctx, apps.ExpectedComplete{ValidFor: w.cfg.ValidFor})
}

// fail reports a failed pass.
func (w *watch) fail(ctx context.Context, why error) error {
	w.log.Warn("expected state not readable, last content stays valid for a while", "valid_for", w.cfg.ValidFor, "err", why)
	return w.report(ctx, apps.ExpectedFailed{Why: why.Error()})
}

// logUnreadable logs the unreadable rows, once for each content of the file.
func (w *watch) logUnreadable() {
	for i, bad := range w.rows.unreadable {
		if i == shownRows {
			w.log.Warn("more unreadable rows", "rows", len(w.rows.unreadable)-shownRows)
			return
		}
		w.log.Warn("unreadable row, app unchanged", "app", bad.name, "err", bad.err)
	}
}

// follow watches the folders in which a change of the file is visible: its own, and that of
// the link's target.
func (w *watch) follow() {
	folders := []string{filepath.Dir(w.cfg.Path)}
	if target, err := filepath.EvalSymlinks(w.cfg.Path); err == nil {
		folders = append(folders, filepath.Dir(target))
	}
	watched := w.notify.WatchList()
	for _, dir := range watched {
		if !slices.Contains(folders, dir) {
			_ = w.notify.Remove(dir) // fails if the folder is gone, and its watch too
		}
	}
	for _, dir := range folders {
		if !slices.Contains(watched, dir) {
			_ = w.notify.Add(dir) // the folder may be created later; until then only regular checks see it
		}
	}
}

// rows is the content of the file.
type rows struct {
	digest     [32]byte // of the file's bytes
	apps       []api.App
	unreadable []unreadable
}

// unreadable is an invalid row.
type unreadable struct {
	name string
	err  error // all its mistakes
}
