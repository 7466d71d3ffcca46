package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
)

const (
	pollEvery   = 5 * time.Second
	callTimeout = 10 * time.Second
	pageCount   = 64      // messages of one page
	pageBytes   = 4 << 20 // of them, before the last one
)

// ReaderConfig describes a stream and the position of its reader.
type ReaderConfig struct {
	JS        jetstream.JetStream
	Stream    string
	Positions string // bucket
	Key       string // in that bucket
	// Start is the time of the first message, if no position is stored.
	Start time.Time
	// News has a value when the stream may have more messages; nil: the reader polls only.
	News <-chan struct{}
}

// Reader reads a stream from a stored position, which survives a restart. It has one owner, and a key has one Reader: a second
// one fails, because the position has another revision.
type Reader struct {
	c        ReaderConfig
	position position
	revision uint64 // of the position
	loaded   bool
}

// position is how far the messages of a stream are done.
type position struct {
	Created  time.Time `json:"stream"`         // when the stream was created
	Sequence uint64    `json:"sequence"`       // of the last message that is done; 0: none
	Start    time.Time `json:"start,omitzero"` // of the first message, while none is done
}

// Page is the messages after the position, at least one.
type Page struct {
	Messages []bus.Stored
	Waiting  int // messages behind them
	Lost     int // messages before them that the stream no longer has
}

// NewReader returns a reader. It sends no request.
func NewReader(c ReaderConfig) *Reader { return &Reader{c: c} }

// Next returns the messages after the last one that is done. It waits for the first of them. A new stream in place of the old one
// is read from its beginning.
func (r *Reader) Next(ctx context.Context) (Page, error) {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		p, err := r.page(ctx)
		if err != nil || len(p.Messages) > 0 {
			return p, err
		}
		select {
		case <-ctx.Done():
			return p, context.Cause(ctx)
		case <-r.c.News:
		case <-poll.C:
		}
	}
}

func (r *Reader) page(ctx context.Context) (p Page, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := r.locate(ctx); err != nil {
		return p, fmt.Errorf("read stream %s: %w", r.c.Stream, err)
	}
	request := streams.Request{Sequence: r.position.Sequence + 1, Subject: ">", Count: pageCount, Bytes: pageBytes}
	if r.position.Sequence == 0 && !r.position.Start.IsZero() {
		request.Sequence, request.Since = 0, &r.position.Start
	}
	messages, pending, err := streams.Batch(ctx, r.c.JS, r.c.Stream, request)
	if err != nil {
		return p, fmt.Errorf("read stream %s: %w", r.c.Stream, err)
	}
	p.Messages, p.Waiting = messages, int(pending)
	if len(messages) > 0 && r.position.Sequence > 0 {
		p.Lost = int(messages[0].Sequence - r.position.Sequence - 1)
	}
	return p, nil
}

// locate reads the position once, and begins again in a stream that was created later.
func (r *Reader) locate(ctx context.Context) error {
	s, err := r.c.JS.Stream(ctx, r.c.Stream)
	if err != nil {
		return kvbucket.Explain(r.c.JS.Conn(), "$JS.API.STREAM.INFO."+r.c.Stream, err)
	}
	created, last := s.CachedInfo().Created, s.CachedInfo().State.LastSeq
	if r.loaded {
		switch {
		case !r.position.Created.Equal(created):
			r.position = position{Created: created}
		case last < r.position.Sequence: // the stream lost its end, and new messages get the sequences of lost ones
			r.position.Sequence = last
		default:
			return nil
		}
		return r.store(ctx)
	}
	e, err := kvbucket.New(r.c.JS, r.c.Positions).Get(ctx, r.c.Key)
	if err != nil {
		return err
	}
	was := position{}
	r.position, r.revision = position{Created: created, Start: r.c.Start}, e.Revision
	if e.Found && json.Unmarshal(e.Value, &was) == nil { // an unreadable position begins at the start
		r.position = was
		if !was.Created.Equal(created) {
			r.position = position{Created: created}
		}
		r.position.Sequence = min(r.position.Sequence, last)
	}
	if err := r.store(ctx); err != nil {
		return err
	}
	r.loaded = true
	return nil
}

// Done stores that the messages up to that one are done.
func (r *Reader) Done(ctx context.Context, sequence uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r.position.Sequence, r.position.Start = sequence, time.Time{}
	return r.store(ctx)
}

// store writes the position over the last known revision. After an error the next locate reads it again.
func (r *Reader) store(ctx context.Context) error {
	data, err := json.Marshal(r.position)
	if err == nil {
		var revision uint64
		if revision, err = kvbucket.New(r.c.JS, r.c.Positions).Update(ctx, r.c.Key, data, r.revision); err == nil {
			r.revision = revision
			return nil
		}
	}
	r.loaded = false
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		err = fmt.Errorf("another process has the position: %w", err)
	}
	return fmt.Errorf("store position %s: %w", r.c.Key, err)
}
