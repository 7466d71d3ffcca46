package apply

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newPoolState returns a pool of one group of target 3 whose nodes have these states.
func newPoolState(states ...api.NodeState) poolState {
	s := &snapshot.Snapshot{At: noon, Groups: []pools.GroupSnapshot{{ID: "a", Target: 3, Max: 4}}}
	for i, state := range states {
		id := "a-" + string(rune('1'+i))
		s.Nodes = append(s.Nodes, pools.Node{
			State:    state,
			Instance: pools.Instance{ID: id, Group: "a", Weight: 1, State: api.InstanceRunning, Launched: noon.Add(-time.Hour)},
		})
		if state == api.NodeUnknown {
			s.Silent = append(s.Silent, id)
		}
	}
	return poolState{Snapshot: s}.with(nil)
}

// with returns p with these records, and the account that follows.
func (p poolState) with(records Records) poolState {
	wanted := 3.0
	p.records = records
	p.account = resolve.AccountOf(api.PoolState{Wanted: &wanted}, records.groups(p.Snapshot, found))
	return p
}

func repairing(node string, hold bool) api.Drain {
	return api.Drain{
		Node: node, Group: "a", Weight: 1, Reason: api.DrainRepair, State: api.DrainChosen, Hold: hold, Attempt: "attempt-1",
		Since: noon, Deadline: noon.Add(time.Hour),
	}
}

const (
	running = api.NodeRunning
	unknown = api.NodeUnknown
	orphan  = api.NodeOrphaned
)

// leaving has a node that a prune chose.
var leaving = Records{{Node: "a-2", Group: "a", Weight: 1, Reason: api.DrainScaleIn, State: api.DrainChosen, Since: noon, Deadline: noon.Add(time.Hour)}}

// A drain gets its node from the snapshot, with newer reports: a node that reports since is not an
// orphan and not silent.
func TestViews(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		pool   poolState
		change func(p *poolState)
		facts  string // nodes that report now
		want   drain.NodeSnapshot
	}{
		{"as it was", newPoolState(running, running).with(leaving), nil, "", drain.NodeSnapshot{Instance: drain.Present, At: noon, Node: running}},
		{"busy", newPoolState(running, running).with(leaving), func(p *poolState) { p.Groups[0].Busy = "a refresh" }, "", drain.NodeSnapshot{Instance: drain.Present, At: noon, Node: running, Busy: "a refresh"}},
		{"it ends", newPoolState(running, running).with(leaving), func(p *poolState) { p.Nodes[1].Instance.State = api.InstanceTerminating }, "", drain.NodeSnapshot{Instance: drain.Ending, At: noon, Node: running}},
		{"an orphan reports", newPoolState(running, orphan).with(leaving), nil, "a-2", drain.NodeSnapshot{Instance: drain.Present, At: noon, Node: unknown}},
		{"it is gone", newPoolState(running).with(Records{repairing("a-2", false)}), nil, "", drain.NodeSnapshot{Instance: drain.Absent, At: noon}},
		{"its group is not listed", newPoolState(running).with(Records{repairing("a-2", false)}), func(p *poolState) { p.Groups = nil }, "", drain.NodeSnapshot{Instance: drain.PresenceUnknown, At: noon, Left: true}},
		{"an unreadable record of a gone node", newPoolState(running).with(Records{{Node: "a-2"}}), nil, "", drain.NodeSnapshot{Instance: drain.PresenceUnknown, At: noon, Left: true}},
		{"an unreadable record while a group is unknown", newPoolState(running).with(Records{{Node: "a-2"}}), func(p *poolState) { p.Groups[0].Unknown = &api.Unknown{} }, "",
			drain.NodeSnapshot{Instance: drain.PresenceUnknown, At: noon}},
		{"silent", newPoolState(running, unknown).with(Records{repairing("a-2", false)}), nil, "a-1", drain.NodeSnapshot{Instance: drain.Present, At: noon, Node: unknown}},
		{"silent, just after the start", newPoolState(running, unknown).with(Records{repairing("a-2", false)}), func(p *poolState) { p.Starting = true }, "a-1",
			drain.NodeSnapshot{Instance: drain.PresenceUnknown, At: noon, Node: unknown}},
		{"it reports since", newPoolState(running, unknown).with(Records{repairing("a-2", false)}), nil, "a-2", drain.NodeSnapshot{Instance: drain.PresenceUnknown, At: noon, Node: unknown}},
		{"no node reports", newPoolState(unknown, unknown).with(Records{repairing("a-2", false)}), nil, "", drain.NodeSnapshot{Instance: drain.PresenceUnknown, At: noon, Node: unknown}},
		{"no other should report", newPoolState(orphan, unknown).with(Records{repairing("a-2", false)}), nil, "", drain.NodeSnapshot{Instance: drain.Present, At: noon, Node: unknown}},
		{"replaced", newPoolState(running, running, running, running).with(Records{repairing("a-2", true)}), nil, "",
			drain.NodeSnapshot{Instance: drain.Present, At: noon, Node: running, Replaced: true}},
		{"not replaced yet", newPoolState(running, running, running).with(Records{repairing("a-2", true)}), nil, "", drain.NodeSnapshot{Instance: drain.Present, At: noon, Node: running}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.change != nil {
				test.change(&test.pool)
			}
			var facts []api.NodeFacts
			if test.facts != "" {
				facts = append(facts, api.NodeFacts{ID: test.facts})
			}
			if got := test.pool.nodeSnapshots(facts)["a-2"]; got != test.want {
				t.Errorf("view %+v, want %+v", got, test.want)
			}
		})
	}
}

