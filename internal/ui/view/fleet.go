package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// poolUnreadable is the state of a pool whose stored data cannot be read. The other states are those of condition.State.
const poolUnreadable = "unreadable"

// rankOf orders the states, worst first.
func rankOf(r api.Pool) int {
	return slices.Index([]string{poolUnreadable, "silent", "failed", "problems", "no tick", "paused", "ok"}, r.State)
}

// Fleet reads all pools of a cluster. It may be used concurrently.
type Fleet struct {
	Bus     *bus.Bus
	Cluster string
	Configs string                           // the configuration folder
	Warn    func(format string, args ...any) // reports what the rows do not have; it may be called concurrently
}

// Rows returns the pools of the cluster, worst first.
func (f Fleet) Rows(ctx context.Context) ([]api.Pool, error) {
	now := time.Now()
	pools, facts, err := f.Facts(ctx, now)
	if err != nil {
		return nil, err
	}
	of := map[string]condition.Facts{}
	for i, pool := range pools {
		of[pool] = facts[i]
	}
	rows := ForPools(pools, func(pool string) api.Pool { return f.row(ctx, pool, now, of[pool]) })
	slices.SortStableFunc(rows, func(a, b api.Pool) int { return cmp.Compare(rankOf(a), rankOf(b)) })
	return rows, nil
}

// Facts returns the names of the pools, sorted, and the facts of each beside its ticks.
func (f Fleet) Facts(ctx context.Context, now time.Time) ([]string, []condition.Facts, error) {
	pools, err := f.Pools(ctx)
	if err != nil {
		return nil, nil, err
	}
	facts := ForPools(pools, func(pool string) condition.Facts {
		return Pool{Bus: f.Bus, Cluster: f.Cluster, Name: pool}.Facts(ctx, now)
	})
	f.addUnanswered(ctx, pools, facts, now)
	f.addUpdates(ctx, pools, facts)
	return pools, facts, nil
}

// Pools returns the names of the pools that have ticked, and of those with a file, sorted.
func (f Fleet) Pools(ctx context.Context) ([]string, error) {
	names, err := state.Pools(ctx, f.Bus.JetStream(), f.Cluster)
	if err != nil {
		return nil, err
	}
	files, err := config.Pools(f.Configs, f.Cluster)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.Warn("list the files of the cluster's pools: %v; only pools that have ticked are listed", err)
	}
	names = append(names, files...)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// readersAtOnce bounds how many pools a caller reads at the same time.
const readersAtOnce = 8

// ForPools calls read for each pool, some at the same time, and returns the results in the order of the pools.
func ForPools[T any](pools []string, read func(pool string) T) []T {
	rows := make([]T, len(pools))
	turns := make(chan struct{}, readersAtOnce)
	var wg sync.WaitGroup
	for i, pool := range pools {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			rows[i] = read(pool)
		})
	}
	wg.Wait()
	return rows
}

// row reads the stored data of one pool.
func (f Fleet) row(ctx context.Context, pool string, now time.Time, facts condition.Facts) api.Pool {
	row := api.Pool{Cluster: f.Cluster, Pool: pool}
	r, err := pastOf(f.Bus, f.Cluster, pool).Last(ctx)
	switch {
	case errors.Is(err, state.ErrNoRecord):
		row.State, row.Conditions = standing(now, nil, facts)
		row.Problems = []string{fmt.Sprintf("has not ticked yet: start it with \"weir bootstrap --pool %s\"", pool)}
		return row
	case err != nil:
		row.State, row.Problems = poolUnreadable, []string{err.Error()}
		return row
	}
	row.LastTick, row.Age = r.At, max(0, now.Sub(r.At))
	summary := history.SummaryOf(r)
	row.State, row.Conditions = standing(now, &summary, facts)
	row.Problems = problemsOf(row, r)
	decided := &r
	if r.Case == nil || r.Result == nil {
		decided = pastOf(f.Bus, f.Cluster, pool).LastDecided(ctx, now)
	}
	if decided != nil && decided.Case != nil && decided.Result != nil {
		snapshot := decided.Snapshot
		row.AsOf, row.Old = decided.At, liveness.Overdue(now, decided.At, decided.Every, decided.Took)
		row.Target, row.Fulfilled, row.Joined = new(explain.Target(*decided)), &snapshot.Fulfilled, &snapshot.Joined
		row.Wanted, row.Limits = &decided.Result.Target, &decided.Case.Input.Policy.Limits
		row.Need = history.SummaryOf(*decided).Unlimited
	}
	return row
}

