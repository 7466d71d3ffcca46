package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
)

// Act is a publication or a subscription whose permission Try tests.
type Act struct {
	Subscribes bool
	Subject    string // without wildcards
}

// Permission is the result of a tested act.
type Permission int

// Permissions.
const (
	Untested Permission = iota // no test without an effect is possible
	Permitted
	Denied
)

// Headers of message tracing. The server checks a message with both and delivers it to no
// client and no stream. It publishes a report to the destination.
const (
	traceDestination = "Nats-Trace-Dest"
	traceOnly        = "Nats-Trace-Only"
)

// Try returns, for each act, whether the server permits it. It has no effect on other clients: a message is only traced,
// and a subscription lasts for one round trip. The server's reports go to the first destination that it permits, which
// should have no subscriber. Without one, publications remain untested. The server logs each rejection.
//
// After an error the rest of the acts is untested.
func (b *Bus) Try(ctx context.Context, acts []Act, destinations []string) ([]Permission, error) {
	found := make([]Permission, len(acts))
	destination, err := b.destination(ctx, destinations)
	for i, act := range acts {
		if err != nil {
			return found, fmt.Errorf("test the permissions of %s: %w", b.client.config.NATS.who(), err)
		}
		switch {
		case act.Subscribes:
			found[i], err = b.trySubscribe(ctx, act.Subject)
		case destination != "":
			found[i], err = b.tryPublish(ctx, act.Subject, destination)
		}
	}
	return found, err
}

// destination returns the first permitted one. It is empty if no destination is permitted, or if the server has no headers.
func (b *Bus) destination(ctx context.Context, all []string) (string, error) {
	if !b.conn.HeadersSupported() {
		return "", nil
	}
	for _, one := range all {
		if p, err := b.tryPublish(ctx, one, one); err != nil || p == Permitted {
			return one, err
		}
	}
	return "", nil
}

func (b *Bus) tryPublish(ctx context.Context, subject, destination string) (Permission, error) {
	m := &nats.Msg{Subject: subject, Header: nats.Header{traceDestination: {destination}, traceOnly: {"true"}}}
	if err := b.conn.PublishMsg(m); err != nil {
		return Untested, offline(err)
	}
	return b.outcome(ctx, "publish", subject)
}

func (b *Bus) trySubscribe(ctx context.Context, subject string) (Permission, error) {
	sub, err := b.conn.SubscribeSync(subject)
	if err != nil {
		return Untested, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only if the server rejected or ended it
	if err := sub.AutoUnsubscribe(1); err != nil {
		return Untested, err
	}
	return b.outcome(ctx, "subscribe", subject)
}

// outcome waits until the server has processed an act. A rejection arrives before the answer to the ping.
func (b *Bus) outcome(ctx context.Context, op, subject string) (Permission, error) {
	if err := b.conn.FlushWithContext(ctx); err != nil {
		return Untested, err
	}
	if err := b.conn.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		if v, ok := parseViolation(err, ""); ok && v.Op == op && strings.EqualFold(v.Subject, subject) {
			return Denied, nil
		}
	}
	return Permitted, nil
}

// ServerReport is what the connected server reports about itself and about the user of this connection.
type ServerReport struct {
	Server  string
	Account string
	Time    time.Time     // of the server's clock, when it answered
	Expires time.Duration // of the user; 0: it does not
}

// Report requests a report of the connected server. The role of the connection needs the permission, and its inbox.
func (b *Bus) Report(ctx context.Context) (ServerReport, error) {
	const subject = "$SYS.REQ.USER.INFO"
	m, err := Request(ctx, b.conn, subject, nil)
	if err != nil {
		return ServerReport{}, fmt.Errorf("request %s: %w", subject, err)
	}
	var answer struct {
		Server struct {
			Name string    `json:"name"`
			Time time.Time `json:"time"`
		} `json:"server"`
		Data struct {
			Account string        `json:"account"`
			Expires time.Duration `json:"expires"`
		} `json:"data"`
	}
	if len(m.Data) > MaxPayload {
		return ServerReport{}, fmt.Errorf("request %s: the answer has %d bytes", subject, len(m.Data))
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return ServerReport{}, fmt.Errorf("request %s: read the answer: %w", subject, err)
	}
	return ServerReport{
		Server: cmp.Or(strictyaml.Cut(answer.Server.Name, maxText), b.conn.ConnectedServerName()), Account: strictyaml.Cut(answer.Data.Account, maxText),
		Time: answer.Server.Time, Expires: answer.Data.Expires,
	}, nil
}
