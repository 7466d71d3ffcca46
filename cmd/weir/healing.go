package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/netguard"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/nodehealth/probes"
	"github.com/weirkeeper/weirkeeper/nodehealth/workflow"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/local/agent"
)

// healing is the node health of a pool for one term: its loop, and the autoscaler's
// loop as it reaches that.
type healing struct {
	loop   *nodehealth.Loop
	writer *writer
	pause  *pauseWatch
}

// newHealing wires the policy of the pool's file to its world. hints may be nil.
func newHealing(b *bus.Bus, p *partsOfPool, holder *state.Holder, a autoscaling, hints <-chan judge.Hint, log *slog.Logger) (*healing, error) {
	c := nodehealth.Config{Cluster: a.pool.Cluster, Pool: a.pool.Name, Policy: a.pool.Health.Policy}
	networks := netguard.Networks(a.pool.Allowed())
	var heartbeat time.Duration
	if mode, beats := c.Policy.WithDefaults().Detection.Mode(judge.AgentHeartbeat); beats {
		heartbeat = time.Duration(*mode.Options.ExpectedInterval)
	}
	nats, err := events.New(b.Conn(), events.Config{Cluster: c.Cluster, Pool: c.Pool, Heartbeat: heartbeat}, log)
	if err != nil {
		return nil, err
	}
	w := &writer{agents: agent.NewClient(b.Conn(), c.Cluster)}
	pause := &pauseWatch{orders: p.orders, log: log}
	world := nodehealth.World{
		Pool: p.provider, Hands: w, Cordon: p.nodes, Facts: p.nodes.Heard, Bus: nats, Memory: holder.Health(), Hints: hints,
		Workflow: workflow.New(workflow.Config{Allowed: networks, Conn: b.Conn()}), Paused: pause.state,
	}
	if mode, polls := c.Policy.WithDefaults().Detection.Mode(judge.PollURL); polls {
		probe, err := probes.New(probes.Config{Options: mode.Options, Interval: time.Duration(*mode.Options.Interval), Allowed: networks})
		if err != nil {
			return nil, fmt.Errorf("node health of pool %s: %w", c.Pool, err)
		}
		world.Probe, world.Address = probe, p.addresses(probe, c.Pool)
	}
	return &healing{loop: nodehealth.New(c, world, log), writer: w, pause: pause}, nil
}

// addresses returns how the URL of a machine is found.
func (p *partsOfPool) addresses(probe *probes.Prober, pool string) func(ctx context.Context, m nodehealth.Machine) (string, error) {
	return func(ctx context.Context, m nodehealth.Machine) (string, error) {
		names := probes.Names{Instance: m.Node, Node: m.Node, Zone: m.Zone, Pool: pool}
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

// Repair implements nodehealth.Hands.
func (w *writer) Repair(ctx context.Context, r nodehealth.Repair) error {
	loop := w.loop.Load()
	if loop == nil {
		return errNoLoop
	}
	err := loop.Repair(ctx, autoscaler.Repair(r))
	switch {
	case errors.Is(err, autoscaler.ErrLeaving):
		return fmt.Errorf("%w: %w", nodehealth.ErrLeaving, err)
	case errors.Is(err, autoscaler.ErrUnknownNode):
		return fmt.Errorf("%w: %w", nodehealth.ErrUnknownNode, err)
	case errors.Is(err, autoscaler.ErrNoRoom):
		return fmt.Errorf("%w: %w", nodehealth.ErrNoRoom, err)
	}
	return err
}

// Records implements nodehealth.Hands.
func (w *writer) Records() ([]drain.Record, bool) {
	if loop := w.loop.Load(); loop != nil {
		return loop.Records()
	}
	return nil, false
}

// Write implements nodehealth.Hands.
func (w *writer) Write(ctx context.Context, call func(context.Context) error) error {
	if loop := w.loop.Load(); loop != nil {
		return loop.Write(ctx, call)
	}
	return errNoLoop
}

// Group implements nodehealth.Hands.
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

const (
	pauseLook    = 3 * time.Second // how often the orders are read
	pauseTimeout = 5 * time.Second
)

// pauseWatch knows whether operators have paused the pool.
type pauseWatch struct {
	orders *state.Orders
	log    *slog.Logger
	why    atomic.Pointer[string] // nil: it was not read yet; empty: it is not paused
}

// state implements nodehealth.World.Paused.
func (p *pauseWatch) state() (why string, known bool) {
	if why := p.why.Load(); why != nil {
		return *why, true
	}
	return "", false
}

// run reads the orders now and again until ctx ends. While they cannot be read the last
// ones hold.
func (p *pauseWatch) run(ctx context.Context) error {
	look := time.NewTicker(pauseLook)
	defer look.Stop()
	failed := false
	for {
		err := p.read(ctx)
		if err != nil && !failed && ctx.Err() == nil {
			p.log.Warn("node health cannot see whether the pool is paused", "err", err)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

func (p *pauseWatch) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pauseTimeout)
	defer cancel()
	orders, err := p.orders.List(ctx)
	if err != nil {
		return err
	}
	why := ""
	if o := orders.Pause; o != nil && o.InForce(time.Now()) {
		why = "the pool is paused by " + o.By
		if o.Why != "" {
			why += ": " + o.Why
		}
	}
	p.why.Store(&why)
	return nil
}

// lateCollector collects what a later one does, while there is one.
type lateCollector struct {
	now atomic.Pointer[prometheus.Collector]
}

// serve has that one collected until the returned function is called.
func (c *lateCollector) serve(one prometheus.Collector) (stop func()) {
	c.now.Store(&one)
	return func() { c.now.CompareAndSwap(&one, nil) }
}

// Describe implements prometheus.Collector: nothing is known before.
func (*lateCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *lateCollector) Collect(ch chan<- prometheus.Metric) {
	if one := c.now.Load(); one != nil {
		(*one).Collect(ch)
	}
}
