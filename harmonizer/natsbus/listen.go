package natsbus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

const (
	checkPeriod  = 500 * time.Millisecond // interval between checks of the connection
	flushTimeout = 5 * time.Second
)

// Listen passes messages of nodes and other harmonizers to the handler, and makes it answer
// requests. It returns when ctx ends or the connection is closed permanently.
func (b *Bus) Listen(ctx context.Context, handler harmonizer.Handler) error {
	received, err := newInbox(b.nc, eventMessages, eventBytes, b.eventSubjects()...)
	defer received.close()
	if err != nil {
		return err
	}
	r := responder{b.cfg, b.tally, handler}
	requests, err := newInbox(b.nc, requestMessages, requestBytes, r.subjects()...)
	defer requests.close()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { received.pump(ctx) })
	wg.Go(func() { requests.pump(ctx) })
	wg.Go(func() { r.answerAll(ctx, requests) })
	return b.receive(ctx, received, handler.Enqueue)
}

func (b *Bus) eventSubjects() []string {
	return []string{
		message.SubjectHeartbeat, message.SubjectExited, message.SubjectUpdated,
		message.SubjectStart, message.SubjectStop, message.RequestsSubject(b.cfg.Partition), bareRequests,
		message.LoopbackProbeSubject(b.cfg.Cluster),
	}
}

// receive is the only sender of node events, so that their order is kept.
func (b *Bus) receive(ctx context.Context, received *inbox, report harmonizer.Enqueue) error {
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
			err = c.check(ctx)
		case m := <-received.messages:
			received.took(m)
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
	received *inbox
	report   harmonizer.Enqueue

	last      connectionState
	announced bool // as a component
}

// connectionState is the state of the connection at one check.
type connectionState struct {
	up         bool
	reconnects uint64
	dropped    int64
}

// check compares the connection with its last state. After a reconnect or a drop it sends
// BusUp again. After a reconnect it also requests heartbeats from all nodes; after a drop it
// does not, because there were too many messages.
func (c *connection) check(ctx context.Context) error {
	nc := c.bus.nc
	if nc.IsClosed() {
		return fmt.Errorf("receive from nodes: %w", nats.ErrConnectionClosed)
	}
	was, now := c.last, connectionState{up: nc.IsConnected(), reconnects: nc.Stats().Reconnects, dropped: c.received.dropped()}
	if now == was {
		return nil
	}
	c.bus.tally.count("dropped", uint64(now.dropped-was.dropped))
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
	if component := c.bus.cfg.Component; component.Host != "" && !c.announced {
		if err := c.bus.publish(subjectAnnounce, component.Descriptor(time.Now()), false); err != nil {
			return err
		}
		c.announced = true
	}
	if err := c.bus.nc.Publish(message.SubjectAnnounce, nil); err != nil {
		return fmt.Errorf("publish %s: %w", message.SubjectAnnounce, err)
	}
	return nil
}
