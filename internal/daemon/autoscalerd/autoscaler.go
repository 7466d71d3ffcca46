// Package autoscalerd is the process that holds one pool: it waits for the pool's
// lease, runs the autoscaler's loop and node health while it has that, and follows
// the files that bootstrap sends.
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
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/integrity"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

const (
	nodeMaxAge   = 30 * time.Second // a node's facts count for at least so long
	firstTimeout = 3 * time.Second  // for the first word of bootstrap
	openTimeout  = 10 * time.Second // to open what is kept on the bus
	// providerTimeout bounds the opening of the provider, and a request for its healing.
	providerTimeout = 60 * time.Second
)

// autoscaling is the settings of an autoscaler, from files and flags.
type autoscaling struct {
	service   config.Service
	pool      config.Pool
	configs   string // folder of the files of all pools
	dryRun    bool
	directory ask.Directory
	// follow, if there is one, runs beside a loop and gives it the settings of changed files.
	follow func(ctx context.Context, l *autoscaler.Loop) error
	// refresh, if there is one, reads the files that are to be followed now.
	refresh func() (autoscaling, error)
}

func (a autoscaling) config() autoscaler.Config {
	c := config.Autoscaler(a.service, a.pool)
	c.DryRun = a.dryRun
	return c
}

// Process is an autoscaler as its flags describe it.
type Process struct {
	command.Settings
	DryRun      bool
	MetricsAddr string    // where Prometheus reads the metrics of node health; empty: nowhere
	Out         io.Writer // says where that is
	Log         *slog.Logger
}

// Run holds the pool of these files until ctx ends, by the signals at their
// documented addresses.
func (p Process) Run(ctx context.Context, service config.Service, pool config.Pool) error {
	return p.run(ctx, autoscaling{
		service: service, pool: pool, configs: p.Configs, dryRun: p.DryRun, directory: fixedDirectory(service, pool),
	})
}

func (p Process) run(ctx context.Context, a autoscaling) error {
	for _, w := range config.Warnings(a.service, a.pool) {
		p.Log.Warn("a key of the files is read over", "key", w.Key, "at", w.Error())
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
	b, err := bus.Find(ctx, bus.Config{Data: p.Data, URL: p.NATSOr(a.service), Name: "autoscaler " + a.pool.Name, Log: p.Log})
	if err != nil {
		return err
	}
	defer b.Close()
	parts := daemon.NewServices(ctx)
	pool, err := openParts(parts, b, a, p.Log)
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

// dialSignal returns a function that opens clients of signals. A client accepts only
// a listener that belongs to the process that bootstrap started.
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
