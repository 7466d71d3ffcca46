package simulate

import (
	"context"
	"maps"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// Load implements apply.Memory: the state after the first tick.
func (p *past) Load(context.Context) (apply.Saved, bool, error) {
	state := p.of.start.state
	state.Groups = maps.Clone(state.Groups)
	state.Joined = nil
	for _, one := range p.of.start.lives {
		if !one.joined.IsZero() && !one.joined.After(p.of.start.at) {
			state.Joined = append(state.Joined, one.id)
		}
	}
	slices.Sort(state.Joined)
	return apply.Saved{Schema: resolve.Schema, State: state}, true, nil
}

func (*past) Save(context.Context, apply.Saved) error { return nil }

// leaving are the drain records of the start.
type leaving struct {
	records
	past *past
	all  []api.Drain
}

func (l leaving) Load(context.Context) ([]api.Drain, error) { return l.all, nil }

// Put fails where the recording shows that the begin or the outcome of a termination was not stored.
func (l leaving) Put(_ context.Context, d api.Drain) error {
	one, now := l.past.lifeOf(d.Node), l.past.now()
	switch {
	case one == nil:
	case d.State == api.DrainTerminating:
		if slices.ContainsFunc(one.unstored, now.at.Equal) && d.EndAccepted.IsZero() != one.ended.Equal(now.at) {
			return context.DeadlineExceeded
		}
	case d.Why == drain.Rejected:
		if r := one.refusal(d.Since.Add(now.every)); r != nil && r.unsaved {
			return context.DeadlineExceeded
		}
	}
	return nil
}

// drainsOfStart returns the drain records of the machines of the start.
func (p *past) drainsOfStart() (out []api.Drain) {
	for _, d := range p.of.start.drains {
		if one := p.of.byID[d.Node]; one != nil && one.initial {
			out = append(out, d)
		}
	}
	return out
}
