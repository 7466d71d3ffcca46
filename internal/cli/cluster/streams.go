package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

func (cli *natsCommands) streamsCommand() *cobra.Command {
	var pools, remove []string
	cmd := &cobra.Command{
		Use:   "streams",
		Short: "Create the missing streams and buckets of a cluster and its pools",
		Long: `Create the missing streams and buckets of a cluster and its pools. Run it before the first
daemon of a cluster, for each new pool, and after the NATS servers have lost their disks:
daemons create nothing, and wait. The pools are those that you name, and those with a
file in --config-dir, whose block "ledger" bounds the recorded ticks. The command changes
and deletes nothing that exists, and prints how the settings of existing streams differ.
Change them with "nats stream edit" or "weir doctor --fix". The command needs the
credentials of role admin.

With --remove-pool it creates nothing. It deletes the streams and buckets of pools that
"weir nats init --remove-pool" has taken away, with all that they store: the ticks, the
orders and the state of the pool.`,
		Example: `  weir nats streams --cluster prod --config-dir /etc/weir
  weir nats streams --cluster prod --pool web,batch --output json
  weir nats streams --cluster prod --remove-pool batch`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(remove) > 0 {
				c, err := cli.streamsOfNone(pools, remove)
				if err != nil {
					return usage.New(err)
				}
				return cli.AsAdmin(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.removeStreams(ctx, b, c) })
			}
			c, err := cli.streamsOf(pools)
			if err != nil {
				return usage.New(err)
			}
			return cli.AsAdmin(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.createStreams(ctx, b, c) })
		},
	}
	cmd.Flags().StringSliceVar(&pools, "pool", nil, "pools beside those with a file in --config-dir")
	cmd.Flags().StringSliceVar(&remove, "remove-pool", nil, "pools without a file, whose streams are deleted")
	cli.OutputFlag(cmd)
	return cmd
}

// streamsOfNone returns the cluster with these pools, which must have no file.
func (cli *natsCommands) streamsOfNone(also, pools []string) (c streams.Cluster, err error) {
	if len(also) > 0 {
		return c, errors.New("--pool and --remove-pool exclude each other")
	}
	dir := cli.ConfigDir()
	files, err := config.Pools(dir, cli.Cluster)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	c.Name = cli.Cluster
	for _, name := range pools {
		if slices.Contains(files, name) {
			return c, fmt.Errorf("pool %s has a file in %s: stop its daemons and remove the file first", name, dir)
		}
		c.Pools = append(c.Pools, streams.Pool{Name: name})
	}
	return c, c.Validate()
}

func (cli *natsCommands) removeStreams(ctx context.Context, b *bus.Bus, c streams.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(c.Specs()))*cli.Timeout)
	defer cancel()
	removed, err := streams.Remove(ctx, b.JetStream(), c.Name, c.Pools...)
	if cli.Output == "json" {
		return errors.Join(err, cli.PrintJSON(append([]string{}, removed...)))
	}
	for _, name := range removed {
		fmt.Fprintln(cli.Stdout, name)
	}
	fmt.Fprintf(cli.Stdout, "%d streams deleted\n", len(removed))
	return err
}

// streamsOf returns the cluster with these pools, and those with a file.
func (cli *natsCommands) streamsOf(pools []string) (c streams.Cluster, err error) {
	c.Name = cli.Cluster
	dir := cli.ConfigDir()
	files, err := config.Pools(dir, cli.Cluster)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	all := slices.Concat(pools, files)
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		p := streams.Pool{Name: name}
		if slices.Contains(files, name) {
			_, pool, err := config.Load(dir, cli.Cluster, name)
			if err != nil {
				return c, err
			}
			p = pool.Streams()
		}
		c.Pools = append(c.Pools, p)
	}
	if len(c.Pools) == 0 {
		return c, fmt.Errorf("cluster %s has no pool in %s: name the pools with --pool, or the folder of their files with --config-dir", cli.Cluster, dir)
	}
	return c, c.Validate()
}

func (cli *natsCommands) createStreams(ctx context.Context, b *bus.Bus, c streams.Cluster) error {
	c.Replicas = b.Replicas()
	specs := c.Specs()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(specs))*cli.Timeout)
	defer cancel()
	results, err := streams.Create(ctx, b.JetStream(), specs)
	if cli.Output == "json" {
		return errors.Join(err, cli.PrintJSON(append([]streams.Result{}, results...)))
	}
	cli.printStreams(results)
	return err
}

func (cli *natsCommands) printStreams(results []streams.Result) {
	var rows [][]string
	made := 0
	for _, r := range results {
		switch {
		case r.Made:
			made++
			rows = append(rows, []string{"created", r.Name, ""})
		case len(r.Differs) > 0:
			rows = append(rows, []string{"differs", r.Name, strings.Join(r.Differs, ", ")})
		}
	}
	if len(rows) > 0 {
		cli.PrintTable([]string{"result", "stream", "settings"}, rows)
	}
	fmt.Fprintf(cli.Stdout, "%d streams created, %d existed\n", made, len(results)-made)
}
