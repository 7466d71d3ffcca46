package command

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// UpOptions are the flags of "weir up".
type UpOptions struct {
	PoolFile    string
	BucketAddr  string
	NoBucket    bool
	MetricsAddr string
	WebAddr     string // of the dashboard; "off": none
	AdminAddr   string // of the admin server of bootstrap; "off": none
	Prometheus  string // URL of a source of windows, by the name "prometheus"; empty: none
	Sources     string // file with the block "sources" of weir.yaml; empty: none
}

// Up returns the command "weir up", implemented by run.
func Up(run func(ctx context.Context, o UpOptions) error) *cobra.Command {
	var o UpOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything on this machine, with one pool: for a trial",
		Long: `Run everything on this machine, below one data folder: a NATS bus, an S3 bucket
with one published signal release, a metrics store, and the harmonizer. A pool of
two groups has processes as machines. Its bootstrap runs the signals and the
autoscaler. A tick prints one line if it changed something. Ctrl-C stops everything.

The line "dashboard" has a link for a browser. Its token admits this user only.`,
		Example: `  weir up
  weir up --data /tmp/weir
  weir up --pool-file pool.yaml   # changes of the file apply at once
  weir up --admin-addr 127.0.0.1:9463   # metrics for Prometheus
  weir up --prometheus http://127.0.0.1:9090 --pool-file pool.yaml
  weir up --no-bucket      # without a bucket: releases come from the cache`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("config-dir") {
				return usage.New(errors.New("weir up writes its own configuration below the data folder: give a pool file with --pool-file, or run weir bootstrap with --config-dir"))
			}
			return run(cmd.Context(), o)
		},
	}
	IgnoreContext(cmd)
	cmd.Flags().StringVar(&o.PoolFile, "pool-file", "", "pool file that replaces the built-in one; changes apply after a second")
	o.BucketAddr = "127.0.0.1:0"
	cmd.Flags().Var(address{&o.BucketAddr, "127.0.0.1:0", false}, "bucket-addr", "address of the bucket; port 0 means a free port")
	cmd.Flags().StringVar(&o.MetricsAddr, "metrics-addr", "127.0.0.1:0", "address for writes in line protocol; port 0 means a free port")
	o.WebAddr = "127.0.0.1:0"
	cmd.Flags().Var(address{&o.WebAddr, "127.0.0.1:9480", true}, "web-addr", "address of the dashboard and the HTTP API, or off; port 0 means a free port")
	o.AdminAddr = adminOff
	cmd.Flags().Var(address{&o.AdminAddr, "127.0.0.1:9463", true}, "admin-addr", "address of /metrics of the trial: bootstrap, autoscaler, node health, harmonizer and placer; or off; port 0 means a free port")
	cmd.Flags().StringVar(&o.Prometheus, "prometheus", "", "URL of a Prometheus, which metrics of the pool file name as \"source: prometheus\"")
	cmd.Flags().StringVar(&o.Sources, "sources", "", "`FILE` with the blocks sources and telemetry of weir.yaml, and absolute paths in it")
	cmd.Flags().BoolVar(&o.NoBucket, "no-bucket", false, "do not start the bucket")
	return cmd
}

// MetricsOptions are the flags of "weir metrics serve".
type MetricsOptions struct {
	Addr      string
	TokenFile string        // empty: MetricsToken
	Retention time.Duration // 0: that of weir.yaml
	AdminAddr string        // empty: that of weir.yaml
}

// MetricsServe returns the command "weir metrics serve", implemented by run. It runs the embedded store without "weir
// up".
func MetricsServe(run func(ctx context.Context, o MetricsOptions) error) *cobra.Command {
	var o MetricsOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the embedded metrics store of a cluster without InfluxDB",
		Long: `Run the embedded metrics store of a cluster. Pools without metrics.influx in their
weir.yaml read their windows from it over NATS. Applications write to it over HTTP,
in line protocol. One process owns the store; its data is in the data folder.
"weir up" runs its own store.

A writer over HTTP sends a token, as InfluxDB's clients do ("Authorization: Token TEXT"): the
content of --token-file, or else of metrics.token in the data folder, which only this user
can read. An address that other hosts reach needs --token-file. "weir metrics put" needs no token.`,
		Example: `  weir metrics serve --cluster everywhere-prod --addr 127.0.0.1:8086
  weir metrics serve --addr 10.0.0.7:8086 --token-file /etc/weir/metrics.token --retention 2160h`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.TokenFile, "token-file", "", "file with the token that writers send (default: metrics.token in the data folder, created if missing)")
	AdminFlag(cmd, &o.AdminAddr, "127.0.0.1:9468")
	DurationVar(cmd.Flags(), &o.Retention, "retention", 0, "how long values are stored, at least 2h (default: metrics.embedded.retention of weir.yaml, else 744h)")
	cmd.Flags().StringVar(&o.Addr, "addr", "127.0.0.1:0", "address for writes in line protocol; port 0 means a free port")
	return cmd
}
