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

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/integrity"
)

const (
	rowsTimeout   = 5 * time.Second  // of one request to JetStream
	snapshotLimit = 30 * time.Second // in which the first telling has to be whole
	againAfter    = time.Second      // a watch ended
	proveEvery    = 5 * time.Second  // that the watch still sees all
	slice         = 500              // rows of one event, at most
)

// Rows is the expected state in the bucket message.AppsBucket. Make it with
// NewRows. A row that cannot be read, that is older than before, or that vanished without
// a delete marker is unknown: apps.ExpectedUnreadable.
type Rows struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	bucket string
	guard  *integrity.Guard
	log    *slog.Logger
	lost   rate.Sometimes // logged
}

// RowsConfig names the rows, and what proves that they are whole.
type RowsConfig struct {
	Cluster string
	// Folder keeps what was seen of the rows; empty: it is forgotten when the process ends.
	Folder string
	By     string // this process, in alarms; empty: alarms are in the log only
}

var _ harmonizer.Source = (*Rows)(nil)

// NewRows returns the source of a cluster's expected state.
func NewRows(nc *nats.Conn, c RowsConfig, log *slog.Logger) (*Rows, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("reach JetStream: %w", err)
	}
	bucket := message.AppsBucket(c.Cluster)
	guard, err := integrity.Open(integrity.Config{
		JS: js, Cluster: c.Cluster, Bucket: bucket, Reader: "apps", Folder: c.Folder, By: c.By, Log: log,
	})
	if err != nil {
		return nil, err
	}
	return &Rows{nc: nc, js: js, bucket: bucket, guard: guard, log: log, lost: rate.Sometimes{Interval: time.Minute}}, nil
}

// Watch tells the rows, and from then on each change, until ctx ends. Whenever
// it cannot be sure to have seen all, it says ExpectedLost and begins anew. A
// bucket that is not there is made.
func (r *Rows) Watch(ctx context.Context, tell harmonizer.Tell) error {
	defer r.guard.Close()
	for {
		err := r.watch(ctx, tell)
		if ctx.Err() != nil {
			return nil
		}
		r.lost.Do(func() { r.log.Warn("expected state lost", "bucket", r.bucket, "err", err) })
		if err := tell(ctx, apps.ExpectedLost{Why: err.Error()}); err != nil {
			return nil
		}
		if r.nc.IsClosed() {
			return fmt.Errorf("watch %s: %w", r.bucket, nats.ErrConnectionClosed)
		}
		if wait(ctx, againAfter) != nil {
			return nil
		}
	}
}

// Refresh does nothing: each change is told as it happens.
func (r *Rows) Refresh() {}

// OpenBucket returns the key-value bucket of a cluster's expected state, and
// makes it if it is not there.
func OpenBucket(ctx context.Context, js jetstream.JetStream, cluster string) (jetstream.KeyValue, error) {
	return open(ctx, js, message.AppsBucket(cluster))
}

func open(ctx context.Context, js jetstream.JetStream, bucket string) (jetstream.KeyValue, error) {
	kv, err := js.KeyValue(ctx, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket, Description: "expected state of applications"})
		if errors.Is(err, jetstream.ErrBucketExists) { // somebody else was faster
			kv, err = js.KeyValue(ctx, bucket)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", bucket, err)
	}
	return kv, nil
}

// watch is one telling of all rows and of what changes then. It always returns
// an error: why it ended.
func (r *Rows) watch(ctx context.Context, tell harmonizer.Tell) error {
	if !r.nc.IsConnected() {
		return ErrDisconnected
	}
	reconnects := r.nc.Stats().Reconnects
	p, err := r.begin(ctx, tell)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher, err := p.kv.WatchAll(ctx, jetstream.ResumeFromRevision(p.next))
	if err != nil {
		return fmt.Errorf("watch bucket %s: %w", r.bucket, err)
	}
	defer stop(watcher)
	prove := time.NewTicker(proveEvery)
	defer prove.Stop()
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case entry, ok := <-watcher.Updates():
			if !ok {
				return fmt.Errorf("watch bucket %s: ended", r.bucket)
			}
			if entry == nil { // of the library: what follows is new
				continue
			}
			if err := r.take(ctx, p, entry, tell); err != nil {
				return err
			}
		case <-look.C:
			if !r.nc.IsConnected() || r.nc.Stats().Reconnects != reconnects {
				return ErrDisconnected
			}
			if err := r.accepted(ctx); err != nil {
				return err
			}
		case <-prove.C:
			if err := r.prove(ctx, p); err != nil {
				return err
			}
		}
	}
}

// errAccepted ends a watch: the rows count from now on as they are.
var errAccepted = errors.New("an operator accepts the rows as they are")

