package agentd

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/agent"
	"github.com/weirkeeper/weirkeeper/agent/measure"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/daemon/authd"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/sdnotify"
	"github.com/weirkeeper/weirkeeper/resource"
)

// reconnectWait spreads the connection attempts of thousands of agents after the loss of a server.
const reconnectWait = 5 * time.Second

// Process runs one agent.
type Process struct {
	daemon.Settings
	Machine   agent.Config // of the flags; Choose completes it
	AdminAddr string
	Out       io.Writer
	Notify    *sdnotify.Notifier // nil: systemd waits for nothing
	Log       *slog.Logger
}

// New returns a process with the defaults of the flags.
func New() Process { return Process{Machine: agent.Config{Keep: true}.WithDefaults()} }

// Choose completes the configuration of the flags, of which the command line has those that are given.
func (p *Process) Choose(ctx context.Context, service config.Service, given func(flag string) bool) error {
	chosen, err := Place{
		Given: given, Block: service.Agent, File: filepath.Join(p.Configs, "weir.yaml"), Getenv: os.Getenv, Dir: filepath.Join(p.Data, "instances"),
		Measure: func(dir string) (resource.Vector, error) { return measure.Resources(os.DirFS("/"), dir) }, Log: p.Log,
	}.Choose(ctx, p.Machine)
	if err != nil {
		return err
	}
	p.Machine = chosen
	return chosen.Validate()
}

// Run connects as the machine, and runs the agent until ctx ends.
func (p *Process) Run(ctx context.Context, service config.Service) (err error) {
	c := p.Machine
	connection := p.Bus(service.NATS, "agent "+c.ID, p.Log)
	connection.User = roles.User{Role: roles.Agent, Cluster: c.Cluster, Pool: c.Pool, Node: c.ID}
	if len(connection.NATS.Servers) > 0 { // the server of a data folder verifies users itself
		connection.ReconnectWait = reconnectWait
		claim := identity.Claim{Cluster: c.Cluster, Pool: c.Pool, Node: c.ID}
		if err := authd.Identify(ctx, &connection, service.Identity, claim); err != nil {
			return err
		}
	}
	connection.Wait = true
	server := admin.Config{Daemon: config.DaemonAgent, Settings: service.Admin, Flag: p.AdminAddr, Out: p.Out, Log: p.Log}
	if server.Opened, err = admin.Open(server, &connection); err != nil {
		return err
	}
	defer server.Opened.Close()
	b, err := bus.Find(ctx, connection)
	if err != nil {
		return err
	}
	defer func() { err = b.End(err) }()
	ctx = b.WhileOpen(ctx)
	c.Releases = &Releases{Configs: p.Configs, Data: connection.Data, Owner: "agent." + c.Cluster + "." + c.ID, Log: p.Log}
	return daemon.WithLauncher(ctx, p.Program, p.Log, func(ctx context.Context, launcher *supervise.Launcher) error {
		one, err := agent.New(c, b.Conn(), launcher, p.Log)
		if err != nil {
			return err
		}
		parts := daemon.NewServices(ctx)
		parts.Run("service manager", func(ctx context.Context) error { return p.Notify.Run(ctx, one.Alive) })
		if err := admin.Start(parts, server, admin.Content{Checks: []admin.Check{admin.Bus(b), admin.Loop(one.Alive), admin.Disk(connection.Data)}, Collectors: []prometheus.Collector{admin.Certificate(b.Conn())}}); err != nil {
			return parts.Stop(err)
		}
		return parts.Stop(one.Run(parts.Context()))
	})
}
