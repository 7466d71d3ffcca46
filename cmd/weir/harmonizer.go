package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/natsbus"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/metrics"
)

func (cli *cli) harmonizerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "harmonizer",
		Short: "Keep the applications of a cluster at their expected count",
		Long: `Keep the applications of a cluster at their expected count: compare what should
run (weir app set) with what nodes say they run, and ask for starts and stops.
"weir up" has one already.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cli.withBus(cmd.Context(), cli.harmonize) },
	}
}

func (cli *cli) harmonize(ctx context.Context, b *bus.Bus) error {
	log, err := cli.logger()
	if err != nil {
		return err
	}
	dir, err := cli.dataDir()
	if err != nil {
		return err
	}
	lock, err := lockHarmonizer(dir, cli.cluster)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	store, err := cli.metricsStore(b)
	if err != nil {
		return err
	}
	h, err := newHarmonizer(b, harmonizer.Config{Cluster: cli.cluster, Pools: []string{cli.pool}}, store, log)
	if err != nil {
		return err
	}
	return h.Run(ctx)
}

// newHarmonizer wires a harmonizer to what runs on this bus.
func newHarmonizer(b *bus.Bus, c harmonizer.Config, store metrics.Store, log *slog.Logger) (*harmonizer.Harmonizer, error) {
	rows, err := natsbus.NewRows(b.Conn(), c.Cluster, log)
	if err != nil {
		return nil, err
	}
	nats, err := natsbus.NewBus(b.Conn(), natsbus.Config{Cluster: c.Cluster}, log)
	if err != nil {
		return nil, err
	}
	return harmonizer.New(c, harmonizer.Ports{Bus: nats, Source: rows, Metrics: store}, log)
}
