// Package autoscalerd is the autoscaler process of one pool. It waits for the pool's lease. While it holds the lease,
// it runs the autoscaler's loop and node health, and applies the configuration that bootstrap sends.
package autoscalerd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/integrity"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

const (
	nodeMaxAge   = 30 * time.Second // minimum age at which a node's facts expire
	firstTimeout = 3 * time.Second  // for the first message of bootstrap
	openTimeout  = 10 * time.Second // to open durable state on the bus
	// providerTimeout bounds opening the provider, and a request for its repair service.
	providerTimeout = 60 * time.Second
)

// autoscaling has the settings of an autoscaler from files and flags.
type autoscaling struct {
	service   config.Service
	pool      config.Pool
	configs   string // folder of the files of all pools
	dryRun    bool
	directory ask.Directory
	// follow, if set, runs beside a loop and applies changed files to it.
	follow func(ctx context.Context, l *autoscaler.Loop) error
	// refresh, if set, reads the current files.
	refresh func() (autoscaling, error)
}

func (a autoscaling) config() autoscaler.Config {
	c := config.Autoscaler(a.service, a.pool)
	c.DryRun = a.dryRun
	return c
}

// Process is an autoscaler with its flags.
type Process struct {
	command.Settings
	DryRun      bool
	MetricsAddr string    // Prometheus endpoint of node health; empty: no endpoint
	Out         io.Writer // receives the endpoint's address
	Log         *slog.Logger
}

// Run runs the pool of these files until ctx ends. It uses signals at their documented addresses.
func (p Process) Run(ctx context.Context, service config.Service, pool config.Pool) error {
	return p.run(ctx, autoscaling{
		service: service, pool: pool, configs: p.Configs, dryRun: p.DryRun, directory: fixedDirectory(service, pool),
	})
}

func (p Process) run(ctx context.Context, a autoscaling) error {
	for _, w := range config.Warnings(a.service, a.pool) {
		p.Log.Warn("ignored configuration key", "key", w.Key, "at", w.Error())
	}
	what := "autoscaler"
	if a.dryRun {
		what = "dry run of an autoscaler"
	}
	lock, err := daemon.LockPool(p.Data, what, a.pool.Cluster, a.pool.Name)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	holder, err := daemon.HolderName(p.Data, a.pool.Cluster, a.pool.Name)
	if err != nil {
		return err
	}
	connection := p.Bus(a.service.NATS, "autoscaler "+a.pool.Name, p.Log)
	connection.InboxPrefix = roles.User{Role: roles.Pool, Cluster: a.pool.Cluster, Pool: a.pool.Name}.InboxPrefix()
	b, err := bus.Find(ctx, connection)
	if err != nil {
		return err
	}
	defer b.Close()
	parts := daemon.NewServices(ctx)
	pool, err := openDependencies(parts, b, a, p.Log)
	if err != nil {
		return parts.Stop(err)
	}
	t := &terms{bus: b, holder: holder, log: p.Log, settings: a, parts: pool, keeper: daemon.KeeperArgv(p.Program)}
	t.guard, err = state.OpenGuard(b.JetStream(), a.pool.Cluster, a.pool.Name, filepath.Join(p.Data, integrity.FolderName), holder, p.Log)
	if err != nil {
		return parts.Stop(err)
	}
	defer t.guard.Close()
	if p.MetricsAddr != "" {
		listener, err := net.Listen("tcp", p.MetricsAddr)
		if err != nil {
			return parts.Stop(fmt.Errorf("metrics for Prometheus: %w; choose another address", err))
		}
		defer listener.Close()
		if err := daemon.ServeProm(p.Out, parts, listener, daemon.Metrics{Collector: &t.metrics}, p.Log); err != nil {
			return parts.Stop(err)
		}
	}
	return parts.Stop(t.run(parts.Context()))
}

// dialSignal returns a function that opens clients of signals. A client accepts only a listener whose process belongs
// to the one that bootstrap started.
func dialSignal(cluster, pool string) func(ask.Endpoint, ask.RequestSpec) ask.Client {
	return func(e ask.Endpoint, r ask.RequestSpec) ask.Client {
		return sigproto.NewClient(sigproto.ClientConfig{
			Address: e.Address, Columnar: e.Columnar,
			Hello: sigproto.Hello{Parameters: r.Parameters, Cluster: cluster, Pool: pool},
			CheckPeer: func(pid int) error {
				if e.Group != 0 && !supervise.BelongsTo(pid, e.Group) {
					return fmt.Errorf("process %d listens there, which does not belong to process %d that bootstrap started", pid, e.Group)
				}
				return nil
			},
		})
	}
}
