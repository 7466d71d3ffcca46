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
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// States of a pool in a list, worst first.
const (
	poolUnreadable = "unreadable" // its stored data cannot be read
	poolSilent     = "silent"     // ticks are overdue
	poolFailed     = "failed"     // the last tick ended before a decision
	poolProblems   = "problems"   // the last tick has problems
	poolNew        = "no tick"    // its file exists, and no tick is recorded
	poolPaused     = "paused"
	PoolOK         = "ok"
)

// rankOf orders the states, worst first.
func rankOf(r api.Pool) int {
	return slices.Index([]string{poolUnreadable, poolSilent, poolFailed, poolProblems, poolNew, poolPaused, PoolOK}, r.State)
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
	pools, err := f.Pools(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	rows := ForPools(pools, func(pool string) api.Pool { return f.row(ctx, pool, now) })
	f.addAlarms(ctx, rows)
	f.addUnanswered(ctx, rows, now)
	slices.SortStableFunc(rows, func(a, b api.Pool) int { return cmp.Compare(rankOf(a), rankOf(b)) })
	return rows, nil
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
func (f Fleet) row(ctx context.Context, pool string, now time.Time) api.Pool {
	row := api.Pool{Cluster: f.Cluster, Pool: pool, State: PoolOK}
	r, err := pastOf(f.Bus, f.Cluster, pool).Last(ctx)
	switch {
	case errors.Is(err, state.ErrNoRecord):
		row.State, row.Problems = poolNew, []string{fmt.Sprintf("has not ticked yet: start it with \"weir bootstrap --pool %s\"", pool)}
		return row
	case err != nil:
		row.State, row.Problems = poolUnreadable, []string{err.Error()}
		return row
	}
	row.LastTick, row.Age = r.At, max(0, now.Sub(r.At))
	s := api.PoolStatus{Cluster: f.Cluster, Pool: pool, LastTick: &r}
	warnOfTick(&s, r)
	warnOfNodes(&s, now, r)
	row.Problems = s.Warnings
	switch {
	case explain.Overdue(now, r, nil) != "":
		late, _, _ := strings.Cut(explain.Overdue(now, r, nil), ": ")
		row.State = poolSilent
		row.Problems = slices.Insert(row.Problems, 0, late+fmt.Sprintf("; \"weir status %s\" shows why", pool))
	case r.Failed != "":
		row.State = poolFailed
	case len(row.Problems) > 0:
		row.State = poolProblems
	case r.Paused != nil:
		row.State, row.Problems = poolPaused, []string{"paused " + explain.Note(*r.Paused)}
	}
	decided := &r
	if r.Case == nil || r.Result == nil {
		decided = pastOf(f.Bus, f.Cluster, pool).LastDecided(ctx, now)
	}
	if decided != nil && decided.Case != nil && decided.Result != nil {
		snapshot := decided.Snapshot
		row.Target, row.Fulfilled, row.Joined = &snapshot.Target, &snapshot.Fulfilled, &snapshot.Joined
		row.Wanted, row.Limits = &decided.Result.Target, &decided.Case.Input.Policy.Limits
	}
	return row
}

// addProblems adds problems that the last tick does not have: after why the pool does not decide, and before the tick's warnings,
// because applications that do not start are worse than a size that is kept.
func addProblems(r *api.Pool, problems ...string) {
	at := 0
	if r.State == poolSilent || r.State == poolFailed || r.State == poolUnreadable {
		at = min(1, len(r.Problems))
	}
	r.Problems = slices.Insert(r.Problems, at, problems...)
	if len(problems) > 0 && (r.State == PoolOK || r.State == poolPaused) {
		r.State = poolProblems
	}
}

// addUnanswered adds the requests of the harmonizer that no scheduler answers. If the harmonizer does not answer, they
// are unknown, and "weir status" shows that.
func (f Fleet) addUnanswered(ctx context.Context, rows []api.Pool, now time.Time) {
	h, err := Harmonizer(ctx, f.Bus, f.Cluster, api.HarmonizerQuery{Totals: true})
	if err != nil {
		return
	}
	h.Unanswered = slices.DeleteFunc(h.Unanswered, func(u api.UnansweredNudge) bool { return u.Pool == "" })
	for i := range rows {
		addProblems(&rows[i], append(WrongLines(h, rows[i].Pool), UnansweredLines(now, h, rows[i].Pool)...)...)
	}
}

// addAlarms adds the alarms about stored data of the pools.
func (f Fleet) addAlarms(ctx context.Context, rows []api.Pool) {
	for i := range rows {
		a, err := integrity.PoolReader(f.Cluster, rows[i].Pool).Alarm(ctx, f.Bus.JetStream())
		if err != nil {
			f.Warn("read the alarm about stored data of pool %s: %v", rows[i].Pool, err)
		}
		if a != nil {
			addProblems(&rows[i], fmt.Sprintf("stored data is damaged or lost since %s: \"weir state check\" lists it", a.At.Local().Format(time.DateTime)))
		}
	}
}
