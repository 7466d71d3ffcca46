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
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/history/redecide"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// commands are "weir simulate".
type commands struct{ *connect.CLI }

// flags are those of the command.
type flags struct {
	with, set []string
	sweep     string
	seeds     int
	records   string

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

With --from the command replays the recorded ticks of a pool, or of a file that "weir explain --since 1h
--output json" printed. The recorded policies meet the recorded responses, orders, launch times, losses and
refusals, and each tick is compared with its record. Ticks that differ are listed with their cause.

Keys of --set and --sweep are those of the pool file: ` + strings.Join(redecide.OverrideKeys(), ", ") + `.`,
		Example: `  weir simulate night.yaml
  weir simulate night.yaml --with other/default.yaml --seeds 5
  weir simulate night.yaml --sweep autoscaling.setpoint=0.6,0.7,0.8 --output json
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
	cmd.Flags().StringVar(&f.sweep, "sweep", "", "KEY=VALUE,VALUE,...: a row for each value")
	cmd.Flags().IntVar(&f.seeds, "seeds", 0, "number of seeds (default: as in the scenario, or 1)")
	cmd.Flags().StringVar(&f.records, "records", "", "`FILE` for the records of the first run, as JSON lines for weir decide")
	cmd.Flags().StringVar(&f.from, "from", "", "replay the ticks of this `POOL`, or of a file of records")
	command.SinceVar(cmd.Flags(), &f.since, "since", time.Hour, "with --from: ticks since then")
	cmd.Flags().Float64Var(&f.atLeast, "at-least", 99, "with --from: end with 1 if a smaller percentage of the ticks is the same")
	cli.OutputFlag(cmd)
	cmd.AddCommand(cli.initCommand())
	return cmd
}

// check is the Args of the command.
func (f *flags) check(cli *connect.CLI, cmd *cobra.Command, args []string) error {
	given := cmd.Flags().Changed
	switch {
	case f.from == "" && (given("since") || given("at-least")):
		return usage.New(errors.New("--since and --at-least need the records of a pool: add --from POOL"))
	case f.from == "":
		return command.OneArg("scenario file")(cmd, args)
	case len(args) > 0 || len(f.with)+len(f.set) > 0 || f.sweep != "" || f.seeds != 0 || f.records != "":
		return usage.New(errors.New("--from replays the recorded policy: give no scenario and no other policy; \"weir config validate --against 7d\" compares another one"))
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
	seeds := max(1, f.seeds, s.file.Run.Seeds)
	if f.seeds > 0 {
		seeds = f.seeds
	}
	if f.seeds < 0 || seeds*len(policies) > maxRuns {
		return usage.New(fmt.Errorf("%d seeds of %d policies: want at most %d runs", seeds, len(policies), maxRuns))
	}
	for _, p := range policies {
		of, err := s.of(p, s.file.Run.Seed)
		if err == nil {
			err = of.Validate()
		}
		if err != nil {
			return usage.New(fmt.Errorf("%s: policy %s: %w", path, p.name, err))
		}
	}
	if s.prices != nil {
		for _, gap := range s.prices.Gaps() {
			fmt.Fprintf(cli.Stderr, "weir: warning: %s\n", gap)
		}
	}
	debug.SetGCPercent(400) // a run has little memory, and makes a lot of garbage
	results, err := s.simulate(ctx, policies, seeds, f.records)
	if results == nil {
		return err
	}
	return errors.Join(cli.print(summaries(s, policies, results)), err)
}

// simulate runs each policy with each seed. After an error it returns no results, unless ctx ended.
func (s scenario) simulate(ctx context.Context, policies []policy, seeds int, records string) ([][]simulate.Result, error) {
	results := make([][]simulate.Result, len(policies))
	errs := make([]error, len(policies)*seeds)
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	var running sync.WaitGroup
	for i, p := range policies {
		results[i] = make([]simulate.Result, seeds)
		for k := range seeds {
			running.Go(func() {
				free <- struct{}{}
				defer func() { <-free }()
				name := ""
				if i == 0 && k == 0 {
					name = records
				}
				results[i][k], errs[i*seeds+k] = s.runOne(ctx, p, s.file.Run.Seed+k, name)
			})
		}
	}
	running.Wait()
	for _, err := range errs {
		if err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return results, fmt.Errorf("the result is until the cancellation: %w", context.Cause(ctx))
	}
	return results, nil
}

// runOne runs a policy with a seed, and writes its records to a file; empty: to none.
func (s scenario) runOne(ctx context.Context, p policy, seed int, records string) (simulate.Result, error) {
	of, err := s.of(p, seed)
	if err != nil {
		return simulate.Result{}, err
	}
	if records == "" {
		return simulate.Run(ctx, of)
	}
	file, err := os.Create(records)
	if err != nil {
		return simulate.Result{}, err
	}
	of.Sink = sink(file)
	r, err := simulate.Run(ctx, of)
	return r, errors.Join(err, file.Close())
}

// sink returns a receiver of records that writes JSON lines.
func sink(to io.Writer) func(api.TickRecord) error {
	lines := json.NewEncoder(to)
	return func(r api.TickRecord) error { return lines.Encode(r) }
}
