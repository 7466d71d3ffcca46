package view

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// Facts requests the facts of the pool beside its ticks. A part without a response is unknown.
func (p Pool) Facts(ctx context.Context, now time.Time) (f condition.Facts) {
	if holder, err := state.ReadHolder(ctx, p.Bus.JetStream(), now, p.Cluster, p.Name); err == nil {
		f.Lease = condition.Lease{Known: true, Holder: holder}
	}
	if a, err := integrity.PoolReader(p.Cluster, p.Name).Alarm(ctx, p.Bus.JetStream()); err == nil && a != nil {
		f.Alarm = fmt.Sprintf("stored data is damaged or lost since %s: \"weir state check\" lists it", a.At.Local().Format(time.DateTime))
	}
	if h, err := p.Health(ctx, api.HealthQuery{}); err == nil {
		f.Nodes = condition.UnfitNodes(now, h)
	}
	found, err := counts(ctx, p.Bus.Conn(), p.Cluster, p.Name)
	if err != nil || !found.Complete {
		return f
	}
	p.addApps(ctx, &f, found)
	return f
}

// addApps adds the instances of each app: why some wait for room, and what the harmonizer reports of those that crash.
func (p Pool) addApps(ctx context.Context, f *condition.Facts, all api.InstanceCounts) {
	f.Apps = []condition.Instances{}
	var rooms map[string]string
	for _, name := range slices.Sorted(maps.Keys(all.Apps)) {
		n := all.Apps[name]
		if n.Missing > 0 && rooms == nil {
			rooms = waits(ctx, p.Bus, p.Cluster, p.Name)
		}
		f.Apps = append(f.Apps, condition.Instances{App: name, Expected: n.Expected, Running: n.Running, Missing: n.Missing, Flapping: n.Flapping, Why: rooms[name]})
	}
	crashes := p.crashesOf(ctx, all)
	for i := range f.Apps {
		if h, ok := crashes[f.Apps[i].App]; ok && h.App != nil {
			f.Apps[i].Crash = crashLoop(*h.App, h.Crashes)
		}
	}
}

// crashLoop returns what the harmonizer reports of the copies of an app that crash repeatedly; nil if it reports none.
func crashLoop(e api.AppExplanation, crashes []api.AppCrash) *condition.CrashLoop {
	var c condition.CrashLoop
	last := api.IndexStatus{Index: -1}
	for _, i := range e.Indices {
		if i.GivenUp {
			c.GivenUp++
		}
		if (i.GivenUp || i.Flapping) && !i.CrashedAt.Before(last.CrashedAt) {
			last = i
		}
	}
	if last.Index < 0 {
		return nil
	}
	c.Index, c.Count, c.Last = last.Index, last.Crashes, last.CrashedAt
	if c.Next = last.NotBefore; c.Next.IsZero() {
		c.Next = last.Until
	}
	own := slices.DeleteFunc(slices.Clone(crashes), func(one api.AppCrash) bool { return one.Index != last.Index })
	slices.SortFunc(own, func(a, b api.AppCrash) int { return a.At.Compare(b.At) })
	if len(own) == 0 {
		return &c
	}
	c.First, c.Last, c.Count = own[0].At, own[len(own)-1].At, max(c.Count, len(own))
	switch one := own[len(own)-1]; {
	case one.Description != "":
		c.Cause = one.Description
	case one.Status != nil:
		c.Cause = fmt.Sprintf("exit %d", *one.Status)
	}
	return &c
}
