package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/bootstrapd"
	"github.com/weirkeeper/weirkeeper/internal/doctor"
	"github.com/weirkeeper/weirkeeper/internal/explain"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local/placer"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/resource"
)

// poolStatus is the output of "weir status", collected from the ledger, bootstrap and the harmonizer.
type poolStatus struct {
	Cluster  string             `json:"cluster"`
	Pool     string             `json:"pool"`
	Warnings []string           `json:"warnings"` // what needs an operator, first
	LastTick *autoscaler.Record `json:"last_tick,omitempty"`
	// Decided is the last tick that decided, if LastTick did not: it is paused, or
	// has failed. Without one in the last hour it is the plan of the next tick.
	Decided   *autoscaler.Record `json:"last_decision,omitempty"`
	Processes *bootstrapd.Status `json:"processes,omitempty"`
	Counts    *message.Counts    `json:"instance_counts,omitempty"`
	Orders    *pools.Orders      `json:"orders,omitempty"`
	// Nodes are the latest facts of the nodes, as the autoscaler that holds the pool received them.
	Nodes []pools.NodeFacts `json:"nodes,omitempty"`
	// Silent are nodes of the pool whose last two heartbeats are missing.
	Silent []apps.SilentNode `json:"silent_nodes,omitempty"`
	// Health is the first page of "weir node status", if the pool has a policy.
	Health *nodehealth.Status `json:"health,omitempty"`

	unknown error // the cluster has no such pool
}

// statusCommands are "weir status".
type statusCommands struct{ *shared }

func (cli *statusCommands) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [POOL]",
		Short: "Show a pool: its problems, size, signals and applications",
		Example: `  weir status
  weir status web --watch
  weir status web --output json`,
		Args: cli.poolArg,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := cli.withBus(cmd.Context(), cli.status)
			if full := cli.fullDisks(nil); err != nil && full != nil {
				err = fmt.Errorf("%s; %w", strings.Join(full, "; "), err)
			}
			return err
		},
	}
	cli.watchFlag(cmd)
	cli.outputFlag(cmd)
	return cmd
}

func (cli *statusCommands) status(ctx context.Context, b *bus.Bus) error {
	s := cli.gatherStatus(ctx, b)
	if s.unknown != nil {
		return s.unknown
	}
	if cli.output == "json" {
		return cli.printJSON(s)
	}
	for _, w := range s.Warnings {
		fmt.Fprintf(cli.Stdout, "! %s\n", w)
	}
	cli.printPool(s, time.Now())
	if s.Processes != nil {
		fmt.Fprintln(cli.Stdout)
		cli.printProcesses(append(s.Processes.Signals, s.Processes.Autoscaler))
		same := doctor.Shared(s.Processes.Signals)
		for _, why := range sortedKeys(same) {
			fmt.Fprintf(cli.Stdout, "signals of %s run as the user of bootstrap, and can read its keys: %s\n", strings.Join(same[why], ", "), why)
		}
	}
	if s.Counts != nil {
		fmt.Fprintln(cli.Stdout)
		cli.printCounts(*s.Counts)
	}
	return nil
}

// gatherStatus requests the status of all parts. A part without a response adds a warning.
func (cli *statusCommands) gatherStatus(ctx context.Context, b *bus.Bus) poolStatus {
	s := poolStatus{Cluster: cli.Cluster, Pool: cli.Pool, Warnings: []string{}}
	warn := s.warn
	for _, damage := range cli.damageWarnings(ctx, b) {
		warn("%s", damage)
	}
	if processes, err := cli.askBootstrap(ctx, b); err != nil {
		warn("%v", err)
	} else {
		s.Processes = &processes
		if processes.Refused != "" {
			warn("configuration files rejected, running processes unchanged: %s", processes.Refused)
		}
		for _, p := range append(processes.Signals, processes.Autoscaler) {
			if problem := explain.Process(time.Now(), p); problem != "" {
				warn("%s", problem)
			}
			for one := &p; one != nil; one = one.Candidate {
				if one.Yanked != "" {
					warn("%s runs %s, which is yanked: %s; pin another version in the pool's file", one.Title(), one.Version, one.Yanked)
				}
			}
		}
	}
	if r, err := lastRecord(ctx, b, cli.Cluster, cli.Pool); err != nil {
		if mistake, ok := errors.AsType[*command.UsageError](err); ok {
			s.unknown = mistake
			return s
		}
		warn("%v", err)
	} else {
		s.LastTick = &r
		s.warnOfSilence(time.Now(), r)
		s.warnOfTick(r)
		if r.Case == nil {
			s.Decided = lastDecided(ctx, b, cli.Cluster, cli.Pool)
		}
		if s.decided() == nil { // as after a long pause
			if now, err := autoscalerd.RequestPlan(ctx, b, cli.Cluster, cli.Pool); err == nil && now.Case != nil && now.Result != nil {
				s.Decided = &now
			}
		}
		if d := s.decided(); d != nil {
			var held []string
			s.Silent, held = cli.silentNodes(ctx, b, *d)
			s.Warnings = append(s.Warnings, held...)
		}
		s.warnOfNodes(time.Now(), r)
	}
	cli.warnOfOrders(ctx, b, &s)
	cli.warnOfHealth(ctx, b, &s)
	nodes, err := autoscalerd.RequestNodes(ctx, b, cli.Cluster, cli.Pool)
	if err != nil && !errors.Is(err, nats.ErrNoResponders) { // bootstrap reports an autoscaler that does not run
		warn("%v", err)
	}
	s.Nodes = nodes
	counts, err := askCounts(ctx, b.Conn(), cli.Cluster, cli.Pool)
	switch absent, ok := errors.AsType[*absentError](err); {
	case ok:
		warn("%v", absent)
	case err != nil:
		warn("%v", err)
	default:
		s.Counts = &counts
		s.warnOfApps(counts)
	}
	cli.warnOfPending(ctx, b, &s)
	s.Warnings = append(cli.fullDisks(s.Processes), s.Warnings...)
	return s
}

