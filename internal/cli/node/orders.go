package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const (
	// healthTimeout bounds an order to the node-health loop. A check probes the machines.
	healthTimeout = time.Minute
	// healthSlow is the delay after which a command reports that it still waits.
	healthSlow = 2 * time.Second
)

// errOrdered is the error of an order that node health rejects, as a whole or in part.
var errOrdered = errors.New("node health refuses")

func (cli *commands) checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [POOL] [NODE...]",
		Short: "Probe machines now, with each detection mode of the policy",
		Long: `Probe machines now, with each detection mode of the policy, and print the results. Each
probe counts as one observation: a machine is unhealthy after failure_threshold failed
observations in a row. For heartbeats, the command shows the last one.` + fmt.Sprintf(connect.PoolFirst, "nodes"),
		Example: `  weir node check
  weir node check i-0123 -o json`,
		RunE: func(cmd *cobra.Command, nodes []string) error {
			return cli.orderHealth(cmd, nodes, api.RepairOrder{Op: api.OpCheck})
		},
	}
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *commands) recoverCommand() *cobra.Command {
	order := api.RepairOrder{Op: api.OpRecover}
	cmd := &cobra.Command{
		Use:   "recover [POOL] (NODE... | --all)",
		Short: "Repair machines, healthy or not, with the actions and gates of the policy",
		Long: `Repair machines, healthy or not, with the actions and gates of the policy. The command
ends when the repair has started. If a gate refuses, the request is dropped: the
machine is not repaired later. With --wait the request waits for the gates for that
time. "weir node status" shows it, and "weir node release NODE" withdraws it. With
"mode: observe" the findings show the repair, but it is not carried out.

--all repairs each machine of the pool, one after the other, as the disruption budget
and the other gates allow. A machine stays in service until its turn. --wait is the
end of the request. "weir node release --all" withdraws it.` + fmt.Sprintf(connect.PoolFirst, "nodes"),
		Example: `  weir node recover i-0123 --why "fan is loud"
  weir node recover web i-0123 --wait 2h
  weir node recover web --all --wait 8h --why "new kernel"
  weir node status i-0123`,
		Args: func(cmd *cobra.Command, args []string) error {
			if order.All && len(args) == 1 && !cmd.Flags().Changed("pool") {
				args = nil // may be the pool
			}
			return nodesOrAll(cmd, args, order)
		},
		RunE: func(cmd *cobra.Command, nodes []string) error {
			return cli.orderHealth(cmd, nodes, order)
		},
	}
	cmd.Flags().BoolVar(&order.All, "all", false, "each machine of the pool, one after the other; requires --wait")
	command.DurationVar(cmd.Flags(), &order.For, "wait", 0, "how long the request may wait for the gates, such as 90m")
	cmd.Flags().StringVar(&order.Why, "why", "", "the reason, shown in the log")
	cli.OutputFlag(cmd)
	return cmd
}

// nodesOrAll returns an error if the arguments of a recovery are wrong.
func nodesOrAll(cmd *cobra.Command, nodes []string, o api.RepairOrder) error {
	problem := ""
	switch {
	case len(nodes) == 0 && !o.All:
		problem = "requires at least one machine; " + machinesHint
	case len(nodes) > 0 && o.All:
		problem = "takes machines or --all, not both"
	case o.All && o.For == 0:
		problem = "--all repairs one machine after the other: set the time limit with --wait, such as --wait 8h"
	}
	if problem == "" {
		return nil
	}
	return usage.New(fmt.Errorf("%s %s\nSee %q", cmd.CommandPath(), problem, cmd.CommandPath()+" --help"))
}

