package pool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/pools/rotate"
)

// rotateFlags are the flags of "weir pool rotate".
type rotateFlags struct {
	noteFlags
	where, migration             string
	status, stop, dryRun, resume bool
}

// resumeFor is how long a resumption waits for the autoscaler.
const resumeFor = time.Hour

// rotations are the commands for the rotations of a pool.
type rotations struct{ *commands }

func (cli rotations) rotateCommand() *cobra.Command {
	var f rotateFlags
	cmd := &cobra.Command{
		Use:   "rotate [POOL]",
		Short: "Replace the machines of a pool that match a condition",
		Long: `Replace the present machines of a pool that match a condition, for example old ones. A new
machine starts first. It must pass the health gate of the pool file before an old one is
drained and terminated. Until the first one has passed, there is one at a time. The step
limits, the disruption budget, the rate of the pool file and its windows hold. If new
machines fail their gate, the rotation halts: --resume lets it go on. A condition that
matches a new machine too is refused after the first one.

A condition has terms with a comma between them, and all must hold: age>20d, and group,
image, market, template, type or zone with =, != or in, such as "type in m4.large m4.xlarge".
The age is that at the time of the order. A machine whose value is unknown stays.

--dry-run shows what would be replaced. --status shows all rotations of the pool, those of
the pool file too, and what they wait for. --stop withdraws the order of an operator.`,
		Example: `  weir pool rotate web --where 'age>20d,zone=eu-west-1a' --why "kernel 6.18"
  weir pool rotate web --where image!=ami-2 --dry-run
  weir pool rotate web --node-migration migration.yaml --dry-run
  weir pool rotate web --status
  weir pool rotate web --resume --why "the image is correct now"`,
		Args: cli.PoolArg,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.migration != "" && f.where == "" {
				where, err := config.ReadNodeMigration(f.migration, cli.Cluster, cli.Pool)
				if err != nil {
					return usage.New(err)
				}
				f.where, f.migration = where, ""
			}
			if err := f.check(); err != nil {
				return usage.New(fmt.Errorf("%s %w\nSee %q", cmd.CommandPath(), err, cmd.CommandPath()+" --help"))
			}
			note, err := f.note()
			if err != nil {
				return err
			}
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.rotate(ctx, b, f, note) })
		},
	}
	f.addWhy(cmd)
	cmd.Flags().StringVar(&f.where, "where", "", "the `CONDITION`, such as age>20d,zone=a")
	cmd.Flags().StringVar(&f.migration, "node-migration", "", "`FILE` of a NodeMigration of Clusterman, in place of --where")
	cmd.Flags().BoolVar(&f.status, "status", false, "show the rotations and what is left, and change nothing")
	cmd.Flags().BoolVar(&f.stop, "stop", false, "withdraw the order")
	cmd.Flags().BoolVar(&f.resume, "resume", false, "go on after a halt, and follow refused conditions again")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what would be replaced, and change nothing")
	cli.WatchFlag(cmd)
	cli.OutputFlag(cmd)
	return cmd
}

// check returns the mistake of the flags.
func (f rotateFlags) check() error {
	n := 0
	for _, on := range []bool{f.status, f.stop, f.resume} {
		if on {
			n++
		}
	}
	switch {
	case f.migration != "":
		return errors.New("has --where and --node-migration: give one of them")
	case n > 1 || n == 1 && (f.where != "" || f.dryRun):
		return errors.New("has two of --where, --status, --stop and --resume: give one of them")
	case n == 0 && f.where == "":
		return errors.New("requires --where, such as --where age>20d, or --status, --stop or --resume")
	case n == 0:
		if _, err := rotate.Parse(f.where); err != nil {
			return fmt.Errorf("--where: %w", err)
		}
	}
	return nil
}

func (cli rotations) rotate(ctx context.Context, b *bus.Bus, f rotateFlags, note api.Note) error {
	mark := api.StaleMark{Note: note, Where: f.where}
	switch {
	case f.dryRun:
		r, err := view.RequestWhatIf(ctx, b, cli.Cluster, cli.Pool, api.WhatIf{Rotate: []api.StaleMark{mark}})
		if err != nil {
			return err
		}
		return cli.printWouldRotate(r, mark)
	case f.status:
		r, err := view.Reading(ctx, b, cli.Cluster, cli.Pool)
		if err != nil {
			return err
		}
		return cli.printRotation(ctx, b, r)
	}
	r, err := view.Reading(ctx, b, cli.Cluster, cli.Pool)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, view.Timeout)
	defer cancel()
	orders, err := state.OpenOrders(ctx, b.JetStream(), cli.Cluster, cli.Pool)
	if err != nil {
		return err
	}
	before, err := rotationOrder(ctx, orders)
	if err != nil {
		return err
	}
	switch {
	case f.resume:
		note.Until = note.At.Add(resumeFor)
		if err := orders.ResumeRotation(ctx, note); err != nil {
			return err
		}
		fmt.Fprintln(cli.Stdout, "the rotations go on at the next tick, with one new machine first")
	case f.stop && before == nil:
		fmt.Fprintf(cli.Stdout, "%s: no operator ordered a rotation of pool %s/%s; the pool file has the other ones, and \"weir pool roll --stop\" ends a roll\n", command.NoResources, cli.Cluster, cli.Pool)
		return nil
	case f.stop:
		if err := orders.Rolled(ctx, ""); err != nil {
			return fmt.Errorf("stop the rotation: %w", err)
		}
		fmt.Fprintf(cli.Stdout, "the %s is stopped: the machines that were not drained yet stay\n", before.Name())
		return nil
	default:
		if err := orders.Rotate(ctx, mark); err != nil {
			return err
		}
		from := "from the next tick on"
		if r.Case.Closed[api.WorkRotate] != "" {
			from = "later: " + r.Case.Closed[api.WorkRotate]
		}
		fmt.Fprintf(cli.Stdout, "the machines that match %s now are replaced %s%s\n", f.where, from, inPlaceOf(before))
	}
	cli.waits(r)
	return nil
}

