package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
)

func (cli *cli) metricsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Write metrics",
		Args:  group,
		RunE:  help,
	}
	cmd.AddCommand(cli.metricsPutCommand())
	return cmd
}

func (cli *cli) metricsPutCommand() *cobra.Command {
	var app, at string
	cmd := &cobra.Command{
		Use:   "put NAME=VALUE [NAME=VALUE...]",
		Short: "Write values of an application's metrics, to be read by its signal",
		Example: `  weir metrics put --app web requests_per_second=120
  weir metrics put --app web --at 2026-01-02T15:04:05Z requests_per_second=90`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{fmt.Errorf("%s wants NAME=VALUE\nSee %q", cmd.CommandPath(), cmd.CommandPath()+" --help")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			samples, err := parseSamples(app, at, args, time.Now())
			if err != nil {
				return &usageError{err}
			}
			return cli.withBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				ctx, cancel := context.WithTimeout(ctx, askTimeout)
				defer cancel()
				if err := embedded.NewClient(b.Conn(), cli.cluster).Write(ctx, samples); err != nil {
					return err
				}
				fmt.Fprintf(cli.stdout, "%d values written for app %s\n", len(samples), app)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&app, "app", "", "application that the metrics belong to (required)")
	cmd.Flags().StringVar(&at, "at", "", "time of the values, RFC 3339 (default: now)")
	return cmd
}

func parseSamples(app, at string, args []string, now time.Time) ([]metrics.Sample, error) {
	if app == "" {
		return nil, fmt.Errorf("--app is missing: whose metrics are these?")
	}
	if at != "" {
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return nil, fmt.Errorf("--at %q: want a time such as 2026-01-02T15:04:05Z", at)
		}
		now = t
	}
	var out []metrics.Sample
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		value, err := strconv.ParseFloat(text, 64)
		if !ok || name == "" || err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
			return nil, fmt.Errorf("%q: want NAME=VALUE with a finite number", arg)
		}
		out = append(out, metrics.Sample{Type: metrics.App, Name: metrics.AppName(app, name), Time: now, Value: value})
	}
	return out, nil
}