// Room is the weight by which the groups can be raised, less the pending increase. A group in backoff, a
// stale group and a busy group have no room.
func TestRoom(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(p *poolState)
		want   float64
	}{
		{"up to the maximum", func(*poolState) {}, 1},
		{"set aside", func(p *poolState) {
			p.state.Backoffs, p.state.Clock = plan.AddFailure(nil, "a", "no spot", api.BackoffLasting, noon), noon
		}, 0},
		{"busy", func(p *poolState) { p.Groups[0].Busy = "a refresh" }, 0},
		{"more exists than the target", func(p *poolState) { p.account.Groups[0].Fulfilled = 4 }, 0},
		{"some is owed", func(p *poolState) { p.account.Wanted = 5 }, -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newPoolState(running, running, running)
			test.change(&p)
			if got := p.room(); got != test.want {
				t.Errorf("room() = %v, want %v", got, test.want)
			}
		})
	}
}

// A request leads to a choice, or to a reason why nothing begins. The same attempt begins once, and
// repairs with hold share the room.
func TestRepairs(t *testing.T) {
	t.Parallel()
	request := func(node, attempt string, hold bool) Request {
		return Request{RepairRequest: pools.RepairRequest{Node: node, Attempt: attempt, Hold: hold, Deadline: noon.Add(time.Hour)}}
	}
	reboot := request("a-1", "1", false)
	reboot.RepairInPlace = &pools.InPlaceRepair{Kind: api.RepairReboot}
	late := request("a-1", "1", false)
	late.Deadline = noon
	leaving := repairing("a-1", false)
	tests := []struct {
		name     string
		pool     poolState
		requests []Request
		chosen   string // nodes
		why      []error
	}{
		{"one", newPoolState(running), []Request{request("a-1", "1", false)}, "a-1", []error{nil}},
		{"unknown", newPoolState(running), []Request{request("b-1", "1", false)}, "", []error{pools.ErrUnknownNode}},
		{"the same attempt is saved", newPoolState(running).with(Records{leaving}), []Request{request("a-1", "attempt-1", false)}, "", []error{nil}},
		{"under another", newPoolState(running).with(Records{leaving}), []Request{request("a-1", "2", false)}, "", []error{pools.ErrLeaving}},
		{"two attempts at once", newPoolState(running), []Request{request("a-1", "1", false), request("a-1", "2", false)}, "a-1", []error{nil, pools.ErrLeaving}},
		{"room for one of two", newPoolState(running, running), []Request{request("a-1", "1", true), request("a-2", "2", true)}, "a-1", []error{nil, pools.ErrNoRoom}},
		{"too late", newPoolState(running), []Request{late}, "", []error{errAny}},
		{"in place, by a group that cannot", newPoolState(running), []Request{reboot}, "", []error{pools.ErrRefused}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			choices, answers := test.pool.repairs(noon, test.requests)
			var chosen []string
			for i, c := range choices {
				if c.Node != "" {
					chosen = append(chosen, c.Node)
				}
				if err := answers[i]; (err != nil) != (test.why[i] != nil) || test.why[i] != errAny && !errors.Is(err, test.why[i]) {
					t.Errorf("request %d: %v, want %v", i, err, test.why[i])
				}
			}
			if got := strings.Join(chosen, " "); got != test.chosen {
				t.Errorf("chosen %q, want %q", got, test.chosen)
			}
		})
	}
}

var errAny = errors.New("any error")

type lease time.Duration

func (l lease) Left() time.Duration { return time.Duration(l) }
func (lease) Epoch() uint64         { return 1 }

