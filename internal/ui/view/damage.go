package view

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// shownDamage is how many problems of a reader a status names.
const shownDamage = 3

// BusWarnings returns what the daemons of a pool and of its cluster cannot do on the bus now, or else the problems that their
// readers report, for the first lines of a status. writable reports whether the pool can write its state.
func BusWarnings(ctx context.Context, b *bus.Bus, cluster, pool string) (lines []string, writable bool) {
	bucket := names.PoolBucket(cluster, pool)
	if c := kvbucket.Observe(ctx, b.JetStream(), bucket); c.Err != nil {
		return []string{fmt.Sprintf("bucket %s: %v", bucket, c)}, false
	}
	return damageWarnings(ctx, b, cluster, pool), true
}

// AsideCommand returns the command that helps against a problem; empty if none does.
func AsideCommand(cluster string, p integrity.Problem) string {
	pool, ofPool := strings.CutPrefix(p.Bucket, names.PoolBucket(cluster, ""))
	switch {
	case p.Forged() && p.Bucket != names.AppsBucket(cluster):
	case ofPool && p.Undecodable() && !errors.Is(state.Undecodable(p.Key, nil), state.ErrNotAside):
	default:
		return ""
	}
	if ofPool {
		return fmt.Sprintf("weir state aside %s --pool %s", p.Key, pool)
	}
	return fmt.Sprintf("weir state aside %s --bucket %s", p.Key, p.Bucket)
}

// damageWarnings returns the problems that the readers report, for the first lines of a status.
func damageWarnings(ctx context.Context, b *bus.Bus, cluster, pool string) []string {
	alarms, err := integrity.Alarms(ctx, b.JetStream(), cluster, pool)
	if err != nil {
		return []string{err.Error()}
	}
	var all []string
	for _, a := range alarms {
		for _, p := range a.Problems[:min(len(a.Problems), shownDamage)] {
			if command := AsideCommand(cluster, p); command != "" {
				all = append(all, fmt.Sprintf("stored data is damaged: %v; its reader changes nothing: restore the value, or run \"%s\"", p, command))
				continue
			}
			all = append(all, fmt.Sprintf("stored data is damaged, lost or old: %v; it counts as unknown: restore it, write it again, or run \"weir state accept %s\"", p, a.Reader))
		}
		all = append(all, fmt.Sprintf("reader %s reports %d such problems since %s; \"weir state check\" lists them, \"weir state accept %s\" accepts them",
			a.Reader, a.Count, a.At.Format(time.RFC3339), a.Reader))
	}
	return all
}
