package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/windowtrial"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	metricsstore "github.com/weirkeeper/weirkeeper/metrics/store"
)

func (cli *metricsCommands) tryCommand() *cobra.Command {
	var app string
	cmd := &cobra.Command{
		Use:   "try [FILE]",
		Short: "Read each required metric of a pool now, as its signals would",
		Long: `Read each required metric of a pool now, as its signals would receive it, and print its
series, how many points are missing between the oldest and the newest, the age of the newest,
and how long the request took.
FILE is a pool's file; without it, that of the pool in the configuration folder. The sources
are those of weir.yaml in the configuration folder. The bus is used only for metrics of the
pool's own store. Nothing is changed.

The exit code is 0 if each signal could be evaluated, and 1 if a window is unknown or stale.`,
		Example: `  weir metrics try --pool web
  weir metrics try web.yaml --config-dir ./config --app shop
  weir metrics try web.yaml --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage.New(fmt.Errorf("%s requires one FILE, not %d\nSee %q", cmd.CommandPath(), len(args), cmd.CommandPath()+" --help"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			service, pool, err := cli.files(args)
			if err != nil {
				return usage.New(err)
			}
			trial, err := windowtrial.New(service, pool, app)
			if err != nil {
				return usage.New(err)
			}
			return cli.tryMetrics(cmd.Context(), trial)
		},
	}
	cmd.Flags().StringVar(&app, "app", "", "only the metrics of this app")
	cli.OutputFlag(cmd)
	return cmd
}

// files returns the service file and the pool's file.
func (cli *metricsCommands) files(args []string) (config.Service, config.Pool, error) {
	configs, _ := cli.RunningConfigs()
	if len(args) == 0 {
		return config.Load(configs, cli.Cluster, cli.Pool)
	}
	return config.LoadAt(configs, args[0], cli.Cluster, cli.Pool)
}

// tryMetrics tries the windows, and prints them.
func (cli *metricsCommands) tryMetrics(ctx context.Context, trial *windowtrial.Trial) error {
	if !trial.NeedsStore() {
		return cli.printTrials(trial.Run(ctx, nil))
	}
	return cli.WithBus(ctx, func(ctx context.Context, b *bus.Bus) error {
		own, err := cli.MetricsStore(b, metricsstore.OperatorWriter)
		if err != nil {
			return err
		}
		return cli.printTrials(trial.Run(ctx, own))
	})
}

func (cli *metricsCommands) printTrials(trials []api.MetricTrial) error {
	if cli.Output == "json" {
		if err := cli.PrintJSON(trials); err != nil {
			return err
		}
	} else {
		cli.PrintTable([]string{"app", "metric", "source", "took", "series", "points", "gaps", "age", "last value"}, trialRows(trials, time.Now()))
	}
	bad := 0
	for _, one := range trials {
		if one.Problem == "" {
			continue
		}
		if bad++; cli.Output != "json" {
			fmt.Fprintf(cli.Stdout, "%s of %s: %s\n", one.Metric, one.App, one.Problem)
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d windows are unknown or stale: signals that need them are not evaluated", bad, len(trials))
	}
	return nil
}

// maxShownSeries bounds the rows of a metric in the table.
const maxShownSeries = 10

func trialRows(trials []api.MetricTrial, now time.Time) (rows [][]string) {
	for _, one := range trials {
		first := []string{one.App, one.Metric, cell.OrDash(one.Source), seconds.Short(one.Took.Round(time.Millisecond))}
		if len(one.Series) == 0 {
			rows = append(rows, append(first, "none", "-", "-", "-", "-"))
		}
		for i, s := range one.Series {
			if i == maxShownSeries {
				rows = append(rows, append(first, fmt.Sprintf("and %d more", len(one.Series)-i), "", "", "", ""))
				break
			}
			gaps := "-"
			if s.Gaps != nil {
				gaps = fmt.Sprint(*s.Gaps)
			}
			rows = append(rows, append(slices.Clone(first), s.Name, fmt.Sprint(s.Points), gaps, seconds.Short(now.Sub(s.Newest).Round(time.Second)), explain.Number(s.Last)))
		}
	}
	return rows
}