func (r *Rows) accepted(ctx context.Context) error {
	r.guard.Publish(ctx)
	accepted, err := r.guard.Accepted(ctx)
	if accepted {
		return errAccepted
	}
	if err != nil {
		r.lost.Do(func() { r.log.Warn("acceptance cannot be read", "bucket", r.bucket, "err", err) })
	}
	return nil
}

// stop ends a watch, and takes what still comes from it, so that its sender is
// not held up for ever.
func stop(w jetstream.KeyWatcher) {
	_ = w.Stop() // fails only if the watch ended by itself
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

// progress is how far a watch has come.
type progress struct {
	kv      jetstream.KeyValue
	created time.Time // of the bucket
	last    uint64    // of the bucket when it was read: what is beyond is written since
	next    uint64    // from here on changes are watched
	seen    uint64    // every change up to here was reported, or replaced by a later one
	behind  bool      // at the last proof there was more
	slice   []message.App
}

// begin reports all rows that there are, in order of revision.
func (r *Rows) begin(ctx context.Context, tell harmonizer.Tell) (*progress, error) {
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
		if err := r.tell(ctx, p, k, tell); err != nil {
			return nil, err
		}
	}
	if err := p.flush(ctx, tell); err != nil {
		return nil, err
	}
	for _, name := range r.guard.Missing() {
		if err := tell(ctx, apps.ExpectedUnreadable{Name: name}); err != nil {
			return nil, err
		}
	}
	r.guard.Publish(reading) // before anything is done about it
	return p, tell(ctx, apps.ExpectedComplete{})
}

func (r *Rows) info(ctx context.Context, kv jetstream.KeyValue) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, rowsTimeout)
	defer cancel()
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("read state of bucket %s: %w", r.bucket, err)
	}
	s, ok := status.(*jetstream.KeyValueBucketStatus)
	if !ok {
		return nil, fmt.Errorf("read state of bucket %s: unexpected %T", r.bucket, status)
	}
	return s.StreamInfo(), nil
}

// prove asks the bucket how far it is: a watch whose consumer died is silent.
func (r *Rows) prove(ctx context.Context, p *progress) error {
	info, err := r.info(ctx, p.kv)
	if err != nil {
		return err
	}
	if !info.Created.Equal(p.created) || info.State.LastSeq < p.seen {
		return fmt.Errorf("watch bucket %s: the bucket was made anew", r.bucket)
	}
	was := p.behind
	p.behind = info.State.LastSeq > p.seen
	if was && p.behind {
		return fmt.Errorf("watch bucket %s: at change %d, the bucket is at %d", r.bucket, p.seen, info.State.LastSeq)
	}
	return nil
}

// take reports a change.
func (r *Rows) take(ctx context.Context, p *progress, entry jetstream.KeyValueEntry, tell harmonizer.Tell) error {
	if rev := entry.Revision(); rev > p.seen {
		p.seen, p.behind = rev, false
	}
	k := integrity.Key{Name: entry.Key(), Revision: entry.Revision(), Deleted: entry.Operation() != jetstream.KeyValuePut, Value: entry.Value()}
	if k.Revision > p.last || !r.guard.Doubted(k.Name) {
		r.guard.Note(k.Name, k.Revision, k.Deleted)
	}
	if err := r.tell(ctx, p, k, tell); err != nil {
		return err
	}
	r.guard.Publish(ctx)
	return p.flush(ctx, tell)
}

// tell reports one key, a row with others in a slice.
func (r *Rows) tell(ctx context.Context, p *progress, k integrity.Key, tell harmonizer.Tell) error {
	row, other := r.read(k)
	if other == nil {
		if p.slice = append(p.slice, row); len(p.slice) < slice {
			return nil
		}
		return p.flush(ctx, tell)
	}
	if err := p.flush(ctx, tell); err != nil {
		return err
	}
	return tell(ctx, other)
}

func (p *progress) flush(ctx context.Context, tell harmonizer.Tell) error {
	if len(p.slice) == 0 {
		return nil
	}
	some := p.slice
	p.slice = nil // the other end keeps it
	return tell(ctx, apps.ExpectedRows{Rows: some})
}

// read returns the row of a key, or the event that it is instead.
func (r *Rows) read(k integrity.Key) (message.App, apps.Event) {
	switch {
	case r.guard.Doubted(k.Name):
		return message.App{}, apps.ExpectedUnreadable{Name: k.Name}
	case k.Deleted:
		return message.App{}, apps.ExpectedGone{Name: k.Name}
	}
	row, err := message.DecodeApp(k.Value)
	if err == nil && row.Name != k.Name {
		err = fmt.Errorf("row names itself %q", row.Name)
	}
	if err != nil {
		r.guard.Unreadable(k.Name, "an application", err)
		return message.App{}, apps.ExpectedUnreadable{Name: k.Name}
	}
	return row, nil
}