func (cli *commands) pauseCommand() *cobra.Command {
	order := api.RepairOrder{Op: api.OpPause}
	cmd := &cobra.Command{
		Use:   "pause [POOL] [NODE...]",
		Short: "Pause the repair of machines, or of the whole pool",
		Long: `Pause the repair of machines, or of the whole pool. Each operator has one pause: a
second one replaces the first. A machine is repaired after all its pauses have ended.
A repair that has not reached its machine is withdrawn. The output names the repairs
that continue to their end.` + fmt.Sprintf(connect.PoolFirst, "nodes"),
		Example: `  weir node pause i-0123 --for 2h --why "disk is being checked"
  weir node pause web --for 30m --why "network maintenance"`,
		RunE: func(cmd *cobra.Command, nodes []string) error {
			if order.For <= 0 || order.For > api.MaxPause {
				return usage.New(fmt.Errorf("--for %s: want more than 0 and at most %s\nSee %q", seconds.Short(order.For), seconds.Short(api.MaxPause), cmd.CommandPath()+" --help"))
			}
			return cli.orderHealth(cmd, nodes, order)
		},
	}
	command.DurationVar(cmd.Flags(), &order.For, "for", judge.DefaultPause, "duration of the pause, such as 90m")
	cmd.Flags().StringVar(&order.Why, "why", "", "reason, shown in status")
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *commands) resumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume [POOL] [NODE...]",
		Short: "End your pause of machines, or of the whole pool",
		Long:  `End your pause of machines, or of the whole pool.` + fmt.Sprintf(connect.PoolFirst, "nodes"),
		Example: `  weir node resume i-0123
  weir node resume web`,
		RunE: func(cmd *cobra.Command, nodes []string) error {
			return cli.orderHealth(cmd, nodes, api.RepairOrder{Op: api.OpResume})
		},
	}
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *commands) releaseCommand() *cobra.Command {
	order := api.RepairOrder{Op: api.OpRelease}
	cmd := &cobra.Command{
		Use:   "release [POOL] [NODE...]",
		Short: "End the quarantine of machines; without an argument, close the breaker of the pool",
		Long: `End the quarantine of machines, or the hold of machines that could not be fenced.
Release an unfenced machine only after you know that it runs nothing. The command also
withdraws a waiting request to repair the machine. Without an argument it closes the
breaker of the pool. --all withdraws all waiting requests; started repairs continue.` + fmt.Sprintf(connect.PoolFirst, "nodes"),
		Example: `  weir node release i-0123
  weir node release
  weir node release --all`,
		RunE: func(cmd *cobra.Command, nodes []string) error {
			return cli.orderHealth(cmd, nodes, order)
		},
	}
	cmd.Flags().BoolVar(&order.All, "all", false, "withdraw all requests to repair machines that wait")
	cli.OutputFlag(cmd)
	return cmd
}

// orderHealth sends an order to the node-health loop of the pool and prints the result.
func (cli *commands) orderHealth(cmd *cobra.Command, args []string, o api.RepairOrder) error {
	o.By = command.Operator()
	if o.Nodes = args; !o.All { // the only argument beside --all may be the pool
		if err := api.ValidateOrder(o); err != nil {
			return wrongOrder(err)
		}
	}
	return cli.withNodes(cmd, args, func(ctx context.Context, b *bus.Bus, nodes []string) error {
		if o.Op == api.OpRecover {
			if err := nodesOrAll(cmd, nodes, o); err != nil {
				return err
			}
		}
		o.Nodes = nodes
		if err := api.ValidateOrder(o); err != nil {
			return wrongOrder(err)
		}
		ctx, cancel := context.WithTimeout(ctx, healthTimeout)
		defer cancel()
		defer reportSlow(cli.Stderr, fmt.Sprintf("weir: waiting for a response of pool %s; a check takes up to 30s ...", cli.Pool))()
		a, err := cli.nodeHealth(b).Order(ctx, o)
		if err != nil {
			return err
		}
		if cli.Output == "json" {
			if err := cli.PrintJSON(a); err != nil {
				return err
			}
		} else {
			cli.printAnswer(o, a)
		}
		if slices.ContainsFunc(a.Nodes, unknownMachine) {
			known, err := cli.machines(ctx, b)
			return usage.New(errors.Join(refused(o, a, known), err))
		}
		return refused(o, a, nil)
	})
}

// wrongOrder returns the error of an invalid order as a usage error.
func wrongOrder(err error) error {
	return usage.New(errors.New(strings.TrimPrefix(err.Error(), api.ErrOrder.Error()+": ")))
}

// reportSlow prints text unless stop is called within healthSlow. stop waits for the output.
func reportSlow(w io.Writer, text string) (stop func()) {
	ended, said := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop
		defer close(said)
		slow := time.NewTimer(healthSlow)
		defer slow.Stop()
		select {
		case <-ended:
		case <-slow.C:
			fmt.Fprintln(w, text)
		}
	}()
	return func() {
		close(ended)
		<-said
	}
}