// standing returns the state of a pool, and what holds of it, worst first.
func standing(now time.Time, s *api.Summary, facts condition.Facts) (state string, out []api.Condition) {
	all := condition.Of(now, s, facts)
	for _, c := range all {
		out = append(out, api.Condition{Severity: c.Rank.Severity(), Word: c.Word, Why: c.Why, Since: c.Since})
	}
	return condition.State(s, all[0]), out
}

// problemsOf returns a line for each condition of a row that needs an operator, and for what the last tick found beside them.
func problemsOf(row api.Pool, r api.TickRecord) (lines []string) {
	for _, c := range row.Conditions {
		if c.Severity == api.SeverityInfo && c.Since.IsZero() {
			continue // it is steady, or changes
		}
		line := strings.TrimSuffix(c.Word+": "+c.Why, ": ")
		if c.Word == "Paused" {
			line = "paused " + c.Why
		}
		if row.State == "silent" && lines == nil {
			line += fmt.Sprintf("; \"weir status %s\" shows why", row.Pool)
		}
		lines = append(lines, line)
	}
	for _, d := range r.Drift {
		lines = append(lines, explain.Drift(time.Now(), r.At, d))
	}
	if h := r.ConfigurationHold; h != nil && h.Left {
		lines = append(lines, h.Why)
	}
	if r.Case != nil && r.Case.NoPlaces != "" {
		lines = append(lines, r.Case.NoPlaces)
	}
	return lines
}

// addUnanswered adds the requests of the harmonizer that no scheduler answers. If the harmonizer does not answer, they
// are unknown, and "weir status" shows that.
func (f Fleet) addUnanswered(ctx context.Context, pools []string, facts []condition.Facts, now time.Time) {
	h, err := Harmonizer(ctx, f.Bus, f.Cluster, api.HarmonizerQuery{Totals: true})
	if err != nil {
		return
	}
	h.Unanswered = slices.DeleteFunc(h.Unanswered, func(u api.UnansweredNudge) bool { return u.Pool == "" })
	for i, pool := range pools {
		facts[i].Wrong, facts[i].Unanswered, facts[i].Refused = WrongLines(h, pool), UnansweredLines(now, h, pool), RefusedLines(h, pool)
	}
}

// addUpdates adds why updates of applications are halted. One request is for all pools.
func (f Fleet) addUpdates(ctx context.Context, pools []string, facts []condition.Facts) {
	if !slices.ContainsFunc(facts, func(one condition.Facts) bool { return len(one.Apps) > 0 }) {
		return
	}
	h, err := Harmonizer(ctx, f.Bus, f.Cluster, api.HarmonizerQuery{})
	if err != nil {
		return
	}
	for i, pool := range pools {
		addUpdates(&facts[i], pool, h.Apps)
	}
}

// addUpdates adds why updates of applications of a pool are halted.
func addUpdates(f *condition.Facts, pool string, apps []api.AppSummary) {
	for _, a := range apps {
		if a.Pool != pool || a.Update == nil || a.Update.Halted == nil {
			continue
		}
		for i := range f.Apps {
			if one := &f.Apps[i]; one.App == a.Name {
				one.Update = fmt.Sprintf("update to %s is halted: %s; %s serves", a.Update.Halted.Version, a.Update.Halted.Why, a.Update.Halted.Serves)
			}
		}
	}
}
