package command

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
)

// UpOptions are the flags of "weir up".
type UpOptions struct {
	PoolFile    string
	BucketAddr  string
	NoBucket    bool
	MetricsAddr string
}

// Up returns "weir up", which run runs.
func Up(run func(ctx context.Context, o UpOptions) error) *cobra.Command {
	var o UpOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything on this machine: bus, bucket, metrics, machines, applications, one pool",
		Long: `Run everything on this machine, below one data folder: a NATS bus, an S3 bucket
with one published signal release, a metrics store, the harmonizer, a pool of two
groups whose machines are processes, and the pool's bootstrap with its signals
and its autoscaler. One line tells of each tick. Ctrl-C ends all of it.`,
		Example: `  weir up
  weir up --data /tmp/weir
  weir up --pool-file pool.yaml   # followed: edit it while all runs
  weir up --no-bucket      # the bucket is away: releases come from the cache`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("config-dir") {
				return Usage(errors.New("weir up writes a configuration of its own, below the data folder: give it a pool file with --pool-file, or run weir bootstrap with --config-dir"))
			}
			return run(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.PoolFile, "pool-file", "", "pool file to use in place of the built-in one; its changes are followed")
	cmd.Flags().StringVar(&o.BucketAddr, "bucket-addr", "127.0.0.1:0", "where the bucket listens; port 0 takes a free one")
	cmd.Flags().StringVar(&o.MetricsAddr, "metrics-addr", "127.0.0.1:0", "where applications write metrics in line protocol; port 0 takes a free one")
	cmd.Flags().BoolVar(&o.NoBucket, "no-bucket", false, "do not start the bucket")
	return cmd
}

// MetricsOptions are the flags of "weir metrics serve".
type MetricsOptions struct {
	Addr      string
	TokenFile string // empty: writers need no token
	Retention time.Duration
}

// MetricsServe returns "weir metrics serve", which owns the embedded store where no
// "weir up" does. run runs it.
func MetricsServe(run func(ctx context.Context, o MetricsOptions) error) *cobra.Command {
	var o MetricsOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the embedded metrics store of a cluster, where there is no InfluxDB",
		Long: `Run the embedded metrics store of a cluster: pools without metrics.influx in their
weir.yaml read their windows from it, over NATS, and applications write to it over
HTTP, in line protocol. One process owns it; it keeps what it holds in the data
folder. "weir up" has one of its own.

An address that other hosts reach needs --token-file: a writer sends the text of that file,
as InfluxDB's clients do ("Authorization: Token TEXT").`,
		Example: `  weir metrics serve --cluster everywhere-prod --addr 127.0.0.1:8086
  weir metrics serve --addr 10.0.0.7:8086 --token-file /etc/weir/metrics.token --retention 2160h`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.TokenFile, "token-file", "", "file with the token that writers send (default: none is needed)")
	cmd.Flags().DurationVar(&o.Retention, "retention", 31*24*time.Hour, "how long values are kept, at least 2h; a value that comes late is put in its place")
	cmd.Flags().StringVar(&o.Addr, "addr", "127.0.0.1:0", "where applications write metrics in line protocol; port 0 takes a free one")
	return cmd
}
