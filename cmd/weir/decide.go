package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/recompute"
)

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
