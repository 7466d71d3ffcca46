package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/netguard"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/health"
	"github.com/weirkeeper/weirkeeper/pools/health/judge"
	"github.com/weirkeeper/weirkeeper/pools/health/natsbus"
	"github.com/weirkeeper/weirkeeper/pools/health/pollurl"
	"github.com/weirkeeper/weirkeeper/pools/health/workflow"
	"github.com/weirkeeper/weirkeeper/pools/local/agent"
)

// healing is the node health of a pool for one term: its loop, and the autoscaler's
// loop as it reaches that.
type healing struct {
	loop   *health.Loop
	writer *writer
}

// newHealing wires the policy of the pool's file to its world. hints may be nil.
func newHealing(b *bus.Bus, p *partsOfPool, holder *state.Holder, a autoscaling, hints <-chan judge.Hint, log *slog.Logger) (*healing, error) {
	c := health.Config{Cluster: a.pool.Cluster, Pool: a.pool.Name, Policy: a.pool.Health.Policy}
	networks := netguard.Networks(a.pool.Allowed())
	var heartbeat time.Duration
	if mode, beats := c.Policy.WithDefaults().Detection.Mode(judge.AgentHeartbeat); beats {
		heartbeat = time.Duration(*mode.Options.ExpectedInterval)
	}
	nats, err := natsbus.New(b.Conn(), natsbus.Config{Cluster: c.Cluster, Pool: c.Pool, Heartbeat: heartbeat}, log)
	if err != nil {
		return nil, err
	}
	w := &writer{agents: agent.NewClient(b.Conn(), c.Cluster)}
	world := health.World{
		Pool: p.provider, Hands: w, Cordon: p.nodes, Facts: p.nodes.Heard, Bus: nats, Memory: holder.Health(), Hints: hints,
		Workflow: workflow.New(workflow.Config{Allowed: networks, Conn: b.Conn()}),
	}
	if mode, polls := c.Policy.WithDefaults().Detection.Mode(judge.PollURL); polls {
		probe, err := pollurl.New(pollurl.Config{Options: mode.Options, Interval: time.Duration(*mode.Options.Interval), Allowed: networks})
		if err != nil {
			return nil, fmt.Errorf("node health of pool %s: %w", c.Pool, err)
		}
		world.Probe, world.Address = probe, p.addresses(probe, c.Pool)
	}
	return &healing{loop: health.New(c, world, log), writer: w}, nil
}

// addresses returns how the URL of a machine is found.
func (p *partsOfPool) addresses(probe *pollurl.Prober, pool string) func(ctx context.Context, m health.Machine) (string, error) {
	return func(ctx context.Context, m health.Machine) (string, error) {
		names := pollurl.Names{Instance: m.Node, Node: m.Node, Zone: m.Zone, Pool: pool}
		if known, ok := p.provider.(pools.Addresser); ok {
			address, err := known.Address(ctx, m.Node)
			if err != nil {
				return "", err
			}
			names.PrivateIP, names.PrivateDNS = address.IP, address.Name
		}
		return probe.Expand(names)
	}
}

// Condition implements autoscaler.Health.
func (h *healing) Condition() autoscaler.Condition {
	return autoscaler.Condition{Sick: h.loop.Sick(), Barred: h.loop.Barred()}
}

// Drained implements autoscaler.Health.
func (h *healing) Drained(events []drain.Event) { h.loop.Drained(events) }

// writer is the pool's autoscaler as node health reaches it: the one who writes.
type writer struct {
	loop   atomic.Pointer[autoscaler.Loop] // nil until there is one
	agents *agent.Client
}

// errNoLoop: the autoscaler has not begun.
var errNoLoop = errors.New("the pool's autoscaler has not begun")

// Repair implements health.Hands.
func (w *writer) Repair(ctx context.Context, r health.Repair) error {
	loop := w.loop.Load()
	if loop == nil {
		return errNoLoop
	}
	err := loop.Repair(ctx, autoscaler.Repair(r))
	switch {
	case errors.Is(err, autoscaler.ErrLeaving):
		return fmt.Errorf("%w: %w", health.ErrLeaving, err)
	case errors.Is(err, autoscaler.ErrUnknownNode):
		return fmt.Errorf("%w: %w", health.ErrUnknownNode, err)
	}
	return err
}

// Records implements health.Hands.
func (w *writer) Records() ([]drain.Record, bool) {
	if loop := w.loop.Load(); loop != nil {
		return loop.Records()
	}
	return nil, false
}

// Write implements health.Hands.
func (w *writer) Write(ctx context.Context, call func(context.Context) error) error {
	if loop := w.loop.Load(); loop != nil {
		return loop.Write(ctx, call)
	}
	return errNoLoop
}

// Group implements health.Hands.
func (w *writer) Group(id string) (pools.Group, bool) {
	loop := w.loop.Load()
	if loop == nil {
		return nil, false
	}
	g, ok := loop.Group(id)
	if !ok {
		return nil, false
	}
	return withService(g, w.agents), true
}
