// Package node has the commands of "weir node".
//
// They list the machines of a pool, show their health, and send orders to its node health, which the autoscaler of the
// pool runs. "weir node policy" and "weir node replay" need no cluster: they read files. [Command] returns the
// commands. One goroutine uses them.
package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

// machinesHint is the hint that names the command that lists all machines.
const machinesHint = `"weir node status --all" shows all`

// commands are the commands of "weir node".
type commands struct{ *connect.CLI }

// Command returns "weir node" with its subcommands.
func Command(c *connect.CLI) *cobra.Command {
	cli := &commands{c}
	cmd := &cobra.Command{
		Use:     "node",
		Aliases: []string{"nodes"},
		Short:   "List the machines of a pool, and control their repair",
		Long: `List the machines of a pool, and control the repair of unhealthy ones. The policy is the
"health" block of the pool file, and the autoscaler of the pool carries it out. With
"mode: observe", the default, it decides and reports, but repairs nothing. The arguments
of these commands are nodes, after the name of their pool or with --pool.`,
		Example: `  weir node list web
  weir node status
  weir node history i-0123
  weir node check i-0123
  weir node pause i-0123 --for 2h --why "disk is being checked"
  weir node policy check pool.yaml
  weir node replay incident.jsonl`,
		Args: command.Group,
		RunE: command.Help,
	}
	cmd.AddCommand(
		cli.listCommand(), cli.statusCommand(), cli.historyCommand(), cli.checkCommand(), cli.recoverCommand(), cli.pauseCommand(),
		cli.resumeCommand(), cli.releaseCommand(), cli.policyCommand(), cli.replayCommand(),
		cli.evidenceCommand(),
	)
	return cmd
}

func (cli *commands) statusCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "status [POOL] [NODE...]",
		Aliases: []string{"get", "describe", "show"},
		Short:   "Show the unhealthy machines of a pool, and their repairs",
		Long: `Show the unhealthy machines of a pool, and their repairs. For a machine that is named,
the command also shows the last result of each detection mode. "waits for" is the gate
that holds a repair: docs/node-health.md lists the gates. Lines with "!" need an
operator.` + fmt.Sprintf(connect.PoolFirst, "nodes"),
		Example: `  weir node status web
  weir node status --all
  weir node status i-0123`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return connect.Unreached(cli.withNodes(cmd, args, func(ctx context.Context, b *bus.Bus, nodes []string) error {
				cli.PrintBusWarnings(ctx, b)
				s, err := cli.healthStatus(ctx, b, api.HealthQuery{Nodes: nodes, All: all})
				if err != nil {
					return err
				}
				if cli.Output == "json" {
					return cli.PrintJSON(s)
				}
				cli.printHealth(s, len(nodes) > 0)
				if len(nodes) > 0 {
					cli.printTasks(ctx, b, nodes)
				}
				return nil
			}))
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also the healthy machines")
	cli.WatchFlag(cmd)
	cli.NamesFlag(cmd, func(v any) (names []string) {
		s, _ := v.(api.HealthStatus)
		for _, n := range s.Nodes {
			names = append(names, n.Node)
		}
		return names
	})
	return cmd
}

