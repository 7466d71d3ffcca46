package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/history/redecide"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// tickCommands are the commands about the ticks of a pool, past and next.
type tickCommands struct{ *connect.CLI }

func (cli *tickCommands) explainCommand() *cobra.Command {
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
		Args: cli.PoolArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return cli.OnBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				switch {
				case f.since == 0:
					return cli.explainTick(ctx, b, f)
				case cli.Output == command.FormJSON && !f.changed && !f.summary:
					return cli.records(ctx, b, f.since)
				}
				return cli.ticks(ctx, b, f)
			})
		},
	}
	f.add(cmd)
	cli.OutputFlag(cmd)
	return cmd
}

// records prints the records of a range, a line each.
func (cli *tickCommands) records(ctx context.Context, b *bus.Bus, since time.Duration) error {
	ctx, handle, cancel := patient(ctx, cli.Timeout)
	defer cancel()
	found := false
	skipped, err := cli.history(b).Records(ctx, time.Now().Add(-since), time.Time{}, func(r api.TickRecord) error {
		found = true
		return handle(func() error { return cli.PrintNext(r) })
	})
	cli.reportSkipped(skipped)
	if err != nil {
		return waited(ctx, err)
	}
	if found {
		return nil
	}
	return cli.noTickSince(ctx, b, since)
}

// decideCommands are "weir decide".
type decideCommands struct{ *connect.CLI }

func (cli *decideCommands) decideCommand() *cobra.Command {
	again := &redecideFlags{tickCommands: &tickCommands{cli.CLI}}
	cmd := &cobra.Command{
		Use:   "decide [FILE | POOL]",
		Short: "Recompute ticks, or decide those of a pool with another policy",
		Long: `Recompute ticks, or decide the recorded ticks of a pool with another policy.

With --set and --since the argument is a pool, and the command is "weir pool decide".

Without them the command recomputes ticks with the functions that the autoscaler uses. The command reads JSON
lines from FILE or standard input, and writes a JSON line for each. It needs no bus and
changes nothing.

A line is a record of the ledger, as "weir explain --output json" prints it, or is
written by hand:
  now         seconds since 1970, or a time such as 2026-01-02T15:04:05Z
  policy      scaling_limits, autoscaling and autoscale_signals, as in a pool
              file
  pool        target_capacity, fulfilled_capacity,
              non_orphan_fulfilled_capacity, total, allocated, groups [{id,
              target, min, max, stale}], nodes [{id, group, weight, tasks,
              batch, safe, cordoned, uptime, state, stale, draining, priority,
              unhealthy}]
  history     resources of a unit of weight, by kind, for an empty pool
  signals     [{app, Resources}], or {app, verdict} or {app, error} for a signal
              without a response; app __default__ is the default signal
  offset      weight that an operator adds to the target; pinned: fixed target
  no_scale_down  true, or the reason
  state       state in the output of the previous tick
policy, pool and signals are required. target_capacity excludes the offset that state
lists as applied. max, limits and weights may be "inf".

The output is {"target_capacity", "steps", "groups", "terminate", "state"}. The target is
the number before it is rounded and divided among groups. For an invalid line the
output is {"error"}, and the command continues with the next line. If no line is valid,
the exit code is 2.`,
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
			in, err := cli.Input(args...)
			if err != nil {
				return err
			}
			defer in.Close() // only read
			decided, err := redecide.Lines(cmd.Context(), in, cli.Stdout)
			if err == nil && decided == 0 && cmd.Context().Err() == nil {
				err = usage.New(errors.New("decide: no line of the input is a tick; give records of \"weir explain --output json\""))
			}
			return err
		},
	}
	again.add(cmd)
	return cmd
}

// redecideFlags are the flags of "weir pool decide", which "weir decide" has too.
type redecideFlags struct {
	*tickCommands
	set       []string
	since     time.Duration
	overrides []redecide.Override
}

