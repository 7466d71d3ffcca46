package natsbus

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/bus"
)

// Dialect is the form of nudges.
type Dialect string

const (
	// DialectHealth is message.Start on health.start, message.Stop on health.stop.
	DialectHealth Dialect = "health"
	// DialectCloudController sends START and STOP objects on
	// cloudcontrollers.hm.requests.PARTITION, like the classic health manager.
	DialectCloudController Dialect = "cloudcontroller"
	// DialectBoth sends each nudge in both forms, for a migration. Only one receiver may obey
	// a nudge, in only one form; otherwise the nudge is executed twice.
	DialectBoth Dialect = "both"
)

func (d Dialect) valid() bool {
	return d == DialectHealth || d == DialectCloudController || d == DialectBoth
}

// HeaderFrom has the id of the harmonizer that sent a nudge, which ignores its own nudges by
// it. Nudges of other programs have no id. Servers remove it for clients without header
// support.
const HeaderFrom = "Weir-Harmonizer"

// eventsBytes bounds one message of findings.
const eventsBytes = 256 << 10

// Nudge sends a start or stop in the configured dialect or dialects. It returns
// ErrDisconnected if it cannot send at once.
func (b *Bus) Nudge(n apps.Nudge) error {
	subject, health, classic := message.SubjectStop, any(n.Stop), message.Request{}
	switch {
	case n.Start != nil:
		subject, health, classic = message.SubjectStart, n.Start, n.Start.Request()
	case n.Stop != nil:
		classic = n.Stop.Request()
	default:
		return errors.New("nudge is neither a start nor a stop")
	}
	switch b.cfg.Dialect {
	case DialectHealth:
		return b.publish(subject, health, true)
	case DialectCloudController:
		return b.publish(message.RequestsSubject(b.cfg.Partition), classic, true)
	}
	return b.both(subject, health, classic)
}

// both sends a nudge in both forms. If the second form cannot be sent and the nudge is sent
// again, both does not repeat the first form.
func (b *Bus) both(subject string, health any, classic message.Request) error {
	second, err := json.Marshal(classic)
	if err != nil {
		return fmt.Errorf("publish %s: %w", message.RequestsSubject(b.cfg.Partition), err)
	}
	key := string(second)
	if !b.half.has(key) {
		if err := b.publish(subject, health, true); err != nil {
			return err
		}
	}
	err = b.send(message.RequestsSubject(b.cfg.Partition), second, true)
	b.half.set(key, err != nil)
	return err
}

// PublishCounts sends one part of a pool's counts. It returns ErrDisconnected if it cannot
// send at once, and nats.ErrMaxPayload if the part is too long.
func (b *Bus) PublishCounts(c message.Counts) error {
	return b.publish(message.CountsSubject(b.cfg.Cluster, c.Pool), c, false)
}

// PublishFindings sends a batch as lists, on message.EventsSubject.
func (b *Bus) PublishFindings(batch []apps.Finding) error {
	return bus.Lists(batch, eventsBytes, func(list []byte) error { return b.send(message.EventsSubject(b.cfg.Cluster), list, false) })
}

// Probe sends a random token on message.LoopbackProbeSubject.
func (b *Bus) Probe() error {
	token := rand.Text()
	b.mu.Lock()
	b.probeToken = token
	b.mu.Unlock()
	return b.send(message.LoopbackProbeSubject(b.cfg.Cluster), []byte(token), false)
}

func (b *Bus) publish(subject string, v any, signed bool) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("publish %s: %w", subject, err)
	}
	return b.send(subject, data, signed)
}

// send publishes at once or not at all. If signed is set, it adds HeaderFrom.
func (b *Bus) send(subject string, data []byte, signed bool) error {
	if !b.nc.IsConnected() {
		return fmt.Errorf("publish %s: %w", subject, ErrDisconnected)
	}
	m := &nats.Msg{Subject: subject, Data: data}
	if signed && b.nc.HeadersSupported() { // with an old server we receive our own nudges, which is harmless
		m.Header = nats.Header{HeaderFrom: {b.id}}
	}
	if err := b.nc.PublishMsg(m); err != nil {
		return fmt.Errorf("publish %s: %w", subject, err)
	}
	return nil
}
