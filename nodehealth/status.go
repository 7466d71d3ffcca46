package nodehealth

import (
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

func (l *Loop) status(now time.Time, q api.HealthQuery) api.HealthStatus {
	state := l.judge.State()
	s := api.HealthStatus{
		Pool: l.config.Pool, At: now, Enabled: *l.policy.Enabled, Mode: l.policy.Mode, Owner: l.policy.Owner,
		RepairOwner: l.ownership.repairOwner, Census: l.judge.Census(), Alarms: l.announcer.activeAlarms(), Memory: l.memory.status,
		Pauses: state.Pauses[:min(len(state.Pauses), api.MaxRows)], Requests: l.judge.Requests(),
	}
	s.Requests = s.Requests[:min(len(s.Requests), api.MaxRows)]
	for _, b := range state.Breakers {
		if b.Open && len(s.Open) < api.MaxRows {
			s.Open = append(s.Open, b)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.rounds.table)) {
		s.Rounds = append(s.Rounds, l.rounds.table[name].HealthRounds)
	}
	s.Memory.Held = l.actor.held
	s.Lost = l.mail.losses()
	if q.History {
		s.History = l.memory.history.entriesOf(q.Nodes)
	} else {
		l.nodesOf(now, q, &s)
	}
	return s
}

func (l *Loop) nodesOf(now time.Time, q api.HealthQuery, s *api.HealthStatus) {
	list := q.Nodes
	if len(list) == 0 {
		fit := map[string]bool{}
		if !q.All {
			for _, n := range l.judge.Status() {
				fit[n.Node] = n.State == api.StateFresh || n.State == api.StateHealthy || l.queued(now, n)
			}
		}
		list = l.page(q.After, func(id string) bool { return !fit[id] })
		if len(list) > api.MaxRows {
			list = list[:api.MaxRows]
			s.Next = list[api.MaxRows-1]
		}
	}
	for _, id := range slices.Sorted(slices.Values(list)) {
		if n, known := l.nodeStatus(now, id); known && len(s.Nodes) < api.MaxRows {
			s.Nodes = append(s.Nodes, n)
		}
	}
}

// queued reports whether the node does not fail and waits for a pool request. One line of the
// status covers all such nodes.
func (l *Loop) queued(now time.Time, n api.NodeHealthState) bool {
	if n.State != api.StateRequested {
		return false
	}
	e, _ := l.judge.Explain(now, n.Node)
	return e.RequestedForPool
}

// page returns the wanted nodes after a given node, sorted by id. If there are more than MaxRows,
// it returns MaxRows+1.
func (l *Loop) page(after string, wanted func(id string) bool) []string {
	var out []string
	for _, n := range l.judge.Status() {
		if n.Node > after && wanted(n.Node) && len(out) <= api.MaxRows {
			out = append(out, n.Node)
		}
	}
	return out
}

func (l *Loop) nodeStatus(now time.Time, id string) (api.NodeHealth, bool) {
	e, known := l.judge.Explain(now, id)
	s := api.NodeHealth{NodeExplanation: e, Group: l.inventory.machines[id].group}
	if execution := l.actor.executions[e.Attempt]; execution != nil {
		s.Stage, s.Evidence = execution.stage, execution.evidence
	}
	return s, known
}

// publishCondition passes the condition of the pool to the autoscaler if it may have changed. In
// mode observe it passes nothing.
func (l *Loop) publishCondition() {
	changed := l.changed
	l.changed = false
	if !changed || !l.acts() {
		return
	}
	unhealthy := l.judge.Unfit()
	l.exchange.mu.Lock()
	defer l.exchange.mu.Unlock()
	l.unhealthy, l.barred, l.budget, l.known = unhealthy, Barred(l.judge), l.judge.Budget(), true
}

// Barred returns why a pool with this judge must not shrink; empty: it may.
func Barred(j *judge.Judge) string {
	if open, why := j.BreakerOpen(); open {
		return "node health: the breaker is open: " + why
	}
	return ""
}
