package apply

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/resource"
)

// poolState is the pool after the changes since a snapshot.
type poolState struct {
	*snapshot.Snapshot
	state   api.PoolState
	account resolve.Account
	records Records
	places  places
}

// places is the latest answer of the scheduler about the copies of the nodes that leave.
type places struct {
	at   time.Time       // of the tick; zero: it has not answered
	back map[string]bool // nodes with a copy that has no other place
}

// placesOf returns the answer in the case of a tick.
func placesOf(c api.Case, now time.Time) places {
	if c.Places == nil {
		return places{}
	}
	p := places{at: now, back: map[string]bool{}}
	for _, id := range c.Places.Back {
		p.back[id] = true
	}
	return p
}

// proof returns what the scheduler states about a node that leaves.
func (p poolState) proof(r api.Drain) drain.Proof {
	switch {
	case !p.state.PlacesAnswered:
		return drain.NoProof
	case !p.places.at.After(r.CordonSent):
		return drain.Unproved
	case p.places.back[r.Node]:
		return drain.Needed
	}
	return drain.Proved
}

// groupsInBackoff returns the groups in backoff.
func (p poolState) groupsInBackoff() map[string]api.GroupBackoff {
	return plan.InBackoff(p.state.Backoffs, p.state.Clock)
}

// room returns the weight by which the groups can be raised, less the pending increase.
func (p poolState) room() float64 {
	busy, inBackoff, sum := p.Busy(), p.groupsInBackoff(), -p.account.PendingIncrease()
	for _, g := range p.account.Groups {
		if _, held := inBackoff[g.ID]; !held && !g.Stale && busy[g.ID] == "" {
			sum += max(0, float64(g.Max)-max(float64(g.Target), g.Fulfilled))
		}
	}
	return sum
}

// full reports whether every group that is not in backoff has its whole target running and joined,
// without the leaving nodes, and there is no pending increase. Unhealthy nodes and nodes under in-place repair
// do not count as joined. Those that were launched by since are not waited for: only newer nodes
// must be healthy.
func (p poolState) full(since time.Time) bool {
	inBackoff, leaving, inPlace := p.groupsInBackoff(), p.records.Leaving(), p.records.InPlace()
	counts := map[string]bool{}
	need, have := p.account.PendingIncrease(), 0.0
	for _, g := range p.account.Groups {
		if _, held := inBackoff[g.ID]; held || g.Stale {
			continue
		}
		counts[g.ID] = true
		need += float64(g.Share() + g.Surge)
	}
	for _, n := range p.Nodes {
		i, unfit := n.Instance, n.Unhealthy || inPlace[n.Instance.ID]
		switch {
		case !counts[i.Group] || leaving[i.ID] || p.Quarantined(i.ID) || i.State == api.InstanceTerminating:
		case !unfit:
			have += n.JoinedWeight()
		case !i.Launched.After(since):
			need -= i.Weight
		}
	}
	return have >= need-resource.Slack
}

// nodeSnapshots returns the nodes of the records in the form for their drains. facts are newer than the snapshot.
func (p poolState) nodeSnapshots(facts []api.NodeFacts) map[string]drain.NodeSnapshot {
	if len(p.records) == 0 {
		return nil
	}
	of := make(map[string]bool, len(p.records))
	for _, r := range p.records {
		of[r.Node] = true
	}
	views := make(map[string]drain.NodeSnapshot, len(p.records))
	busy, keeps := p.Busy(), map[string]string{}
	for _, g := range p.Groups {
		keeps[g.ID] = g.Keeps
	}
	waits := plan.InBackoff(p.state.Removals, p.state.Clock)
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if !of[n.Instance.ID] {
			continue
		}
		v := viewOf(p.At, n, busy[n.Instance.Group])
		_, v.Waits = waits[n.Instance.Group]
		v.Keeps = keeps[n.Instance.Group]
		views[n.Instance.ID] = v
	}
	// A node that joined after the snapshot is not an orphan.
	reported := map[string]time.Time{}
	for i := range facts {
		id := facts[i].ID
		if !of[id] {
			continue
		}
		if one, there := views[id]; there && one.Node == api.NodeOrphaned {
			one.Node = api.NodeUnknown
			views[id] = one
		}
		reported[id] = facts[i].At
	}
	listed, unknown := map[string]bool{}, map[string]bool{}
	for _, g := range p.Groups {
		listed[g.ID], unknown[g.ID] = true, g.Unknown != nil
	}
	for _, record := range p.records {
		one, there := views[record.Node]
		factsAt, reports := reported[record.Node]
		switch silent := one.Instance == drain.Present && one.Node == api.NodeUnknown; {
		case unknown[record.Group] && there && record.ProviderEnds: // the provider ends it in any case
		case unknown[record.Group]:
			one = drain.NodeSnapshot{Instance: drain.PresenceUnknown, At: p.At, Waits: true}
		case !there && p.Unknown() != "" && drain.ValidateRecord(record) != nil: // the group in it may be wrong
			one = drain.NodeSnapshot{Instance: drain.PresenceUnknown, At: p.At}
		case !there && !listed[record.Group]:
			one = drain.NodeSnapshot{Instance: drain.PresenceUnknown, At: p.At, Left: !p.UnknownGroup(record.Group), FactsAt: factsAt}
		case !there:
			one = drain.NodeSnapshot{Instance: drain.Absent, At: p.At}
		case record.Hold:
			one.Replaced = p.full(record.Since)
			fallthrough
		case record.Reason == api.DrainRepair:
			if silent && (p.StartingFor(record.Node) || reports || len(facts) == 0 && p.allSilent(record)) {
				one.Instance = drain.PresenceUnknown // otherwise it would count as a node that does not report
			}
		}
		one.Proof = p.proof(record)
		views[record.Node] = one
	}
	return views
}

