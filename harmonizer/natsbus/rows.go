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
)

const (
	rowsTimeout   = 5 * time.Second  // of one request to JetStream
	snapshotLimit = 30 * time.Second // in which the first telling has to be whole
	againAfter    = time.Second      // a watch ended
	proveEvery    = 5 * time.Second  // that the watch still sees all
	slice         = 500              // rows of one event, at most
)

// Rows is the expected state in the bucket message.AppsBucket. Make it with
// NewRows.
type Rows struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	bucket string
	log    *slog.Logger
	lost   rate.Sometimes // logged
	bad    rate.Sometimes // logged
}

var _ harmonizer.Source = (*Rows)(nil)

// NewRows returns the source of a cluster's expected state.
func NewRows(nc *nats.Conn, cluster string, log *slog.Logger) (*Rows, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("reach JetStream: %w", err)
	}
	return &Rows{nc: nc, js: js, bucket: message.AppsBucket(cluster), log: log,
		lost: rate.Sometimes{Interval: time.Minute}, bad: rate.Sometimes{Interval: time.Minute}}, nil
}

// Watch tells the rows, and from then on each change, until ctx ends. Whenever
// it cannot be sure to have seen all, it says ExpectedLost and begins anew. A
// bucket that is not there is made.
func (r *Rows) Watch(ctx context.Context, tell harmonizer.Tell) error {
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
	open, cancel := context.WithTimeout(ctx, rowsTimeout)
	defer cancel()
	p, err := r.begin(open)
	if err != nil {
		return err
	}
	ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	watcher, err := p.kv.WatchAll(ctx)
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
			if err := r.take(ctx, p, entry, tell); err != nil {
				return err
			}
		case <-look.C:
			if !r.nc.IsConnected() || r.nc.Stats().Reconnects != reconnects {
				return ErrDisconnected
			}
		case now := <-prove.C:
			if err := r.prove(ctx, p, now); err != nil {
				return err
			}
		}
	}
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
	kv       jetstream.KeyValue
	created  time.Time // of the bucket
	began    time.Time
	complete bool
	seen     uint64 // every change up to here was told, or replaced by a later one
	behind   bool   // at the last proof there was more
	slice    []message.App
}

func (r *Rows) begin(ctx context.Context) (*progress, error) {
	kv, err := open(ctx, r.js, r.bucket)
	if err != nil {
		return nil, err
	}
	info, err := r.info(ctx, kv)
	if err != nil {
		return nil, err
	}
	return &progress{kv: kv, created: info.Created, began: time.Now(), seen: info.State.LastSeq}, nil
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
func (r *Rows) prove(ctx context.Context, p *progress, now time.Time) error {
	if !p.complete {
		if now.Sub(p.began) > snapshotLimit {
			return fmt.Errorf("watch bucket %s: rows are not whole after %v", r.bucket, snapshotLimit)
		}
		return nil
	}
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

// take tells one entry; nil is the end of the rows that were there at first,
// which are told in slices.
func (r *Rows) take(ctx context.Context, p *progress, entry jetstream.KeyValueEntry, tell harmonizer.Tell) error {
	if entry == nil {
		p.complete = true
		if err := p.flush(ctx, tell); err != nil {
			return err
		}
		return tell(ctx, apps.ExpectedComplete{})
	}
	if rev := entry.Revision(); rev > p.seen {
		p.seen, p.behind = rev, false
	}
	row, other := r.read(entry)
	if other == nil {
		p.slice = append(p.slice, row)
	}
	if other != nil || p.complete || len(p.slice) == slice {
		if err := p.flush(ctx, tell); err != nil {
			return err
		}
	}
	if other != nil {
		return tell(ctx, other)
	}
	return nil
}

func (p *progress) flush(ctx context.Context, tell harmonizer.Tell) error {
	if len(p.slice) == 0 {
		return nil
	}
	some := p.slice
	p.slice = nil // the other end keeps it
	return tell(ctx, apps.ExpectedRows{Rows: some})
}

// read returns the row of an entry, or the event that it is instead.
func (r *Rows) read(entry jetstream.KeyValueEntry) (message.App, apps.Event) {
	if entry.Operation() != jetstream.KeyValuePut {
		return message.App{}, apps.ExpectedGone{Name: entry.Key()}
	}
	row, err := message.DecodeApp(entry.Value())
	if err == nil && row.Name != entry.Key() {
		err = fmt.Errorf("row names itself %q", row.Name)
	}
	if err != nil {
		r.bad.Do(func() { r.log.Warn("row is unreadable", "bucket", r.bucket, "key", entry.Key(), "err", err) })
		return message.App{}, apps.ExpectedUnreadable{Name: entry.Key()}
	}
	return row, nil
}
