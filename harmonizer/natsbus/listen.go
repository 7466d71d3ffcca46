package natsbus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

const (
	// eventMessages bounds the waiting messages of nodes, with wire.MaxWaiting: all nodes of a large
	// cluster may send at once. More messages are counted and dropped.
	eventMessages = 1 << 16
	// requestMessages and requestBytes bound the waiting requests.
	requestMessages = 1 << 12
	requestBytes    = 16 << 20

	checkPeriod  = 500 * time.Millisecond // interval between checks of the connection
	flushTimeout = 5 * time.Second
)

// Listen passes messages of nodes and other harmonizers to the handler, and makes it answer
// requests. It returns when ctx ends or the connection is closed permanently.
func (b *Bus) Listen(ctx context.Context, handler harmonizer.Handler) error {
	received, err := bus.Receive(b.nc, bus.InboxConfig{
		Events: b.eventSubjects(), Messages: eventMessages, Bytes: wire.MaxWaiting, Senders: wire.NodeSenders(), Lost: b.lost,
	})
	if err != nil {
		return err
	}
	defer received.Close()
	r := responder{b.nc, b.cfg, b.tally, handler}
	requests, err := bus.Receive(b.nc, bus.InboxConfig{
		Requests: r.subjects(), Messages: requestMessages, Bytes: requestBytes, Lost: b.lost,
	})
	if err != nil {
		return err
	}
	defer requests.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { r.answerAll(ctx, requests) })
	return b.receive(ctx, received, handler.Enqueue)
}

// lost counts a message that an inbox did not deliver. Dropped ones are counted by connection.check, which also names the
// senders that send too much.
func (b *Bus) lost(m *nats.Msg, err error) {
	if !errors.Is(err, bus.ErrInboxFull) && !errors.Is(err, bus.ErrTooLarge) {
		b.tally.warn("refused_"+m.Sub.Subject, "message refused", err)
	}
}

// nodeSubjects are the subjects of what nodes report.
func (b *Bus) nodeSubjects() []string {
	any := message.Node{Pool: "*", Name: "*"}
	own := []string{message.HeartbeatSubject(b.cfg.Cluster, any), message.ExitedSubject(b.cfg.Cluster, any)}
	return append(own, b.cfg.CloudFoundry.NodeSubjects()...)
}

func (b *Bus) eventSubjects() []string {
	return slices.Concat(b.nodeSubjects(), b.cfg.CloudFoundry.NudgeSubjects(), []string{
		message.SubjectUpdated, message.SubjectStart, message.SubjectStop,
		message.LoopbackProbeSubject(b.cfg.Cluster), message.ConfirmedSubject(b.cfg.Cluster, "*"), message.NeverSubject(b.cfg.Cluster, "*"),
		message.StateSubject(b.cfg.Cluster, "*"), message.LimitedSubject(b.cfg.Cluster, "*"), message.LimitedSubject(b.cfg.Cluster, ""),
	})
}

// receive is the only sender of node events, so that their order is kept.
func (b *Bus) receive(ctx context.Context, received *bus.Inbox, report harmonizer.Enqueue) error {
	status := b.nc.StatusChanged()
	defer b.nc.RemoveStatusListener(status)
	check := time.NewTicker(checkPeriod)
	defer check.Stop()
	c := &connection{bus: b, received: received, report: report}
	if err := c.check(ctx); err != nil {
		return err
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-status:
			err = c.check(ctx)
		case <-check.C:
			c.reportLosers(ctx)
			err = c.check(ctx)
		case m := <-received.Messages():
			if ev := b.event(m); ev != nil && report(ctx, ev) != nil {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
}

// connection reports changes of the connection's state as events.
type connection struct {
	bus      *Bus
	received *bus.Inbox
	report   harmonizer.Enqueue

	last      connectionState
	announced bool // as a component
}

// connectionState is the state of the connection at one check.
type connectionState struct {
	up         bool // connected, with the permission to receive from nodes
	reconnects uint64
	dropped    uint64
}

// check compares the connection with its last state. After a reconnect or a drop it sends
// BusUp again. After a reconnect it also requests heartbeats from all nodes; after a drop it
// does not, because there were too many messages.
func (c *connection) check(ctx context.Context) error {
	nc := c.bus.nc
	if nc.IsClosed() {
		return fmt.Errorf("receive from nodes: %w", nats.ErrConnectionClosed)
	}
	// Without the permission for a node subject, the silence of the nodes proves as little as without a connection.
	up := nc.IsConnected() && bus.Rejected(nc, c.bus.nodeSubjects()...) == nil
	was, now := c.last, connectionState{up: up, reconnects: nc.Stats().Reconnects, dropped: c.received.Dropped()}
	if now == was {
		return nil
	}
	c.bus.tally.count("dropped", now.dropped-was.dropped)
	if now.up {
		if err := c.announce(ctx, !was.up || now.reconnects != was.reconnects); err != nil {
			now.up = false // not ready yet; the next check tries again
			c.bus.log.Warn("connected, but subscriptions are not confirmed", "err", err)
		}
	}
	c.last = now
	switch {
	case now.up:
		c.bus.tally.count("connected", 1)
		c.bus.log.Info("receiving from nodes", "reconnects", now.reconnects, "dropped", now.dropped)
		_ = c.report(ctx, apps.BusUp{}) // fails only when ctx ends
	case was.up:
		_ = c.report(ctx, apps.BusDown{})
	}
	return nil
}

// reportLosers reports the senders that lost messages since the last check. The state stays complete: a sender that sends too
// much loses its own messages only, and its next heartbeat has all that it runs.
func (c *connection) reportLosers(ctx context.Context) {
	for _, one := range c.received.Losses() {
		c.bus.tally.count("limited", one.Lost)
		_ = c.report(ctx, apps.SenderLimited{Node: message.NodeOfSender(one.Sender), Lost: one.Lost}) // fails only when ctx ends
	}
}

// announce makes sure that the server has our subscriptions. If request is set, it also
// requests heartbeats from the nodes.
func (c *connection) announce(ctx context.Context, request bool) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := c.bus.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush subscriptions: %w", err)
	}
	if c.bus.cfg.Shadow || !request {
		return nil
	}
	if component := c.bus.cfg.CloudFoundry.Component; component != nil && !c.announced {
		if err := c.bus.publish(cloudfoundry.SubjectComponentAnnounce, component.Descriptor(time.Now()), nil); err != nil {
			return err
		}
		c.announced = true
	}
	subjects := []string{message.AnnounceSubject(c.bus.cfg.Cluster)}
	if c.bus.cfg.CloudFoundry.LegacyDEAs {
		subjects = append(subjects, cloudfoundry.SubjectManagerStart)
	}
	for _, subject := range subjects {
		if err := c.bus.nc.Publish(subject, nil); err != nil {
			return fmt.Errorf("publish %s: %w", subject, err)
		}
	}
	return nil
}
