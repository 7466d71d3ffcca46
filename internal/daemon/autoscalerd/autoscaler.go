// Package autoscalerd is the autoscaler process of one pool. It waits for the pool's lease. While it holds the lease,
// it runs the autoscaler's loop and node health, and applies the configuration that bootstrap sends.
//
// [Process] has its parameters, and Process.Run returns after all its parts have ended. It answers requests for its next plan and
// for the facts of its nodes (package view sends them).
package autoscalerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/telemetry"
	"github.com/weirkeeper/weirkeeper/internal/platform/trace"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

const (
	receiptAge   = 30 * time.Second // for which the receipt of a silent node's facts is known
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
	waits     func(error) // receives why the start waits
	// follow, if set, runs beside a loop and applies changed files to it.
	follow func(ctx context.Context, l *autoscaler.Loop) error
	// refresh, if set, reads the current files.
	refresh func() (autoscaling, error)
}

func (a autoscaling) config() autoscaler.Config {
	c := config.Autoscaler(a.service, a.pool)
	c.DryRun, c.Parts = a.dryRun, config.Parts(a.service, a.pool)
	return c
}

// MetricsSocket is the variable with the path of the Unix socket at which bootstrap reads the metrics; empty: none.
const MetricsSocket = "WEIR_METRICS_SOCKET"

// Process is an autoscaler with its flags.
type Process struct {
	daemon.Settings
	DryRun    bool
	AdminAddr string    // address of the admin server; empty: that of weir.yaml
	Out       io.Writer // receives the address
	Log       *slog.Logger
}

// Run runs the pool of these files until ctx ends. It uses signals at their documented addresses.
func (p Process) Run(ctx context.Context, service config.Service, pool config.Pool) error {
	return p.run(ctx, autoscaling{
		service: service, pool: pool, configs: p.Configs, dryRun: p.DryRun, directory: fixedDirectory(service, pool),
	})
}

func (p Process) run(ctx context.Context, a autoscaling) (err error) {
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
	holder, err := daemon.HolderName(p.Log, p.Data, a.pool.Cluster, a.pool.Name)
	if err != nil {
		return err
	}
	connection := p.Bus(a.service.NATS, "autoscaler "+a.pool.Name, p.Log)
	connection.User = roles.User{Role: roles.Pool, Cluster: a.pool.Cluster, Pool: a.pool.Name}
	connection.Wait = true
	server := admin.Config{Daemon: config.DaemonAutoscaler, Settings: a.service.Admin, Flag: p.AdminAddr, Out: p.Out, Log: p.Log}
	if server.Opened, err = admin.Open(server, &connection); err != nil {
		return err
	}
	defer server.Opened.Close()
	a.waits = server.Opened.Waits
	b, err := bus.Find(ctx, connection)
	if err != nil {
		return err
	}
	defer func() { err = b.End(err) }()
	ctx = b.WhileOpen(ctx)
	var pulse admin.Pulse
	parts := daemon.NewServices(ctx)
	pool, err := openDependencies(parts, b, a, p.Log)
	if err != nil {
		return parts.Stop(err)
	}
	a.directory = pulsing{a.directory, &pulse}
	t := &terms{bus: b, holder: holder, log: p.Log, settings: a, parts: pool, keeper: daemon.KeeperArgv(p.Program), pulse: &pulse}
	t.scaling = newPoolMetrics(t.currentLease, a.dryRun)
	t.scaling.remote = openRemoteWriter(a.service.Telemetry, a.pool.Cluster, a.pool.Name, p.Log)
	traces, endTraces, err := telemetry.Open(ctx, "weir-autoscaler", p.Log, "weir.cluster", a.pool.Cluster, "weir.pool", a.pool.Name)
	if err != nil {
		return parts.Stop(err)
	}
	defer endTraces()
	t.trace = trace.Join(t.scaling.trace, traces)
	t.guard, err = state.OpenGuard(b.JetStream(), a.pool.Cluster, a.pool.Name, filepath.Join(p.Data, integrity.FolderName), holder, p.Log)
	if err != nil {
		return parts.Stop(err)
	}
	defer t.guard.Close()
	checks := append(t.checks(), admin.Disk(p.Data))
	if w := t.scaling.remote; w != nil {
		parts.Run("remote write", w.Run)
		checks = append(checks, w.check())
	}
	content := admin.Content{Checks: checks, Collectors: []prometheus.Collector{t.scaling, &t.health},
		Labels: prometheus.Labels{"cluster": a.pool.Cluster, "pool": a.pool.Name}}
	if err := errors.Join(admin.Start(parts, server, content), admin.ServeParent(parts, os.Getenv(MetricsSocket), content, p.Log)); err != nil {
		return parts.Stop(err)
	}
	return parts.Stop(t.run(parts.Context()))
}

// dialSignal returns a function that opens clients of signals. A client accepts only a listener whose process belongs
// to the one that bootstrap started.
func dialSignal(cluster, pool string) func(ask.Endpoint, ask.RequestSpec) ask.Client {
	return func(e ask.Endpoint, r ask.RequestSpec) ask.Client {
		return sigproto.NewClient(sigproto.ClientConfig{
			Address: e.Address, Columnar: e.Columnar,
			Hello: sigproto.Hello{Parameters: r.Parameters, Cluster: cluster, Pool: pool, Setpoint: r.Setpoint, Launch: r.Launch},
			CheckPeer: func(pid int) error {
				if e.Group != 0 && !supervise.BelongsTo(pid, e.Group) {
					return fmt.Errorf("process %d listens there, which does not belong to process %d that bootstrap started", pid, e.Group)
				}
				return nil
			},
		})
	}
}
