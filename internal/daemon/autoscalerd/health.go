package autoscalerd

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/internal/platform/netguard"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/nodehealth/probes"
	"github.com/weirkeeper/weirkeeper/nodehealth/workflow"
	"github.com/weirkeeper/weirkeeper/pools"
)

// healthLoop is the autoscaler loop's view of node health. The two loops refer to each other, so Loop is set after
// both exist and before either runs.
type healthLoop struct{ *nodehealth.Loop }

// Condition implements autoscaler.Health.
func (h *healthLoop) Condition() snapshot.Condition {
	return snapshot.Condition{Unhealthy: h.Unhealthy(), Barred: h.Barred(), Budget: h.Budget(), Unknown: h.Unknown()}
}

// nodeHealth creates node health for the pool's policy. hints may be nil.
func (t *terms) nodeHealth(a autoscaling, loop *autoscaler.Loop, memory nodehealth.Memory, pause *pauseWatch, hints <-chan judge.Hint) (*nodehealth.Loop, error) {
	c := nodehealth.Config{Cluster: a.pool.Cluster, Pool: a.pool.Name, Policy: a.pool.Health.Policy, Windows: a.pool.Windows.Calendar()}
	networks := netguard.Networks(a.pool.Allowed())
	var heartbeat time.Duration
	if mode, beats := c.Policy.WithDefaults().Detection.Mode(api.DetectAgentHeartbeat); beats {
		heartbeat = time.Duration(*mode.Options.ExpectedInterval)
	}
	conn := t.bus.Conn()
	nats, err := events.New(conn, events.Config{Cluster: c.Cluster, Pool: c.Pool, Heartbeat: heartbeat}, t.log)
	if err != nil {
		return nil, err
	}
	p := t.parts
	world := nodehealth.World{
		Pool: p.provider, Writer: loop.Writer(), Drains: loop.Writer(), Agents: wire.NewClient(conn, c.Cluster, c.Pool), Cordon: p.nodes,
		Facts: p.nodes.Received, Scheduler: p.nodes.Scheduler, Bus: nats, Memory: memory, Hints: hints,
		Workflow: workflow.New(workflow.Config{Allowed: networks, Conn: conn, Keeper: t.keeper, Log: t.log}), Paused: pause.state,
		Console: p.console, Evidence: p.evidence,
	}
	if mode, polls := c.Policy.WithDefaults().Detection.Mode(api.DetectPollURL); polls {
		probe, err := probes.New(probes.Config{Options: mode.Options, Interval: time.Duration(*mode.Options.Interval), Allowed: networks})
		if err != nil {
			return nil, fmt.Errorf("node health of pool %s: %w", c.Pool, err)
		}
		world.Probe, world.Address = probe, p.addresses(probe, c.Pool)
	}
	return nodehealth.New(c, world, t.log), nil
}

// addresses returns a function that returns a machine's URL.
func (p *poolDependencies) addresses(probe *probes.Prober, pool string) func(ctx context.Context, m nodehealth.Machine) (string, error) {
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

const (
	pauseInterval = 3 * time.Second // interval of reading the orders
	pauseTimeout  = 5 * time.Second
)

// pauseWatch reads whether operators have paused the pool.
type pauseWatch struct {
	orders *state.Orders
	log    *slog.Logger
	why    atomic.Pointer[string] // nil: not read yet; empty: not paused
}

// state implements nodehealth.World.Paused.
func (p *pauseWatch) state() (why string, known bool) {
	if why := p.why.Load(); why != nil {
		return *why, true
	}
	return "", false
}

// run reads the orders periodically until ctx ends. While reading fails, the last result stays valid.
func (p *pauseWatch) run(ctx context.Context) error {
	ticker := time.NewTicker(pauseInterval)
	defer ticker.Stop()
	failed := false
	for {
		err := p.read(ctx)
		if err != nil && !failed && ctx.Err() == nil {
			p.log.Warn("orders unreadable, node health uses the last known pause", "err", err)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
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

// lateCollector forwards to a collector that is set later.
type lateCollector struct {
	now atomic.Pointer[prometheus.Collector]
}

// serve sets the collector until stop is called.
func (c *lateCollector) serve(one prometheus.Collector) (stop func()) {
	c.now.Store(&one)
	return func() { c.now.CompareAndSwap(&one, nil) }
}

// Describe implements prometheus.Collector. It describes nothing, because the collector is unknown.
func (*lateCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *lateCollector) Collect(ch chan<- prometheus.Metric) {
	if one := c.now.Load(); one != nil {
		(*one).Collect(ch)
	}
}
