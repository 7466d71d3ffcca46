package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/metrics"
	metricsstore "github.com/weirkeeper/weirkeeper/metrics/store"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// otherRole is the remedy for a check that the credentials may not run.
const otherRole = "run doctor with credentials of role operator or viewer too"

// notPermitted returns the finding of a check that the credentials may not run.
func notPermitted(err error) []Finding {
	return []Finding{{Result: Unknown, Detail: err.Error(), Fix: otherRole}}
}

// written is the metric that shows whether the store accepts writes: the autoscaler writes it with each tick.
const written = "target_capacity"

// metrics checks that the metrics store answers, that it has the values of the last ticks, and that its values are as old
// as the longest window of a signal.
func (s Site) metrics(ctx context.Context, b *bus.Bus) []Finding {
	store, err := daemon.OpenMetrics(s.Service, b, s.Bus.Cluster, metricsstore.OperatorWriter)
	if err != nil {
		return []Finding{{Result: Failed, Detail: err.Error(), Fix: "correct the key metrics of weir.yaml"}}
	}
	now, longest := time.Now(), longestWindow(s.Pool)
	series, err := store.Window(ctx, metrics.Query{
		Type: metrics.Metadata, Name: written, Dimensions: metrics.Dimensions{"cluster": s.Bus.Cluster, "pool": s.Bus.Pool},
		From: now.Add(-longest - time.Hour), To: now.Add(time.Minute),
	})
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		return notPermitted(err)
	case err != nil:
		return []Finding{{Result: Failed, Detail: fmt.Sprintf("read %s: %v", written, err), Fix: "check the metrics store, its log, and the key metrics of weir.yaml"}}
	}
	return []Finding{ofWrites(now, series, config.Autoscaler(s.Service, s.Pool).Tick, longest)}
}

// longestWindow returns the longest range that a signal of the pool reads.
func longestWindow(p config.Pool) (longest time.Duration) {
	for _, signal := range p.Programs() {
		for _, m := range signal.Metrics {
			longest = max(longest, m.Window())
		}
	}
	return longest
}

// ofWrites returns the finding about the values of a pool.
func ofWrites(now time.Time, series []metrics.Series, tick, longest time.Duration) Finding {
	var oldest, newest time.Time
	for _, one := range series {
		if end, ok := one.Newest(); ok {
			begin := time.Unix(one.Times[0], 0)
			if oldest.IsZero() || begin.Before(oldest) {
				oldest = begin
			}
			if end.After(newest) {
				newest = end
			}
		}
	}
	const missed = 5 // ticks
	old := func(at time.Time) string { return condition.Duration(now.Sub(at)) }
	switch late := max(missed*tick, time.Minute); {
	case newest.IsZero():
		return Finding{Result: Unknown, Detail: "the store answers, and has no value of the pool's last ticks",
			Fix: "start bootstrap; if its autoscaler runs, see its log for rejected writes"}
	case now.Sub(newest) > late:
		return Finding{Result: Failed, Detail: fmt.Sprintf("the store answers, and the newest value of the pool is %s old", old(newest)),
			Fix: "see the log of the autoscaler: it does not tick, or the store rejects its writes"}
	case now.Sub(oldest).Round(time.Second) < longest:
		return Finding{Result: Unknown, Fix: "wait until the pool is that old; if this lasts, raise the retention of the store",
			Detail: fmt.Sprintf("the store has the last ticks; its oldest value of the pool is %s old, and a signal reads %s", old(oldest), condition.Duration(longest))}
	}
	return Finding{Result: OK, Detail: fmt.Sprintf("the store has the last ticks, and values of at least %s, which the signals read", condition.Duration(longest))}
}

// rights checks the rights of this host's keys at the provider of the pool's groups.
func (s Site) rights(ctx context.Context, b *bus.Bus) []Finding {
	kind, ok := s.Pool.Provider()
	if !ok {
		return []Finding{{Result: Failed, Detail: "the pool has no groups", Fix: "add resource_groups to the file of the pool"}}
	}
	opened, err := kind.Open(ctx, s.providerSite(b))
	if err != nil {
		return []Finding{failure(err, err.Error(), rightsFix(kind, err))}
	}
	if opened.Rights == nil {
		return []Finding{{Result: OK, Detail: kind.Name + " need no rights"}}
	}
	all, err := opened.Rights(ctx, s.Pool.OwnsRepair())
	if err != nil {
		return []Finding{failure(err, err.Error(), rightsFix(kind, err))}
	}
	return ofRights(kind, all)
}

func (s Site) providerSite(b *bus.Bus) provider.Site {
	cluster := s.Bus.Cluster
	site := provider.Site{
		Cluster: cluster, Pool: s.Bus.Pool, Groups: s.Pool.Selected(), Conn: b.Conn(), Log: s.Bus.Config.Log,
		Others: func() map[string][]provider.Group {
			claims, _ := config.Claims(s.Configs, cluster, s.Bus.Pool) // an unreadable file of another pool is its own finding
			return claims
		},
		Account: provider.Account{
			Region: s.Service.RegionOf(cluster), Endpoint: s.Service.AWS.Endpoint, Keys: awssdk.KeysOf(s.Service.AWS.AccessKeyFile),
			Events: cmp.Or(s.Pool.EventQueue(), s.Service.WarningQueue(cluster)),
		},
	}
	if s.Pool.Health != nil {
		site.Isolation = s.Pool.Health.Isolation
	}
	return site
}

func rightsFix(kind provider.Kind, err error) string {
	if errors.Is(err, pools.ErrRefused) {
		return deniedFix(kind)
	}
	return cmp.Or(kind.Unread, groupsFix)
}

func deniedFix(kind provider.Kind) string { return cmp.Or(kind.Denied, groupsFix) }

const groupsFix = "check the groups of the pool's file"

// ofRights returns a finding for each denied right, and one for the others of each result.
func ofRights(kind provider.Kind, rights []provider.Right) (all []Finding) {
	var granted, untested []string
	for _, r := range rights {
		switch {
		case r.Result == provider.Granted:
			granted = append(granted, r.Action)
		case r.Result == provider.Untested:
			untested = append(untested, fmt.Sprintf("%s (%s)", r.Action, r.Why))
		case r.Repair:
			all = append(all, Finding{Result: Warned, Detail: "repairs in place: " + r.Why, Fix: deniedFix(kind)})
		default:
			all = append(all, Finding{Result: Failed, Detail: r.Why, Fix: deniedFix(kind)})
		}
	}
	if granted != nil {
		all = append(all, Finding{Result: OK, Detail: kind.Name + " grants " + strings.Join(granted, ", ")})
	}
	if untested != nil {
		all = append(all, Finding{Result: Unknown, Detail: "not tested: " + strings.Join(untested, ", "), Fix: deniedFix(kind)})
	}
	return all
}
