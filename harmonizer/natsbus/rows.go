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
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
)

const (
	rowsTimeout   = 5 * time.Second  // of one request to JetStream
	snapshotLimit = 30 * time.Second // for the first complete read
	retryPause    = time.Second      // pause after a watch ended
	verifyEvery   = 2 * time.Second  // interval between checks that the watch misses nothing; two end a silent watch
	slice         = 500              // rows of one event, at most
)

// Rows is the expected state in the bucket names.AppsBucket. NewRows makes it. A row is
// reported as apps.ExpectedUnreadable if it is unreadable, older than before, or missing
// without a delete marker.
type Rows struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	bucket kvbucket.Config
	guard  *integrity.Guard
	log    *slog.Logger
	lost   rate.Sometimes // limits a log message
}

// RowsConfig configures Rows.
type RowsConfig struct {
	Cluster  string
	Replicas int // of a missing bucket, which Watch creates; 0: 1; unused with Forget
	// Folder stores the known revisions of the rows. It is required without Forget, and empty with it.
	Folder string
	// Forget drops the known revisions when the process ends, so damage before the next
	// start is not detected. It is for a harmonizer that stops nothing. It creates no bucket.
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
	replicas := max(c.Replicas, 1)
	if c.Forget {
		replicas = 0 // a missing bucket is not created
	}
	bucket := kvbucket.Apps(c.Cluster, replicas)
	guard, err := integrity.Open(integrity.Config{
		JS: js, Cluster: c.Cluster, Bucket: bucket.Name, Reader: "apps", Folder: c.Folder, By: c.By, Log: log,
	})
	if err != nil {
		return nil, err
	}
	return &Rows{nc: nc, js: js, bucket: bucket, guard: guard, log: log, lost: rate.Sometimes{Interval: time.Minute}}, nil
}

// Watch sends the rows, and then each change, until ctx ends. When it may have missed a
// change, it sends ExpectedLost and starts again. It creates a missing bucket, but not with RowsConfig.Forget.
func (r *Rows) Watch(ctx context.Context, report harmonizer.Enqueue) error {
	defer r.guard.Close()
	for {
		err := r.watch(ctx, report)
		if ctx.Err() != nil {
			return nil
		}
		r.lost.Do(func() { r.log.Warn("expected state lost", "bucket", r.bucket.Name, "err", err) })
		if err := report(ctx, apps.ExpectedLost{Why: err.Error()}); err != nil {
			return nil
		}
		if r.nc.IsClosed() {
			return fmt.Errorf("watch %s: %w", r.bucket.Name, nats.ErrConnectionClosed)
		}
		if wait(ctx, retryPause) != nil {
			return nil
		}
	}
}

// Refresh does nothing, because each change is reported when it happens.
func (r *Rows) Refresh() {}

// OpenBucket returns the key-value bucket of a cluster's expected state, and creates it with
// that many replicas if it is missing.
func OpenBucket(ctx context.Context, js jetstream.JetStream, cluster string, replicas int) (jetstream.KeyValue, error) {
	return open(ctx, js, kvbucket.Apps(cluster, replicas))
}

func open(ctx context.Context, js jetstream.JetStream, c kvbucket.Config) (jetstream.KeyValue, error) {
	if _, err := kvbucket.Ensure(ctx, js, c); err != nil {
		return nil, err
	}
	kv, err := js.KeyValue(ctx, c.Name)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", c.Name, err)
	}
	return kv, nil
}

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
	watcher, err := p.kv.WatchAll(ctx, jetstream.ResumeFromRevision(p.next))
	if err != nil {
		return fmt.Errorf("watch bucket %s: %w", r.bucket.Name, err)
	}
	defer stop(watcher)
	verify := time.NewTicker(verifyEvery)
	defer verify.Stop()
	check := time.NewTicker(checkPeriod)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case entry, ok := <-watcher.Updates():
			if !ok {
				return fmt.Errorf("watch bucket %s: ended", r.bucket.Name)
			}
			if entry == nil { // from the library: the following entries are new
				continue
			}
			if err := r.reportChange(ctx, p, entry, report); err != nil {
				return err
			}
		case <-check.C:
			if !r.nc.IsConnected() || r.nc.Stats().Reconnects != reconnects {
				return errDisconnected
			}
			if err := r.accepted(ctx); err != nil {
				return err
			}
		case <-verify.C:
			if err := r.verify(ctx, p); err != nil {
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
		r.lost.Do(func() { r.log.Warn("acceptance not readable", "bucket", r.bucket.Name, "err", err) })
	}
	return nil
}

