package autoscaler

import (
	"context"
	"fmt"

	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
)

// marked tells which instances an operator wants to be rolled away.
type marked struct {
	weight map[string]float64 // of those that are to stay until they are replaced, by group
	ids    map[string]bool    // of those that exist
}

// markedOf applies the marks to what there is. An instance that is leaving already
// is not replaced by the rolling.
func markedOf(v *snapshot.Snapshot, marks []pools.StaleMark, leaving map[string]bool) marked {
	m := marked{weight: map[string]float64{}, ids: map[string]bool{}}
	for _, mark := range marks {
		for _, i := range v.LaunchedBefore(mark.Group, mark.At) {
			m.ids[i.ID] = true
			if !leaving[i.ID] {
				m.weight[i.Group] += i.Weight
			}
		}
	}
	return m
}

// unmark strikes the marks of groups that are rolled, and tells of those that the
// pool does not have.
func (l *Loop) unmark(ctx context.Context, v *snapshot.Snapshot, marks []pools.StaleMark, r *Record) error {
	for _, mark := range marks {
		if len(v.LaunchedBefore(mark.Group, mark.At)) > 0 {
			continue
		}
		if _, there := v.Group(mark.Group); !there {
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
