package natsbus

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

const (
	answerTimeout  = 2 * time.Second
	maxStatusQuery = 4096 // bytes
)

// StatusRequest is what message.StatusSubject is asked; the answer is a
// harmonizer.Status. An empty message asks for all apps.
type StatusRequest struct {
	App string `json:"app,omitempty"`
}

func (b *Bus) answerAll(ctx context.Context, asked <-chan *nats.Msg, h *harmonizer.Harmonizer) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-asked:
			if err := b.answer(ctx, m, h); err != nil && ctx.Err() == nil {
				b.bad("request", err)
			}
		}
	}
}

func (b *Bus) answer(ctx context.Context, m *nats.Msg, h *harmonizer.Harmonizer) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var answer any
	var err error
	if m.Subject == message.StatusSubject(b.cfg.Cluster) {
		answer, err = b.status(ctx, m.Data, h)
	} else {
		answer, err = h.Counts(ctx, strings.TrimSuffix(strings.TrimPrefix(m.Subject, message.CountsSubject(b.cfg.Cluster, "")), ".get"))
	}
	if err != nil {
		return fmt.Errorf("answer %s: %w", m.Subject, err)
	}
	data, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("answer %s: %w", m.Subject, err)
	}
	if err := m.Respond(data); err != nil {
		return fmt.Errorf("answer %s: %w", m.Subject, err)
	}
	return nil
}

func (b *Bus) status(ctx context.Context, query []byte, h *harmonizer.Harmonizer) (harmonizer.Status, error) {
	var r StatusRequest
	if len(query) > maxStatusQuery {
		return harmonizer.Status{}, fmt.Errorf("request of %d bytes, the limit is %d", len(query), maxStatusQuery)
	}
	if len(query) > 0 {
		if err := json.Unmarshal(query, &r); err != nil {
			return harmonizer.Status{}, fmt.Errorf("decode request: %w", err)
		}
	}
	s, err := h.Status(ctx, r.App)
	if err == nil {
		maps.Copy(s.Counters, b.Counters())
	}
	return s, err
}
