package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/pools/local/placer"
	"github.com/weirkeeper/weirkeeper/resource"
)

// poolStatus is what "weir status" knows, from three who each know a part.
type poolStatus struct {
	Cluster   string             `json:"cluster"`
	Pool      string             `json:"pool"`
	Warnings  []string           `json:"warnings"` // what needs an operator, first
	LastTick  *autoscaler.Record `json:"last_tick,omitempty"`
	Processes *bootstrapStatus   `json:"processes,omitempty"`
	Counts    *message.Counts    `json:"instance_counts,omitempty"`
}

func (cli *cli) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show a pool: what is wrong, its size, its signals, its applications",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cli.withBus(cmd.Context(), cli.status) },
	}
	cli.outputFlag(cmd)
	return cmd
}

func (cli *cli) status(ctx context.Context, b *bus.Bus) error {
	s := cli.gatherStatus(ctx, b)
	if cli.output == "json" {
		return cli.printJSON(s)
	}
	for _, w := range s.Warnings {
		fmt.Fprintf(cli.stdout, "! %s\n", w)
	}
	cli.printPool(s, time.Now())
	if s.Processes != nil {
		fmt.Fprintln(cli.stdout)
		cli.printProcesses(append(s.Processes.Signals, s.Processes.Autoscaler))
	}
	if s.Counts != nil {
		fmt.Fprintln(cli.stdout)
		cli.printCounts(*s.Counts)
	}
	return nil
}

// gatherStatus asks all parts; one that does not answer is a warning.
func (cli *cli) gatherStatus(ctx context.Context, b *bus.Bus) poolStatus {
	s := poolStatus{Cluster: cli.cluster, Pool: cli.pool, Warnings: []string{}}
	warn := s.warn
	if processes, err := cli.askBootstrap(ctx, b); err != nil {
		warn("%v", err)
	} else {
		s.Processes = &processes
		if processes.Refused != "" {
			warn("the files are refused, and what runs goes on: %s", processes.Refused)
		}
		for _, p := range append(processes.Signals, processes.Autoscaler) {
			switch {
			case p.Why != "" && p.State != "running" && p.App != "":
				warn("%s is %s: %s; \"weir signal logs %s\" shows its last words", p.Title(), p.State, p.Why, p.App)
			case p.Why != "":
				warn("%s is %s: %s", p.Title(), p.State, p.Why)
			case p.State != "running":
				warn("%s is %s", p.Title(), p.State)
			}
		}
	}
	if r, err := lastRecord(ctx, b, cli.cluster, cli.pool); err != nil {
		warn("%v", err)
	} else {
		s.LastTick = &r
		s.warnOfTick(r)
	}
	var counts message.Counts
	err := askJSON(ctx, b.Conn(), message.CountsRequestSubject(cli.cluster, cli.pool), "harmonizer", nil, &counts)
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
	return s
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
			s.warn("application %s: %d of %d instances crash again and again; \"weir app logs %s\" shows their last words", name, n.Flapping, n.Expected, name)
		}
	}
}

