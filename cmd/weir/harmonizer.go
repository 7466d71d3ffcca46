package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/bulkapi"
	"github.com/weirkeeper/weirkeeper/harmonizer/natsbus"
	"github.com/weirkeeper/weirkeeper/harmonizer/rowfile"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/metrics"
)

func (cli *cli) harmonizerCommand() *cobra.Command {
	var file, metricsAddr string
	cmd := &cobra.Command{
		Use:   "harmonizer",
		Short: "Keep the applications of a cluster at their expected count",
		Long: `Keep the applications of a cluster at their expected count: compare what should
run (weir app set, a file, or a cloud controller's bulk API) with what nodes say
they run, and ask for starts and stops. "weir up" has one already.

Of several harmonizers of a cluster one acts; the others hear everything, and one
of them takes over when its lease ends. The file is harmonizer.yaml in the folder
of the configuration, else health_manager.yml; without one, defaults hold.`,
		Example: `  weir harmonizer --nats nats://127.0.0.1:4222 --cluster prod
  weir harmonizer --config health_manager.yml --metrics-addr 127.0.0.1:9464
  weir harmonizer record events.jsonl
  weir harmonizer replay events.jsonl --events`,
		Args: group,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.withBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				return cli.harmonize(ctx, b, file, metricsAddr)
			})
		},
	}
	configFlag(cmd, &file)
	cmd.Flags().StringVar(&metricsAddr, "metrics-addr", "", "where Prometheus reads /metrics, such as 127.0.0.1:9464; default: nowhere")
	cmd.AddCommand(cli.replayCommand(), cli.recordCommand(), cli.releaseCommand())
	return cmd
}

func configFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "config", "", "harmonizer.yaml, or a health_manager.yml; default: the one in --config-dir")
}

// harmonizerFile reads the file that was named, or that of the configuration's
// folder, and logs its keys that mean nothing here.
func (cli *cli) harmonizerFile(path string, log *slog.Logger) (config.Harmonizer, error) {
	read := func() (config.Harmonizer, config.Problems, error) { return config.LoadHarmonizer(cli.configs()) }
	if path != "" {
		read = func() (config.Harmonizer, config.Problems, error) { return config.ReadHarmonizer(path) }
	}
	file, warnings, err := read()
	if err != nil {
		return file, &usageError{err}
	}
	for _, w := range warnings {
		log.Warn("configuration", "of", w.Error())
	}
	return file, nil
}

func (cli *cli) harmonize(ctx context.Context, b *bus.Bus, path, metricsAddr string) error {
	log, err := cli.logger()
	if err != nil {
		return err
	}
	file, err := cli.harmonizerFile(path, log)
	if err != nil {
		return err
	}
	dir, err := cli.dataDir()
	if err != nil {
		return err
	}
	lock, err := daemon.LockHarmonizer(dir, cli.Cluster)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if file.MBus != "" && cli.NATS == "" {
		own, err := bus.Find(ctx, bus.Config{Data: dir, URL: file.MBus, Name: "weir harmonizer", Log: log})
		if err != nil {
			return fmt.Errorf("mbus: %w", err)
		}
		defer own.Close()
		b = own
	}
	store, err := cli.metricsStore(b)
	if err != nil {
		return err
	}
	parts := harmonizing{bus: b, file: file, loop: file.Loop(cli.Cluster, []string{cli.Pool}), store: store, log: log}
	if parts.holder, err = daemon.HolderName(dir, cli.Cluster, "harmonizer", ""); err != nil {
		return err
	}
	return cli.runHarmonizer(ctx, parts, metricsAddr)
}

// runHarmonizer has it run until ctx ends, and Prometheus read its metrics.
func (cli *cli) runHarmonizer(ctx context.Context, parts harmonizing, metricsAddr string) error {
	var prom net.Listener
	if metricsAddr != "" {
		var err error
		if prom, err = net.Listen("tcp", metricsAddr); err != nil {
			return fmt.Errorf("metrics for Prometheus: %w; choose another address", err)
		}
		defer prom.Close()
		parts.component.Host = daemon.Reachable(prom.Addr())
	}
	h, err := parts.wire(ctx)
	if err != nil {
		return err
	}
	services := daemon.NewServices(ctx)
	if prom != nil {
		if err := daemon.ServeProm(cli.stdout, services, prom, h.Collector(), parts.log); err != nil {
			return services.Stop(err)
		}
	}
	services.Run("harmonizer", h.Run)
	<-services.Context().Done()
	return services.Stop(nil)
}

