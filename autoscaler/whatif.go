package autoscaler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

// whatIf is a change that a preview assumes.
type whatIf struct {
	api.WhatIf
	gone []string // the nodes that are away
}

// awayFor is how long a group without capacity is in backoff in a preview: the next tick is within it.
const awayFor = time.Hour

// without removes the machines that are away from a reading. Those of a name that the pool does not have are an error.
func (w *whatIf) without(now time.Time, r apply.Reading) (apply.Reading, error) {
	if len(w.Without) == 0 {
		return r, nil
	}
	away, hit := map[string]bool{}, map[string]bool{}
	for _, name := range w.Without {
		kind, id, _ := strings.Cut(name, "/")
		found := false
		for _, n := range r.Nodes {
			i := n.Instance
			if kind == "node" && i.ID == id || kind == "group" && i.Group == id || kind == "zone" && i.Market.Zone == id {
				away[i.ID], found = true, true
				hit[i.Group] = true
			}
		}
		found = found || kind == "group" && slices.ContainsFunc(r.Groups, func(g pools.GroupSnapshot) bool { return g.ID == id })
		if !found {
			return r, fmt.Errorf("without %q: the pool has no such machine; want node/ID, group/ID or zone/NAME", name)
		}
	}
	byZone := slices.ContainsFunc(w.Without, func(name string) bool { return strings.HasPrefix(name, "zone/") })
	w.gone = slices.Sorted(maps.Keys(away))
	r.Snapshot = r.Snapshot.Without(away)
	clock := decide.ClockAt(r.State.DecisionState, now)
	for _, g := range r.Groups {
		why := ""
		switch {
		case slices.Contains(w.Without, "group/"+g.ID):
			why = "the group is away by assumption"
		case byZone && hit[g.ID] && len(g.Instances) == 0:
			why = "its zone is away by assumption"
		default:
			continue
		}
		r.State.Backoffs = append(slices.Clone(r.State.Backoffs), api.GroupBackoff{Group: g.ID, Why: why, Since: clock, Until: clock.Add(awayFor), Failures: 1})
	}
	return r, nil
}

// need replaces the requests of the apps.
func (w *whatIf) need(c *api.Case) error {
	for _, app := range slices.Sorted(maps.Keys(w.Need)) {
		i := slices.IndexFunc(c.Input.Apps, func(a api.AppInput) bool { return a.Name == app })
		if i < 0 {
			return fmt.Errorf("need of app %q: no signal of the pool is for this app", app)
		}
		a := &c.Input.Apps[i]
		request := a.Opinion.Request
		for _, k := range resource.Kinds() {
			if x, named := w.Need[app].Get(k); named {
				request = request.With(k, x)
			}
		}
		a.Configured = true
		a.Opinion = api.Opinion{Signal: "need", Version: "assumed", Verdict: api.VerdictValue, Request: request, At: c.Input.Now}
	}
	return nil
}