// No call begins unless the lease outlasts it, and none in a dry run.
func TestGuard(t *testing.T) {
	t.Parallel()
	tests := []struct {
		left   time.Duration
		dryRun bool
		want   error
	}{{time.Minute, false, nil}, {5 * time.Second, false, ErrLeaseEnds}, {0, false, pools.ErrNotHolder}, {time.Minute, true, ErrDryRun}}
	for _, test := range tests {
		g := &guard{end: context.WithTimeout, lease: lease(test.left)}
		g.adopt(5*time.Second, test.dryRun)
		called := false
		err := g.call(t.Context(), func(ctx context.Context) error {
			_, called = ctx.Deadline()
			return nil
		})
		if !errors.Is(err, test.want) || called != (test.want == nil) {
			t.Errorf("left %v, dry run %t: call = %v, called %t, want %v", test.left, test.dryRun, err, called, test.want)
		}
	}
}

// A request whose response is lost may have taken effect: the larger target counts. A refused
// request has changed nothing. A terminated instance lowers the target, but not below the minimum.
func TestTargets(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset")
	tests := []struct {
		name          string
		change        func(t *targets)
		now, likely   int
		resultUnknown bool
	}{
		{"given", func(t *targets) { t.set("a", 5, noon, nil) }, 5, 5, false},
		{"refused", func(t *targets) { t.set("a", 5, noon, pools.ErrRefused) }, 3, 3, false},
		{"lost", func(t *targets) { t.set("a", 5, noon, lost) }, 3, 5, true},
		{"a lowering is lost", func(t *targets) { t.set("a", 2, noon, lost) }, 3, 3, true},
		{"ended", func(t *targets) { t.lower("a", []float64{1}, nil) }, 2, 2, false},
		{"a part of a weight", func(t *targets) { t.lower("a", []float64{0.5}, nil) }, 2, 2, false},
		{"not below the minimum", func(t *targets) { t.lower("a", []float64{1, 1, 1}, nil) }, 1, 1, false},
		{"an end is lost", func(t *targets) { t.lower("a", []float64{1}, lost) }, 3, 3, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := pools.GroupSnapshot{ID: "a", Target: 3, Min: 1}
			one := newTargets([]pools.GroupSnapshot{a}, api.PoolState{}, noon)
			test.change(one)
			s := one.into(api.PoolState{Groups: map[string]api.GroupState{"a": {}, "gone": {}}})
			if of := s.Groups["a"]; one.target(a) != test.now || one.likely(a) != test.likely || *of.LastTarget != test.likely || of.ResultUnknown != test.resultUnknown {
				t.Errorf("target %d, likely %d, state %+v: want %d, %d, doubt %t", one.target(a), one.likely(a), of, test.now, test.likely, test.resultUnknown)
			}
		})
	}
}

// A warning drains its node. A recommendation waits while the group is busy, or the node is
// repaired in place. A warning about a missing instance begins nothing.
func TestWarnings(t *testing.T) {
	t.Parallel()
	inPlace := repairing("a-1", false)
	inPlace.RepairInPlace, inPlace.RepairBy = api.RepairReboot, inPlace.Deadline.Add(time.Hour)
	busy := newPoolState(running)
	busy.Groups[0].Busy = "a refresh"
	tests := []struct {
		name    string
		pool    poolState
		notice  pools.Notice
		handled bool
		want    drain.Choice
	}{
		{"interruption", busy, pools.Notice{Instance: "a-1", Why: "spot"}, true, drain.Choice{Node: "a-1", Group: "a", Weight: 1, Reason: api.DrainSpot, Why: "spot"}},
		{"rebalance", newPoolState(running), pools.Notice{Instance: "a-1", Kind: pools.Rebalance}, true, drain.Choice{Node: "a-1", Group: "a", Weight: 1, Reason: api.DrainRebalance}},
		{"rebalance of a busy group", busy, pools.Notice{Instance: "a-1", Kind: pools.Rebalance}, false, drain.Choice{}},
		{"rebalance of a repaired node", newPoolState(running).with(Records{inPlace}), pools.Notice{Instance: "a-1", Kind: pools.Rebalance}, false, drain.Choice{}},
		{"not there", newPoolState(running), pools.Notice{Instance: "b-1"}, true, drain.Choice{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			handled, drains := test.pool.warnings([]pools.Notice{test.notice})
			if len(handled) != len(drains) || (len(handled) == 1) != test.handled {
				t.Fatalf("handled %+v, drains %+v: want handled %t", handled, drains, test.handled)
			}
			if test.handled && drains[0] != test.want {
				t.Errorf("drain %+v, want %+v", drains[0], test.want)
			}
		})
	}
}
