package nodehealth

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// Status implements Ear.
func (l *Loop) Status(ctx context.Context, q StatusQuery) (Status, error) {
	if err := q.Validate(); err != nil {
		return Status{}, err
	}
	var s Status
	err := l.mail.ask(ctx, func(now time.Time, _ *judge.Judge) { s = l.status(now, q) })
	return s, err
}

func (l *Loop) status(now time.Time, q StatusQuery) Status {
	state := l.judge.State()
	s := Status{
		Pool: l.config.Pool, At: now, Enabled: *l.policy.Enabled, Mode: l.policy.Mode, Owner: l.policy.Owner,
		Healer: l.ownership.healer, Census: l.judge.Census(), Alarms: l.announcer.standing(), Memory: l.memory.status,
		Pauses: state.Pauses[:min(len(state.Pauses), MaxRows)],
	}
	for _, b := range state.Breakers {
		if b.Open && len(s.Open) < MaxRows {
			s.Open = append(s.Open, b)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.rounds.table)) {
		s.Rounds = append(s.Rounds, l.rounds.table[name].RoundStatus)
	}
	s.Memory.Held = l.held
	s.Lost = l.mail.lost.all()
	l.nodesOf(now, q, &s)
	return s
}

// nodesOf adds the nodes that are asked for.
func (l *Loop) nodesOf(now time.Time, q StatusQuery, s *Status) {
	list := q.Nodes
	if len(list) == 0 {
		fit := map[string]bool{}
		if !q.All {
			for _, n := range l.judge.Status() {
				fit[n.Node] = n.State == judge.Fresh || n.State == judge.Healthy
			}
		}
		list = l.page(q.After, func(id string) bool { return !fit[id] })
		if len(list) > MaxRows {
			list = list[:MaxRows]
			s.Next = list[MaxRows-1]
		}
	}
	for _, id := range slices.Sorted(slices.Values(list)) {
		if n, known := l.nodeStatus(now, id); known && len(s.Nodes) < MaxRows {
			s.Nodes = append(s.Nodes, n)
		}
	}
}

// page returns the nodes after one that are wanted, in order of id: one more than a page
// has, if there are.
func (l *Loop) page(after string, wanted func(id string) bool) []string {
	var out []string
	for _, n := range l.judge.Status() {
		if n.Node > after && wanted(n.Node) && len(out) <= MaxRows {
			out = append(out, n.Node)
		}
	}
	return out
}

func (l *Loop) nodeStatus(now time.Time, id string) (NodeStatus, bool) {
	e, known := l.judge.Explain(now, id)
	s := NodeStatus{Explanation: e, Group: l.inventory.machines[id].group}
	if effort := l.efforts[e.Attempt]; effort != nil {
		s.Stage = effort.stage
	}
	return s, known
}

// condition tells the autoscaler how the pool stands, if that may have changed.
func (l *Loop) condition() {
	if !l.changed {
		return
	}
	l.changed = false
	if l.policy.Mode != judge.Act {
		return // what observes changes nothing
	}
	sick, barred := l.judge.Unfit(), ""
	if open, why := l.judge.BreakerOpen(); open {
		barred = "node health: the breaker is open: " + why
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sick, l.barred = sick, barred
}

// Sick returns why each node that is not fit is so. Nobody may change it. It does not
// wait. A policy that observes finds nobody sick.
func (l *Loop) Sick() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sick
}

// Barred returns why the pool is not to shrink now; empty: it may. It does not wait.
func (l *Loop) Barred() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.barred
}
