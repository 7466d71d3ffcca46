package natsbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/changes"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

const (
	snapshotLimit = 30 * time.Second // for the first complete read
	retryPause    = time.Second      // pause after a watch ended
	slice         = 500              // rows of one event, at most
)

// Rows is the expected state in the bucket names.AppsBucket. NewRows makes it. A row is
// reported as apps.ExpectedUnreadable if it is unreadable, older than before, or missing
// without a delete marker.
type Rows struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	bucket string
	hints  string // subjects of its changes
	guard  *integrity.Guard
	log    *slog.Logger
	lost   rate.Sometimes // limits a log message
}

// RowsConfig configures Rows.
type RowsConfig struct {
	Cluster string
	// Folder stores the known revisions of the rows. It is required without Forget, and empty with it.
	Folder string
	// Forget drops the known revisions when the process ends, so damage before the next
	// start is not detected. It is for a harmonizer that stops nothing.
	Forget bool
	By     string // this process, in alarms; empty: alarms are in the log only
}

// Validate returns an error if it is open whether what was seen is kept.
func (c RowsConfig) Validate() error {
	switch {
	case c.Folder == "" && !c.Forget:
		return errors.New("expected state: RowsConfig.Folder is empty, so damaged rows are not found: name a folder that outlives the process")
	case c.Folder != "" && c.Forget:
		return fmt.Errorf("expected state: RowsConfig has Folder %q and Forget: give one of them", c.Folder)
	}
	return nil
}

var _ harmonizer.Source = (*Rows)(nil)

// NewRows returns the source of a cluster's expected state.
func NewRows(nc *nats.Conn, c RowsConfig, log *slog.Logger) (*Rows, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	js, err := bus.JetStream(nc)
	if err != nil {
		return nil, fmt.Errorf("reach JetStream: %w", err)
	}
	bucket := names.AppsBucket(c.Cluster)
	guard, err := integrity.Open(integrity.Config{
		JS: js, Bucket: bucket, Reader: integrity.AppsReader(c.Cluster), Folder: c.Folder, By: c.By, Log: log,
	})
	if err != nil {
		return nil, err
	}
	return &Rows{nc: nc, js: js, bucket: bucket, hints: names.ChangedSubject(c.Cluster, bucket), guard: guard, log: log, lost: rate.Sometimes{Interval: time.Minute}}, nil
}

// Watch sends the rows, and then each change, until ctx ends. When it may have missed a
// change, it sends ExpectedLost and starts again. A missing bucket is such a case.
func (r *Rows) Watch(ctx context.Context, report harmonizer.Enqueue) error {
	defer r.guard.Close()
	for {
		err := r.watch(ctx, report)
		if ctx.Err() != nil {
			return nil
		}
		r.lost.Do(func() { r.log.Warn("expected state lost", "bucket", r.bucket, "err", err) })
		if err := report(ctx, apps.ExpectedLost{Why: err.Error()}); err != nil {
			return nil
		}
		if r.nc.IsClosed() {
			return fmt.Errorf("watch %s: %w", r.bucket, nats.ErrConnectionClosed)
		}
		if !retry.Pause(ctx, retryPause) {
			return nil
		}
	}
}

// Refresh does nothing, because each change is reported when it happens.
func (r *Rows) Refresh() {}

// watch sends all rows, then their changes. It always returns the error that ended it.
func (r *Rows) watch(ctx context.Context, report harmonizer.Enqueue) error {
	if !r.nc.IsConnected() {
		return errDisconnected
	}
	reconnects := r.nc.Stats().Reconnects
	p, err := r.begin(ctx, report)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader, err := changes.Open(ctx, changes.Config{JS: r.js, Bucket: r.bucket, Hints: r.hints}, p.next)
	if err != nil {
		return err
	}
	defer reader.Close()
	check := time.NewTicker(checkPeriod)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case u, ok := <-reader.Updates():
			if !ok {
				return context.Cause(ctx)
			}
			if u.Err != nil {
				return u.Err
			}
			for _, k := range u.Keys {
				if err := r.reportChange(ctx, p, k, report); err != nil {
					return err
				}
			}
			if err := p.flush(ctx, report); err != nil {
				return err
			}
		case <-check.C:
			if !r.nc.IsConnected() || r.nc.Stats().Reconnects != reconnects {
				return errDisconnected
			}
			if err := r.accepted(ctx); err != nil {
				return err
			}
		}
	}
}

