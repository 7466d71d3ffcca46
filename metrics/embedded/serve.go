package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/weirkeeper/weirkeeper/metrics"
)

const (
	workers        = 2                      // for each of the two subjects
	pendingCount   = 1024                   // waiting requests of a subject
	pendingBytes   = 64 << 20               // bytes of the waiting requests
	requestTimeout = 10 * time.Second       // for one request, in client and server
	drainTimeout   = 500 * time.Millisecond // to answer waiting requests at the end
)

// ErrClosed: the store is closed.
var ErrClosed = errors.New("metrics store is closed")

// Store is the database behind Serve. It must be safe for concurrent use.
type Store interface {
	// Put stores the samples and returns how many it dropped. It drops samples older than the retention, and second
	// values of a series for one millisecond.
	Put(ctx context.Context, samples []metrics.Sample) (dropped int, err error)
	// Page returns the window from the cursor on, or from its start without a cursor, up to room bytes.
	Page(ctx context.Context, q metrics.Query, after *Cursor, room int) (Page, error)
}

// Serve answers the Clients of the cluster from the store until ctx ends. Then it answers the waiting requests and
// returns nil. It returns an error if the connection closes. Run it once for a cluster.
func Serve(ctx context.Context, nc *nats.Conn, cluster string, store Store, log *slog.Logger) error {
	s := service{store: store, log: log, room: limit(maxPage, nc)}
	writes, err := subscribe(nc, writeSubject(cluster))
	if err != nil {
		return err
	}
	windows, err := subscribe(nc, windowSubject(cluster))
	if err != nil {
		return errors.Join(err, writes.Unsubscribe())
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	g, work := errgroup.WithContext(work)
	for range workers {
		g.Go(func() error { return s.work(work, writes, s.write) })
		g.Go(func() error { return s.work(work, windows, s.window) })
	}
	var drainer sync.WaitGroup
	drainer.Go(func() { drain(ctx, work.Done(), cancel, writes, windows) })
	err = g.Wait() // also ends work
	drainer.Wait()
	if ctx.Err() != nil {
		return nil // the connection may end at the same time
	}
	return err
}

// limit returns bound, or half of the bus's payload limit if that is less.
func limit(bound int, nc *nats.Conn) int { return min(bound, int(nc.MaxPayload()/2)) }

func subscribe(nc *nats.Conn, subject string) (*nats.Subscription, error) {
	sub, err := nc.SubscribeSync(subject)
	if err != nil {
		return nil, fmt.Errorf("serve metrics on %s: %w", subject, err)
	}
	if err := sub.SetPendingLimits(pendingCount, pendingBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("serve metrics on %s: %w", subject, err), sub.Unsubscribe())
	}
	return sub, nil
}

// drain stops new requests when ctx ends. If the waiting ones take too long, it cancels them.
func drain(ctx context.Context, done <-chan struct{}, cancel func(), subs ...*nats.Subscription) {
	select {
	case <-ctx.Done():
	case <-done:
	}
	for _, sub := range subs {
		if err := sub.Drain(); err != nil {
			cancel() // no response can be sent any more
			return
		}
	}
	timer := time.NewTimer(drainTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		cancel()
	}
}

// service answers requests.
type service struct {
	store Store
	log   *slog.Logger
	room  int // maximum size of a page, in bytes
}

// work answers the requests of one subscription until it is drained.
func (s service) work(ctx context.Context, sub *nats.Subscription, handle func(context.Context, []byte) ([]byte, error)) error {
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		switch {
		case err == nil:
			s.answer(ctx, msg, handle)
		case errors.Is(err, nats.ErrSlowConsumer):
			s.log.Warn("metrics requests dropped, too many at once", "subject", sub.Subject)
		case errors.Is(err, nats.ErrBadSubscription), ctx.Err() != nil:
			return nil
		default:
			return fmt.Errorf("serve metrics on %s: %w", sub.Subject, err)
		}
	}
}

func (s service) answer(ctx context.Context, msg *nats.Msg, handle func(context.Context, []byte) ([]byte, error)) {
	if msg.Reply == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	reply, err := handle(ctx, msg.Data)
	if err != nil {
		s.log.Debug("metrics request refused", "subject", msg.Subject, "err", err)
		reply = encodeError(err)
	}
	if err := msg.Respond(reply); err != nil {
		s.log.Warn("metrics request not answered", "subject", msg.Subject, "err", err)
	}
}

func (s service) write(ctx context.Context, data []byte) ([]byte, error) {
	samples, err := decodeWrite(data)
	if err != nil {
		return nil, err
	}
	dropped, err := s.store.Put(ctx, samples)
	if err != nil {
		return nil, err
	}
	return json.Marshal(reply{Dropped: dropped})
}

func (s service) window(ctx context.Context, data []byte) ([]byte, error) {
	q, after, err := decodeWindow(data)
	if err != nil {
		return nil, err
	}
	p, err := s.store.Page(ctx, q, after, s.room)
	if err != nil {
		return nil, err
	}
	return encodePage(p), nil
}

// Code is the kind of a store's error.
type Code string

const (
	CodeInternal  Code = "internal"   // any other error
	CodeMalformed Code = "malformed"  // metrics.ErrMalformed
	CodeNotFinite Code = "not_finite" // metrics.ErrNotFinite
	CodeFuture    Code = "future"     // metrics.ErrFuture
	CodePattern   Code = "pattern"    // metrics.ErrPattern
	CodeTooMany   Code = "too_many"   // metrics.ErrTooMany
	CodeClosed    Code = "closed"     // ErrClosed

	CodeTooManySeries Code = "too_many_series" // metrics.ErrTooManySeries
)

// sentinel returns the error of a code, or nil.
func (c Code) sentinel() error {
	switch c {
	case CodeMalformed:
		return metrics.ErrMalformed
	case CodeNotFinite:
		return metrics.ErrNotFinite
	case CodeFuture:
		return metrics.ErrFuture
	case CodePattern:
		return metrics.ErrPattern
	case CodeTooMany:
		return metrics.ErrTooMany
	case CodeClosed:
		return ErrClosed
	case CodeTooManySeries:
		return metrics.ErrTooManySeries
	}
	return nil
}

func codeOf(err error) Code {
	for _, c := range []Code{CodeMalformed, CodeNotFinite, CodeFuture, CodePattern, CodeTooMany, CodeClosed, CodeTooManySeries} {
		if errors.Is(err, c.sentinel()) {
			return c
		}
	}
	return CodeInternal
}

// RemoteError is an error that the store sent to a Client. It wraps the error of its code.
type RemoteError struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Error returns the store's message.
func (e *RemoteError) Error() string { return "metrics store: " + e.Message }

// Unwrap returns the error of the code, or nil.
func (e *RemoteError) Unwrap() error { return e.Code.sentinel() }

// reply is the JSON response of a write, or an error.
type reply struct {
	Error   *RemoteError `json:"error,omitempty"`
	Dropped int          `json:"dropped,omitempty"` // samples
}

// maxMessage bounds an error message, in bytes.
const maxMessage = 1024

func encodeError(err error) []byte {
	message := err.Error()
	data, err := json.Marshal(reply{Error: &RemoteError{Code: codeOf(err), Message: message[:min(len(message), maxMessage)]}})
	if err != nil {
		return []byte(`{"error":{"code":"internal","message":"the error cannot be encoded"}}`)
	}
	return data
}
