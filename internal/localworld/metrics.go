package localworld

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"

	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/metrics/embedded/tsdbstore"
	"github.com/weirkeeper/weirkeeper/metrics/lineprotocol"
)

// ServeMetrics runs the embedded metrics store of a cluster until ctx ends.
// Applications write to it at addr.
func ServeMetrics(ctx context.Context, root *command.Root, addr string) error {
	service, err := config.LoadService(root.ConfigDir())
	if err != nil {
		return command.Usage(err)
	}
	settings, log, err := root.Daemon()
	if err != nil {
		return err
	}
	lock, err := daemon.Lock(settings.Data, "metrics", "metrics store")
	if err != nil {
		return err
	}
	defer lock.Unlock()
	b, err := bus.Open(ctx, bus.Config{Data: settings.Data, URL: settings.NATSOr(service), Name: "metrics store", Log: log})
	if err != nil {
		return err
	}
	defer b.Close()
	parts := daemon.NewServices(ctx)
	at, err := startMetrics(parts, b, settings.Cluster, settings.Data, addr, log)
	if err != nil {
		return parts.Stop(err)
	}
	fmt.Fprintf(root.Stdout, "metrics of cluster %s: %s?bucket=APP, in line protocol\n", settings.Cluster, at)
	<-parts.Context().Done()
	return parts.Stop(nil)
}

// startMetrics opens the store of a data folder, answers for it on the bus, and lets
// applications write to it over HTTP. It returns where they do.
func startMetrics(parts *daemon.Services, b *bus.Bus, cluster, dir, addr string, log *slog.Logger) (string, error) {
	store, err := tsdbstore.Open(filepath.Join(dir, "metrics"), tsdbstore.Config{Log: log})
	if err != nil {
		return "", err
	}
	parts.Run("metrics store", func(ctx context.Context) error {
		return errors.Join(embedded.Serve(ctx, b.Conn(), cluster, store, log), store.Close())
	})
	handler, err := lineprotocol.New(store, lineprotocol.Config{Log: log})
	if err != nil {
		return "", err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("metrics over HTTP: %w; choose another address", err)
	}
	mux := http.NewServeMux()
	mux.Handle(lineprotocol.Path, handler)
	daemon.ServeHTTP(parts, "metrics over HTTP", listener, mux, log)
	return fmt.Sprintf("http://%s%s", listener.Addr(), lineprotocol.Path), nil
}
