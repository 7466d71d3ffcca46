package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/store"
)

const (
	workers        = 2                      // for each of the two subjects
	pendingCount   = 1024                   // waiting requests of a subject
	pendingBytes   = 64 << 20               // bytes of the waiting requests
	requestTimeout = 10 * time.Second       // for one request of a client
	answerTimeout  = 8 * time.Second        // for the answer to it: less, so that the client receives the store's error
	drainTimeout   = 500 * time.Millisecond // to answer waiting requests at the end
)

// ErrClosed: the store is closed.
var ErrClosed = errors.New("metrics store is closed")

// Store is the database behind Serve. It must be safe for concurrent use.
type Store interface {
	// Put stores the samples and returns how many it dropped. It drops samples older than the retention, and those
	// of a millisecond that was rewritten too often.
	Put(ctx context.Context, samples []metrics.Sample) (dropped int, err error)
	// Page returns the window from the cursor on, or from its start without a cursor, up to room bytes.
	Page(ctx context.Context, q metrics.Query, after *Cursor, room int) (Page, error)
}

// Server receives the requests of the Clients of a cluster.
type Server struct {
	nc              *nats.Conn
	cluster         string
	log             *slog.Logger
	writes, windows *bus.Inbox
	foreign         atomic.Uint64
}

// Foreign returns the number of writes that were refused because they had series of another writer.
func (s *Server) Foreign() uint64 { return s.foreign.Load() }

// Losers returns the writers that send more than their share, and lose messages.
func (s *Server) Losers() []bus.LostOfSender { return s.writes.Losers() }

// ReportLosses publishes the writers that lose messages until ctx ends; see bus.Inbox.
func (s *Server) ReportLosses(ctx context.Context, subject string, encode func(bus.LostOfSender) any) {
	s.writes.ReportLosses(ctx, subject, encode)
}

// Listen receives requests, which wait for Serve. It returns when the NATS server sends them, or after 10 s: without a
// connection they are received from its return on. The connection must stay open until Serve returns. Run one Server for
// a cluster.
func Listen(ctx context.Context, nc *nats.Conn, cluster string, log *slog.Logger) (*Server, error) {
	writes, err := receive(nc, writeSubject(cluster, "*"), &bus.Senders{Of: writerOf, Messages: pendingCount / 4}, log)
	if err != nil {
		return nil, err
	}
	windows, err := receive(nc, windowSubject(cluster), nil, log)
	if err != nil {
		writes.Close()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_ = nc.FlushWithContext(ctx) // after a reconnect the client library subscribes again
	return &Server{nc: nc, cluster: cluster, log: log, writes: writes, windows: windows}, nil
}

// Serve answers the requests from the store until ctx ends. Then it answers the waiting ones, stops to receive, and returns
// nil. It returns an error if the connection closes. Call it once.
func (s *Server) Serve(ctx context.Context, store Store) (err error) {
	answers := service{store: store, log: s.log, room: limit(maxPage, s.nc), foreign: &s.foreign, warn: &rate.Sometimes{Interval: time.Minute}}
	closed := s.nc.StatusChanged(nats.CLOSED)
	defer s.nc.RemoveStatusListener(closed)
	defer s.writes.Close()
	defer s.windows.Close()
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var answering sync.WaitGroup
	for range workers {
		answering.Go(func() { answers.work(work, s.writes, answers.write) })
		answering.Go(func() { answers.work(work, s.windows, answers.window) })
	}
	if s.nc.IsClosed() { // before closed was registered
		err = fmt.Errorf("serve metrics of cluster %s: %w", s.cluster, nats.ErrConnectionClosed)
	} else {
		select {
		case <-ctx.Done(): // the connection may end at the same time
		case <-closed:
			err = fmt.Errorf("serve metrics of cluster %s: %w", s.cluster, nats.ErrConnectionClosed)
		}
	}
	stop := drain(work, cancel, err == nil, s.writes, s.windows)
	defer stop()
	answering.Wait()
	return err
}

// limit returns bound, or half of the bus's payload limit if that is less.
func limit(bound int, nc *nats.Conn) int { return min(bound, int(nc.MaxPayload()/2)) }

// writerOf returns the writer in the subject of a write.
func writerOf(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

func receive(nc *nats.Conn, subject string, of *bus.Senders, log *slog.Logger) (*bus.Inbox, error) {
	in, err := bus.Receive(nc, bus.InboxConfig{Requests: []string{subject}, Messages: pendingCount, Bytes: pendingBytes, Senders: of, Log: log})
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	return in, nil
}

// drain stops new requests. If the waiting ones take too long, or connected is false, it cancels them. The caller calls
// stop after the last answer.
func drain(work context.Context, cancel func(), connected bool, inboxes ...*bus.Inbox) (stop func()) {
	limited, release := context.WithTimeout(work, drainTimeout)
	end := func() {
		cancel()
		for _, in := range inboxes {
			in.Close()
		}
	}
	if !connected {
		end() // no response can be sent any more
		return release
	}
	for _, in := range inboxes {
		if err := in.Drain(limited); err != nil {
			end()
			return release
		}
	}
	late := context.AfterFunc(limited, end)
	return func() { late(); release() }
}

// service answers requests.
type service struct {
	store Store
	log   *slog.Logger
	room  int // maximum size of a page, in bytes

	foreign *atomic.Uint64  // writes with series of another writer
	warn    *rate.Sometimes // limits the log messages about them
}

// work answers the requests of one inbox until it is drained or closed.
func (s service) work(ctx context.Context, in *bus.Inbox, handle func(context.Context, *nats.Msg) ([]byte, error)) {
	for msg := range in.Messages() {
		s.answer(ctx, msg, handle)
	}
}

func (s service) answer(ctx context.Context, msg *nats.Msg, handle func(context.Context, *nats.Msg) ([]byte, error)) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	reply, err := handle(ctx, msg)
	if err != nil {
		s.log.Debug("metrics request refused", "subject", msg.Subject, "err", err)
		reply = encodeError(err)
	}
	if err := msg.Respond(reply); err != nil {
		s.log.Warn("metrics request not answered", "subject", msg.Subject, "err", err)
	}
}

// write stores the samples of a request. The last token of its subject is the writer.
func (s service) write(ctx context.Context, msg *nats.Msg) ([]byte, error) {
	samples, err := decodeWrite(msg.Data)
	if err != nil {
		return nil, err
	}
	writer := store.Writer(writerOf(msg.Subject))
	if err := writer.Check(samples); err != nil {
		n := s.foreign.Add(1)
		s.warn.Do(func() { s.log.Warn("metrics refused", "writer", writer, "so_far", n, "err", err) })
		return nil, err
	}
	dropped, err := s.store.Put(ctx, samples)
	if err != nil {
		return nil, err
	}
	return json.Marshal(reply{Dropped: dropped})
}

func (s service) window(ctx context.Context, msg *nats.Msg) ([]byte, error) {
	q, after, err := decodeWindow(msg.Data)
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
	CodeForeign       Code = "foreign"         // store.ErrForeign
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
	case CodeForeign:
		return store.ErrForeign
	}
	return nil
}

func codeOf(err error) Code {
	for _, c := range []Code{CodeMalformed, CodeNotFinite, CodeFuture, CodePattern, CodeTooMany, CodeClosed, CodeTooManySeries, CodeForeign} {
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
