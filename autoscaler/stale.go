package autoscaler

import (
	"context"
	"fmt"

	"github.com/weirkeeper/weirkeeper/pools"
)

// marked tells which instances an operator wants to be rolled away.
type marked struct {
	weight map[string]float64 // of those that are to stay until they are replaced, by group
	ids    map[string]bool    // of those that exist
}

// marked applies the marks to what there is. An instance that is leaving already
// is not replaced by the rolling.
func (v *view) marked(marks []pools.StaleMark, leaving map[string]bool) marked {
	m := marked{weight: map[string]float64{}, ids: map[string]bool{}}
	for _, mark := range marks {
		for _, g := range v.groups {
			if g.ID != mark.Group {
				continue
			}
			for _, i := range g.Instances {
				if i.State == pools.InstanceTerminating || !i.Launched.Before(mark.At) {
					continue
				}
				m.ids[i.ID] = true
				if !leaving[i.ID] {
					m.weight[g.ID] += i.Weight
				}
			}
		}
	}
	return m
}

// unmark strikes the marks of groups that are rolled, and tells of those that the
// pool does not have.
func (l *Loop) unmark(ctx context.Context, v *view, marks []pools.StaleMark, r *Record) error {
	for _, mark := range marks {
		var there, left bool
		for _, g := range v.groups {
			there = there || g.ID == mark.Group
		}
		for id := range v.marked([]pools.StaleMark{mark}, nil).ids {
			left = left || id != ""
		}
		if left {
			continue
		}
		if !there {
			r.problem(fmt.Errorf("group %s, which %s wants to be rolled, is not of this pool", mark.Group, mark.By))
		}
		err := l.write(ctx, func(ctx context.Context) error { return l.world.Orders.Rolled(ctx, mark.Group) })
		if err != nil {
			r.problem(fmt.Errorf("strike the mark of group %s: %w", mark.Group, err))
		}
		if fatal(err) != nil {
			return err
		}
	}
	return nil
}