// errAccepted ends a watch, because the rows are valid as they are from now on.
var errAccepted = errors.New("an operator accepted the rows as they are")

func (r *Rows) accepted(ctx context.Context) error {
	r.guard.Publish(ctx)
	accepted, err := r.guard.Accepted(ctx)
	if accepted {
		return errAccepted
	}
	if err != nil {
		r.lost.Do(func() { r.log.Warn("acceptance not readable", "bucket", r.bucket, "err", err) })
	}
	return nil
}

// progress is the position of a watch.
type progress struct {
	last  uint64 // of the bucket at the first read; later revisions are new
	next  uint64 // first revision to watch
	slice []api.App
}

// begin sends all rows, in order of revision.
func (r *Rows) begin(ctx context.Context, report harmonizer.Enqueue) (*progress, error) {
	reading, cancel := context.WithTimeout(ctx, snapshotLimit)
	defer cancel()
	contents, err := r.guard.Read(reading)
	if err != nil {
		return nil, err
	}
	p := &progress{last: contents.Last, next: contents.Next}
	for _, k := range contents.Keys {
		if err := r.reportKey(ctx, p, k, report); err != nil {
			return nil, err
		}
	}
	if err := p.flush(ctx, report); err != nil {
		return nil, err
	}
	for _, name := range r.guard.Missing() {
		if err := report(ctx, apps.ExpectedUnreadable{Name: name}); err != nil {
			return nil, err
		}
	}
	r.guard.Publish(reading) // before any row is acted on
	return p, report(ctx, apps.ExpectedComplete{})
}

// reportChange reports a change.
func (r *Rows) reportChange(ctx context.Context, p *progress, k integrity.Key, report harmonizer.Enqueue) error {
	if !k.Forged && (k.Revision > p.last || !r.guard.IsUnknown(k.Name)) {
		r.guard.StoreRevision(k.Name, k.Revision, k.Deleted)
	}
	if err := r.reportKey(ctx, p, k, report); err != nil {
		return err
	}
	r.guard.Publish(ctx)
	return nil
}

// reportKey reports one key; rows are collected in a slice.
func (r *Rows) reportKey(ctx context.Context, p *progress, k integrity.Key, report harmonizer.Enqueue) error {
	row, other := r.read(k)
	if other == nil {
		if p.slice = append(p.slice, row); len(p.slice) < slice {
			return nil
		}
		return p.flush(ctx, report)
	}
	if err := p.flush(ctx, report); err != nil {
		return err
	}
	return report(ctx, other)
}

func (p *progress) flush(ctx context.Context, report harmonizer.Enqueue) error {
	if len(p.slice) == 0 {
		return nil
	}
	some := p.slice
	p.slice = nil // the receiver keeps it
	return report(ctx, apps.ExpectedRows{Rows: some})
}

// read returns the row of a key, or else the event for the key.
func (r *Rows) read(k integrity.Key) (api.App, apps.Event) {
	if k.Forged {
		r.guard.Unreadable(k.Name, "an application", kvbucket.ErrForged)
	}
	switch {
	case r.guard.IsUnknown(k.Name):
		return api.App{}, apps.ExpectedUnreadable{Name: k.Name}
	case k.Deleted:
		return api.App{}, apps.ExpectedGone{Name: k.Name}
	}
	row, err := message.DecodeApp(k.Value)
	if err == nil && row.Name != k.Name {
		err = fmt.Errorf("the row has the name %q", row.Name)
	}
	if err != nil {
		r.guard.Unreadable(k.Name, "an application", err)
		return api.App{}, apps.ExpectedUnreadable{Name: k.Name}
	}
	return row, nil
}