// harmonizing is what a harmonizer is made of.
type harmonizing struct {
	bus    *bus.Bus
	file   config.Harmonizer
	loop   harmonizer.Config
	holder string            // of the lease
	store  metrics.Store     // nil: counts are not written
	record harmonizer.Record // nil: nothing is recorded
	// component is where collectors on the bus find our metrics, if anywhere.
	component natsbus.Component
	log       *slog.Logger
}

// wire returns the harmonizer. One in shadow mode holds nothing and keeps nothing.
func (p harmonizing) wire(ctx context.Context) (*harmonizer.Harmonizer, error) {
	nats, err := natsbus.NewBus(p.bus.Conn(), natsbus.Config{
		Cluster: p.loop.Cluster, Dialect: natsbus.Dialect(p.file.Dialect), Partition: p.file.Partition,
		FilterPartition: p.loop.Apps.Partition != "", Shadow: p.loop.Shadow, RequestTimeout: p.file.RequestTimeout(),
		Component: p.component,
	}, p.log)
	if err != nil {
		return nil, err
	}
	source, err := p.source(nats)
	if err != nil {
		return nil, err
	}
	ports := harmonizer.Ports{Bus: nats, Source: source, Record: p.record}
	if p.store != nil {
		ports.Metrics = p.store
	}
	if !p.loop.Shadow {
		lease, err := state.NewLease(p.bus.JetStream(), state.LeaseConfig{
			Cluster: p.loop.Cluster, Name: "harmonizer", Holder: p.holder, TTL: p.file.Lease, Log: p.log,
		})
		if err != nil {
			return nil, err
		}
		memory, err := state.OpenAppMemory(ctx, p.bus.JetStream(), lease, p.loop.Cluster)
		if err != nil {
			return nil, err
		}
		ports.Lease, ports.Memory = lease, memory
	}
	return harmonizer.New(p.loop, ports, p.log)
}

// source returns where the expected state comes from.
func (p harmonizing) source(nats *natsbus.Bus) (harmonizer.Source, error) {
	switch api := p.file.BulkAPI; {
	case api != nil:
		c := bulkapi.Config{
			Host: api.Host, BatchSize: int(api.BatchSize), User: api.User, RequestTimeout: api.PageTimeout(),
			ExpectedStateUpdate: p.file.ExpectedUpdate(), ExpectedStateLost: p.file.ExpectedLost(),
			Apps: map[string]bulkapi.Footprint{},
		}
		for id, a := range p.file.Apps {
			c.Apps[id] = bulkapi.Footprint{Pool: a.Pool, CPUs: a.CPUs, Disk: a.Disk}
		}
		if every := c.Apps[bulkapi.EveryApp]; every.Pool == "" && len(p.loop.Pools) > 0 {
			every.Pool = p.loop.Pools[0]
			c.Apps[bulkapi.EveryApp] = every
		}
		if api.PasswordFile != "" {
			password, err := os.ReadFile(api.PasswordFile)
			if err != nil {
				return nil, fmt.Errorf("bulk_api.password_file: %w", err)
			}
			c.Password = strings.TrimSpace(string(password))
		}
		return bulkapi.New(c, nats.Credentials, p.log)
	case p.file.Expected.File != "":
		return rowfile.New(rowfile.Config{Path: p.file.Expected.File, ValidFor: p.file.ExpectedLost()}, p.log)
	}
	return natsbus.NewRows(p.bus.Conn(), p.loop.Cluster, p.log)
}

func (cli *cli) releaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "release",
		Short: "End the brake that holds starts and stops after a mass loss",
		Long: `End the brake that holds starts and stops after a mass loss, for the instances that
are lost now; and the one that holds the stops of applications that have no row,
after very many rows were gone at once: they are stopped then. "weir app status"
says whether it holds, and why.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.withBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				answer, err := askOrder(ctx, b, cli.Cluster, harmonizer.Order{Op: harmonizer.OpRelease})
				if err != nil {
					return err
				}
				what := "the brake is released"
				if answer.Nothing {
					what = "nothing is held"
				}
				fmt.Fprintln(cli.stdout, what)
				return nil
			})
		},
	}
}

// errRefused: the harmonizer does not do what it was asked for.
var errRefused = errors.New("the harmonizer refuses")