// allSilent reports, for a pool in which no node reports, whether the silence of the record's node has
// no meaning. That is so if other nodes should report too, or if the node reported since its repair
// began.
func (p poolState) allSilent(r api.Drain) bool {
	others := slices.ContainsFunc(p.Silent, func(id string) bool { return id != r.Node })
	return others || r.State.Leaving() && r.State != api.DrainChosen
}

// viewOf returns a node in the form for its drain. The listed groups were read completely, so a node
// that is not in its group is absent.
func viewOf(at time.Time, n *pools.Node, busy string) drain.NodeSnapshot {
	v := drain.NodeSnapshot{
		Instance: drain.Present, At: at, Protected: n.Instance.Protected, Busy: busy, Node: n.State,
		FactsAt: n.Facts.At, Cordoned: n.Facts.Draining, Tasks: n.Facts.Tasks,
		BootID: n.Facts.BootID,
	}
	if n.Instance.State == api.InstanceTerminating {
		v.Instance = drain.Ending
	}
	return v
}

// warnings returns the notices to handle, each with its drain. If the instance does not exist, its
// drain has no node. A notice that may be about an unknown instance waits too: it is sent again. A rebalance recommendation waits while the group is being changed or the node
// is repaired in place: it is sent again.
func (p poolState) warnings(notices []pools.Notice) (handled []pools.Notice, drains []drain.Choice) {
	busy, inPlace := p.Busy(), p.records.InPlace()
	for _, n := range notices {
		i, ours := p.Instance(n.Instance)
		reason := api.DrainSpot
		if n.Kind == pools.Rebalance {
			reason = api.DrainRebalance
		}
		if !ours && p.Unknown() != "" {
			continue
		}
		if n.Kind == pools.Rebalance && (busy[i.Group] != "" || inPlace[n.Instance]) {
			continue
		}
		var c drain.Choice
		if ours {
			c = drain.Choice{Node: i.ID, Group: i.Group, Weight: i.Weight, Reason: reason, Why: n.Why}
		}
		handled, drains = append(handled, n), append(drains, c)
	}
	return handled, drains
}

// repairs returns the choice for each request. If there is nothing to begin, the choice has no
// node, and the error is the reason.
func (p poolState) repairs(now time.Time, requests []Request) ([]drain.Choice, []error) {
	records := map[string]api.Drain{}
	for _, r := range p.records {
		records[r.Node] = r
	}
	room, budget := p.room(), p.records.Disruption(p.Snapshot)
	choices, answers, taken := make([]drain.Choice, len(requests)), make([]error, len(requests)), map[string]string{}
	for i, w := range requests {
		record, under := records[w.Node]
		attempt, same := taken[w.Node]
		switch {
		case under && record.Attempt == w.Attempt:
			continue // it is saved
		case under && !record.InService(), same && attempt != w.Attempt:
			answers[i] = fmt.Errorf("%w: %s", pools.ErrLeaving, record.Reason)
			continue
		}
		c, err := p.repair(now, w.RepairRequest)
		if err == nil && c.Hold && c.Weight > room+resource.Slack {
			err = pools.ErrNoRoom
		}
		if err == nil && !c.Hold && !budget.Room(w.Node) {
			err = fmt.Errorf("%w: %d nodes are out of service (%v), limit %d", pools.ErrRefused, budget.Others(w.Node), budget, budget.Limit)
		}
		if answers[i] = err; err == nil {
			choices[i], taken[w.Node] = c, w.Attempt
			room -= c.Weight
		}
	}
	return choices, answers
}

// keeps returns why the provider rejects terminations in the group, or an empty string.
func (p poolState) keeps(group string) string {
	for _, g := range p.Groups {
		if g.ID == group {
			return g.Keeps
		}
	}
	return ""
}

// repair returns the choice for a request, or why it is refused.
func (p poolState) repair(now time.Time, r pools.RepairRequest) (drain.Choice, error) {
	n, there := p.Instance(r.Node)
	if !there {
		return drain.Choice{}, pools.ErrUnknownNode
	}
	group, _ := p.Group(n.Group)
	switch busy := p.Busy()[n.Group]; {
	case !now.Before(r.Deadline):
		return drain.Choice{}, fmt.Errorf("its deadline %v has passed", r.Deadline)
	case busy != "":
		return drain.Choice{}, fmt.Errorf("%w: its group is not changed now: %s", pools.ErrRefused, busy)
	case r.RepairInPlace == nil && p.keeps(n.Group) != "":
		return drain.Choice{}, fmt.Errorf("%w: its group keeps its nodes: %s", pools.ErrRefused, p.keeps(n.Group))
	case r.RepairInPlace == nil && n.Protected:
		return drain.Choice{}, fmt.Errorf("%w: the node is protected from termination", pools.ErrRefused)
	case r.RepairInPlace != nil && r.Hold:
		return drain.Choice{}, errors.New("a repair in place has no replacement: remove hold")
	case r.RepairInPlace != nil && !supportsRepair(group, r.RepairInPlace.Kind):
		return drain.Choice{}, fmt.Errorf("%w: group %s does not support %s", pools.ErrRefused, n.Group, r.RepairInPlace.Kind)
	}
	return drain.Choice{
		Node: n.ID, Group: n.Group, Weight: n.Weight, Reason: api.DrainRepair,
		Attempt: r.Attempt, Hold: r.Hold, RepairInPlace: r.RepairInPlace, Deadline: r.Deadline, Why: r.Why, Evidence: r.Evidence,
	}, nil
}
