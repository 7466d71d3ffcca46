// Package notifyd is the process "weir notify": it sends the events of a cluster's pools to webhooks.
//
//	p := notifyd.Process{Settings: settings, Log: log}
//	err := p.Run(ctx, service)
//
// The process publishes events in one stream of the cluster, which each target reads from its own position. Findings and ticks
// are read from their streams, from stored positions too; live messages are hints. All positions are in a bucket, so the process
// needs no folder. The stream refuses an event that it has. Several processes may run for one cluster: a lease selects the active
// one.
package notifyd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/notify"
	"github.com/weirkeeper/weirkeeper/internal/platform/sdnotify"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Process is "weir notify" with its flags.
type Process struct {
	daemon.Settings
	AdminAddr string             // address of the admin server; empty: that of weir.yaml
	Out       io.Writer          // receives the address
	Notify    *sdnotify.Notifier // nil: systemd waits for nothing
	Log       *slog.Logger
}

// Run sends events until ctx ends. It returns an error if the bus rejects it.
func (p Process) Run(ctx context.Context, service config.Service) (err error) {
	started := time.Now()
	connection := p.Bus(service.NATS, "weir notify", p.Log)
	connection.User = roles.User{Role: roles.Notify, Cluster: p.Cluster}
	connection.Wait = true
	b, err := bus.Find(ctx, connection)
	if err != nil {
		return err
	}
	defer func() { err = b.End(err) }()
	ctx = b.WhileOpen(ctx)
	n := &notices{js: b.JetStream(), cluster: p.Cluster, log: p.Log, started: started}
	all := newSenders(service.Notify, n, p.Log)
	f := newFeed(b, n, all, p.Log)
	host, _ := os.Hostname() // for people
	lease, err := state.NewLease(b.JetStream(), state.LeaseConfig{
		Bucket: names.NotifyBucket(p.Cluster), Holder: host + "-" + rand.Text(), Replicas: b.Replicas(), Log: p.Log,
	})
	if err != nil {
		return err
	}
	f.lease = lease
	parts := daemon.NewServices(ctx)
	server := admin.Config{Daemon: config.DaemonNotify, Settings: service.Admin, Flag: p.AdminAddr, Out: p.Out, Log: p.Log}
	content := admin.Content{
		Checks: append([]admin.Check{
			admin.Bus(b), admin.Stored(b, names.NotifyBucket(p.Cluster)), admin.Lease(func() admin.StandbyLease { return lease }), {Name: "events", Read: f.check},
		}, all.checks()...),
		Collectors: []prometheus.Collector{newCollector(all), admin.Certificate(b.Conn())},
	}
	if err := admin.Start(parts, server, content); err != nil {
		return parts.Stop(err)
	}
	parts.Run("events", func(ctx context.Context) error { return f.terms(ctx, lease) })
	parts.Run("service manager", func(ctx context.Context) error { return p.Notify.Run(ctx, f.alive) })
	<-parts.Context().Done()
	return parts.Stop(nil)
}

// terms passes events on while this process holds the lease, until ctx ends. Then it returns nil.
func (f *feed) terms(ctx context.Context, lease *state.Lease) error {
	for ctx.Err() == nil {
		if err := lease.Acquire(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		f.log.Info("lease acquired, passing events on", "epoch", lease.Epoch())
		// The lease is released only after the last position is stored.
		renewing := daemon.NewServices(context.WithoutCancel(ctx))
		renewing.Run("lease", lease.Run)
		holding := daemon.NewServices(ctx)
		undo := context.AfterFunc(renewing.Context(), func() { holding.End(context.Cause(renewing.Context())) })
		for _, s := range f.targets {
			holding.Run("target "+s.Status().Target, s.Run)
		}
		holding.Run("findings", f.findings)
		err := renewing.Stop(holding.Stop(f.run(holding.Context())))
		undo()
		if err != nil && !errors.Is(err, pools.ErrNotHolder) {
			return err
		}
	}
	return nil
}

// senders are the senders of all targets, in the order of the configuration.
type senders []*notify.Sender

func newSenders(targets []notify.Settings, n *notices, log *slog.Logger) (all senders) {
	for _, t := range targets {
		all = append(all, notify.NewSender(t.Target(), n.queue(t.Name), log))
	}
	return all
}

// has reports whether one of the senders has that target.
func (all senders) has(target string) bool {
	return slices.ContainsFunc(all, func(s *notify.Sender) bool { return s.Status().Target == target })
}

// checks returns a check for each target. A target that fails does not make the process unready.
func (all senders) checks() (list []admin.Check) {
	for _, s := range all {
		list = append(list, admin.Check{Name: "target " + s.Status().Target, Read: func(context.Context) admin.Result { return resultOf(s.Status()) }})
	}
	return list
}

func resultOf(s notify.Status) admin.Result {
	detail := fmt.Sprintf("%d events sent, %d wait, %d dropped", s.Sent, s.Queued, s.Dropped)
	switch {
	case s.Unread != "":
		return admin.Result{State: admin.Degraded, Detail: fmt.Sprintf("%s; events are not read: %s", detail, s.Unread), Remedy: `check NATS with "weir doctor"`}
	case s.Err == "":
		return admin.Result{State: admin.OK, Detail: detail}
	}
	return admin.Result{
		State: admin.Degraded, Detail: fmt.Sprintf("%s; fails since %s: %s", detail, s.Since.UTC().Format(time.RFC3339), s.Err),
		Remedy: "check the target, and its section notify in weir.yaml; events older than a day are dropped",
	}
}

// collector implements prometheus.Collector.
type collector struct {
	*metric.Set
	all senders
}

func newCollector(all senders) collector {
	return collector{metric.NewSet(metric.NotifyPrefix, metric.Notify()), all}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, one := range c.all {
		s := one.Status()
		put := func(name string, value float64) { c.Emit(ch, name, value, s.Target) }
		put("queued_events", float64(s.Queued))
		put("sent_total", float64(s.Sent))
		put("failed_attempts_total", float64(s.Failed))
		put("dropped_total", float64(s.Dropped))
		failing := time.Duration(0)
		if !s.Since.IsZero() {
			failing = time.Since(s.Since)
		}
		put("failing_seconds", failing.Seconds())
	}
}
