package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/metrics/embedded/tsdbstore"
	"github.com/weirkeeper/weirkeeper/metrics/lineprotocol"
)

// metricsServeCommand owns the embedded store where no "weir up" does.
func (cli *cli) metricsServeCommand() *cobra.Command {
	var addr string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the embedded metrics store of a cluster, where there is no InfluxDB",
		Long: `Run the embedded metrics store of a cluster: pools without metrics.influx in their
weir.yaml read their windows from it, over NATS, and applications write to it over
HTTP, in line protocol. One process owns it; it keeps what it holds in the data
folder. "weir up" has one of its own.`,
		Example: `  weir metrics serve --cluster everywhere-prod --addr 127.0.0.1:8086`,
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			service, err := config.LoadService(cli.ConfigDir())
			if err != nil {
				return command.Usage(err)
			}
			return cli.serveMetrics(cmd.Context(), service, addr)
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:0", "where applications write metrics in line protocol; port 0 takes a free one")
	return cmd
}

func (cli *cli) serveMetrics(ctx context.Context, service config.Service, addr string) error {
	log, err := cli.Logger()
	if err != nil {
		return err
	}
	dir, err := cli.DataDir()
	if err != nil {
		return err
	}
	lock, err := daemon.Lock(dir, "metrics", "metrics store")
	if err != nil {
		return err
	}
	defer lock.Unlock()
	b, err := bus.Open(ctx, bus.Config{Data: dir, URL: cli.NATSOr(service), Name: "metrics store", Log: log})
	if err != nil {
		return err
	}
	defer b.Close()
	parts := daemon.NewServices(ctx)
	at, err := startMetrics(parts, b, cli.Cluster, dir, addr, log)
	if err != nil {
		return parts.Stop(err)
	}
	fmt.Fprintf(cli.Stdout, "metrics of cluster %s: %s?bucket=APP, in line protocol\n", cli.Cluster, at)
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
