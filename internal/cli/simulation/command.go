// Package simulation has the command "weir simulate": it reads a scenario file, runs the policies side by side, and prints a row for
// each.
//
// The package computes nothing of a pool itself: package simulate runs the loop, and package config reads the files. Runs of several
// policies and seeds share no memory that changes, so they run concurrently. The command needs no bus and changes nothing. A cancelled
// command prints what it has until then.
package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// commands are "weir simulate".
type commands struct{ *connect.CLI }

// flags are those of the command.
type flags struct {
	with, set, sweep         []string
	seeds                    int
	objective, records, html string

	from    string // of --from: a pool or a file
	file    string // of records; empty: the pool is that of the command
	since   time.Duration
	atLeast float64 // percent
}

// Command returns "weir simulate".
func Command(c *connect.CLI) *cobra.Command {
	cli := &commands{c}
	var f flags
	cmd := &cobra.Command{
		Use:   "simulate [FILE]",
		Short: "Run a pool under virtual time, and print what it would cost",
		Long: `Run a pool under virtual time, and print what it would cost.

FILE is a scenario: the pool's file, the demand, the machines and their prices. See docs/simulate.md.
The command runs the loop of the autoscaler against machines in memory. It needs no bus and changes
nothing. Two runs of one scenario give the same numbers.

A row has the cost, the unmet cpu-hours (what the work needed and no machine did), the longest time in
which work waited, the used part of what the machines offered, and how often the target changed.
With several seeds, a number after ± is half of the width of the 95 % interval over the seeds. It covers
launch times and interruptions only, and not another demand.

--objective is the quantity of which less is better, with bounds of others: cost,unmet<=2%,wait<=10m.
Rows are sorted by it, and those that miss a bound are last. With several seeds the upper end of the
interval counts. If no policy meets all bounds, the command ends with 1. Quantities are ` + strings.Join(quantityNames, ", ") + `.

--html writes one page for a review, which needs no server and no other file: what the policies cost by
market, what waited, what was unused, and the worst stretches with what kept the pool from growing. Its
plots are of the first seed.

With --from the command replays the recorded ticks of a pool, or of a file that "weir explain --since 1h
--output json" printed. The recorded policies meet the recorded responses, orders, launch times, losses and
refusals, and each tick is compared with its record. Ticks that differ are listed with their cause.

Keys of --set and --sweep are those of the pool file below ` + strings.Join(config.AssignedBlocks(), ", ") + `.
A value may be a list or a map: windows[0].allow=[roll].`,
		Example: `  weir simulate night.yaml
  weir simulate night.yaml --with other/default.yaml --seeds 5
  weir simulate night.yaml --with other/default.yaml --html review.html
  weir simulate night.yaml --sweep autoscaling.setpoint=0.5..0.9:0.05 --objective 'cost,unmet<=2%'
  weir simulate night.yaml --sweep autoscaling.setpoint=0.7,0.8 --sweep autoscaling.cooldown.down=0m..30m:10m --output csv
  weir simulate night.yaml --sweep headroom[0].count=0..8:2 --set rotation.max_age=20d
  weir simulate --from default --since 1h`,
		Args: func(cmd *cobra.Command, args []string) error { return f.check(cli.CLI, cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.from != "" {
				return cli.replay(cmd.Context(), f)
			}
			return cli.run(cmd.Context(), args[0], f)
		},
	}
	cmd.Flags().StringArrayVar(&f.with, "with", nil, "another `FILE` of the pool to compare; may be repeated")
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "KEY=VALUE of all policies; may be repeated")
	cmd.Flags().StringArrayVar(&f.sweep, "sweep", nil, "KEY=VALUE,VALUE,... or KEY=FROM..TO:STEP: a row for each value; if repeated, for each combination")
	cmd.Flags().IntVar(&f.seeds, "seeds", 0, "number of seeds (default: as in the scenario, or 1)")
	cmd.Flags().StringVar(&f.records, "records", "", "`FILE` for the records of the first run, as JSON lines for weir decide")
	cmd.Flags().StringVar(&f.objective, "objective", "", "`QUANTITY`, with bounds QUANTITY<=VALUE after it: sort the rows by it")
	cmd.Flags().StringVar(&f.html, "html", "", "`FILE` for a page of the result")
	cmd.Flags().StringVar(&f.from, "from", "", "replay the ticks of this `POOL`, or of a file of records")
	command.SinceVar(cmd.Flags(), &f.since, "since", time.Hour, "with --from: ticks since then")
	cmd.Flags().Float64Var(&f.atLeast, "at-least", 99, "with --from: end with 1 if a smaller percentage of the ticks is the same")
	cli.FormFlag(cmd, command.FormTable, command.FormJSON, command.FormYAML, formLines, formCSV)
	cmd.AddCommand(cli.initCommand())
	return cmd
}

