package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// JetStream returns the streams of a connection. A call whose subject the permissions reject returns a *Violation at once
// instead of a timeout. Use it in place of jetstream.New, and package kvbucket for buckets.
func JetStream(nc *nats.Conn) (jetstream.JetStream, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	c, ok := nc.Opts.CustomDialer.(*client)
	if !ok {
		return js, nil
	}
	return &streams{js, c.denied}, nil
}

// call runs one call that the violations of concerns end.
func call[T any](ctx context.Context, d *denials, concerns func(string) bool, do func(context.Context) (T, error)) (T, error) {
	watching, done, cancel := d.watch(ctx, concerns)
	defer cancel()
	defer done()
	out, err := do(watching)
	return out, absent(offline(causeOf(watching, err)))
}

// absent adds the remedy to the error of a server without JetStream.
func absent(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%w: enable JetStream for the account of this user (\"jetstream: enabled\")", err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return fmt.Errorf("%w: enable JetStream on the NATS servers (\"jetstream {}\")", err)
	}
	return err
}

// ofStream returns whether a rejected subject is that of a request about a stream, or of a read of exactly filter.
func ofStream(stream, filter string) func(string) bool {
	return func(subject string) bool {
		request, ok := strings.CutPrefix(subject, "$JS.API.")
		if !ok {
			return false
		}
		tokens := strings.Split(request, ".")
		i := slices.Index(tokens, stream)
		if i < 0 {
			return request == "INFO" // asked before a bucket is created
		}
		if rest := strings.Join(tokens[i+1:], "."); strings.HasPrefix(request, "DIRECT.GET.") && rest != "" {
			return rest == filter
		}
		return true
	}
}

// exactly returns whether a rejected subject is one of these.
func exactly(subjects ...string) func(string) bool {
	return func(subject string) bool { return slices.Contains(subjects, subject) }
}

// streams is a jetstream.JetStream whose calls end at a violation.
type streams struct {
	jetstream.JetStream
	denied *denials
}

// Request is Request on the connection of s, for packages that receive a jetstream.JetStream and do not import this one.
func (s *streams) Request(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	return Request(ctx, s.Conn(), subject, data)
}

func (s *streams) AccountInfo(ctx context.Context) (*jetstream.AccountInfo, error) {
	return call(ctx, s.denied, exactly("$JS.API.INFO"), s.JetStream.AccountInfo)
}

// watchedNames is a list of names that ends at a violation. Its Err is called after the last name.
type watchedNames struct {
	jetstream.StreamNameLister
	ctx  context.Context
	done func()
}

func (w *watchedNames) Err() error {
	defer w.done()
	return causeOf(w.ctx, w.StreamNameLister.Err())
}

func (s *streams) StreamNames(ctx context.Context, opts ...jetstream.StreamListOpt) jetstream.StreamNameLister {
	watching, done := watchViolations(ctx, s.Conn(), "$JS.API.STREAM.NAMES")
	return &watchedNames{s.JetStream.StreamNames(watching, opts...), watching, done}
}

func (s *streams) Publish(ctx context.Context, subject string, data []byte, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	return s.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data}, opts...)
}

func (s *streams) PublishMsg(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	return call(ctx, s.denied, exactly(m.Subject), func(ctx context.Context) (*jetstream.PubAck, error) {
		ack, err := s.JetStream.PublishMsg(ctx, m, opts...)
		return ack, unsent(s.Conn(), m.Subject, m, err)
	})
}

// stream runs a call that returns a stream.
func (s *streams) stream(ctx context.Context, name string, do func(context.Context) (jetstream.Stream, error)) (jetstream.Stream, error) {
	out, err := call(ctx, s.denied, ofStream(name, ""), do)
	if errors.Is(err, nats.ErrNoResponders) { // a missing stream is an answer of JetStream
		return nil, fmt.Errorf("%w: no NATS server offers JetStream: enable JetStream on the NATS servers (\"jetstream {}\") and start them", err)
	}
	if err != nil {
		return nil, err
	}
	return &stream{out, s.denied, name}, nil
}

func (s *streams) CreateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	return s.stream(ctx, c.Name, func(ctx context.Context) (jetstream.Stream, error) { return s.JetStream.CreateStream(ctx, c) })
}

func (s *streams) UpdateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	return s.stream(ctx, c.Name, func(ctx context.Context) (jetstream.Stream, error) { return s.JetStream.UpdateStream(ctx, c) })
}

func (s *streams) CreateOrUpdateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	return s.stream(ctx, c.Name, func(ctx context.Context) (jetstream.Stream, error) { return s.JetStream.CreateOrUpdateStream(ctx, c) })
}

func (s *streams) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	return s.stream(ctx, name, func(ctx context.Context) (jetstream.Stream, error) { return s.JetStream.Stream(ctx, name) })
}

func (s *streams) DeleteStream(ctx context.Context, name string) error {
	_, err := call(ctx, s.denied, ofStream(name, ""), func(ctx context.Context) (struct{}, error) { return struct{}{}, s.JetStream.DeleteStream(ctx, name) })
	return err
}

// stream is a jetstream.Stream whose calls end at a violation.
type stream struct {
	jetstream.Stream
	denied *denials
	name   string
}

func (s *stream) Info(ctx context.Context, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	return call(ctx, s.denied, ofStream(s.name, ""), func(ctx context.Context) (*jetstream.StreamInfo, error) { return s.Stream.Info(ctx, opts...) })
}

func (s *stream) GetMsg(ctx context.Context, sequence uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	return call(ctx, s.denied, ofStream(s.name, ""), func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return s.Stream.GetMsg(ctx, sequence, opts...)
	})
}

func (s *stream) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	return call(ctx, s.denied, ofStream(s.name, subject), func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return s.Stream.GetLastMsgForSubject(ctx, subject)
	})
}
