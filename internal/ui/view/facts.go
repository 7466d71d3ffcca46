package view

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
)

// Facts requests the facts of the pool beside its ticks. A part without a response is unknown.
func (p Pool) Facts(ctx context.Context, now time.Time) condition.Facts {
	return p.askStanding(ctx, now).facts(now)
}

func (a standingParts) facts(now time.Time) condition.Facts {
	f := condition.Facts{Lease: a.lease, Alarm: a.alarm}
	if a.pending.err == nil {
		f.Scheduler = a.pending.value.State.ProblemLines()
	}
	if a.health.err == nil {
		f.Nodes = condition.UnfitNodes(now, a.health.value)
	}
	if a.counts.err == nil && a.counts.value.Complete {
		f.Apps = a.instances()
	}
	return f
}

// instances returns those of each app: why some wait for room, and what the harmonizer reports of those that crash.
func (a standingParts) instances() []condition.Instances {
	all := []condition.Instances{}
	rooms, each := a.waits()
	for _, name := range slices.Sorted(maps.Keys(a.counts.value.Apps)) {
		n := a.counts.value.Apps[name]
		one := condition.Instances{App: name, Expected: n.Expected, Running: n.Running, Missing: n.Missing, Flapping: n.Flapping}
		if n.Missing > 0 {
			one.Why, one.Each = rooms[name], each[name]
		}
		if h, ok := a.crashes[name]; ok && h.App != nil {
			one.Crash = crashLoop(*h.App, h.Crashes)
		}
		all = append(all, one)
	}
	return all
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