// Forms of the output beside those of all commands: JSON with a line for each policy, printed as soon as it and those before it ended,
// and comma-separated values.
const (
	formLines = "jsonl"
	formCSV   = "csv"
)

// check is the Args of the command.
func (f *flags) check(cli *connect.CLI, cmd *cobra.Command, args []string) error {
	given := cmd.Flags().Changed
	switch {
	case f.from == "" && (given("since") || given("at-least")):
		return usage.New(errors.New("--since and --at-least need the records of a pool: add --from POOL"))
	case f.from == "":
		return command.OneArg("scenario file")(cmd, args)
	case len(args) > 0 || len(f.with)+len(f.set)+len(f.sweep) > 0 || f.seeds != 0 || f.records+f.objective+f.html != "":
		return usage.New(errors.New("--from replays the recorded policy: give no scenario and no other policy; \"weir config validate --against 7d\" compares another one"))
	case cli.Form == formLines || cli.Form == formCSV:
		return usage.New(fmt.Errorf("--output %s is of a scenario: give --from with table, json or yaml", cli.Form))
	case isFile(f.from):
		f.file = f.from
		return nil
	}
	return cli.UsePool(cmd, f.from)
}

// maxRuns bounds the runs of one command.
const maxRuns = 1000

func (cli *commands) run(ctx context.Context, path string, f flags) error {
	s, err := readScenario(path)
	if err != nil {
		return usage.New(err)
	}
	policies, err := s.policies(f.with, f.set, f.sweep)
	if err != nil {
		return usage.New(err)
	}
	var goal *objective
	if f.objective != "" {
		o, err := parseObjective(f.objective)
		switch {
		case err != nil:
			return usage.New(err)
		case cli.Form == formLines:
			return usage.New(errors.New("--objective ranks all policies, and --output jsonl prints each one when it ended: give one of them"))
		}
		goal = &o
	}
	seeds := max(1, f.seeds, s.file.Run.Seeds)
	if f.seeds > 0 {
		seeds = f.seeds
	}
	if f.seeds < 0 || seeds*len(policies) > maxRuns {
		return usage.New(fmt.Errorf("%d seeds of %d policies: want at most %d runs", seeds, len(policies), maxRuns))
	}
	for _, p := range policies {
		if err := s.check(p); err != nil {
			return usage.New(err)
		}
		of, err := s.of(p, s.file.Run.Seed)
		if err == nil {
			err = of.Validate()
		}
		if err != nil {
			return usage.New(fmt.Errorf("%s: policy %s: %w", path, p.name, err))
		}
	}
	for _, w := range s.warnings(policies) {
		fmt.Fprintln(cli.Stderr, "weir: warning: "+w)
	}
	debug.SetGCPercent(400) // a run has little memory, and makes a lot of garbage
	runs := batch{scenario: s, policies: policies, seeds: seeds, records: f.records, plots: f.html != ""}
	if cli.Form == formLines {
		runs.ended = func(row api.Simulated) error { return json.NewEncoder(cli.Stdout).Encode(row) }
	}
	results, err := runs.run(ctx)
	if results == nil {
		return err
	}
	return errors.Join(cli.finish(ctx, runs, results, goal, f.html), err)
}

// finish prints the results, and writes the page.
func (cli *commands) finish(ctx context.Context, b batch, results [][]simulate.Result, goal *objective, html string) error {
	rows := summaries(b.scenario, b.policies, results)
	if len(rows) == 0 {
		return nil // cancelled before a run ended
	}
	page := report{batch: b, rows: slices.Clone(rows), results: results, goal: goal}
	var missed error
	if goal != nil {
		missed = goal.rank(rows)
	}
	if html != "" {
		page.chosen = rows[0].Policy
		if err := page.write(ctx, html); err != nil {
			return err
		}
	}
	if cli.Form == formLines {
		return nil
	}
	return errors.Join(cli.print(rows), missed)
}
