package view

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// Nodes returns the nodes of a tick as they are now, the leaving ones last. A node without facts has its tasks of the tick. If the tick is
// too long ago, it also has its state of then, as "was running", and no uptime.
func Nodes(r api.TickRecord, facts []api.NodeFacts, silent []api.SilentNode, now time.Time) (rows []api.Node) {
	known := make(map[string]*api.NodeFacts, len(facts))
	for _, f := range facts {
		known[f.ID] = &f
	}
	old := liveness.Overdue(now, r.At, r.Every, r.Took)
	then := func(row *api.Node) {
		if old && row.Facts == nil {
			row.State, row.Uptime = api.NodeWas+row.State, 0
		}
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
		case n.Instance != api.InstanceRunning:
			state = string(n.Instance)
		case n.Node == api.NodeUnknown || slices.ContainsFunc(silent, func(one api.SilentNode) bool { return one.Node == n.ID }):
			state = "silent"
		case n.Draining:
			state += ", cordoned"
		}
		row := api.Node{Node: n.ID, Group: n.Group, State: state, Tasks: n.Tasks, Uptime: (n.Uptime + max(0, now.Sub(r.At))).Seconds(), Facts: known[n.ID]}
		if row.Facts != nil {
			row.Tasks = row.Facts.Tasks
			if state == string(api.NodeIdle) || state == string(api.NodeRunning) {
				row.State = stateBy(row.Tasks)
			}
		}
		then(&row)
		rows = append(rows, row)
	}
	for _, d := range r.Drains {
		row := api.Node{Node: d.Node, Group: d.Group, State: "leaving: " + string(d.State), Facts: known[d.Node]}
		if row.Facts != nil {
			row.Tasks = row.Facts.Tasks
		}
		then(&row)
		rows = append(rows, row)
	}
	return rows
}

// Nodes returns the nodes of a pool with their usage now: those of the newest tick that read them. A pool without such a
// tick has those that report, without groups.
func (p Pool) Nodes(ctx context.Context) ([]api.Node, error) {
	r, err := Reading(ctx, p.Bus, p.Cluster, p.Name)
	if err != nil {
		return p.reporting(ctx, err)
	}
	facts, err := RequestNodes(ctx, p.Bus, p.Cluster, p.Name)
	if err != nil && !errors.Is(err, nats.ErrNoResponders) { // without an autoscaler, usage is unknown
		return nil, err
	}
	var silent []api.SilentNode
	if h, err := Harmonizer(ctx, p.Bus, p.Cluster, api.HarmonizerQuery{Totals: true}); err == nil {
		silent = silentNodes(h, p.Name, r)
	}
	rows := append([]api.Node{}, Nodes(r, facts, silent, time.Now())...)
	health, err := p.Health(ctx, api.HealthQuery{All: true})
	if err != nil && !errors.Is(err, events.ErrNoResponse) {
		return nil, err
	}
	for _, n := range health.Nodes {
		if i := slices.IndexFunc(rows, func(row api.Node) bool { return row.Node == n.Node }); i >= 0 {
			rows[i].Health = string(n.State)
		}
	}
	return rows, nil
}

// reporting returns the nodes that report to the autoscaler, or else to the harmonizer. If neither answers, the error is
// that of the tick.
func (p Pool) reporting(ctx context.Context, err error) ([]api.Node, error) {
	rows := []api.Node{}
	if facts, errFacts := RequestNodes(ctx, p.Bus, p.Cluster, p.Name); errFacts == nil {
		for _, f := range facts {
			rows = append(rows, api.Node{Node: f.ID, State: stateBy(f.Tasks), Tasks: f.Tasks, Facts: &f})
		}
		return rows, nil
	}
	h, errHarmonizer := Harmonizer(ctx, p.Bus, p.Cluster, api.HarmonizerQuery{Nodes: p.Name})
	if errHarmonizer != nil || len(h.Nodes) == 0 {
		return nil, err
	}
	for _, n := range h.Nodes {
		rows = append(rows, api.Node{Node: n.Node, State: stateBy(n.Copies), Tasks: n.Copies})
	}
	return rows, nil
}

// Agents returns the ids of the nodes of a pool whose agents may answer: those that report to the autoscaler, or else those
// of the newest tick, or else those that report to the harmonizer.
func (p Pool) Agents(ctx context.Context) (ids []string, err error) {
	if facts, err := RequestNodes(ctx, p.Bus, p.Cluster, p.Name); err == nil {
		for _, f := range facts {
			ids = append(ids, f.ID)
		}
		return ids, nil
	}
	r, err := Reading(ctx, p.Bus, p.Cluster, p.Name)
	if err == nil {
		for _, n := range r.Case.Nodes {
			ids = append(ids, n.ID)
		}
		return ids, nil
	}
	rows, err := p.reporting(ctx, err)
	for _, n := range rows {
		ids = append(ids, n.Node)
	}
	return ids, err
}

// stateBy returns the state of a joined node with so many tasks.
func stateBy(tasks int) string {
	if tasks > 0 {
		return string(api.NodeRunning)
	}
	return string(api.NodeIdle)
}

// Health reads all pages of the status of node health. The error wraps events.ErrNoResponse if the pool has no policy.
func (p Pool) Health(ctx context.Context, q api.HealthQuery) (api.HealthStatus, error) {
	var whole api.HealthStatus
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
func (p Pool) Apps(ctx context.Context) (api.HarmonizerStatus, error) {
	s, err := Harmonizer(ctx, p.Bus, p.Cluster, api.HarmonizerQuery{})
	s.Apps = slices.DeleteFunc(s.Apps, func(a api.AppSummary) bool { return a.Pool != "" && a.Pool != p.Name })
	return s, err
}

// Signals requests the signal processes of the pool from its bootstrap.
func (p Pool) Signals(ctx context.Context) ([]api.Process, error) {
	s, err := Bootstrap(ctx, p.Bus, p.Cluster, p.Name)
	return append([]api.Process{}, s.Signals...), err
}