// warnOfHealth adds a warning for unhealthy machines. A pool without a health policy does
// not respond, which is no problem.
func (cli *statusCommands) warnOfHealth(ctx context.Context, b *bus.Bus, s *poolStatus) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	h, err := cli.nodeHealth(b).Status(ctx, nodehealth.StatusQuery{})
	switch {
	case errors.Is(err, events.ErrNoResponse):
		return
	case err != nil:
		s.warn("%v", err)
		return
	}
	s.Health = &h
	if trouble := healthTrouble(h); trouble != "" {
		s.warn("%s", trouble)
	}
}

// decided returns the tick with the newest known size of the pool; nil without one.
func (s poolStatus) decided() *autoscaler.Record {
	if s.LastTick != nil && s.LastTick.Case != nil && s.LastTick.Result != nil {
		return s.LastTick
	}
	return s.Decided
}

func (s *poolStatus) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

func (s *poolStatus) warnOfApps(c message.Counts) {
	if !c.Complete {
		s.warn("instance counts are not complete, and no signal is given them: %s", c.Why)
	}
	for _, name := range sortedKeys(c.Apps) {
		if n := c.Apps[name]; n.Flapping > 0 {
			s.warn("%s", explain.Crashes(name, n))
		}
	}
}

// warnOfPending adds a warning for instances that wait for room longer than three ticks.
func (cli *statusCommands) warnOfPending(ctx context.Context, b *bus.Bus, s *poolStatus) {
	pending, err := placer.GetPending(ctx, b.Conn(), cli.Cluster, cli.Pool)
	if err != nil || pending.Total == 0 || s.LastTick == nil {
		return // without a placer, a cloud controller places instances
	}
	var largest resource.Vector
	for _, n := range s.Nodes {
		for k, x := range n.Resources {
			largest[k] = max(largest[k], x)
		}
	}
	for _, c := range pending.Copies {
		if !c.Footprint.Fits(largest) {
			s.warn("%s/%d waits for room: it needs %s; no machine here offers more than %s", c.App, c.Index, resource.Of(c.Footprint), resource.Of(largest))
			return
		}
	}
	if oldest := pending.Copies[0]; time.Since(oldest.Since) > 3*max(s.LastTick.Every, time.Second) {
		s.warn("%d instances wait for room, %s/%d for %s", pending.Total, oldest.App, oldest.Index, explain.Ago(time.Now(), oldest.Since))
	}
}

// warnOfSilence adds a first warning if ticks are overdue.
func (s *poolStatus) warnOfSilence(now time.Time, r autoscaler.Record) {
	var p *bootstrap.Process
	if s.Processes != nil {
		p = &s.Processes.Autoscaler
	}
	text := explain.Overdue(now, r, p)
	if text == "" && p != nil && p.Alive != nil && p.Alive.Overdue {
		text = explain.Silence(now, *p.Alive) // of a standby: another host holds the pool
	}
	if text != "" {
		s.Warnings = slices.Insert(s.Warnings, 0, text)
	}
}

// silentNodes asks the harmonizer for the nodes that are silent just now, and returns
// those that run as of that tick, and what keeps it from starts and stops.
func (cli *statusCommands) silentNodes(ctx context.Context, b *bus.Bus, r autoscaler.Record) (silent []apps.SilentNode, held []string) {
	h, err := askHarmonizer(ctx, b, cli.Cluster, harmonizer.StatusQuery{Totals: true})
	if err != nil {
		return nil, nil // the counts have the warning that the harmonizer does not answer
	}
	return slices.DeleteFunc(h.Silent, func(n apps.SilentNode) bool {
		return !slices.ContainsFunc(r.Case.Nodes, func(c plan.Candidate) bool {
			return c.ID == n.Node && c.Instance == pools.InstanceRunning
		})
	}), heldLines(h.DisruptionLimit)
}

