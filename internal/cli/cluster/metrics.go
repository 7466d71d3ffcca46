package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/backfill"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/metrics/lineprotocol"
	"github.com/weirkeeper/weirkeeper/metrics/record"
	metricsstore "github.com/weirkeeper/weirkeeper/metrics/store"
)

// metricsCommands are "weir metrics".
type metricsCommands struct{ *connect.CLI }

func (cli *metricsCommands) metricsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Write and read metrics of applications",
		Example: `  weir metrics put --app web requests_per_second=120
  weir metrics get --app web requests_per_second`,
		Args: command.Group,
		RunE: command.Help,
	}
	cmd.AddCommand(cli.putCommand(), cli.getCommand(), cli.tryCommand(), cli.importCommand(), command.MetricsServe(func(context.Context, command.MetricsOptions) error {
		return command.ReplaceWithLocal("weir metrics serve")
	}))
	return cmd
}

func (cli *metricsCommands) putCommand() *cobra.Command {
	var app, at string
	cmd := &cobra.Command{
		Use:   "put NAME=VALUE [NAME=VALUE...]",
		Short: "Write values of metrics of an application",
		Example: `  weir metrics put --app web requests_per_second=120
  weir metrics put --app web --at 2026-01-02T15:04:05Z requests_per_second=90`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage.New(fmt.Errorf("%s requires NAME=VALUE\nSee %q", cmd.CommandPath(), cmd.CommandPath()+" --help"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			samples, err := parseSamples(app, at, args, time.Now())
			if err != nil {
				return usage.New(err)
			}
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				ctx, cancel := context.WithTimeout(ctx, view.Timeout)
				defer cancel()
				store, err := cli.MetricsStore(b, metricsstore.OperatorWriter)
				if err != nil {
					return err
				}
				dropped, err := put(ctx, store, samples)
				if err != nil {
					return err
				}
				if dropped > 0 {
					return fmt.Errorf("%d of %d values are not kept: they are older than the store keeps values, or their time was rewritten too often", dropped, len(samples))
				}
				fmt.Fprintf(cli.Stdout, "%d values written for app %s\n", len(samples), app)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&app, "app", "", "application that the metrics belong to (required)")
	cmd.Flags().StringVar(&at, "at", "", "time of the values, such as 03:10, 2026-01-02T03:10:00Z or, for 90 minutes ago, 90m (default: now)")
	return cmd
}

func parseSamples(app, at string, args []string, now time.Time) ([]metrics.Sample, error) {
	if app == "" {
		return nil, errors.New("--app is missing: name the application of the metrics")
	}
	if !names.Valid(app) {
		return nil, fmt.Errorf("--app %q: %s", app, names.Rule)
	}
	if at != "" {
		t, err := command.ParseTime(at, now)
		if err != nil {
			return nil, fmt.Errorf("--at %.80q: %w", at, err)
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

// wantedMetrics are what "weir metrics get" requests.
type wantedMetrics struct {
	names  []string
	app    string
	kind   string
	window time.Duration
	regex  bool
}

func (cli *metricsCommands) getCommand() *cobra.Command {
	w := wantedMetrics{kind: string(metrics.App)}
	cmd := &cobra.Command{
		Use:   "get NAME...",
		Short: "Read windows of metrics, as a signal receives them",
		Long: `Read windows of metrics, as a signal receives them. --output json writes one series on
a line. "weir signal run --local", "test" and "bench" read these lines with --metrics.`,
		Example: `  weir metrics get --app web requests_per_second
  weir metrics get --app web --regex '^web,http_' --range 1h --output json > windows.jsonl
  weir metrics get --type system_metrics cpus_allocated mem_allocated`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage.New(fmt.Errorf("%s requires the name of a metric\nSee %q", cmd.CommandPath(), cmd.CommandPath()+" --help"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			w.names = args
			queries, err := w.queries(cli.Cluster, cli.Pool, time.Now())
			if err != nil {
				return usage.New(err)
			}
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.getMetrics(ctx, b, queries) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&w.app, "app", "", "application that the metrics belong to")
	f.StringVar(&w.kind, "type", w.kind, "app_metrics, system_metrics, metadata or instance_counts")
	command.DurationVar(f, &w.window, "range", 20*time.Minute, "length of the window before now")
	f.BoolVar(&w.regex, "regex", false, "NAME is a regular expression, matched against the stored keys \"APP,NAME|DIMENSIONS\"")
	cli.FormFlag(cmd, command.FormTable, command.FormJSON) // the lines are a file format
	return cmd
}

func (w wantedMetrics) queries(cluster, pool string, now time.Time) ([]metrics.Query, error) {
	kind := metrics.Type(w.kind)
	switch {
	case !slices.Contains(metrics.Types(), kind):
		return nil, fmt.Errorf("--type %q: want one of %v", w.kind, metrics.Types())
	case kind == metrics.App && w.app == "":
		return nil, errors.New("--app is missing: name the application of the metrics")
	case kind == metrics.App && metrics.CheckApp(w.app) != nil:
		return nil, fmt.Errorf("--app: %w", metrics.CheckApp(w.app))
	case w.window <= 0:
		return nil, fmt.Errorf("--range %s: want more than 0", seconds.Short(w.window))
	}
	var queries []metrics.Query
	for _, name := range w.names {
		q := metrics.Query{Type: kind, Name: name, From: now.Add(-w.window), To: now, Regex: w.regex}
		switch {
		case w.regex:
			q.Prefix = metrics.AppName(w.app, "")
			if _, err := q.Pattern(); err != nil {
				return nil, fmt.Errorf("%q: %w", name, err)
			}
		case kind == metrics.App:
			q.Name = metrics.AppName(w.app, name)
		default:
			q.Dimensions = metrics.Dimensions{"cluster": cluster, "pool": pool}
			if w.app != "" {
				q.Dimensions["app"] = w.app
			}
		}
		queries = append(queries, q)
	}
	return queries, nil
}

// put writes samples. It returns the number of samples that were too old, if the store
// reports it.
func put(ctx context.Context, store metrics.Store, samples []metrics.Sample) (dropped int, err error) {
	if client, ok := store.(*embedded.Client); ok {
		return client.Put(ctx, samples)
	}
	return 0, store.Write(ctx, samples)
}

func (cli *metricsCommands) importCommand() *cobra.Command {
	c := backfill.Config{Precision: "ns"}
	cmd := &cobra.Command{
		Use:   "import [FILE]",
		Short: "Write the metrics of a file, also old ones",
		Long: `Write the metrics of a file, also old ones, to the metrics store. FILE has line protocol,
or what "weir metrics get --output json" writes. It may be gzip. Without FILE, or with -,
standard input is read.

A bad line costs that line: standard error names its number and the reason. So does a value
that is older than the store keeps values. Ctrl-C ends the import: what was written stays.
To import a file again does no harm. The exit code is 0 if all was written, and 1 if not.`,
		Example: `  weir metrics import --app web --precision s requests.lp
  weir metrics get --app web --range 24h requests --output json | gzip > day.jsonl.gz
  weir metrics import day.jsonl.gz
  influx query --raw "$QUERY" | to-line-protocol | weir metrics import --output json -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage.New(fmt.Errorf("%s requires one FILE, not %d\nSee %q", cmd.CommandPath(), len(args), cmd.CommandPath()+" --help"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Now, c.Timeout = time.Now(), cli.Timeout
			if _, err := lineprotocol.NewLines(c.App, c.Precision, c.Now); err != nil {
				return usage.New(fmt.Errorf("--app %q, --precision %q: %w", c.App, c.Precision, err))
			}
			in, err := cli.Input(args...)
			if err != nil {
				return err
			}
			defer in.Close() // only read
			return cli.OnBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.importMetrics(ctx, b, in, c) })
		},
	}
	cmd.Flags().StringVar(&c.App, "app", "", "application of lines without the tag \"app\"")
	cmd.Flags().StringVar(&c.Precision, "precision", c.Precision, "unit of the timestamps of line protocol: ns, us, ms or s")
	cli.OutputFlag(cmd)
	return cmd
}

// progressEvery is the time between two lines about a long import.
const progressEvery = 2 * time.Second

func (cli *metricsCommands) importMetrics(ctx context.Context, b *bus.Bus, in io.Reader, c backfill.Config) error {
	store, err := cli.MetricsStore(b, metricsstore.OperatorWriter)
	if err != nil {
		return err
	}
	shown := time.Now()
	c.Progress = func(r backfill.Result) {
		if time.Since(shown) >= progressEvery {
			shown = time.Now()
			fmt.Fprintf(cli.Stderr, "weir: line %d, %d values written, %d refused\n", r.Lines, r.Written, r.Refused)
		}
	}
	r, err := backfill.Run(ctx, counting{store}, in, c)
	if cli.Output == "json" {
		if err := cli.PrintJSON(r); err != nil {
			return err
		}
	} else {
		for _, p := range r.Problems {
			fmt.Fprintf(cli.Stderr, "weir: line %d: %s\n", p.Line, p.Reason)
		}
		fmt.Fprintf(cli.Stdout, "%d values written, %d refused, of %d lines\n", r.Written, r.Refused, r.Lines)
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted after line %d: %d values were written, and %d more may be; to import the file again does no harm", r.Lines, r.Written, r.Unsure)
	case err != nil:
		return fmt.Errorf("import metrics: %w; %d values were written, and %d more may be; to import the file again does no harm", err, r.Written, r.Unsure)
	case r.Refused > 0:
		return fmt.Errorf("%d of %d values are refused", r.Refused, r.Refused+r.Written)
	case r.Written == 0:
		return errors.New("the input has no metric")
	}
	return nil
}

// counting is a store that returns how many samples it dropped, as far as it can.
type counting struct{ metrics.Store }

// Put implements backfill.Store.
func (c counting) Put(ctx context.Context, samples []metrics.Sample) (dropped int, err error) {
	return put(ctx, c.Store, samples)
}

// windowTimeout bounds the reading of all windows that a command requests.
const windowTimeout = 10 * time.Second

func (cli *metricsCommands) getMetrics(ctx context.Context, b *bus.Bus, queries []metrics.Query) error {
	ctx, cancel := context.WithTimeout(ctx, windowTimeout)
	defer cancel()
	client, err := cli.MetricsStore(b, metricsstore.OperatorWriter)
	if err != nil {
		return err
	}
	out := record.NewWriter(cli.Stdout)
	var rows [][]string
	for _, q := range queries {
		found, err := client.Window(ctx, q)
		if err != nil {
			return fmt.Errorf("%s: %w", q.Name, err)
		}
		if len(found) == 0 {
			fmt.Fprintf(cli.Stderr, "weir: no series %s of type %s in this time\n", q.Name, q.Type)
		}
		for _, s := range found {
			if cli.Output == "json" {
				if err := out.Write(record.Series{Type: q.Type, Series: s}); err != nil {
					return err
				}
				continue
			}
			rows = append(rows, seriesRow(s))
		}
	}
	if cli.Output != "json" {
		cli.PrintTable([]string{"series", "points", "oldest", "newest", "last value"}, rows)
	}
	return nil
}

func seriesRow(s metrics.Series) []string {
	row := []string{metrics.Key(s.Name, s.Dimensions), fmt.Sprint(len(s.Times)), "-", "-", "-"}
	if n := len(s.Times); n > 0 {
		row[2], row[3] = explain.Time(time.Unix(s.Times[0], 0)), explain.Time(time.Unix(s.Times[n-1], 0))
		row[4] = explain.Number(s.Values[n-1])
	}
	return row
}
