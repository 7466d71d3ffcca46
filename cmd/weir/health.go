package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/pools/health"
	"github.com/weirkeeper/weirkeeper/pools/health/judge"
	"github.com/weirkeeper/weirkeeper/pools/health/natsbus"
)

// healthTimeout bounds an order to the node-health loop: a check asks the machines.
const healthTimeout = time.Minute

// errOrdered: the node-health loop does not do all that it was asked for.
var errOrdered = errors.New("node health refuses")

func (cli *cli) healthCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "health",
		Short: "See which machines of a pool are sick, and what is done about it",
		Long: `See which machines of a pool are sick, and what is done about it. The policy is the
"health" block of the pool's file; its autoscaler carries it out. With
"mode: observe", the default, it decides and tells, and touches nothing.`,
		Example: `  weir health status
  weir health check i-0123
  weir health pause i-0123 --for 2h --why "disk is being looked at"
  weir health policy check pool.yaml
  weir health replay incident.jsonl`,
		Args: group,
		RunE: help,
	}
	cmd.AddCommand(
		cli.healthStatusCommand(), cli.healthCheckCommand(), cli.healthRecoverCommand(), cli.healthPauseCommand(),
		cli.healthResumeCommand(), cli.healthReleaseCommand(), cli.healthPolicyCommand(), cli.healthReplayCommand(),
	)
	return cmd
}

func (cli *cli) healthStatusCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "status [NODE...]",
		Short: "Show the machines that are not fit, or all of them, and why nothing is done",
		RunE: func(cmd *cobra.Command, nodes []string) error {
			return cli.withBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				s, err := cli.healthStatus(ctx, b, health.StatusQuery{Nodes: nodes, All: all})
				if err != nil {
					return err
				}
				if cli.output == "json" {
					return cli.printJSON(s)
				}
				cli.printHealth(s, len(nodes) > 0)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "those that are fit, too")
	cli.outputFlag(cmd)
	return cmd
}

// healthStatus asks for all pages.
func (cli *cli) healthStatus(ctx context.Context, b *bus.Bus, q health.StatusQuery) (health.Status, error) {
	if err := q.Validate(); err != nil {
		return health.Status{}, &usageError{err}
	}
	var whole health.Status
	for {
		page, err := cli.nodeHealth(b).Status(ctx, q)
		if err != nil {
			return whole, err
		}
		page.Nodes = append(whole.Nodes, page.Nodes...)
		whole = page
		if page.Next == "" || page.Next <= q.After {
			break
		}
		q.After, whole.Next = page.Next, ""
	}
	for _, id := range q.Nodes {
		if !slices.ContainsFunc(whole.Nodes, func(n health.NodeStatus) bool { return n.Node == id }) {
			return whole, fmt.Errorf("pool %s has no machine %s; \"weir health status --all\" shows all", cli.pool, id)
		}
	}
	return whole, nil
}

// nodeHealth asks the node health of the pool.
func (cli *cli) nodeHealth(b *bus.Bus) *natsbus.Client {
	return natsbus.NewClient(b.Conn(), cli.cluster, cli.pool)
}

func (cli *cli) printHealth(s health.Status, whole bool) {
	now := time.Now()
	cli.printHealthHead(now, s)
	var rows [][]string
	for _, n := range s.Nodes {
		rows = append(rows, []string{n.Node, orDash(n.Zone), string(n.State), ago(now, n.Since), cmp.Or(n.Stage, string(n.Action), "-"), orDash(holding(now, n.Status)), orDash(n.Why)})
	}
	if len(rows) > 0 {
		cli.printTable([]string{"node", "zone", "state", "for", "doing", "waits for", "why"}, rows)
	}
	if !whole {
		return
	}
	for _, n := range s.Nodes {
		fmt.Fprintf(cli.stdout, "\n%s: %d repairs of its lineage %s in the window\n", n.Node, n.Repairs, orDash(n.Lineage))
		var words [][]string
		for _, w := range n.Modes {
			words = append(words, []string{string(w.Mode), string(w.Verdict), ago(now, w.At), orDash(w.Reason)})
		}
		cli.printTable([]string{"mode", "verdict", "heard", "reason"}, words)
	}
}

func (cli *cli) printHealthHead(now time.Time, s health.Status) {
	var states []string
	for _, state := range sortedKeys(s.Census.States) {
		states = append(states, fmt.Sprintf("%d %s", s.Census.States[state], state))
	}
	fmt.Fprintf(cli.stdout, "pool %s, mode %s, owner %s: %s\n", s.Pool, s.Mode, s.Owner, orDash(strings.Join(states, ", ")))
	if s.Healer != "" {
		fmt.Fprintf(cli.stdout, "! nothing is repaired: %s\n", s.Healer)
	}
	for _, b := range s.Open {
		what := "the pool's breaker is open"
		if !b.Pool {
			what = "zone " + b.Zone + " is frozen"
		}
		if b.Manual {
			what += ", until \"weir health release\""
		}
		fmt.Fprintf(cli.stdout, "! %s for %s: %s\n", what, ago(now, b.Since), b.Why)
	}
	for _, a := range s.Alarms {
		fmt.Fprintf(cli.stdout, "! %s: %s\n", ago(now, a.Since), strings.TrimSpace(a.Node+" "+a.Why))
	}
	for _, p := range s.Pauses {
		fmt.Fprintf(cli.stdout, "paused: %s by %s for %s%s\n", cmp.Or(p.Node, "the pool"), p.Owner, ahead(now, p.Until), after(": ", p.Why))
	}
	if s.Memory.Err != "" {
		fmt.Fprintf(cli.stdout, "! nothing is carried out, as it cannot be kept before: %s\n", s.Memory.Err)
	}
	for _, r := range s.Rounds {
		if r.Err != "" {
			fmt.Fprintf(cli.stdout, "! %s is not observed: %s\n", r.Round, r.Err)
		}
	}
}