func inPlaceOf(before *api.StaleMark) string {
	if before == nil {
		return ""
	}
	return fmt.Sprintf(", in place of the %s by %s", before.Name(), before.By)
}

// rotationOrder returns the order of a rotation; nil: no order.
func rotationOrder(ctx context.Context, orders *state.Orders) (*api.StaleMark, error) {
	current, err := orders.List(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(current.Stale, func(m api.StaleMark) bool { return m.Where != "" }); i >= 0 {
		return &current.Stale[i], nil
	}
	return nil, nil
}

// printWouldRotate prints what a rotation would replace.
func (cli rotations) printWouldRotate(r api.TickRecord, mark api.StaleMark) error {
	if r.Case == nil || r.Case.Rotation == nil {
		if cli.Output == "json" {
			return cli.PrintJSON(api.Rotation{Rules: []api.RotationRule{}})
		}
		fmt.Fprintf(cli.Stdout, "would replace no machine: none matches %s\n", mark.Where)
		return nil
	}
	if cli.Output == "json" {
		return cli.PrintJSON(r.Case.Rotation)
	}
	for _, rule := range r.Case.Rotation.Rules {
		if !rule.Since.Equal(mark.At) {
			continue
		}
		var parts []string
		for _, group := range slices.Sorted(maps.Keys(rule.Groups)) {
			parts = append(parts, fmt.Sprintf("%d of %s", rule.Groups[group], group))
		}
		fmt.Fprintf(cli.Stdout, "would replace %d of %d machines%s\n", rule.Left, rule.Total, cell.After(": ", strings.Join(parts, ", ")))
		if rule.Unknown > 0 {
			fmt.Fprintf(cli.Stdout, "%d machines would stay: the provider does not report what decides\n", rule.Unknown)
		}
		if rule.Waits != "" {
			fmt.Fprintln(cli.Stdout, rule.Waits)
		}
	}
	for _, line := range r.Case.Rotation.Alarms() {
		fmt.Fprintln(cli.Stdout, line)
	}
	return nil
}

// printRotation prints the rotations of the last tick, and an order that no tick has read yet.
func (cli rotations) printRotation(ctx context.Context, b *bus.Bus, r api.TickRecord) error {
	within, cancel := context.WithTimeout(ctx, view.Timeout)
	defer cancel()
	current, err := state.ReadOrders(within, b.JetStream(), cli.Cluster, cli.Pool)
	if err != nil {
		return err
	}
	shown := api.Rotation{Rules: []api.RotationRule{}}
	if r.Case != nil && r.Case.Rotation != nil {
		shown = *r.Case.Rotation
	}
	var late []api.StaleMark
	for _, m := range current.Stale {
		if m.Where != "" && m.At.After(r.At) {
			late = append(late, m)
			shown.Rules = append(slices.Clone(shown.Rules), api.RotationRule{Name: m.Name(), Where: m.Where, Since: m.At, By: m.By, Why: m.Why, Waits: "waits for the next tick"})
		}
	}
	if cli.Output == "json" {
		return cli.PrintJSON(shown)
	}
	lines := shown.Lines()
	for _, rule := range shown.Rules {
		if rule.Left > 0 && rule.Waits != "" && rule.Refused == "" {
			lines = append(lines, rule.Waits)
		}
	}
	for _, m := range late {
		lines = append(lines, fmt.Sprintf("%s, ordered %s: waits for the next tick", m.Name(), m.Text()))
	}
	if len(lines) == 0 {
		fmt.Fprintf(cli.Stdout, "%s: no machine of pool %s/%s is to be replaced\n", command.NoResources, cli.Cluster, cli.Pool)
	}
	for _, line := range slices.Compact(lines) {
		fmt.Fprintln(cli.Stdout, line)
	}
	return nil
}
