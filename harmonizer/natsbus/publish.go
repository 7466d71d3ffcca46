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

// Dialect is the form of nudges.
type Dialect string

const (
	// DialectHealth is api.Start on health.start, api.Stop on health.stop.
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
	subject, health, classic := message.SubjectStop, any(n.Stop), api.Nudge{}
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
		return b.publish(subject, health, b.headers(n))
	case DialectCloudController:
		return b.publish(message.RequestsSubject(b.cfg.Partition), classic, b.headers(n))
	}
	return b.both(n, subject, health, classic)
}

// headers returns the headers of a nudge. A nudge with an id requests a confirmation.
func (b *Bus) headers(n apps.Nudge) nats.Header {
	h := nats.Header{HeaderFrom: {b.id}}
	if n.ID != "" {
		h[message.HeaderNudge] = []string{n.ID}
		if b.cfg.KeepAlive > 0 {
			h[message.HeaderKeepAlive] = []string{strconv.FormatFloat(b.cfg.KeepAlive.Seconds(), 'f', -1, 64)}
		}
	}
	return h
}

// both sends a nudge in both forms. If the second form cannot be sent and the nudge is sent
// again, both does not repeat the first form.
func (b *Bus) both(n apps.Nudge, subject string, health any, classic api.Nudge) error {
	second, err := json.Marshal(classic)
	if err != nil {
		return fmt.Errorf("publish %s: %w", message.RequestsSubject(b.cfg.Partition), err)
	}
	key := string(second)
	if !b.half.has(key) {
		if err := b.publish(subject, health, b.headers(n)); err != nil {
			return err
		}
	}
	err = b.send(message.RequestsSubject(b.cfg.Partition), second, b.headers(n))
	b.half.set(key, err != nil)
	return err
}

// PublishCounts sends one part of a pool's counts. It returns ErrDisconnected if it cannot
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
		return fmt.Errorf("publish %s: %w", subject, ErrDisconnected)
	}
	m := &nats.Msg{Subject: subject, Data: data}
	if headers != nil && b.nc.HeadersSupported() { // with an old server we receive our own nudges, which is harmless
		m.Header = headers
	}
	if err := b.nc.PublishMsg(m); err != nil {
		return fmt.Errorf("publish %s: %w", subject, err)
	}
	return nil
}
