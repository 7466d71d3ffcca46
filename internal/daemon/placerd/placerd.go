// Package placerd is the placer process, which places the application instances of one or more pools. It wires each
// placer with its connection, lease and assignments.
//
//	p := placerd.Process{Settings: settings, Pools: []string{"web", "batch"}, Log: log}
//	err := p.Run(ctx, service, harmonizer)
//
// The pools are independent of each other: each has a connection with the role of its own placer, and a lease. If a
// placer fails, it starts again after a pause, and the others continue.
//
// Several processes may place the same pools: the lease of each pool selects the active one.
package placerd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/flock"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/internal/platform/sdnotify"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/metrics/store"
	"github.com/weirkeeper/weirkeeper/placer"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
)

const (
	// startsPerLease bounds a request to an agent to this part of the lease, so that the lease outlasts it even after a
	// failed renewal.
	startsPerLease = 3
	// startTimeout is the longest deadline of a request to an agent.
	startTimeout = 5 * time.Second
	// stableAfter is the run time after which the pauses between restarts start again from the shortest.
	stableAfter = time.Minute
)

// Parts has the dependencies of one pool's placer.
type Parts struct {
	Bus     *bus.Bus // of roles.Placer of the pool
	Cluster string
	Pool    string
	Holder  string // of the lease
	// Heartbeat is the period of agents that do not publish one; 0: 10 s.
	Heartbeat time.Duration
	// Partition is that of the harmonizer, if it sends requests in the classic form; empty: the default.
	Partition string
	// LeaseTTL is how long the lease lasts after a renewal; 0: 15 s, or 30 s on a cluster.
	LeaseTTL time.Duration
	Sink     placer.Sink // nil: no metrics are written
	Waits    func(error) // receives why Wire waits; nil: only the log has it
	Log      *slog.Logger
}

// Wire returns the placer of the pool. While NATS is not available, it waits until ctx ends.
func (p Parts) Wire(ctx context.Context) (*Placer, error) {
	lease, err := state.NewLease(p.Bus.JetStream(), state.LeaseConfig{
		Bucket: names.PlacerBucket(p.Cluster, p.Pool), Holder: p.Holder, TTL: p.LeaseTTL, Replicas: p.Bus.Replicas(), Log: p.Log,
	})
	if err != nil {
		return nil, err
	}
	var memory *state.Placements
	err = daemon.WaitForState(ctx, p.Log, p.Waits, func(ctx context.Context) error {
		memory, err = state.OpenPlacements(ctx, p.Bus.JetStream(), lease, p.Cluster, p.Pool)
		return err
	})
	if err != nil {
		return nil, err
	}
	connection := placerbus.New(placerbus.Config{
		Cluster: p.Cluster, Pool: p.Pool, Partition: p.Partition,
	}, p.Bus.Conn(), p.Log)
	one, err := placer.New(placer.Config{
		Cluster: p.Cluster, Pool: p.Pool, Heartbeat: p.Heartbeat, StartTimeout: min(startTimeout, lease.TTL()/startsPerLease),
	}, placer.Ports{Bus: connection, Reporter: connection, Sink: p.Sink, Lease: lease, Memory: memory}, p.Log)
	if err != nil {
		return nil, err
	}
	return &Placer{Placer: one, cluster: p.Cluster, pool: p.Pool, bus: p.Bus, nodes: connection, lease: lease, log: p.Log.With("pool", p.Pool)}, nil
}

// Placer is the wired placer of one pool.
type Placer struct {
	*placer.Placer
	cluster string
	pool    string
	bus     *bus.Bus
	nodes   *placerbus.Bus
	lease   *state.Lease
	log     *slog.Logger
	failed  atomic.Pointer[string] // why it ended last; nil while it runs
}

