package natsbus

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

// headerFrom has the id of the harmonizer that sent a nudge, which ignores its own nudges by
// it. Nudges of other programs have no id. Servers remove it for clients without header
// support.
const headerFrom = "Weir-Harmonizer"

// eventsBytes bounds one message of findings.
const eventsBytes = 256 << 10

// Nudge sends a start or stop in the configured dialect or dialects. It returns
// errDisconnected if it cannot send at once.
func (b *Bus) Nudge(n apps.Nudge) error {
	var subject string
	var body any
	switch {
	case n.Start != nil:
		subject, body = message.SubjectStart, n.Start
	case n.Stop != nil:
		subject, body = message.SubjectStop, n.Stop
	default:
		return errors.New("nudge is neither a start nor a stop")
	}
	headers := b.headers(n)
	publish := func() error { return b.publish(subject, body, headers) }
	if b.classic == nil {
		return publish()
	}
	return b.classic.Send(n, publish, func(subject string, data []byte) error { return b.send(subject, data, headers) })
}

// headers returns the headers of a nudge. A nudge with an id requests a confirmation.
func (b *Bus) headers(n apps.Nudge) nats.Header {
	h := nats.Header{headerFrom: {b.id}}
	if n.ID != "" {
		h[message.HeaderNudge] = []string{n.ID}
		if b.cfg.KeepAlive > 0 {
			h[message.HeaderKeepAlive] = []string{strconv.FormatFloat(b.cfg.KeepAlive.Seconds(), 'f', -1, 64)}
		}
	}
	return h
}

// PublishCounts sends one part of a pool's counts. It returns errDisconnected if it cannot
// send at once, and nats.ErrMaxPayload if the part is too long.
func (b *Bus) PublishCounts(c api.InstanceCounts) error {
	return b.publish(message.CountsSubject(b.cfg.Cluster, c.Pool), c, nil)
}

// PublishFindings sends a batch as lists, on message.EventsSubject.
func (b *Bus) PublishFindings(batch []api.AppFinding) error {
	return bus.Lists(batch, eventsBytes, func(list []byte) error { return b.send(message.EventsSubject(b.cfg.Cluster), list, nil) })
}

// Probe sends a random token on message.LoopbackProbeSubject.
func (b *Bus) Probe() error {
	token := rand.Text()
	b.mu.Lock()
	b.probeToken = token
	b.mu.Unlock()
	return b.send(message.LoopbackProbeSubject(b.cfg.Cluster), []byte(token), nil)
}

func (b *Bus) publish(subject string, v any, headers nats.Header) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("publish %s: %w", subject, err)
	}
	return b.send(subject, data, headers)
}

// send publishes at once or not at all. headers may be nil.
func (b *Bus) send(subject string, data []byte, headers nats.Header) error {
	if !b.nc.IsConnected() {
		return fmt.Errorf("publish %s: %w", subject, errDisconnected)
	}
	m := &nats.Msg{Subject: subject, Data: data}
	if headers != nil && b.nc.HeadersSupported() { // with an old server we receive our own nudges, which is harmless
		m.Header = headers
	}
	if err := bus.PublishMsg(b.nc, m); err != nil {
		return fmt.Errorf("publish %s: %w", subject, err)
	}
	return nil
}
