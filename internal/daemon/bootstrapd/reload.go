package bootstrapd

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/diskspace"
)

// reloader applies the files to a bootstrap.
type reloader struct {
	process   Process
	bootstrap *bootstrap.Bootstrap
	releases  *releases
	log       *slog.Logger
	bus       *bus.Bus
	nats      *nats.Conn
	admin     admin.Config
	running   Desired // used only by the goroutine of run

	mu      sync.Mutex
	refused string // why the files are not applied; empty if they are
}

// watchAndRun runs the bootstrap, follows its files, and answers requests.
func (r *reloader) watchAndRun(ctx context.Context, watcher *config.Watcher) error {
	stop, err := r.answer()
	if err != nil {
		return err
	}
	defer stop()
	parts := daemon.NewServices(ctx)
	watcher.Follow(r.process.watched(r.running.service)...)
	parts.Run("file watcher", watcher.Run)
	parts.Run("release cache", func(ctx context.Context) error { return r.releases.collect(ctx, r.bootstrap.Releases) })
	parts.Run("yanks", func(ctx context.Context) error {
		return r.releases.followYanks(ctx, r.bootstrap.Releases, r.bootstrap.SetYanked)
	})
	parts.Run("reload", func(ctx context.Context) error { return r.run(ctx, watcher) })
	parts.Run("service manager", func(ctx context.Context) error { return r.process.Notify.Run(ctx, r.alive) })
	content := admin.Content{
		Checks: r.checks(), Collectors: []prometheus.Collector{newCollector(r.status, &r.releases.fetches), admin.Certificate(r.bus.Conn())},
		Labels:   prometheus.Labels{"cluster": r.process.Cluster, "pool": r.process.Pool},
		Children: []admin.Child{admin.Child(r.process.metricsSocket()), admin.Child(os.Getenv(admin.OwnerSocket))},
	}
	if err := admin.Start(parts, r.admin, content); err != nil {
		return parts.Stop(err)
	}
	return parts.Stop(r.bootstrap.Run(parts.Context()))
}

// alive returns nil when the loop of bootstrap responds and the state of its processes can be read.
func (r *reloader) alive(ctx context.Context) error {
	r.bootstrap.Status()
	return r.bootstrap.Alive(ctx)
}

// watched returns the files whose changes are followed: the two configuration files, and the AWS key files.
func (p Process) watched(service config.Service) []string {
	dir := p.Configs
	files := []string{
		filepath.Join(dir, "weir.yaml"),
		filepath.Join(dir, filepath.FromSlash(config.PoolFile(dir, p.Cluster, p.Pool))),
	}
	for _, file := range append(awssdk.SharedFiles(), service.AWS.AccessKeyFile, os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE")) {
		if file != "" {
			files = append(files, file)
		}
	}
	return files
}

// run reloads the files after each change and each SIGHUP.
func (r *reloader) run(ctx context.Context, watcher *config.Watcher) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Changes():
			r.try(ctx, watcher, watcher.Stands)
		case <-hangup: // an operator says that the files are complete
			r.process.Notify.Reloading()
			r.try(ctx, watcher, func() bool { return true })
			r.process.Notify.Reloaded()
		}
	}
}

// try applies the files. If they are rejected, the previous plan continues. If the files do not stand after they were
// read, try does nothing.
func (r *reloader) try(ctx context.Context, watcher *config.Watcher, stand func() bool) {
	desired, err := r.process.Read(os.Getenv)
	if !stand() {
		return
	}
	if err == nil {
		err = r.apply(ctx, desired)
	}
	if err != nil {
		r.log.Error("configuration rejected, previous plan continues", "err", err)
		r.refuse(err.Error())
		r.process.Notify.Rejected("configuration rejected, previous plan continues: " + err.Error())
		return
	}
	watcher.Follow(r.process.watched(r.running.service)...)
	r.refuse("")
	r.process.Notify.Rejected("")
}

// apply applies the files, or changes nothing.
func (r *reloader) apply(ctx context.Context, desired Desired) error {
	if !desired.service.NATS.Equal(r.running.service.NATS) {
		return errors.New("weir.yaml: nats changed: restart bootstrap to change the bus of a pool")
	}
	if err := r.releases.follow(ctx, desired, r.bootstrap.Releases()); err != nil {
		return err
	}
	if err := r.bootstrap.Update(desired.Plan); err != nil {
		return errors.Join(err, r.releases.follow(ctx, r.running, r.bootstrap.Releases()))
	}
	r.process.nameOwner(desired.pool)
	r.running = desired
	r.log.Info("configuration applied", "pool", desired.Plan.Pool)
	return nil
}

func (r *reloader) refuse(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = why
}

func (r *reloader) status() api.BootstrapStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := api.BootstrapStatus{PoolProcesses: r.bootstrap.Status(), Refused: r.refused, Full: diskspace.Watched(r.process.Data, daemon.DataParts()...)}
	if err := r.bus.Problem(); err != nil && s.Refused == "" {
		s.Refused = err.Error()
	}
	for i := range s.Signals {
		r.releases.yanks.mark(&s.Signals[i])
	}
	return s
}
