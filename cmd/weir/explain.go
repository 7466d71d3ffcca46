package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/explain"
	"github.com/weirkeeper/weirkeeper/internal/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/recompute"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

func (cli *poolCommands) explainCommand() *cobra.Command {
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "explain [POOL]",
		Short: "Explain the last tick of a pool",
		Long: `Explain the last tick of a pool: the response of each signal, how the responses were
combined, how each rule changed the target, the target of each group, and the requests
to the provider.

The command prints the record of the tick in the ledger. --output json prints the
record itself, on one line, as "weir decide" reads it.`,
		Example: `  weir explain
  weir explain default --output json
  weir explain --since 1h --output json | weir decide`,
		Args: cli.poolArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if since < 0 {
				return command.Usage(fmt.Errorf("--since %v: want a positive duration, such as 5m", since))
			}
			return cli.onBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.explain(ctx, b, since) })
		},
	}
	cmd.Flags().DurationVar(&since, "since", 0, "all ticks since that long ago, oldest first; default: the last tick")
	cli.outputFlag(cmd)
	return cmd
}

func (cli *poolCommands) explain(ctx context.Context, b *bus.Bus, since time.Duration) error {
	now := time.Now()
	show := func(r autoscaler.Record) error {
		if cli.output == "json" {
			return cli.printNext(r)
		}
		explain.Record(cli.Stdout, r, now)
		return nil
	}
	if since <= 0 {
		r, err := lastRecord(ctx, b, cli.Cluster, cli.Pool)
		if err != nil {
			return err
		}
		return show(r)
	}
	ctx, handle, cancel := cli.patient(ctx)
	defer cancel()
	found := false
	err := recordsSince(ctx, b, cli.Cluster, cli.Pool, now.Add(-since), func(data []byte) error {
		found = true
		return handle(func() error {
			r, err := explain.Read(data)
			if err != nil {
				return err
			}
			return show(r)
		})
	})
	if err != nil || found {
		return err
	}
	last, err := lastRecord(ctx, b, cli.Cluster, cli.Pool)
	if err == nil {
		fmt.Fprintf(cli.Stderr, "weir: pool %s/%s has no tick in the last %v: its last tick was at %s\n", cli.Cluster, cli.Pool, since, timeText(last.At))
	}
	return err
}

// recordsSince visits the ticks of a pool from that time on, oldest first. Without a ledger there are none.
func recordsSince(ctx context.Context, b *bus.Bus, cluster, pool string, from time.Time, visit func([]byte) error) error {
	ledger, err := state.OpenLedger(ctx, b.JetStream(), cluster, pool)
	if errors.Is(err, state.ErrNoRecord) {
		return nil
	}
	if err != nil {
		return err
	}
	return ledger.Since(ctx, from, visit)
}

// lastRecord reads the newest tick of a pool.
func lastRecord(ctx context.Context, b *bus.Bus, cluster, pool string) (autoscaler.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var r autoscaler.Record
	ledger, err := state.OpenLedger(ctx, b.JetStream(), cluster, pool)
	var data []byte
	if err == nil {
		data, err = ledger.Last(ctx)
	}
	if errors.Is(err, state.ErrNoRecord) {
		return r, noTick(ctx, b, cluster, pool)
	}
	if err != nil {
		return r, err
	}
	if r, err = explain.Read(data); err != nil || !r.DryRun {
		return r, err
	}
	return besideDry(ctx, ledger, r)
}

// besideDry returns the newest record of the lease holder of the pool. It returns r, the
// record of a dry run, if there is no newer one.
func besideDry(ctx context.Context, ledger *state.Ledger, r autoscaler.Record) (autoscaler.Record, error) {
	err := ledger.Since(ctx, r.At.Add(-3*r.Every), func(data []byte) error {
		one, err := explain.Read(data)
		if err == nil && !one.DryRun {
			r = one
		}
		return nil
	})
	return r, err
}

// oldestDecision is the age of the oldest decision that status searches for.
const oldestDecision = 64 * time.Minute

