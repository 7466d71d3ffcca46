// Package bootstrapd is the bootstrap process of one pool. It fetches the releases that the pool file pins,
// supervises signals and the autoscaler, follows the files, and answers requests on the bus.
//
// [Process] has its parameters. Process.Read returns the desired state from the files, and Process.Run supervises
// it until its context ends. Commands send requests to [Subject]. Run is called once for each pool. Two processes
// of one pool on a host exclude each other by a lock.
package bootstrapd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/sdnotify"
	"github.com/weirkeeper/weirkeeper/internal/platform/telemetry"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// signalTimeout is how long the autoscaler's start waits for silent signals.
const signalTimeout = 5 * time.Second

// Process is a bootstrap with its flags.
type Process struct {
	daemon.Settings
	CheckArgs func(args []string) error                // refuses arguments that are not flags of the autoscaler
	Progress  func(ref release.Ref, done, total int64) // of downloads, in bytes; nil: log lines
	Notify    *sdnotify.Notifier                       // nil: systemd waits for nothing
	AdminAddr string                                   // address of the admin server; empty: that of weir.yaml
	Out       io.Writer                                // receives the address
	Log       *slog.Logger
}

// Watcher returns the watcher of the files. Call it before Read, so that no change is missed.
func (p Process) Watcher() *config.Watcher {
	return config.NewWatcher(p.Log, p.watched(config.Service{})...)
}

// Desired is the desired state from files and environment.
type Desired struct {
	service config.Service
	pool    config.Pool
	Plan    bootstrap.Plan
	args    []string // flags of the autoscaler
}

// Read reads the files and the environment.
func (p Process) Read(getenv func(string) string) (Desired, error) {
	files, err := config.Read(p.Configs, p.Cluster, p.Pool)
	if err != nil {
		return Desired{}, err
	}
	env, _, err := bootstrap.PlanFromEnvironment(getenv)
	if err != nil {
		return Desired{}, err
	}
	files.Bucket = getenv(bootstrap.VarBucket)
	for _, s := range env.Signals {
		files.Pins = append(files.Pins, config.Pin{App: s.App, Namespace: s.Namespace, Name: s.Name, Version: s.Version})
	}
	w := Desired{args: strings.Fields(getenv(bootstrap.VarArgs))}
	if err := p.CheckArgs(w.args); err != nil {
		return Desired{}, fmt.Errorf("%s %q, which are flags of weir autoscaler: %w", bootstrap.VarArgs, w.args, err)
	}
	if w.service, w.pool, err = files.Decode(autoscalerd.CheckHealth); err != nil {
		return Desired{}, err
	}
	w.Plan = config.Bootstrap(w.service, w.pool)
	if len(refsOf(w.Plan)) > 0 && w.service.AWS.SignalsBucket == "" {
		return Desired{}, signalbucket.ErrNoBucket
	}
	if w.Plan.Config, err = json.Marshal(files); err != nil {
		return Desired{}, fmt.Errorf("encode the files for the autoscaler: %w", err)
	}
	return w, w.Plan.Validate()
}

