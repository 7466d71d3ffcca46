package nodehealth

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

// maxNodes bounds a pool.
const maxNodes = 100_000

type snapshot struct {
	groups      []pools.GroupSnapshot
	inspections map[string]pools.Inspection // nil: the provider does not inspect
}

// read returns a snapshot of the pool for these modes. Without groups it reads the groups only for
// the balancers.
func (w *watcher) read(ctx context.Context, modes []judge.ModeType, groups bool) (snapshot, error) {
	var s snapshot
	if groups || slices.Contains(modes, judge.LBStatus) {
		var err error
		if s.groups, err = w.groups(ctx); err != nil {
			return s, err
		}
	}
	inspector, ok := w.world.Pool.(pools.Inspector)
	if !ok {
		return s, nil
	}
	lb, _ := w.policy.Detection.Mode(judge.LBStatus)
	what := pools.Inspecting{Traffic: slices.Contains(modes, judge.LBStatus), TargetGroups: lb.Options.TargetGroups}
	inspected, err := inspector.Inspect(ctx, what)
	if err != nil {
		return s, fmt.Errorf("inspect the pool: %w", err)
	}
	if len(inspected) > maxNodes {
		return s, fmt.Errorf("the provider inspected %d machines: want at most %d", len(inspected), maxNodes)
	}
	s.inspections = make(map[string]pools.Inspection, len(inspected))
	for _, in := range inspected {
		s.inspections[in.ID] = in
	}
	return s, nil
}

func (w *watcher) groups(ctx context.Context) ([]pools.GroupSnapshot, error) {
	groups, err := w.world.Pool.Groups(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the pool: %w", err)
	}
	var out []pools.GroupSnapshot
	machines := 0
	for _, g := range groups {
		s, err := g.Snapshot(ctx)
		if err != nil {
			return nil, fmt.Errorf("read group %s: %w", g.ID(), err)
		}
		if machines += len(s.Instances); machines > maxNodes {
			return nil, fmt.Errorf("the pool has more than %d machines", maxNodes)
		}
		out = append(out, s)
	}
	return out, nil
}

// provided is a machine's state for the judge. What is let go on purpose is not to be
// judged, whatever it does meanwhile.
func provided(i pools.Instance, in pools.Inspection) judge.Provided {
	switch {
	case i.State == pools.InstanceTerminating || in.Leaving:
		return judge.Leaving
	case in.Ended:
		return judge.Terminated
	case in.Stopped:
		return judge.Stopped
	case in.Spot:
		return judge.Spot
	}
	return judge.Running
}

// observations returns what the provider's modes say, of some nodes only if they are
// named.
func (s snapshot) observations(modes []judge.ModeType, nodes map[string]bool) []judge.Observation {
	count := len(s.inspections)
	if nodes != nil {
		count = len(nodes)
	}
	out := make([]judge.Observation, 0, count*len(modes))
	blamed := map[string]bool{}
	if slices.Contains(modes, judge.LBStatus) {
		blamed = s.blamed()
	}
	for id, in := range s.inspections {
		if nodes != nil && !nodes[id] {
			continue
		}
		for _, mode := range modes {
			o := judge.Observation{Node: id, Mode: mode}
			switch mode {
			case judge.NodeStatus:
				o.Verdict, o.Reason = verdictOf(in.Machine)
				if in.Ended {
					o.Verdict, o.Reason = judge.Fail, judge.ReasonTerminated
				} else if in.Stopped {
					o.Verdict, o.Reason = judge.Fail, judge.ReasonStopped
				}
			case judge.HypervisorStatus:
				o.Verdict, o.Reason = verdictOf(in.Host)
			case judge.LBStatus:
				if o.Verdict, o.Reason = verdictOf(in.Traffic); blamed[id] {
					o.Verdict, o.Reason = judge.Unknown, "all that the balancer has fail: it is suspect itself"
				}
			}
			out = append(out, o)
		}
	}
	return out
}

func verdictOf(s pools.Sight) (judge.Verdict, string) {
	switch s.Fitness {
	case pools.Fit:
		return judge.OK, ""
	case pools.Unfit:
		return judge.Fail, s.Why
	}
	return judge.Unknown, s.Why
}

// blamed returns the machines whose balancer says that all that it has fail, and it has
// at least two: then it is suspect, not they.
func (s snapshot) blamed() map[string]bool {
	out := map[string]bool{}
	blame := func(groups ...pools.GroupSnapshot) {
		var ids []string
		bad, known := 0, 0
		for _, g := range groups {
			for _, i := range g.Instances {
				ids = append(ids, i.ID)
				switch s.inspections[i.ID].Traffic.Fitness {
				case pools.Unfit:
					bad, known = bad+1, known+1
				case pools.Fit:
					known++
				}
			}
		}
		for i := 0; bad >= 2 && bad == known && i < len(ids); i++ {
			out[ids[i]] = true
		}
	}
	for _, g := range s.groups {
		blame(g)
	}
	blame(s.groups...)
	return out
}
