package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/explain"
	"github.com/weirkeeper/weirkeeper/internal/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/recompute"
)

func (cli *poolCommands) explainCommand() *cobra.Command {
	var f pastFlags
	cmd := &cobra.Command{
		Use:   "explain [POOL]",
		Short: "Explain a tick of a pool, or search its past",
		Long: `Explain the last tick of a pool, or that of --at: the response of each signal, how the responses were
combined, how each rule changed the target, the target of each group, and the requests
to the provider.

The command prints the record of the tick in the ledger. --output json prints the
record itself, on one line, as "weir decide" reads it. --since prints a row for each tick
of a range, from the summaries of the ticks, which are kept for longer. With --output
json it prints their records, and with --summary their summaries, a line each. --why-not
names each rule, limit, order, budget, group or missing knowledge that held the pool.`,
		Example: `  weir explain
  weir explain default --output json
  weir explain --at 03:10 --why-not up
  weir explain --since 8h --changed
  weir explain --since 24h --summary --output json > night.jsonl
  weir explain --since 1h --output json | weir decide`,
		Args: cli.poolArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return cli.onBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				switch {
				case f.since == 0:
					return cli.explainTick(ctx, b, f)
				case cli.output == command.FormJSON && !f.changed && !f.summary:
					return cli.records(ctx, b, f.since)
				}
				return cli.ticks(ctx, b, f)
			})
		},
	}
	f.add(cmd)
	cli.outputFlag(cmd)
	return cmd
}

// records prints the records of a range, a line each.
func (cli *poolCommands) records(ctx context.Context, b *bus.Bus, since time.Duration) error {
	ctx, handle, cancel := cli.patient(ctx)
	defer cancel()
	found := false
	err := cli.history(b).Records(ctx, time.Now().Add(-since), func(data []byte) error {
		found = true
		return handle(func() error {
			r, err := explain.Read(data)
			if err != nil {
				return err
			}
			return cli.printNext(r)
		})
	})
	if err != nil {
		return waited(ctx, err)
	}
	if found {
		return nil
	}
	return cli.noTickSince(ctx, b, since)
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
	again := &redecideFlags{poolCommands: &poolCommands{cli.shared}}
	cmd := &cobra.Command{
		Use:   "decide [FILE | POOL]",
		Short: "Recompute ticks, or decide the recorded ticks of a pool with another policy",
		Long: `Recompute ticks, or decide the recorded ticks of a pool with another policy.

With --set and --since the argument is a pool, and the command is "weir pool decide".

Without them the command recomputes ticks with the functions that the autoscaler uses. The command reads JSON
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
  weir decide ticks.jsonl | jq .steps
  weir decide --set scaling_limits.max_capacity=40 --since 24h`,
		Args: func(cmd *cobra.Command, args []string) error {
			if again.given(cmd) {
				return again.parse(cmd, args)
			}
			if len(args) > 1 {
				return command.OneArg("file")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if again.given(cmd) {
				return again.run(cmd)
			}
			in, closeIn, err := cli.inputOf(args)
			if err != nil {
				return err
			}
			defer closeIn()
			return recompute.Lines(cmd.Context(), in, cli.Stdout)
		},
	}
	again.add(cmd)
	return cmd
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