// Run runs the desired state, and applies later changes of the files, until ctx ends.
func (p Process) Run(ctx context.Context, desired Desired, watcher *config.Watcher) (err error) {
	if err := supervise.Hide(); err != nil {
		return err
	}
	lock, err := daemon.LockPool(p.Data, "bootstrap", desired.Plan.Cluster, desired.Plan.Pool)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	connection := p.Bus(desired.service.NATS, "bootstrap "+desired.Plan.Pool, p.Log)
	connection.User = roles.User{Role: roles.Pool, Cluster: desired.Plan.Cluster, Pool: desired.Plan.Pool}
	connection.Wait = true
	p.nameOwner(desired.pool) // before the bus, which the owner may run
	server := admin.Config{Daemon: config.DaemonBootstrap, Settings: desired.service.Admin, Flag: p.AdminAddr, Out: p.Out, Log: p.Log}
	if server.Opened, err = admin.Open(server, &connection); err != nil {
		return err
	}
	defer server.Opened.Close()
	nats, err := bus.Find(ctx, connection)
	if err != nil {
		return err
	}
	defer func() { err = nats.End(err) }()
	ctx = nats.WhileOpen(ctx)
	progress := p.Progress
	if progress == nil {
		progress = logProgress(p.Log)
	}
	var seen state.Seen
	var trials *state.Trials
	err = daemon.WaitForState(ctx, p.Log, server.Opened.Waits, func(ctx context.Context) error {
		if seen, err = state.OpenSeen(ctx, nats.JetStream(), desired.Plan.Cluster, desired.Plan.Pool); err != nil {
			return err
		}
		trials, err = state.OpenTrials(ctx, nats.JetStream(), desired.Plan.Cluster, desired.Plan.Pool)
		return err
	})
	if err != nil {
		return err
	}
	releases, err := openReleases(ctx, desired, filepath.Join(p.Data, "releases"), seen, p.Log, progress)
	if err != nil {
		return err
	}
	own, folder, sameUser := p.users(desired)
	return daemon.WithLauncher(ctx, p.Program, p.Log, func(ctx context.Context, launcher *supervise.Launcher) error {
		config := bootstrap.Config{
			Plan: desired.Plan, Launcher: launcher, Releases: releases, Shipped: p.shippedSignal, Trials: trials,
			Autoscaler: append(p.Argv("autoscaler", "--directory-fd", fmt.Sprint(supervise.FirstExtraFD)), desired.args...),
			Env:        p.autoscalerEnv(desired.pool), Environ: os.Environ(), ReadyTimeout: signalTimeout, Log: p.Log,
			Folder: folder, SameUser: sameUser,
			Bucket: desired.service.AWS.SignalsBucket, Args: strings.Join(desired.args, " "),
		}
		if own != nil {
			config.Users = own
		}
		b, err := bootstrap.New(config)
		if err != nil {
			return err
		}
		r := &reloader{process: p, bootstrap: b, releases: releases, log: p.Log, bus: nats, nats: nats.Conn(), running: desired, admin: server}
		return r.watchAndRun(ctx, watcher)
	})
}

// metricsSocket returns the path at which the autoscaler serves its metrics to bootstrap; empty if it would be too long.
func (p Process) metricsSocket() string { return admin.SocketPath(p.Data, p.Cluster+"."+p.Pool) }

// nameOwner logs which process must run the machines of the pool, if they need one.
func (p Process) nameOwner(pool config.Pool) {
	if kind, _ := pool.Provider(); kind.Owner != "" {
		p.Log.Info("machines of the pool need their owner", "machines", kind.Name, "owner", kind.Owner)
	}
}

// users returns the user ids of signals and the folder of their sockets. If signals must run as this process's user,
// own is nil and sameUser has the reason and the remedy.
func (p Process) users(desired Desired) (own *users, folder, sameUser string) {
	own, sameUser = openUsers(desired.service, p.Data, p.Log)
	if own != nil {
		err := openToUsers(p.Data)
		if err == nil {
			folder, err = socketFolderOfUsers(p.Data, desired.Plan)
		}
		if err == nil {
			return own, folder, ""
		}
		sameUser = err.Error()
	}
	p.Log.Warn("signals run as the user of bootstrap and can read its files", "why", sameUser)
	return nil, socketFolder(p.Data, desired.Plan), sameUser
}

// autoscalerEnv returns the environment of an autoscaler, with the variables of the pool's provider
// and of traces.
func (p Process) autoscalerEnv(pool config.Pool) []string {
	env := append(p.Env(), autoscalerd.MetricsSocket+"="+p.metricsSocket())
	kind, _ := pool.Provider()
	for _, entry := range os.Environ() {
		if kind.Environment != "" && strings.HasPrefix(entry, kind.Environment) || strings.HasPrefix(entry, telemetry.Prefix) {
			env = append(env, entry)
		}
	}
	return env
}

func (p Process) shippedSignal(s bootstrap.SignalPlan, app string) []string {
	return []string{p.Program, "signal", "run", s.Name, s.Namespace, app, "--log-level", p.LogLevel, "--log-format", p.LogFormat}
}
