package view

import (
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Node is a node in a listing.
type Node struct {
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

// Nodes returns the nodes of a tick with their current facts, the leaving ones last.
func Nodes(r autoscaler.Record, facts []pools.NodeFacts, silent []apps.SilentNode) (rows []Node) {
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
		rows = append(rows, Node{Node: n.ID, Group: n.Group, State: state, Tasks: n.Tasks, Uptime: n.Uptime.Seconds(), Facts: known[n.ID]})
	}
	for _, d := range r.Drains {
		row := Node{Node: d.Node, Group: d.Group, State: "leaving: " + string(d.State), Facts: known[d.Node]}
		if row.Facts != nil {
			row.Tasks = row.Facts.Tasks
		}
		rows = append(rows, row)
	}
	return rows
}

// Nodes returns the nodes of a pool with their usage now: those of the newest tick that read them.
func (p Pool) Nodes(ctx context.Context) ([]Node, error) {
	r, err := Reading(ctx, p.Bus, p.Cluster, p.Name)
	if err != nil {
		return nil, err
	}
	facts, err := autoscalerd.RequestNodes(ctx, p.Bus, p.Cluster, p.Name)
	if err != nil && !errors.Is(err, nats.ErrNoResponders) { // without an autoscaler, usage is unknown
		return nil, err
	}
	silent, _ := p.silentNodes(ctx, r)
	rows := append([]Node{}, Nodes(r, facts, silent)...)
	health, err := p.Health(ctx, nodehealth.StatusQuery{All: true})
	if err != nil && !errors.Is(err, events.ErrNoResponse) {
		return nil, err
	}
	for _, n := range health.Nodes {
		if i := slices.IndexFunc(rows, func(row Node) bool { return row.Node == n.Node }); i >= 0 {
			rows[i].Health = string(n.State)
		}
	}
	return rows, nil
}

// Health reads all pages of the status of node health. The error wraps events.ErrNoResponse if the pool has no policy.
func (p Pool) Health(ctx context.Context, q nodehealth.StatusQuery) (nodehealth.Status, error) {
	var whole nodehealth.Status
	for {
		page, err := p.nodeHealth().Status(ctx, q)
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
	return whole, nil
}

// Apps requests the state of the applications of the pool from the harmonizer.
func (p Pool) Apps(ctx context.Context) (harmonizer.Status, error) {
	s, err := Harmonizer(ctx, p.Bus, p.Cluster, harmonizer.StatusQuery{})
	s.Apps = slices.DeleteFunc(s.Apps, func(a apps.Summary) bool { return a.Pool != "" && a.Pool != p.Name })
	return s, err
}

// Signals requests the signal processes of the pool from its bootstrap.
func (p Pool) Signals(ctx context.Context) ([]bootstrap.Process, error) {
	s, err := Bootstrap(ctx, p.Bus, p.Cluster, p.Name)
	return append([]bootstrap.Process{}, s.Signals...), err
}
