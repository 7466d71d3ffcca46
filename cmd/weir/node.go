package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/explain"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

// nodeRow is a node in a listing.
type nodeRow struct {
	Node   string  `json:"node"`
	Group  string  `json:"group"`
	State  string  `json:"state"`
	Tasks  int     `json:"tasks"`
	Uptime float64 `json:"uptime,omitempty"` // in seconds; 0 of a node that leaves
	// Health is the state of the node in the pool's node health; empty without a policy.
	Health string `json:"health,omitempty"`
	// Facts are those of the latest heartbeat, if the node answers now.
	Facts *pools.NodeFacts `json:"facts,omitempty"`
}

// nodeRows returns the nodes of a tick with their current facts, the leaving ones last.
func nodeRows(r autoscaler.Record, facts []pools.NodeFacts, silent []apps.SilentNode) (rows []nodeRow) {
	known := make(map[string]*pools.NodeFacts, len(facts))
	for _, f := range facts {
		known[f.ID] = &f
	}
	leaving := map[string]bool{}
	for _, d := range r.Drains {
		leaving[d.Node] = true
	}
	for _, n := range r.Case.Nodes {
		if leaving[n.ID] {
			continue
		}
		state := string(n.Node)
		switch {
		case n.Instance != pools.InstanceRunning:
			state = string(n.Instance)
		case n.Node == pools.NodeUnknown || slices.ContainsFunc(silent, func(one apps.SilentNode) bool { return one.Node == n.ID }):
			state = "silent"
		case n.Draining:
			state += ", cordoned"
		}
		rows = append(rows, nodeRow{Node: n.ID, Group: n.Group, State: state, Tasks: n.Tasks, Uptime: n.Uptime.Seconds(), Facts: known[n.ID]})
	}
	for _, d := range r.Drains {
		row := nodeRow{Node: d.Node, Group: d.Group, State: "leaving: " + string(d.State), Facts: known[d.Node]}
		if row.Facts != nil {
			row.Tasks = row.Facts.Tasks
		}
		rows = append(rows, row)
	}
	return rows
}

// cells are the columns node, group, state, tasks, cpus, mem MB and up.
func (n nodeRow) cells() []string {
	usage := func(k resource.Kind) string {
		if n.Facts == nil {
			return "-"
		}
		return explain.Number(n.Facts.Allocated[k]) + "/" + explain.Quantity(n.Facts.Resources[k])
	}
	up := "-"
	if n.Uptime > 0 {
		up = explain.Ago(time.Unix(0, 0).Add(time.Duration(n.Uptime*float64(time.Second))), time.Unix(0, 0))
	}
	return []string{n.Node, n.Group, n.State, fmt.Sprint(n.Tasks), usage(resource.CPUs), usage(resource.Mem), up}
}

// shownNodes bounds the table of nodes.
const shownNodes = 100

// printNodes prints the nodes of the last tick with their current usage.
func (cli *statusCommands) printNodes(s poolStatus, r autoscaler.Record) {
	nodes := nodeRows(r, s.Nodes, s.Silent)
	var rows [][]string
	for _, n := range nodes[:min(len(nodes), shownNodes)] {
		rows = append(rows, n.cells())
	}
	cli.printTable([]string{"node", "group", "state", "tasks", "cpus", "mem MB", "up"}, rows)
	if more := len(nodes) - len(rows); more > 0 {
		fmt.Fprintf(cli.Stdout, "and %d more; \"weir node list\" has all\n", more)
	}
}

func (cli *healthCommands) nodeListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [POOL]",
		Short: "List the machines of a pool",
		Long: `List the machines of a pool: those of the last tick that read them, with their usage
now. The column "health" is "-" in a pool without a health policy.`,
		Example: `  weir node list web
  weir node list web --watch
  weir node list --output name`,
		Args: cli.poolArg,
		RunE: func(cmd *cobra.Command, _ []string) error { return cli.withBus(cmd.Context(), cli.listNodes) },
	}
	cli.watchFlag(cmd)
	cli.namesFlag(cmd, eachName(func(n nodeRow) string { return n.Node }))
	return cmd
}

func (cli *healthCommands) listNodes(ctx context.Context, b *bus.Bus) error {
	r, err := (&poolCommands{cli.shared}).newestReading(ctx, b)
	if err != nil {
		return err
	}
	facts, err := autoscalerd.RequestNodes(ctx, b, cli.Cluster, cli.Pool)
	if err != nil && !errors.Is(err, nats.ErrNoResponders) { // without an autoscaler, usage is unknown
		return err
	}
	silent, _ := (&statusCommands{cli.shared}).silentNodes(ctx, b, r)
	rows := append([]nodeRow{}, nodeRows(r, facts, silent)...)
	health, err := cli.healthStatus(ctx, b, nodehealth.StatusQuery{All: true})
	if err != nil && !errors.Is(err, events.ErrNoResponse) {
		return err
	}
	for _, n := range health.Nodes {
		if i := slices.IndexFunc(rows, func(row nodeRow) bool { return row.Node == n.Node }); i >= 0 {
			rows[i].Health = string(n.State)
		}
	}
	if cli.output == "json" {
		return cli.printJSON(rows)
	}
	var table [][]string
	for _, n := range rows {
		table = append(table, append(n.cells(), cmp.Or(n.Health, "-")))
	}
	cli.printTable([]string{"node", "group", "state", "tasks", "cpus", "mem MB", "up", "health"}, table)
	return nil
}