// stop ends a watch and drains it, so that its sender does not block forever.
func stop(w jetstream.KeyWatcher) {
	_ = w.Stop() // fails only if the watch has ended
	limit := time.NewTimer(rowsTimeout)
	defer limit.Stop()
	for {
		select {
		case _, ok := <-w.Updates():
			if !ok {
				return
			}
		case <-limit.C:
			return
		}
	}
}

// progress is the position of a watch.
type progress struct {
	kv      jetstream.KeyValue
	created time.Time // of the bucket
	last    uint64    // of the bucket at the first read; later revisions are new
	next    uint64    // first revision to watch
	seen    uint64    // every change up to this revision was reported, or replaced by a later one
	behind  bool      // at the last check the bucket was ahead
	slice   []api.App
}

// begin sends all rows, in order of revision.
func (r *Rows) begin(ctx context.Context, report harmonizer.Enqueue) (*progress, error) {
	reading, cancel := context.WithTimeout(ctx, snapshotLimit)
	defer cancel()
	kv, err := open(reading, r.js, r.bucket)
	if err != nil {
		return nil, err
	}
	contents, err := r.guard.Read(reading)
	if err != nil {
		return nil, err
	}
	p := &progress{kv: kv, created: contents.Created, last: contents.Last, next: contents.Next(), seen: contents.Last}
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

func (r *Rows) info(ctx context.Context, kv jetstream.KeyValue) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, rowsTimeout)
	defer cancel()
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("read state of bucket %s: %w", r.bucket.Name, err)
	}
	s, ok := status.(*jetstream.KeyValueBucketStatus)
	if !ok {
		return nil, fmt.Errorf("read state of bucket %s: unexpected %T", r.bucket.Name, status)
	}
	return s.StreamInfo(), nil
}

// verify compares the position with that of the bucket, because a watch with a lost consumer is
// silent.
func (r *Rows) verify(ctx context.Context, p *progress) error {
	info, err := r.info(ctx, p.kv)
	if err != nil {
		return err
	}
	if !info.Created.Equal(p.created) || info.State.LastSeq < p.seen {
		return fmt.Errorf("watch bucket %s: the bucket was created again", r.bucket.Name)
	}
	was := p.behind
	p.behind = info.State.LastSeq > p.seen
	if was && p.behind {
		return fmt.Errorf("watch bucket %s: at change %d, the bucket is at %d", r.bucket.Name, p.seen, info.State.LastSeq)
	}
	return nil
}

// reportChange reports a change.
func (r *Rows) reportChange(ctx context.Context, p *progress, entry jetstream.KeyValueEntry, report harmonizer.Enqueue) error {
	if rev := entry.Revision(); rev > p.seen {
		p.seen, p.behind = rev, false
	}
	k := integrity.Key{Name: entry.Key(), Revision: entry.Revision(), Deleted: entry.Operation() != jetstream.KeyValuePut, Value: entry.Value()}
	if k.Revision > p.last || !r.guard.IsUnknown(k.Name) {
		r.guard.StoreRevision(k.Name, k.Revision, k.Deleted)
	}
	if err := r.reportKey(ctx, p, k, report); err != nil {
		return err
	}
	r.guard.Publish(ctx)
	return p.flush(ctx, report)
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
