package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

func (cli *commands) initCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "init FILE",
		Short: "Write a scenario from the past of a pool",
		Long: `Write a scenario from the past of a pool. FILE gets the machines of each group, with the launch times, drains
and interruptions that the records show. The file beside it, with the ending .csv, gets what the signals
requested. The command overwrites no file and changes nothing else.

Before the records that the pool still has, the summaries of its ticks do: they have the requests of months, and no
machines. A file may have them too, as "weir explain --since 30d --summary --output json" prints them. Of summaries
alone each group has the mean machine of the pool, and the file says what to fill in.

The market of a group is that of most of its machines. Where the records have the cost of the pool, the file with
the ending -prices.csv gets the prices.`,
		Example: `  weir simulate init night.yaml --since 24h
  weir simulate init quarter.yaml --from default --since 90d`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := command.OneArg("scenario file")(cmd, args); err != nil || f.from == "" {
				return err
			}
			if isFile(f.from) {
				f.file = f.from
				return nil
			}
			return cli.UsePool(cmd, f.from)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return cli.init(cmd.Context(), args[0], f) },
	}
	cmd.Flags().StringVar(&f.from, "from", "", "the `POOL`, or a file of records (default: the pool of --pool)")
	command.SinceVar(cmd.Flags(), &f.since, "since", time.Hour, "ticks since then")
	return cmd
}

func (cli *commands) init(ctx context.Context, path string, f flags) error {
	base := strings.TrimSuffix(path, filepath.Ext(path))
	demand, prices := base+".csv", base+"-prices.csv"
	for _, one := range []string{path, demand, prices} {
		if _, err := os.Lstat(one); !errors.Is(err, fs.ErrNotExist) {
			return usage.New(fmt.Errorf("write %s: it exists; give another name", one))
		}
	}
	p, err := readDemand(ctx, cli.CLI, f.file, f.since)
	if err != nil {
		return err
	}
	series, err := p.Series()
	if err != nil {
		return err
	}
	configs, _ := cli.RunningConfigs()
	pool, err := filepath.Abs(filepath.Join(configs, cli.Cluster, cli.Pool+".yaml"))
	if err != nil {
		return err
	}
	if dir, err := filepath.Abs(filepath.Dir(path)); err == nil {
		if near, err := filepath.Rel(dir, pool); err == nil {
			pool = near
		}
	}
	groups := p.Groups()
	table := priceTable(groups)
	priced := filepath.Base(prices)
	if table == nil {
		priced = ""
	}
	var scenario bytes.Buffer
	writeScenario(&scenario, &p.Recording, groups, pool, filepath.Base(demand), priced)
	var points bytes.Buffer
	if err := series.WriteCSV(&points); err != nil {
		return err
	}
	if table != nil {
		err = writeNew(prices, table)
	}
	if err := errors.Join(err, writeNew(demand, points.Bytes()), writeNew(path, scenario.Bytes())); err != nil {
		return err
	}
	fmt.Fprintf(cli.Stdout, "%s and %s are written\n", path, demand)
	for _, note := range notes(p.Notes(), p.unreadable) {
		fmt.Fprintln(cli.Stdout, note)
	}
	return nil
}

func writeNew(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// priceTable returns the known prices of the groups' markets as a CSV; nil: none is known.
func priceTable(groups []simulate.RecordedGroup) []byte {
	out, seen := bytes.NewBufferString("type,zone,spot,price\n"), map[string]bool{}
	for _, g := range groups {
		for _, p := range g.Prices {
			if !seen[p.String()] {
				seen[p.String()] = true
				fmt.Fprintf(out, "%s,%s,%v,%.6g\n", p.Type, p.Zone, p.Spot, p.Hour)
			}
		}
	}
	if len(seen) == 0 {
		return nil
	}
	return out.Bytes()
}

// writeScenario writes a scenario in the form of docs/simulate.md.
func writeScenario(to io.Writer, r *simulate.Recording, groups []simulate.RecordedGroup, pool, demand, prices string) {
	from, end := r.Span()
	fmt.Fprintf(to, `# From the records of %s to %s.
simulate:
  pool: %q
  start: %s
  duration: %v
  seed: 1
demand:
  series: {file: %q, between: step}
  linger: %v   # median of the recorded drains
groups:
`, stamp(from), stamp(end), pool, stamp(from), max(time.Second, end.Sub(from).Round(time.Second)), demand, seconds.Short(r.Linger()))
	for _, g := range groups {
		others, lost := "", ""
		if g.Markets > 1 {
			others = fmt.Sprintf("   # most machines; all are in %d markets", g.Markets)
		}
		if g.Lost > 0 {
			lost = fmt.Sprintf("   # lost on-demand machines: %d", g.Lost)
		}
		fmt.Fprintf(to, `  %q:
    market: {type: %q, zone: %q, spot: %v}%s
    machine: {%s}
    weight: %v
    min: %d
    max: %d
    target: %d
    launch: {p50: %s, p95: %s}   # of %d launches
    leave: %s
    interruptions: {per_hour: %.6g}%s
`, g.ID, g.Market.Type, g.Market.Zone, g.Market.Spot, others, machineText(g.Machine), g.Weight, g.Min, g.Max, g.Target, seconds.Short(g.Launch.P50), seconds.Short(g.Launch.P95), len(g.Launches), seconds.Short(g.Leave), g.Interruptions, lost)
	}
	if prices != "" {
		fmt.Fprintf(to, "prices: {table: %q}\n", prices)
		return
	}
	fmt.Fprint(to, "# prices: {table: prices.csv}   # CSV with the columns type, zone, spot and price\n")
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func machineText(v resource.Vector) string {
	var all []string
	for _, k := range resource.Kinds() {
		all = append(all, fmt.Sprintf("%s: %v", k, v[k]))
	}
	return strings.Join(all, ", ")
}
