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
	lookPeriod   = 500 * time.Millisecond // between looks at the connection
	flushTimeout = 5 * time.Second
)

// Listen tells the ear what nodes and other harmonizers say and has it answer
// requests, until ctx ends or the connection is closed for good.
func (b *Bus) Listen(ctx context.Context, ear harmonizer.Ear) error {
	heard, err := newInbox(b.nc, heardMessages, heardBytes, b.heardSubjects()...)
	defer heard.close()
	if err != nil {
		return err
	}
	r := responder{b.cfg, b.tally, ear}
	asked, err := newInbox(b.nc, askedMessages, askedBytes, r.subjects()...)
	defer asked.close()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { heard.pump(ctx) })
	wg.Go(func() { asked.pump(ctx) })
	wg.Go(func() { r.answerAll(ctx, asked) })
	return b.hear(ctx, heard, ear.Tell)
}

func (b *Bus) heardSubjects() []string {
	return []string{
		message.SubjectHeartbeat, message.SubjectExited, message.SubjectUpdated,
		message.SubjectStart, message.SubjectStop, message.RequestsSubject(b.cfg.Partition), bareRequests,
		message.CanarySubject(b.cfg.Cluster),
	}
}

// hear is the only one who tells what nodes say, so that the order is theirs.
func (b *Bus) hear(ctx context.Context, heard *inbox, tell harmonizer.Tell) error {
	status := b.nc.StatusChanged()
	defer b.nc.RemoveStatusListener(status)
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	c := &connection{bus: b, heard: heard, tell: tell}
	if err := c.look(ctx); err != nil {
		return err
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-status:
			err = c.look(ctx)
		case <-look.C:
			err = c.look(ctx)
		case m := <-heard.messages:
			heard.took(m)
			if ev := b.event(m); ev != nil && tell(ctx, ev) != nil {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
}

// connection is told of, when it is another than what was last known of it.
type connection struct {
	bus   *Bus
	heard *inbox
	tell  harmonizer.Tell

	last      sight
	announced bool // as a component
}

// sight is one look at a connection.
type sight struct {
	up         bool
	reconnects uint64
	dropped    int64
}

// look compares the connection with what was known of it. After a reconnect,
// or after messages were dropped, hearing begins anew. After a reconnect nodes
// are asked to speak at once; not after a drop, for they spoke too much already.
func (c *connection) look(ctx context.Context) error {
	nc := c.bus.nc
	if nc.IsClosed() {
		return fmt.Errorf("hear nodes: %w", nats.ErrConnectionClosed)
	}
	was, now := c.last, sight{up: nc.IsConnected(), reconnects: nc.Stats().Reconnects, dropped: c.heard.dropped()}
	if now == was {
		return nil
	}
	c.bus.tally.count("dropped", uint64(now.dropped-was.dropped))
	if now.up {
		if err := c.announce(ctx, !was.up || now.reconnects != was.reconnects); err != nil {
			now.up = false // not hearing yet; the next look tries again
			c.bus.log.Warn("bus is connected, but not heard", "err", err)
		}
	}
	c.last = now
	switch {
	case now.up:
		c.bus.tally.count("connected", 1)
		c.bus.log.Info("hearing nodes", "reconnects", now.reconnects, "dropped", now.dropped)
		_ = c.tell(ctx, apps.BusUp{}) // fails only when ctx ends
	case was.up:
		_ = c.tell(ctx, apps.BusDown{})
	}
	return nil
}

// announce makes sure that the server has our subscriptions, and may ask nodes
// for a heartbeat.
func (c *connection) announce(ctx context.Context, ask bool) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := c.bus.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush subscriptions: %w", err)
	}
	if c.bus.cfg.Shadow || !ask {
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
