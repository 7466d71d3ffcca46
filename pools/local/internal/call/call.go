// Package call asks and answers over the bus: one JSON object each way, a
// deadline on every request, and errors with a code that a caller can branch
// on.
//
// The answer is {"body": ...} or {"error": {"code": ..., "message": ...}}.
// All functions may be used concurrently.
package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/strictjson"
)

// Timeout is the deadline of a request whose context has none.
const Timeout = 5 * time.Second

// Codes that every server of requests may answer with; each has further ones
// of its own.
const (
	CodeInvalid  = "invalid"   // the request cannot be read, or asks for nonsense
	CodeInternal = "internal"  // the server could not do it
	CodeTooLarge = "too_large" // the answer would exceed what the bus carries
)

// Error is a refusal that came over the bus.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error returns the server's message.
func (e *Error) Error() string { return e.Message }

// Invalid returns a refusal with CodeInvalid.
func Invalid(format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

type envelope struct {
	Error *Error          `json:"error,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
}

// Ask sends request to subject and decodes the answer into reply, which may be
// nil. A refusal is an *Error; nobody there is nats.ErrNoResponders, and no
// answer in time is the context's error.
func Ask(ctx context.Context, nc *nats.Conn, subject string, request, reply any) error {
	data, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request to %s: %w", subject, err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Timeout)
		defer cancel()
	}
	msg, err := nc.RequestWithContext(ctx, subject, data)
	if err != nil {
		return fmt.Errorf("ask %s: %w", subject, err)
	}
	var e envelope
	if err := json.Unmarshal(msg.Data, &e); err != nil {
		return fmt.Errorf("answer of %s: %w", subject, err)
	}
	if e.Error != nil {
		return e.Error
	}
	if reply == nil {
		return nil
	}
	if err := json.Unmarshal(e.Body, reply); err != nil {
		return fmt.Errorf("answer of %s: %w", subject, err)
	}
	return nil
}

// Answer responds to msg with body, or with the refusal if err is not nil. An
// err that is no *Error goes out with CodeInternal. A message that wants no
// answer gets none.
func Answer(msg *nats.Msg, maxPayload int64, body any, err error) error {
	if msg.Reply == "" {
		return nil
	}
	data, encErr := encode(body, err)
	if encErr == nil && maxPayload > 0 && int64(len(data)) > maxPayload {
		data, encErr = encode(nil, &Error{CodeTooLarge, "the answer is larger than a message may be"})
	}
	if encErr != nil {
		return fmt.Errorf("encode answer to %s: %w", msg.Subject, encErr)
	}
	if err := msg.Respond(data); err != nil {
		return fmt.Errorf("answer %s: %w", msg.Subject, err)
	}
	return nil
}

func encode(body any, err error) ([]byte, error) {
	if err == nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		return json.Marshal(envelope{Body: raw})
	}
	refusal, ok := errors.AsType[*Error](err)
	if !ok {
		refusal = &Error{CodeInternal, err.Error()}
	}
	return json.Marshal(envelope{Error: refusal})
}

// Decode reads exactly one JSON value of at most limit bytes into out. Unknown
// keys are refused, and every error is a refusal with CodeInvalid.
func Decode(data []byte, limit int, out any) error {
	if err := strictjson.Within(data, limit, out); err != nil {
		return Invalid("request: %v", err)
	}
	return nil
}

// Subscribe lets what all subjects carry arrive in one channel, so that its order
// stays. The function it returns ends that, after an error too.
func Subscribe(nc *nats.Conn, msgs chan *nats.Msg, subjects ...string) (unsubscribe func(), err error) {
	var subs []*nats.Subscription
	unsubscribe = func() {
		for _, s := range subs {
			_ = s.Unsubscribe() // fails only on a connection that is gone
		}
	}
	for _, subject := range subjects {
		sub, err := nc.ChanSubscribe(subject, msgs)
		if err != nil {
			return unsubscribe, fmt.Errorf("subscribe to %s: %w", subject, err)
		}
		subs = append(subs, sub)
	}
	return unsubscribe, nil
}