func (cli *commands) historyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history [POOL] [NODE...]",
		Short: "Show the past repairs of the machines of a pool, oldest first",
		Long: `Show the past repairs of the machines of a pool, or of those named, oldest first: repairs
and fences with the finding that led to them and their result, quarantines, releases,
requests of operators and breakers. The pool stores the last 32 entries of each machine
and the last 512 entries in all, also of machines that are gone.` + fmt.Sprintf(connect.PoolFirst, "nodes"),
		Example: `  weir node history
  weir node history i-0123 -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			q := api.HealthQuery{Nodes: args, History: true}
			if err := api.ValidateQuery(q); err != nil {
				return wrongOrder(err)
			}
			return cli.withNodes(cmd, args, func(ctx context.Context, b *bus.Bus, nodes []string) error {
				q.Nodes = nodes
				s, err := cli.nodeHealth(b).Status(ctx, q)
				if err != nil {
					return err
				}
				if cli.Output == "json" {
					return cli.PrintJSON(append([]api.HealthHistory{}, s.History...))
				}
				cli.printHistory(s.History)
				return nil
			})
		},
	}
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *commands) printHistory(entries []api.HealthHistory) {
	if len(entries) == 0 {
		fmt.Fprintln(cli.Stdout, command.NoResources+": nothing was done to these machines")
		return
	}
	var rows [][]string
	for _, e := range entries {
		rows = append(rows, []string{explain.Time(e.At), cmp.Or(e.Node, "the pool"), cmp.Or(string(e.Action), string(e.Event)), cell.OrDash(e.Why), cell.OrDash(e.By), outcome(e)})
	}
	cli.PrintTable([]string{"time", "node", "action", "finding", "requested by", "result"}, rows)
}

// outcome returns the result of an entry, and how long the action took.
func outcome(e api.HealthHistory) string {
	_, result, _ := strings.Cut(string(e.Result), ".")
	switch {
	case e.Observe:
		return "observed, not carried out"
	case e.Result == "" && e.Attempt == "":
		return "-"
	case e.Result == "":
		return "running"
	case e.Replacement != "":
		result += ", replaced by " + e.Replacement
	}
	return fmt.Sprintf("%s after %s%s", result, explain.Ago(e.Ended, e.At), cell.After(": ", e.ResultWhy))
}

// healthStatus reads all pages of the status.
func (cli *commands) healthStatus(ctx context.Context, b *bus.Bus, q api.HealthQuery) (api.HealthStatus, error) {
	if err := api.ValidateQuery(q); err != nil {
		return api.HealthStatus{}, wrongOrder(err)
	}
	whole, err := cli.Reader(b).Health(ctx, q)
	if err != nil {
		return whole, err
	}
	for _, id := range q.Nodes {
		if !slices.ContainsFunc(whole.Nodes, func(n api.NodeHealth) bool { return n.Node == id }) {
			return whole, cli.noMachine(ctx, b, id)
		}
	}
	return whole, nil
}

// noMachine returns the error for a machine that node health has no record of, with the names
// of those that it has.
func (cli *commands) noMachine(ctx context.Context, b *bus.Bus, id string) error {
	known, err := cli.machines(ctx, b)
	if err != nil {
		return err
	}
	return usage.New(fmt.Errorf("pool %s has no machine %q%s; %s", cli.Pool, id, spelling.Suggest(id, known), machinesHint))
}

// machines returns the names of the machines that node health has: the first page of them.
func (cli *commands) machines(ctx context.Context, b *bus.Bus) (ids []string, err error) {
	all, err := cli.nodeHealth(b).Status(ctx, api.HealthQuery{All: true})
	for _, n := range all.Nodes {
		ids = append(ids, n.Node)
	}
	return ids, err
}

func (cli *commands) printHealth(s api.HealthStatus, whole bool) {
	now := time.Now()
	cli.printHealthHead(now, s)
	var rows [][]string
	for _, n := range s.Nodes {
		rows = append(rows, []string{n.Node, cell.OrDash(n.Zone), string(n.State), explain.Ago(now, n.Since), cell.OrDash(doing(now, s.Mode, n)), cell.OrDash(holding(now, n.NodeHealthState)), cell.OrDash(n.Why)})
	}
	if len(rows) > 0 {
		cli.PrintTable([]string{"node", "zone", "state", "for", "doing", "waits for", "why"}, rows)
	}
	if !whole {
		return
	}
	for _, n := range s.Nodes {
		cli.printMachine(now, s.Mode, n)
	}
}

// printMachine prints the details of one machine.
func (cli *commands) printMachine(now time.Time, mode api.PolicyMode, n api.NodeHealth) {
	begun := "started"
	if mode != api.ModeAct {
		begun = "reported, not started"
	}
	fmt.Fprintf(cli.Stdout, "\n%s%s: %s %s within the window%s\n", n.Node, cell.After(", group ", n.Group), prose.Count(n.Repairs, "repair"), begun, descent(n))
	if n.Evidence != "" {
		fmt.Fprintf(cli.Stdout, "evidence %s is saved: \"weir node evidence %s\"\n", n.Evidence, n.Node)
	}
	var words [][]string
	for _, w := range n.Modes {
		verdict := string(w.Verdict)
		if w.Silent {
			verdict += ", silent"
		}
		words = append(words, []string{string(w.Mode), verdict, explain.Ago(now, w.At), reasonOf(w)})
	}
	cli.PrintTable([]string{"mode", "verdict", "age", "reason"}, words)
}

// printTasks prints the drain of each node, and what its scheduler reports beside its health. Without an autoscaler that is unknown, which
// the lines about health show.
func (cli *commands) printTasks(ctx context.Context, b *bus.Bus, nodes []string) {
	if r, err := view.Reading(ctx, b, cli.Cluster, cli.Pool); err == nil {
		for _, d := range r.Drains {
			if slices.Contains(nodes, d.Node) {
				fmt.Fprintf(cli.Stdout, "%s: %s\n", d.Node, explain.Leaving(time.Now(), d))
			}
		}
	}
	facts, err := view.RequestNodes(ctx, b, cli.Cluster, cli.Pool)
	if err != nil {
		return
	}
	for _, f := range facts {
		if slices.Contains(nodes, f.ID) {
			for _, line := range explain.Tasks(time.Now(), f) {
				fmt.Fprintf(cli.Stdout, "%s: %s\n", f.ID, line)
			}
		}
	}
}

// reasonOf returns the reason of the verdict of a mode.
func reasonOf(w api.ModeVerdict) string {
	if w.Reason == "" && w.Verdict == api.CheckUnknown && w.At.IsZero() {
		return "no result yet"
	}
	return cell.OrDash(w.Reason)
}

// descent returns the text that names the machine which a machine replaced.
func descent(n api.NodeHealth) string {
	if n.Lineage == n.Node || n.Lineage == "" {
		return ""
	}
	return ", as a replacement of " + n.Lineage
}

// doing returns the repair of a machine and its remaining time. In mode observe it returns
// the repairs that were only reported.
func doing(now time.Time, mode api.PolicyMode, n api.NodeHealth) string {
	text := string(n.Action)
	if n.Action != "" && n.Stage != "" {
		text = fmt.Sprintf("%s: %s", n.Action, n.Stage)
	}
	switch {
	case n.State == api.StateQuarantined && !n.FitSince.IsZero():
		return fmt.Sprintf("healthy for %s: it returns to service after healthy_for", explain.Ago(now, n.FitSince))
	case n.Spent != "":
		return n.Spent
	case n.Requester != "":
		return fmt.Sprintf("repair requested by %s, %s left", n.Requester, ahead(now, n.RequestedUntil))
	case n.Attempt != "" && n.Until.After(now):
		return fmt.Sprintf("%s, %s left", text, ahead(now, n.Until))
	case text == "" && mode != api.ModeAct && n.Repairs > 0:
		return prose.Count(n.Repairs, "repair") + " reported"
	}
	return text
}

func (cli *commands) printHealthHead(now time.Time, s api.HealthStatus) {
	fmt.Fprintf(cli.Stdout, "pool %s/%s, mode %s, owner %s: %s\n", cli.Cluster, s.Pool, s.Mode, s.Owner, cell.OrDash(view.Census(s.Census)))
	switch {
	case s.RepairOwner == "":
	case s.Mode != api.ModeAct:
		fmt.Fprintf(cli.Stdout, "mode is observe: Weirkeeper reports and repairs nothing: %s\n", s.RepairOwner)
	default:
		terminal.Problem(cli.Stdout, "nothing is repaired: "+s.RepairOwner)
	}
	for _, b := range s.Open {
		terminal.Problem(cli.Stdout, explain.Breaker(now, b))
	}
	for _, a := range s.Alarms {
		if !shownElsewhere(s, a.Key) {
			terminal.Problem(cli.Stdout, fmt.Sprintf("for %s: %s", explain.Ago(now, a.Since), strings.TrimSpace(a.Node+" "+a.Why)))
		}
	}
	for _, p := range s.Pauses {
		fmt.Fprintf(cli.Stdout, "paused: %s by %s for %s%s\n", cmp.Or(p.Node, "the pool"), p.Owner, ahead(now, p.Until), cell.After(": ", p.Why))
	}
	for _, r := range s.Requests {
		fmt.Fprintf(cli.Stdout, "request: %s requests to repair the pool: %s%s, %s left\n", r.By, prose.Plural(r.Waiting, "machine waits", "machines wait"), cell.After(" for ", gates(r)), ahead(now, r.Until))
	}
	if s.Memory.Err != "" {
		terminal.Problem(cli.Stdout, "no repair starts, because its intent cannot be saved first: "+s.Memory.Err)
	}
	for _, r := range s.Rounds {
		if r.Err != "" {
			terminal.Problem(cli.Stdout, fmt.Sprintf("detection mode %s has no data: %s", r.Round, r.Err))
		}
	}
}

// gates names the gates at which the machines of a request wait, with their counts.
func gates(r api.PoolRepairRequest) string {
	var texts []string
	for _, gate := range slices.Sorted(maps.Keys(r.Gates)) {
		texts = append(texts, fmt.Sprintf("%s (%d)", gate, r.Gates[gate]))
	}
	return strings.Join(texts, ", ")
}

// shownElsewhere reports whether another line already shows the subject of an alarm.
func shownElsewhere(s api.HealthStatus, alarm string) bool {
	return len(s.Open) > 0 && (alarm == "breaker" || strings.HasPrefix(alarm, "zone:")) || s.RepairOwner != "" && alarm == "owner"
}

// holding returns the gate that holds the repair of a node, or the rest of its quarantine.
func holding(now time.Time, s api.NodeHealthState) string {
	switch {
	case s.Gate == "" && s.Attempt == "" && s.Until.After(now):
		return ahead(now, s.Until)
	case s.Gate == "":
		return ""
	case s.Attempt != "":
		return string(s.Gate) + ": " + condition.GateText(now, s.Gate, time.Time{})
	}
	return string(s.Gate) + ": " + condition.GateText(now, s.Gate, s.Until)
}

// ahead returns the duration from now to a time.
func ahead(now, at time.Time) string { return seconds.Short(at.Sub(now).Round(time.Second)) }

// nodeHealth returns a client of the pool's node health.
func (cli *commands) nodeHealth(b *bus.Bus) *events.Client {
	return events.NewClient(b.Conn(), cli.Cluster, cli.Pool)
}

// withNodes runs f on the bus with the nodes among the arguments.
func (cli *commands) withNodes(cmd *cobra.Command, args []string, f func(ctx context.Context, b *bus.Bus, nodes []string) error) error {
	return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
		nodes, err := cli.TakePool(ctx, b, cmd, args)
		if err != nil {
			return err
		}
		return f(ctx, b, nodes)
	})
}
