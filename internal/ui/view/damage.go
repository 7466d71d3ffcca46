package view

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// shownDamage is how many problems of a reader a status names.
const shownDamage = 3

// BusWarnings returns what the daemons cannot do on the bus now, or else the problems that the readers report, for the
// first lines of a status. writable reports whether they can write their state.
func BusWarnings(ctx context.Context, b *bus.Bus, cluster string) (lines []string, writable bool) {
	if c := kvbucket.Observe(ctx, b.JetStream(), cluster); c.Err != nil {
		return []string{fmt.Sprintf("bucket %s: %v", names.StateBucket(cluster), c)}, false
	}
	return damageWarnings(ctx, b, cluster), true
}

// CanSetAside reports whether "weir state aside" helps against a problem.
func CanSetAside(p integrity.Problem) bool {
	return p.Undecodable() && !errors.Is(state.Undecodable(p.Key, nil), state.ErrNotAside)
}

// damageWarnings returns the problems that the readers report, for the first lines of a status.
func damageWarnings(ctx context.Context, b *bus.Bus, cluster string) []string {
	alarms, err := integrity.Alarms(ctx, b.JetStream(), cluster)
	if err != nil {
		return []string{err.Error()}
	}
	var all []string
	for _, a := range alarms {
		for _, p := range a.Problems[:min(len(a.Problems), shownDamage)] {
			if CanSetAside(p) {
				all = append(all, fmt.Sprintf("stored data is damaged: %v; the pool is left as it is: restore the value, or run \"weir state aside %s\"", p, p.Key))
				continue
			}
			all = append(all, fmt.Sprintf("stored data is damaged, lost or old: %v; it counts as unknown: restore it, write it again, or run \"weir state accept %s\"", p, a.Reader))
		}
		all = append(all, fmt.Sprintf("reader %s reports %d such problems since %s; \"weir state check\" lists them, \"weir state accept %s\" accepts them",
			a.Reader, a.Count, a.At.Format(time.RFC3339), a.Reader))
	}
	return all
}