// lastDecided reads the last tick with a decision: first in the last minute, then in
// longer ranges. It returns nil without such a tick, or if the ledger cannot be read to
// its end in time, since an earlier tick may not be the last one.
func lastDecided(ctx context.Context, b *bus.Bus, cluster, pool string) *autoscaler.Record {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return newestDecided(time.Now(), func(from time.Time, visit func([]byte) error) error {
		return recordsSince(ctx, b, cluster, pool, from, visit)
	})
}

// newestDecided returns the last record that has a decision of those that since visits.
func newestDecided(now time.Time, since func(from time.Time, visit func([]byte) error) error) *autoscaler.Record {
	var last *autoscaler.Record
	for back := time.Minute; last == nil && back <= oldestDecision; back *= 4 {
		err := since(now.Add(-back), func(data []byte) error {
			// What cannot be read is not shown: the last tick's own error is.
			if r, err := explain.Read(data); err == nil && r.Case != nil {
				last = &r
			}
			return nil
		})
		if err != nil {
			return nil
		}
	}
	return last
}

func (cli *poolCommands) planCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan [POOL]",
		Short: "Preview the next tick of a pool, without any change",
		Long: `Preview the next tick of a pool, without any change. The autoscaler of the pool reads
its groups and nodes, and decides with its files, its orders and the last responses of
the signals. It runs the code of a tick up to the point where a tick acts.`,
		Example: `  weir plan
  weir plan default --output json`,
		Args: cli.poolArg,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.withBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				r, err := autoscalerd.RequestPlan(ctx, b, cli.Cluster, cli.Pool)
				if err != nil {
					return err
				}
				if cli.output == "json" {
					return cli.printNext(r)
				}
				explain.Record(cli.Stdout, r, time.Now())
				return nil
			})
		},
	}
	cli.outputFlag(cmd)
	return cmd
}

// decideCommands are "weir decide".
type decideCommands struct{ *shared }

func (cli *decideCommands) decideCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "decide [FILE]",
		Short: "Recompute ticks: recorded or hand-written ones, a JSON line each",
		Long: `Recompute ticks with the functions that the autoscaler uses. The command reads JSON
lines from FILE or standard input, and writes a JSON line for each. It needs no bus and
changes nothing.

A line is a record of the ledger, as "weir explain --output json" prints it, or is
written by hand:
  now         seconds since 1970, or a time such as 2026-01-02T15:04:05Z
  policy      scaling_limits, autoscaling and autoscale_signals, as in a pool file
  pool        target_capacity, fulfilled_capacity, non_orphan_fulfilled_capacity,
              total, allocated, groups [{id, target, min, max, stale}], nodes [{id,
              group, weight, tasks, batch, safe, cordoned, uptime, state, stale,
              draining, priority, unhealthy}]
  history     resources of a unit of weight, by kind, for an empty pool
  signals     [{app, Resources}], or {app, verdict} or {app, error} for a signal without
              a response; app __default__ is the default signal
  offset      weight that an operator adds to the target; pinned: fixed target
  no_scale_down  true, or the reason
  state       state in the output of the previous tick
policy, pool and signals are required. target_capacity excludes the offset that state
lists as applied. max, limits and weights may be "inf".

The output is {"target_capacity", "steps", "groups", "terminate", "state"}. The target is
the number before it is rounded and divided among groups. For an invalid line the
output is {"error"}, and the command continues with the next line.`,
		Example: `  weir explain --output json | weir decide
  weir decide ticks.jsonl | jq .steps`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.OneArg("file")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			in, closeIn, err := cli.inputOf(args)
			if err != nil {
				return err
			}
			defer closeIn()
			return recompute.Lines(cmd.Context(), in, cli.Stdout)
		},
	}
}

// inputOf opens the named file; without one, or for "-", it is standard input.
func (cli *decideCommands) inputOf(args []string) (io.Reader, func(), error) {
	if len(args) == 0 || args[0] == "-" {
		return cli.Stdin, func() {}, nil
	}
	file, err := inputfile.Open(args[0])
	if err != nil {
		return nil, nil, command.Usage(err)
	}
	return file, func() { file.Close() }, nil
}