// unknownMachine reports whether the pool has no machine of that name.
func unknownMachine(n api.RepairNodeResponse) bool { return !n.OK && n.Why == api.WhyNoNode }

// refused returns an error with the rejected part of an order; nil if all of it was accepted.
// known are the machines of the pool, to suggest a name.
func refused(o api.RepairOrder, a api.RepairOrderResponse, known []string) error {
	if a.OK {
		return nil
	}
	var not []api.RepairNodeResponse
	for _, n := range a.Nodes {
		if !n.OK && (o.Op != api.OpCheck || n.Status == nil) {
			not = append(not, n)
		}
	}
	switch {
	case a.Error != "":
		return fmt.Errorf("%w: %s", errOrdered, a.Error)
	case len(not) == 1 && not[0].Status == nil:
		return fmt.Errorf("%w: %s: %s%s; %s", errOrdered, not[0].Node, not[0].Why, spelling.Suggest(not[0].Node, known), machinesHint)
	case len(not) == 1:
		return fmt.Errorf("%w: %s: %s", errOrdered, not[0].Node, not[0].Why)
	}
	return fmt.Errorf("%w: %d of %d machines, see above", errOrdered, len(not), len(a.Nodes))
}

func (cli *commands) printAnswer(o api.RepairOrder, a api.RepairOrderResponse) {
	switch {
	case o.Op == api.OpCheck:
		cli.printChecked(o, a)
		return
	case len(a.Nodes) > 0:
		cli.printDone(a)
	}
	switch {
	case len(o.Nodes) > 0 || !a.OK:
	case o.Op == api.OpRecover && a.Pool != nil:
		fmt.Fprintf(cli.Stdout, "pool %s/%s: %s begun, %s until %s; \"weir node status\" shows how far it is\n", cli.Cluster, cli.Pool,
			prose.Count(a.Pool.Begun, "repair"), prose.Plural(a.Pool.Waiting, "machine waits", "machines wait"), explain.When(time.Now(), a.Pool.Until))
	case o.Op == api.OpRelease && o.All:
		fmt.Fprintf(cli.Stdout, "all requests of pool %s/%s that waited are withdrawn\n", cli.Cluster, cli.Pool)
	case o.Op == api.OpPause:
		fmt.Fprintf(cli.Stdout, "repairs of pool %s/%s are paused until %s; \"weir node resume\" ends that\n", cli.Cluster, cli.Pool, explain.Time(time.Now().Add(o.For)))
	case o.Op == api.OpResume:
		fmt.Fprintf(cli.Stdout, "your pause of pool %s/%s has ended\n", cli.Cluster, cli.Pool)
	case o.Op == api.OpRelease:
		fmt.Fprintf(cli.Stdout, "the breaker of pool %s/%s is closed; it opens again if more machines become unhealthy\n", cli.Cluster, cli.Pool)
	}
}

// printChecked prints the result of each detection mode for each machine.
func (cli *commands) printChecked(o api.RepairOrder, a api.RepairOrderResponse) {
	now := time.Now()
	var rows [][]string
	for _, n := range a.Nodes {
		if n.Status == nil {
			continue
		}
		for _, w := range n.Status.Modes {
			rows = append(rows, []string{n.Node, string(n.Status.State), string(w.Mode), string(w.Verdict), explain.Ago(now, w.At), reasonOf(w)})
		}
	}
	if len(rows) > 0 {
		cli.PrintTable([]string{"node", "state", "mode", "verdict", "age", "reason"}, rows)
	}
	if len(o.Nodes) == 0 && len(a.Nodes) == api.MaxRows {
		fmt.Fprintf(cli.Stdout, "these are the first %d of the probed machines; \"weir node status\" lists the unhealthy ones\n", api.MaxRows)
	}
}

// printDone prints the result of an order for each machine.
func (cli *commands) printDone(a api.RepairOrderResponse) {
	var rows [][]string
	for _, n := range a.Nodes {
		done, state := "no", "-"
		if n.OK {
			done = "yes"
		}
		if n.Status != nil {
			state = string(n.Status.State)
		}
		rows = append(rows, []string{n.Node, done, state, cmp.Or(n.Why, "-")})
	}
	cli.PrintTable([]string{"node", "done", "state", "what"}, rows)
}
