package bus

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Crosses reports for each subject whether a publication on it leaves the account of this connection as a request to another
// account. It has no effect on others: the server traces the messages, and delivers none. The role of the connection needs
// permission to publish on its own inbox; on a subject that it may not publish on, the result is false.
func (b *Bus) Crosses(ctx context.Context, subjects []string) (map[string]bool, error) {
	inbox := b.conn.NewRespInbox()
	reports, err := b.conn.SubscribeSync(inbox + ".*")
	if err != nil {
		return nil, fmt.Errorf("receive traces: %w", err)
	}
	defer func() { _ = reports.Unsubscribe() }() // fails only on a closed connection
	found := map[string]bool{}
	for i, subject := range subjects {
		destination := fmt.Sprintf("%s.%d", inbox, i)
		m := &nats.Msg{Subject: subject, Header: nats.Header{traceDestination: {destination}, traceOnly: {"true"}}}
		if err := b.conn.PublishMsg(m); err != nil {
			return found, offline(err)
		}
		allowed, err := b.outcome(ctx, "publish", subject)
		if err != nil {
			return found, err
		}
		if allowed == Denied {
			continue
		}
		for own := false; !own; { // each server on the path of the message sends a report
			report, err := reports.NextMsgWithContext(ctx)
			if err != nil {
				return found, fmt.Errorf("trace a message to %s: %w; give this user the permission to publish on its own inbox", subject, err)
			}
			if report.Subject != destination {
				continue // of another server, about an earlier subject
			}
			if found[subject], own, err = readTrace(report.Data); err != nil {
				return found, fmt.Errorf("trace a message to %s: %w", subject, err)
			}
		}
	}
	return found, nil
}

// readTrace reports whether a trace has the import of a service, and whether the server of the client sent the trace.
func readTrace(trace []byte) (imported, own bool, err error) {
	const (
		ingress       = "in"
		client        = 0 // kind of the connection that sent the message
		serviceImport = "si"
	)
	if len(trace) > MaxPayload {
		return false, false, fmt.Errorf("the trace has %d bytes", len(trace))
	}
	var report struct {
		Events []struct {
			Type string `json:"type"`
			Kind int    `json:"kind"`
		} `json:"events"`
	}
	if err := json.Unmarshal(trace, &report); err != nil {
		return false, false, fmt.Errorf("read the trace: %w", err)
	}
	for _, e := range report.Events {
		imported = imported || e.Type == serviceImport
		own = own || e.Type == ingress && e.Kind == client
	}
	return imported, own, nil
}