// holding says which gate holds a node, and for how long.
func holding(now time.Time, s judge.Status) string {
	switch {
	case s.Gate != "" && s.Until.After(now):
		return fmt.Sprintf("%s, %s", s.Gate, ahead(now, s.Until))
	case s.Gate != "":
		return string(s.Gate)
	case s.Until.After(now):
		return ahead(now, s.Until)
	}
	return ""
}

// ahead says how far off a time is.
func ahead(now, at time.Time) string { return at.Sub(now).Round(time.Second).String() }

func after(sign, text string) string {
	if text == "" {
		return ""
	}
	return sign + text
}

func (cli *cli) healthCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [NODE...]",
		Short: "Look at machines now, in each way that the policy has",
		RunE: func(cmd *cobra.Command, nodes []string) error {
			return cli.orderHealth(cmd.Context(), health.Order{Op: health.OpCheck, Nodes: nodes})
		},
	}
	cli.outputFlag(cmd)
	return cmd
}

func (cli *cli) healthRecoverCommand() *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use:   "recover NODE...",
		Short: "Repair machines, sick or not, as the policy says and through all its gates",
		Args:  someNodes,
		RunE: func(cmd *cobra.Command, nodes []string) error {
			return cli.orderHealth(cmd.Context(), health.Order{Op: health.OpRecover, Nodes: nodes, Why: why})
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "the reason, for who finds it")
	cli.outputFlag(cmd)
	return cmd
}

func someNodes(cmd *cobra.Command, nodes []string) error {
	if len(nodes) == 0 {
		return &usageError{fmt.Errorf("%s wants at least one machine; \"weir health status --all\" shows all\nSee %q", cmd.CommandPath(), cmd.CommandPath()+" --help")}
	}
	return nil
}

func (cli *cli) healthPauseCommand() *cobra.Command {
	order := health.Order{Op: health.OpPause}
	cmd := &cobra.Command{
		Use:   "pause [NODE...]",
		Short: "Keep repairs off machines, or off the whole pool, for a while",
		Example: `  weir health pause i-0123 --for 2h --why "disk is being looked at"
  weir health pause --for 30m --why "network maintenance"`,
		RunE: func(cmd *cobra.Command, nodes []string) error {
			order.Nodes = nodes
			return cli.orderHealth(cmd.Context(), order)
		},
	}
	cmd.Flags().DurationVar(&order.For, "for", judge.DefaultPause, "how long")
	cmd.Flags().StringVar(&order.Why, "why", "", "the reason, for who finds it")
	cli.outputFlag(cmd)
	return cmd
}

func (cli *cli) healthResumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume [NODE...]",
		Short: "End the pause that you took of machines, or of the whole pool",
		RunE: func(cmd *cobra.Command, nodes []string) error {
			return cli.orderHealth(cmd.Context(), health.Order{Op: health.OpResume, Nodes: nodes})
		},
	}
	cli.outputFlag(cmd)
	return cmd
}

func (cli *cli) healthReleaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release [NODE...]",
		Short: "End the quarantine of machines; without one, close the pool's breaker",
		RunE: func(cmd *cobra.Command, nodes []string) error {
			return cli.orderHealth(cmd.Context(), health.Order{Op: health.OpRelease, Nodes: nodes})
		},
	}
	cli.outputFlag(cmd)
	return cmd
}

// orderHealth has the loop of the pool do something, and says what came of it.
func (cli *cli) orderHealth(ctx context.Context, o health.Order) error {
	o.By = operator()
	if err := o.Validate(); err != nil {
		return &usageError{err}
	}
	return cli.withBus(ctx, func(ctx context.Context, b *bus.Bus) error {
		ctx, cancel := context.WithTimeout(ctx, healthTimeout)
		defer cancel()
		a, err := cli.nodeHealth(b).Order(ctx, o)
		if err != nil {
			return err
		}
		if cli.output == "json" {
			if err := cli.printJSON(a); err != nil {
				return err
			}
		} else {
			cli.printAnswer(o, a)
		}
		if a.OK {
			return nil
		}
		return fmt.Errorf("%w: %s", errOrdered, cmp.Or(a.Error, "see above"))
	})
}

func (cli *cli) printAnswer(o health.Order, a health.Answer) {
	var rows [][]string
	for _, n := range a.Nodes {
		said := "no"
		if n.OK {
			said = "yes"
		}
		state, words := "-", n.Why
		if n.Status != nil {
			state = string(n.Status.State)
			for _, w := range n.Status.Modes {
				words += after(", ", strings.TrimSpace(fmt.Sprintf("%s %s %s", w.Mode, w.Verdict, w.Reason)))
			}
		}
		rows = append(rows, []string{n.Node, said, state, orDash(strings.TrimPrefix(words, ", "))})
	}
	switch {
	case len(rows) > 0:
		cli.printTable([]string{"node", "done", "state", "what"}, rows)
	case a.OK:
		fmt.Fprintf(cli.stdout, "%s: done for pool %s\n", o.Op, cli.pool)
	}
}