func (f *redecideFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "KEY=VALUE of the policy; may be repeated")
	command.SinceVar(cmd.Flags(), &f.since, "since", 0, "ticks since then")
	f.OutputFlag(cmd)
}

// given reports whether the command line has one of the flags.
func (f *redecideFlags) given(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("set") || cmd.Flags().Changed("since")
}

// parse is the Args of the command.
func (f *redecideFlags) parse(cmd *cobra.Command, args []string) error {
	if err := f.PoolArg(cmd, args); err != nil {
		return err
	}
	if len(f.set) == 0 || f.since <= 0 {
		return usage.New(errors.New("give the policy and the range, such as --set scaling_limits.max_capacity=40 --since 24h"))
	}
	for _, text := range f.set {
		o, err := redecide.ParseOverride(text)
		if err != nil {
			return usage.New(fmt.Errorf("--set: %w", err))
		}
		f.overrides = append(f.overrides, o)
	}
	return nil
}

func (f *redecideFlags) run(cmd *cobra.Command) error {
	return f.OnBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return f.redecide(ctx, b, f.since, f.overrides) })
}

func (cli *tickCommands) redecideCommand() *cobra.Command {
	f := &redecideFlags{tickCommands: cli}
	cmd := &cobra.Command{
		Use:   "decide [POOL]",
		Short: "Decide recorded ticks of a pool again, with another policy",
		Long: `Decide recorded ticks of a pool again, with another policy, and list the ticks that
would have decided otherwise. Each tick starts from its record: it does not
include what earlier ticks would have done. The command changes nothing.

Keys are those of the pool file: ` + strings.Join(redecide.OverrideKeys(), ", ") + `.`,
		Example: `  weir pool decide --set scaling_limits.max_capacity=40 --since 24h
  weir pool decide web --set autoscaling.setpoint=0.6 --since 8h --output json`,
		Args: f.parse,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	return cmd
}

func (cli *tickCommands) redecide(ctx context.Context, b *bus.Bus, since time.Duration, overrides []redecide.Override) error {
	patient, handle, cancel := patient(ctx, cli.Timeout)
	defer cancel()
	var rows [][]string
	records := func(visit func(api.TickRecord) error) (int, error) {
		return cli.history(b).Records(patient, time.Now().Add(-since), time.Time{}, visit)
	}
	sum, err := redecide.Compare(records, overrides, func(one api.Redecided) error {
		return handle(func() error {
			if cli.Output == command.FormJSON {
				return cli.PrintNext(one)
			}
			rows = append(rows, []string{explain.Time(one.At), explain.Number(one.Before), explain.Number(one.Target), explain.Number(one.Would),
				explain.Number(one.By), string(one.Rule), one.Why})
			return nil
		})
	})
	if err != nil {
		return waited(patient, err)
	}
	if sum == (api.Comparison{}) {
		return cli.noTickSince(ctx, b, since)
	}
	if cli.Output == command.FormJSON {
		return cli.PrintNext(sum)
	}
	if len(rows) > 0 {
		cli.PrintTable([]string{"time", "before", "target", "would be", "difference", "rule", "reason"}, rows)
	}
	fmt.Fprintf(cli.Stdout, "%d of %d ticks would have decided otherwise", sum.Otherwise, sum.Ticks)
	if sum.Otherwise > 0 {
		fmt.Fprintf(cli.Stdout, ": at most %s more and %s less, %s on average over all ticks", explain.Number(sum.Most), explain.Number(-sum.Least), explain.Number(sum.Mean))
	}
	fmt.Fprintln(cli.Stdout)
	if sum.Invalid > 0 {
		fmt.Fprintf(cli.Stdout, "%d more ticks have a policy that these values contradict, the first: %s\n", sum.Invalid, sum.Problem)
	}
	if sum.Skipped > 0 {
		fmt.Fprintf(cli.Stdout, "%d more ticks have no decision that this weir can repeat\n", sum.Skipped)
	}
	return nil
}