// warnOfNodes adds one warning for the nodes that are silent now, and one for the nodes
// that the last tick had no facts of.
func (s *poolStatus) warnOfNodes(now time.Time, r autoscaler.Record) {
	if len(s.Silent) > 0 {
		s.warn("%s", explain.SilentNodes(now, s.Silent))
	}
	before := slices.DeleteFunc(slices.Clone(r.Snapshot.Silent), func(id string) bool {
		return slices.ContainsFunc(s.Silent, func(n apps.SilentNode) bool { return n.Node == id })
	})
	switch len(before) {
	case 0:
	case 1:
		s.warn("node %s was silent at the last tick: what it runs is unknown, so the pool does not shrink; \"weir node status %s\" shows its last verdicts", before[0], before[0])
	default:
		s.warn("%d nodes were silent at the last tick: what they run is unknown, so the pool does not shrink: %s", len(before), explain.List(before))
	}
}

func (s *poolStatus) warnOfTick(r autoscaler.Record) {
	add := s.warn
	if r.Failed != "" {
		add("the last tick ended early: %s", r.Failed)
	}
	for _, p := range r.Problems {
		add("last tick: %s", p)
	}
	for _, d := range r.Drift {
		add("another program set the target of %s to %d, after weir set %d", d.Group, d.Found, d.LastTarget)
	}
	for _, q := range r.State.Quarantines {
		add("%s", explain.Group(time.Now(), q))
	}
	if r.Detail != nil && r.Result != nil && r.Case != nil {
		s.warnOfDecision(*r.Case, *r.Result, *r.Detail)
	}
	for _, action := range r.Actions {
		if action.Error != "" {
			add("%s %s%s: %s", action.Op, action.Group, action.Node, action.Error)
		}
	}
}

func (s *poolStatus) warnOfDecision(c resolve.Case, a resolve.Result, d autoscaler.Detail) {
	for _, app := range d.Apps {
		if app.Fallback {
			s.warn("app %s is served by %s, so the pool does not shrink: %s", app.App, explain.Source(app.Source), app.Why)
		}
	}
	for _, step := range a.Steps {
		if most := c.Input.Policy.Limits.Max; step.Rule == decide.RuleLimits && step.Before > most {
			s.warn("the signals request a target of %s, but scaling_limits.max_capacity is %s: raise it, or expect instances without room", explain.Number(step.Before), explain.Number(most))
		}
	}
}

func (cli *statusCommands) printPool(s poolStatus, now time.Time) {
	fmt.Fprintf(cli.Stdout, "pool %s/%s", s.Cluster, s.Pool)
	r := s.decided()
	if r == nil {
		fmt.Fprintln(cli.Stdout, ": size unknown")
		return
	}
	limits := r.Case.Input.Policy.Limits
	fmt.Fprintf(cli.Stdout, ": target %s, wanted %s, fulfilled %s, joined %s, limits %s to %s, tick %s ago\n",
		explain.Number(r.Snapshot.Target), explain.Number(r.Result.Target), explain.Number(r.Snapshot.Fulfilled), explain.Number(r.Snapshot.Joined),
		explain.Number(limits.Min), explain.Number(limits.Max), explain.Ago(now, r.At))
	cli.printGroups(*r)
	if len(r.Case.Nodes)+len(r.Drains) == 0 {
		return
	}
	fmt.Fprintln(cli.Stdout)
	cli.printNodes(s, *r)
}

func (cli *statusCommands) printGroups(r autoscaler.Record) {
	var rows [][]string
	for _, g := range r.Snapshot.Groups {
		rows = append(rows, []string{g.ID, fmt.Sprint(g.Target), explain.Number(g.Fulfilled), fmt.Sprint(g.Min), bound(g.Max)})
	}
	cli.printTable([]string{"group", "target", "fulfilled", "min", "max"}, rows)
}

// bound prints the maximum of a group.
func bound(n int) string {
	if n == pools.Unlimited {
		return "inf"
	}
	return fmt.Sprint(n)
}

func processRow(p bootstrap.Process, title string, now time.Time) []string {
	why := p.Why
	if why == "" && p.Trial != nil {
		why = "shadow " + p.Trial.Shadow + " " + trialText(*p.Trial)
	}
	state := p.State
	if p.Alive != nil && p.Alive.Overdue {
		state, why = "silent", explain.Silence(now, *p.Alive)
	}
	if p.Yanked != "" {
		why = strings.TrimSuffix("yanked: "+p.Yanked+"; "+why, "; ")
	}
	return []string{title, orDash(p.Version), state, pid(p.PID), explain.Ago(now, p.Since), fmt.Sprint(p.Restarts), why}
}

func pid(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (cli *statusCommands) printCounts(c message.Counts) {
	var rows [][]string
	for _, name := range sortedKeys(c.Apps) {
		n := c.Apps[name]
		rows = append(rows, []string{name, fmt.Sprint(n.Expected), fmt.Sprint(n.Running), fmt.Sprint(n.Missing), fmt.Sprint(n.Crashed), fmt.Sprint(n.Flapping), fmt.Sprint(n.Extra)})
	}
	if rows == nil {
		fmt.Fprintln(cli.Stdout, command.NoResources+": set an application with \"weir app set\"")
		return
	}
	cli.printTable([]string{"app", "expected", "running", "missing", "crashed", "flapping", "extra"}, rows)
}
