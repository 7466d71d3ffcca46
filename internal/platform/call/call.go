// Package call sends requests over the bus and responds to them: one JSON object each way, a
// deadline for every request, and errors with a code for callers to branch on.
//
// The response is {"body": ...} or {"error": {"code": ..., "message": ...}}. All functions may be
// used concurrently.
//
// [Request] sends and [Respond] answers. A responder chooses the codes. Messages beyond the limit
// of the server become an error.
package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

// timeout is the default deadline of a request.
const timeout = 5 * time.Second

// Codes that every server may return. Each server has further codes of its own.
const (
	CodeInvalid  = "invalid"   // the request is unreadable or invalid
	codeInternal = "internal"  // the server failed
	codeTooLarge = "too_large" // the response exceeds the message limit of the bus
)

// Error is an error that the server returned.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error returns the server's message.
func (e *Error) Error() string { return e.Message }

// Invalid returns an error with CodeInvalid.
func Invalid(format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

type envelope struct {
	Error *Error          `json:"error,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
}

// Request sends request to subject and decodes the response into reply, which may be nil. An error of
// the server is an *Error. Without a server the error is nats.ErrNoResponders. Without a response
// in time it is the context's error.
func Request(ctx context.Context, nc *nats.Conn, subject string, request, reply any) error {
	return RequestWith(ctx, nc, subject, nil, request, reply)
}

// RequestWith is Request with headers, which may be nil.
func RequestWith(ctx context.Context, nc *nats.Conn, subject string, header nats.Header, request, reply any) error {
	return exchange(ctx, subject, request, reply, func(ctx context.Context, data []byte) (*nats.Msg, error) {
		return bus.RequestMsg(ctx, nc, &nats.Msg{Subject: subject, Header: header, Data: data})
	})
}

// RequestKept is Request that also returns the subscription of the responses: another message there is the response of another
// process. Without an error of the transport it is not nil, and the caller ends it.
func RequestKept(ctx context.Context, nc *nats.Conn, subject string, request, reply any) (responses *nats.Subscription, err error) {
	err = exchange(ctx, subject, request, reply, func(ctx context.Context, data []byte) (msg *nats.Msg, err error) {
		msg, responses, err = bus.RequestKept(ctx, nc, &nats.Msg{Subject: subject, Data: data})
		return msg, err
	})
	return responses, err
}

// exchange sends a request and decodes the response.
func exchange(ctx context.Context, subject string, request, reply any, send func(context.Context, []byte) (*nats.Msg, error)) error {
	data, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request to %s: %w", subject, err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	msg, err := send(ctx, data)
	if err != nil {
		return fmt.Errorf("request %s: %w", subject, err)
	}
	var e envelope
	if err := json.Unmarshal(msg.Data, &e); err != nil {
		return fmt.Errorf("response of %s: %w", subject, err)
	}
	if e.Error != nil {
		return e.Error
	}
	if reply == nil {
		return nil
	}
	if err := json.Unmarshal(e.Body, reply); err != nil {
		return fmt.Errorf("response of %s: %w", subject, err)
	}
	return nil
}

// Respond responds to msg with body, or with err if it is not nil. An err that is not an *Error is
// sent with codeInternal. A message without a reply subject gets no response.
func Respond(msg *nats.Msg, maxPayload int64, body any, err error) error {
	if msg.Reply == "" {
		return nil
	}
	data, encErr := encode(body, err)
	if encErr == nil && maxPayload > 0 && int64(len(data)) > maxPayload {
		data, encErr = encode(nil, &Error{codeTooLarge, "the response exceeds the message limit of the bus"})
	}
	if encErr != nil {
		return fmt.Errorf("encode response to %s: %w", msg.Subject, encErr)
	}
	if err := msg.Respond(data); err != nil {
		return fmt.Errorf("respond to %s: %w", msg.Subject, err)
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
		refusal = &Error{codeInternal, err.Error()}
	}
	return json.Marshal(envelope{Error: refusal})
}

// Decode reads exactly one JSON value of at most limit bytes into out. It rejects unknown keys.
// Every error has CodeInvalid.
func Decode(data []byte, limit int, out any) error {
	if err := strictjson.Within(data, limit, out); err != nil {
		return Invalid("request: %v", err)
	}
	return nil
}
