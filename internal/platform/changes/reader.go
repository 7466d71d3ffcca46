// Package changes reads the changes of a key-value bucket in their order, without a consumer.
//
//	r, err := changes.Open(changes.Config{JS: js, Bucket: name, Hints: names.ChangedSubject(cluster, name)}, contents.Next)
//	for u := range r.Updates() { ... } // in the order of their revisions
//	r.Close()
//
// A bucket republishes the headers of each change (package streams). Such a message is a hint: it may be lost. The truth is a
// batch of direct gets from the last sequence number on: at a hint, after a reconnection, and every few seconds. A replica that
// lags cannot take the reader back: the reader requests again what a hint has promised. A key that an admin purges leaves no
// marker, so its reader compares the whole bucket from time to time.
package changes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
)

const (
	pollEvery    = 5 * time.Second
	page         = 500                   // changes of one batch
	replicaPause = 50 * time.Millisecond // before the next request to a replica that lags
	replicaLag   = 2 * time.Second       // after it, what a hint has promised was removed
	waitingHints = 1024                  // that are not read yet; more are dropped
)

// ErrReread: the bucket was created again, or has a change that the store cannot read. Read it whole.
var ErrReread = errors.New("the bucket must be read again")

// Config describes the bucket.
type Config struct {
	JS     jetstream.JetStream
	Bucket string
	Hints  string // subjects to which the bucket republishes the headers of its changes
}

// Update is a page of changes, or an error. After an error the reader continues, but not after ErrReread.
type Update struct {
	Keys []integrity.Key // in order of revision, at least one without an error
	Err  error
}

// Reader reads the changes of one bucket. Open makes it.
type Reader struct {
	c       Config
	in      *bus.Inbox
	created time.Time // of the bucket
	next    uint64    // sequence number of the first change that was not read
	hinted  uint64    // highest sequence number of a hint
	known   uint64    // last sequence number of the bucket at Open
	stuck   uint64    // next at the last comparison, if the bucket was ahead; 0: it was not
	updates chan Update
	end     context.CancelFunc
	running sync.WaitGroup
}

// Open reads the changes of an existing bucket from a sequence number on, until Close.
func Open(ctx context.Context, c Config, next uint64) (*Reader, error) {
	stream, err := kvbucket.Check(ctx, c.JS, c.Bucket)
	if err != nil {
		return nil, fmt.Errorf("read the changes of bucket %s: %w", c.Bucket, err)
	}
	in, err := bus.Receive(c.JS.Conn(), bus.InboxConfig{Events: []string{c.Hints}, Messages: waitingHints, Lost: func(*nats.Msg, error) {}})
	if err != nil {
		return nil, fmt.Errorf("read the changes of bucket %s: %w", c.Bucket, err)
	}
	r := &Reader{c: c, in: in, created: stream.CachedInfo().Created, known: stream.CachedInfo().State.LastSeq, next: max(next, 1), updates: make(chan Update)}
	ctx, r.end = context.WithCancel(ctx)
	r.running.Go(func() { r.run(ctx) })
	return r, nil
}

// Updates returns the changes. The channel is closed at the end of the context of Open, after Close, and after ErrReread.
func (r *Reader) Updates() <-chan Update { return r.updates }

// Close ends the reader.
func (r *Reader) Close() {
	r.end()
	r.running.Wait()
}

func (r *Reader) run(ctx context.Context) {
	defer close(r.updates)
	defer r.in.Close()
	status := r.c.JS.Conn().StatusChanged(nats.CONNECTED)
	defer r.c.JS.Conn().RemoveStatusListener(status)
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		err := r.read(ctx)
		if err != nil && (!r.send(ctx, Update{Err: err}) || errors.Is(err, ErrReread)) {
			return
		}
		err = nil
		select {
		case <-ctx.Done():
			return
		case m := <-r.in.Messages():
			r.hint(m)
		case <-status:
			err = r.same(ctx)
		case <-poll.C:
			err = r.same(ctx)
		}
		if err != nil && (!r.send(ctx, Update{Err: err}) || errors.Is(err, ErrReread)) {
			return
		}
	}
}

// hint stores what a message promises, and those that wait behind it.
func (r *Reader) hint(m *nats.Msg) {
	for m != nil {
		if sequence, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64); err == nil {
			r.hinted = max(r.hinted, sequence)
		}
		select {
		case m = <-r.in.Messages():
		default:
			m = nil
		}
	}
}

// read sends all changes that a replica has, and waits for what a hint has promised.
func (r *Reader) read(ctx context.Context) error {
	stream, subject := kvbucket.Stream(r.c.Bucket), "$KV."+r.c.Bucket+".>"
	for began := time.Now(); ; {
		messages, pending, err := streams.Batch(ctx, r.c.JS, stream, streams.Request{Sequence: r.next, Subject: subject, Count: page})
		if err != nil {
			return err
		}
		var u Update
		for _, m := range messages {
			u.Keys, r.next = append(u.Keys, integrity.KeyOf(r.c.Bucket, m)), m.Sequence+1
		}
		switch {
		case len(u.Keys) > 0 && !r.send(ctx, u):
			return nil
		case len(u.Keys) > 0 && pending > 0:
			continue
		case r.next > r.hinted:
			return nil
		case time.Since(began) > replicaLag:
			r.hinted = 0
			return nil
		}
		if !retry.Pause(ctx, replicaPause) {
			return nil
		}
	}
}

// same returns ErrReread if the bucket is another one or an older copy, or if it is ahead since the last comparison.
func (r *Reader) same(ctx context.Context) error {
	stream, err := kvbucket.Check(ctx, r.c.JS, r.c.Bucket)
	if err != nil {
		return err
	}
	i := stream.CachedInfo()
	if !i.Created.Equal(r.created) || i.State.LastSeq+1 < r.next {
		return fmt.Errorf("bucket %s: %w: it was created again", r.c.Bucket, ErrReread)
	}
	was := r.stuck
	if r.stuck = 0; i.State.LastSeq >= r.next && i.State.LastSeq > r.known {
		r.stuck = r.next
	}
	if r.stuck != 0 && r.stuck == was {
		return fmt.Errorf("bucket %s: %w: change %d of %d cannot be read", r.c.Bucket, ErrReread, r.next, i.State.LastSeq)
	}
	return nil
}

// send passes an update to the caller. It returns false if ctx ended.
func (r *Reader) send(ctx context.Context, u Update) bool {
	select {
	case r.updates <- u:
		return true
	case <-ctx.Done():
		return false
	}
}
