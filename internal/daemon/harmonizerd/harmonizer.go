// Package harmonizerd is the harmonizer process, which keeps the applications of a cluster at their expected count.
// It wires the harmonizer with its bus, lease and memory.
//
// [Parts] has the opened connections and files. Parts.Run wires them and returns after all its parts have ended.
// Several processes of one cluster may run: the lease selects the active one.
package harmonizerd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/varz"
	"github.com/weirkeeper/weirkeeper/harmonizer/natsbus"
	"github.com/weirkeeper/weirkeeper/harmonizer/rowfile"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/sdnotify"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/metrics"
)

// Parts has the dependencies of a harmonizer.
type Parts struct {
	Bus  *bus.Bus
	File config.Harmonizer
	// Watcher and Read follow the file of the harmonizer; nil: it is not followed.
	Watcher *config.Watcher
	Read    func() (config.Harmonizer, error)
	Loop    harmonizer.Config
	Holder  string // of the lease
	// Data is the folder for the known revisions of the rows. It may be empty in shadow mode, and
	// if the expected state is not stored in rows on the bus.
	Data   string
	Store  metrics.Store      // nil: counts are not written
	Record harmonizer.Record  // nil: nothing is recorded
	Notify *sdnotify.Notifier // nil: systemd waits for nothing
	Waits  func(error)        // receives why Wire waits; nil: only the log has it
	Log    *slog.Logger
}

// Wire returns the harmonizer. In shadow mode it has no lease and no memory.
func (p Parts) Wire(ctx context.Context) (*harmonizer.Harmonizer, error) {
	h, _, err := p.wire(ctx, nil)
	return h, err
}

// wire returns the harmonizer, and the users that it counts. Without a component, collectors do not find it.
func (p Parts) wire(ctx context.Context, component *cloudfoundry.Component) (*harmonizer.Harmonizer, *cloudfoundry.Users, error) {
	features, source, err := p.cloudFoundry(component)
	if err != nil {
		return nil, nil, err
	}
	p.Loop.CloudFoundry = features
	nats, err := natsbus.NewBus(p.Bus.Conn(), natsbus.Config{
		Cluster: p.Loop.Cluster, Shadow: p.Loop.Shadow, KeepAlive: p.Loop.WithDefaults().Apps.NudgeKeepAlive, CloudFoundry: features,
	}, p.Log)
	if err != nil {
		return nil, nil, err
	}
	if source == nil {
		if source, err = p.source(); err != nil {
			return nil, nil, err
		}
	}
	ports := harmonizer.Ports{Bus: nats, Placers: nats, Source: source, Record: p.Record}
	if p.Store != nil {
		ports.Metrics = p.Store
	}
	if !p.Loop.Shadow {
		lease, err := state.NewLease(p.Bus.JetStream(), state.LeaseConfig{
			Bucket: names.HarmonizerBucket(p.Loop.Cluster), Holder: p.Holder, TTL: p.File.Lease, Replicas: p.Bus.Replicas(), Log: p.Log,
		})
		if err != nil {
			return nil, nil, err
		}
		var memory *state.AppMemory
		err = daemon.WaitForState(ctx, p.Log, p.Waits, func(ctx context.Context) error {
			if memory, err = state.OpenAppMemory(ctx, p.Bus.JetStream(), lease, p.Loop.Cluster); err != nil {
				return err
			}
			if _, ok := source.(*natsbus.Rows); ok {
				_, err = kvbucket.Check(ctx, p.Bus.JetStream(), names.AppsBucket(p.Loop.Cluster))
			}
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		ports.Lease, ports.Memory = lease, memory
		p.Loop.LeaseTTL = lease.TTL()
	}
	h, err := harmonizer.New(p.Loop, ports, p.Log)
	return h, features.Users, err
}

// source returns the source of the expected state, without a bulk API.
func (p Parts) source() (harmonizer.Source, error) {
	if p.File.Expected.File != "" {
		return rowfile.New(rowfile.Config{Path: p.File.Expected.File, ValidFor: p.File.ExpectedLost()}, p.Log)
	}
	rows := natsbus.RowsConfig{Cluster: p.Loop.Cluster, Forget: p.Loop.Shadow}
	if !p.Loop.Shadow {
		if p.Data == "" {
			return nil, errors.New("harmonizer: Parts.Data is empty, so damaged rows are not found: name the data folder")
		}
		rows.Folder, rows.By = filepath.Join(p.Data, integrity.FolderName), p.Holder
	}
	return natsbus.NewRows(p.Bus.Conn(), rows, p.Log)
}

// Run runs the harmonizer until ctx ends. An address of c.Flag or of the file's status.port also has /varz, and is
// announced to collectors.
func (p Parts) Run(ctx context.Context, c admin.Config) error {
	keys := p.File.Status
	c.Trusted = keys.Address()
	server, err := admin.Listen(c)
	if err != nil {
		return err
	}
	defer server.Close()
	p.Waits = server.Waits
	var component *cloudfoundry.Component
	if announced := server.Given(); announced != nil {
		component = new(cloudfoundry.NewComponent(int(p.File.Index), reachable(announced)))
		if keys.User != "" {
			component.User, component.Password = keys.User, keys.Password
		}
	}
	h, users, err := p.wire(ctx, component)
	if err != nil {
		return err
	}
	services := daemon.NewServices(ctx)
	content := admin.Content{
		Checks: []admin.Check{admin.Bus(p.Bus), admin.Clock(p.Bus.Conn(), p.Log), leadership(h.Status)}, Collectors: []prometheus.Collector{h.Collector(), admin.Certificate(p.Bus.Conn())},
		Labels: prometheus.Labels{"cluster": p.Loop.Cluster},
	}
	if !p.Loop.Shadow { // which has no state
		content.Checks = append(content.Checks, admin.Stored(p.Bus, names.HarmonizerBucket(p.Loop.Cluster)))
	}
	if p.Data != "" {
		content.Checks = append(content.Checks, admin.Disk(p.Data))
	}
	if component != nil {
		content.More = func(mux *http.ServeMux) { mux.Handle("GET /varz", varz.Handler(*component, h, users)) }
	}
	if p.Watcher != nil {
		f := newFollower(p, h.Enqueue)
		content.Checks = append(content.Checks, f.check())
		services.Run("file watcher", p.Watcher.Run)
		services.Run("configuration", f.run)
	}
	server.Serve(services, content)
	services.Run("harmonizer", h.Run)
	services.Run("service manager", func(ctx context.Context) error { return p.Notify.Run(ctx, h.Alive) })
	<-services.Context().Done()
	return services.Stop(nil)
}

// reachable returns an address for other hosts: the host name replaces an unspecified IP address.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return net.JoinHostPort(host, port)
}
