package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/inputfile"
)

// maxCase bounds a line of "weir decide", in bytes: a tick of some 100 000 nodes.
const maxCase = 64 << 20

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
			return decideLines(cmd.Context(), in, cli.Stdout)
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

// decideLines answers each line of in with one of out.
func decideLines(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxCase)
	w := bufio.NewWriter(out)
	var reader caseReader
	for lines.Scan() {
		if ctx.Err() != nil {
			break
		}
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		answer, err := reader.answer(line)
		if err != nil {
			answer = encodeError(err)
		}
		if _, err := w.Write(append(answer, '\n')); err != nil {
			return err
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return errors.Join(w.Flush(), fmt.Errorf("a line has more than %d MiB", maxCase>>20))
	} else if err != nil {
		return errors.Join(w.Flush(), err)
	}
	return w.Flush()
}

// answer decides one line.
func (r *caseReader) answer(line []byte) ([]byte, error) {
	c, err := r.read(line)
	if err != nil {
		return nil, err
	}
	outcome := c.Resolve()
	if err := undecided(c, outcome); err != nil {
		return nil, err
	}
	if len(c.Groups) == 0 {
		outcome.State.State = cameTrue(c, outcome.Decision)
	}
	return json.Marshal(outcome.Result())
}

// cameTrue returns the state after a decision for a pool whose line has no groups: the
// decision is taken as carried out.
func cameTrue(c resolve.Case, d decide.Decision) decide.State {
	change := d.Target - (c.Input.Capacity.Target + c.State.Offset)
	if change == 0 {
		return d.State
	}
	p := c.Input.Policy
	longest := max(p.Period, p.Cooldown.Up, p.Cooldown.Down)
	for _, b := range p.Budgets {
		longest = max(longest, b.Within)
	}
	return d.State.Changed(decide.Change{Up: max(0, change), Down: max(0, -change)}, longest)
}

// undecided returns why a case has no decision that is worth printing.
func undecided(c resolve.Case, o resolve.Outcome) error {
	if err := c.Input.Policy.Validate(); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	if len(c.Groups) > 0 && o.Distribution.Shares == nil && o.Refused != "" {
		return errors.New(o.Refused)
	}
	return nil
}

func encodeError(err error) []byte {
	data, err := json.Marshal(map[string]string{"error": err.Error()})
	if err != nil {
		return []byte(`{"error":"?"}`) // a map of strings encodes
	}
	return data
}