// warnOfPending tells what has waited for room longer than a machine takes to come.
func (cli *cli) warnOfPending(ctx context.Context, b *bus.Bus, s *poolStatus) {
	pending, err := placer.GetPending(ctx, b.Conn(), cli.cluster, cli.pool)
	if err != nil || pending.Total == 0 || s.LastTick == nil {
		return // no placer: a cloud controller has its own word on it
	}
	var largest resource.Vector
	for _, n := range s.LastTick.Snapshot.Nodes {
		for k, x := range n.Facts.Resources {
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
		s.warn("%d instances wait for room, %s/%d for %s", pending.Total, oldest.App, oldest.Index, ago(time.Now(), oldest.Since))
	}
}

func (s *poolStatus) warnOfTick(r autoscaler.Record) {
	add := s.warn
	if age := time.Since(r.At); age > max(time.Minute, 3*r.Every) {
		add("the last tick is %v old: does the autoscaler run?", age.Round(time.Second))
	}
	if r.Failed != "" {
		add("the last tick ended early: %s", r.Failed)
	}
	for _, p := range r.Problems {
		add("last tick: %s", p)
	}
	for _, app := range r.Decision.Apps {
		if app.StandIn {
			add("app %s is served by %s, so the pool does not shrink: %s", app.App, server(app.Source), app.Why)
		}
	}
	for _, step := range r.Decision.Steps {
		if most := r.Input.Policy.Limits.Max; step.Rule == decide.RuleLimits && step.Before > most {
			add("the pool would need %s, but max_capacity is %s", number(step.Before), number(most))
		}
	}
	for _, action := range r.Actions {
		if action.Error != "" {
			add("%s %s%s: %s", action.Op, action.Group, action.Node, action.Error)
		}
	}
}

func (cli *cli) printPool(s poolStatus, now time.Time) {
	fmt.Fprintf(cli.stdout, "pool %s/%s", s.Cluster, s.Pool)
	if s.LastTick == nil || s.LastTick.Failed != "" {
		fmt.Fprintln(cli.stdout, ": nothing is known of its size")
		return
	}
	r := s.LastTick
	fmt.Fprintf(cli.stdout, ": target %s, wanted %s, fulfilled %s, joined %s, limits %s to %s, tick %s ago\n",
		number(r.Snapshot.Target), number(r.Decision.Target), number(r.Snapshot.Fulfilled), number(r.Snapshot.Joined),
		number(r.Input.Policy.Limits.Min), number(r.Input.Policy.Limits.Max), ago(now, r.At))
	var rows [][]string
	for _, g := range r.Snapshot.Groups {
		rows = append(rows, []string{g.ID, fmt.Sprint(g.Target), number(g.Fulfilled()), fmt.Sprint(g.Min), fmt.Sprint(g.Max)})
	}
	cli.printTable([]string{"group", "target", "fulfilled", "min", "max"}, rows)
	if len(r.Snapshot.Nodes) == 0 {
		return
	}
	fmt.Fprintln(cli.stdout)
	cli.printNodes(*r, now)
}

func (cli *cli) printNodes(r autoscaler.Record, now time.Time) {
	var rows [][]string
	for _, n := range r.Snapshot.Nodes {
		state := string(n.State)
		if n.Facts.Draining {
			state += ", draining"
		}
		if state == "" {
			state = string(n.Instance.State)
		}
		rows = append(rows, []string{n.Instance.ID, n.Instance.Group, state, fmt.Sprint(n.Facts.Tasks),
			fmt.Sprintf("%g/%g", round2(n.Facts.Allocated[0]), n.Facts.Resources[0]),
			fmt.Sprintf("%g/%g", round2(n.Facts.Allocated[1]), n.Facts.Resources[1]), ago(now, n.Instance.Launched)})
	}
	cli.printTable([]string{"node", "group", "state", "tasks", "cpus", "mem MB", "up"}, rows)
}

func round2(x float64) float64 { return float64(int64(x*100+0.5)) / 100 }

func (cli *cli) printProcesses(list []bootstrap.Process) {
	now := time.Now()
	var rows [][]string
	for _, p := range list {
		rows = append(rows, processRow(p, p.Title(), now))
		if c := p.Candidate; c != nil {
			rows = append(rows, processRow(*c, "  beside it", now))
		}
	}
	cli.printTable([]string{"process", "version", "state", "pid", "since", "restarts", "why"}, rows)
}

func processRow(p bootstrap.Process, title string, now time.Time) []string {
	why := p.Why
	if why == "" && p.Trial != nil {
		why = "shadow " + p.Trial.Shadow + " " + trialText(*p.Trial)
	}
	return []string{title, orDash(p.Version), p.State, pid(p.PID), ago(now, p.Since), fmt.Sprint(p.Restarts), why}
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

func (cli *cli) printCounts(c message.Counts) {
	var rows [][]string
	for _, name := range sortedKeys(c.Apps) {
		n := c.Apps[name]
		rows = append(rows, []string{name, fmt.Sprint(n.Expected), fmt.Sprint(n.Running), fmt.Sprint(n.Missing), fmt.Sprint(n.Crashed), fmt.Sprint(n.Flapping), fmt.Sprint(n.Extra)})
	}
	if rows == nil {
		fmt.Fprintln(cli.stdout, "no applications; set one with \"weir app set\"")
		return
	}
	cli.printTable([]string{"app", "expected", "running", "missing", "crashed", "flapping", "extra"}, rows)
}