// runRepeatedly runs the placer until ctx ends. If it fails, it starts again after a pause.
func (p *Placer) runRepeatedly(ctx context.Context) error {
	pauses := retry.Policy{First: time.Second, Longest: 30 * time.Second}.Pauses()
	for {
		began := time.Now()
		p.failed.Store(nil)
		err := p.Run(ctx)
		if ctx.Err() != nil {
			return nil
		}
		p.failed.Store(new(fmt.Sprint(err)))
		if time.Since(began) >= stableAfter {
			pauses.Reset()
		}
		pause := pauses.NextBackOff()
		p.log.Error("placer failed, it starts again", "err", err, "pause", pause)
		if !retry.Pause(ctx, pause) {
			return nil
		}
	}
}

// Process is "weir placer" with its flags.
type Process struct {
	daemon.Settings
	Pools     []string           // at least one
	AdminAddr string             // address of the admin server; empty: that of weir.yaml
	Out       io.Writer          // receives the address
	Notify    *sdnotify.Notifier // nil: systemd waits for nothing
	Log       *slog.Logger
}

// Run places the instances of the pools until ctx ends. It returns an error if a pool cannot be opened.
func (p Process) Run(ctx context.Context, service config.Service, harmonizer config.Harmonizer) (err error) {
	var all placers
	var buses []*bus.Bus
	var locks []*flock.File
	defer func() {
		for _, b := range buses {
			err = b.End(err)
		}
		for _, l := range locks {
			l.Unlock()
		}
	}()
	c := admin.Config{Daemon: config.DaemonPlacer, Settings: service.Admin, Flag: p.AdminAddr, Out: p.Out, Log: p.Log}
	var waiting bus.Config
	server, err := admin.Open(c, &waiting)
	if err != nil {
		return err
	}
	defer server.Close()
	c.Opened = server
	for _, pool := range slices.Compact(slices.Sorted(slices.Values(p.Pools))) {
		lock, err := daemon.LockPool(p.Data, config.DaemonPlacer, p.Cluster, pool)
		if err != nil {
			return err
		}
		locks = append(locks, lock)
		connection := p.Bus(service.NATS, "placer "+pool, p.Log)
		connection.User = roles.User{Role: roles.Placer, Cluster: p.Cluster, Pool: pool}
		connection.Wait, connection.Waiting = true, waiting.Waiting
		b, err := bus.Find(ctx, connection)
		if err != nil {
			return fmt.Errorf("placer of pool %s/%s: %w", p.Cluster, pool, err)
		}
		buses = append(buses, b)
		ctx = b.WhileOpen(ctx)
		one, err := p.wire(ctx, service, harmonizer, b, pool, server)
		if err != nil {
			return fmt.Errorf("placer of pool %s/%s: %w", p.Cluster, pool, err)
		}
		all = append(all, one)
	}
	return p.serve(ctx, c, all)
}

func (p Process) wire(ctx context.Context, service config.Service, harmonizer config.Harmonizer, b *bus.Bus, pool string, server *admin.Server) (*Placer, error) {
	sink, err := daemon.OpenMetrics(service, b, p.Cluster, store.PlacerWriter(pool))
	if err != nil {
		return nil, err
	}
	holder, err := daemon.HolderName(p.Log, p.Data, p.Cluster, pool, config.DaemonPlacer)
	if err != nil {
		return nil, err
	}
	return Parts{
		Bus: b, Cluster: p.Cluster, Pool: pool, Holder: holder, Partition: harmonizer.Partition, Sink: sink, Waits: server.Waits, Log: p.Log,
	}.Wire(ctx)
}

// serve runs the placers and the admin server until ctx ends.
func (p Process) serve(ctx context.Context, c admin.Config, all placers) error {
	parts := daemon.NewServices(ctx)
	content := admin.Content{Checks: append(all.checks(), admin.Disk(p.Data)), Collectors: []prometheus.Collector{all.collector(), admin.Certificate(all[0].bus.Conn())}}
	if err := admin.Start(parts, c, content); err != nil {
		return parts.Stop(err)
	}
	for _, one := range all {
		parts.Run("placer of pool "+one.pool, one.runRepeatedly)
	}
	parts.Run("service manager", func(ctx context.Context) error { return p.Notify.Run(ctx, all.alive) })
	<-parts.Context().Done()
	return parts.Stop(nil)
}
