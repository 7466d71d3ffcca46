package condition

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// The first sentence is true in each case that prints it.
func TestSentence(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	tick := func(need, before, after, joined float64, edits ...func(*api.Summary)) *api.Summary {
		s := &api.Summary{At: now, Before: new(before), Target: new(need), Unlimited: new(need), Joined: joined, Exists: joined,
			Limits: &api.LimitsSummary{Min: 2, Max: new(6.0)}, NodeCounts: map[string]int{"running": int(joined)},
			Groups: []api.GroupSummary{{ID: "a", Before: int(before), Target: int(after)}}}
		for _, edit := range edits {
			edit(s)
		}
		return s
	}
	hold := func(d api.Direction, kind api.HoldKind, name, why string) func(*api.Summary) {
		return func(s *api.Summary) {
			s.Holds = append(s.Holds, api.Hold{Direction: d, Kind: kind, Name: name, Why: why})
		}
	}
	leave := func(s *api.Summary) {
		for _, id := range []string{"i-1", "i-2"} {
			s.Nodes = append(s.Nodes, api.UnsteadyNode{ID: id, State: api.UnsteadyDraining, Why: "scaling down", Until: now.Add(40 * time.Second)})
		}
	}
	boot := func(exists float64, launched time.Time) func(*api.Summary) {
		return func(s *api.Summary) {
			s.Boot, s.Exists = &api.BootTimes{P50: 70 * time.Second, P95: 90 * time.Second}, exists
			s.NodeCounts = map[string]int{"running": int(exists)}
			s.Nodes = append(s.Nodes, api.UnsteadyNode{ID: "i-8", State: api.UnsteadyStarting, Launched: launched})
		}
	}
	busy := func(tasks int, placed bool) func(*api.Summary) {
		return func(s *api.Summary) {
			s.Nodes = append(s.Nodes, api.UnsteadyNode{ID: "i-1", State: api.UnsteadyDraining, Why: "scaling down", Tasks: tasks, Placed: placed})
		}
	}
	waits := Facts{Apps: []Instances{{App: "api", Expected: 15, Missing: 5, Each: "0.2 cpus", Why: "no node has so much room now"}}}
	for name, test := range map[string]struct {
		s    *api.Summary
		f    Facts
		want string
	}{
		"no tick":      {nil, Facts{}, "The pool has no tick yet."},
		"steady":       {tick(3.38, 4, 4, 4), Facts{}, "Apps need 3.38 machines: stays 4."},
		"one machine":  {tick(1, 2, 2, 2), Facts{}, "Apps need 1 machine, min_capacity keeps 2: stays 2."},
		"at maximum":   {tick(9.12, 6, 6, 6, hold(api.DirectionUp, api.HoldLimit, "max_capacity", "9.12 needed, max_capacity allows 6")), waits, "Apps need 9.12 machines, max_capacity allows 6: stays 6. 5 instances of api wait for 0.2 cpus each: no node has so much room now."},
		"grows":        {tick(5.2, 4, 6, 4), Facts{}, "Apps need 5.2 machines: grows from 4 to 6. 4 of 6 joined. Next: the missing machines join; no boot time is measured yet."},
		"from nothing": {tick(3, 0, 3, 2, func(s *api.Summary) { s.Groups = nil }), Facts{}, "Apps need 3 machines: grows from 0 to 3. 2 of 3 joined. Next: the missing machines join; no boot time is measured yet."},
		"shrinks":      {tick(2.5, 6, 3, 6, leave), Facts{}, "Apps need 2.5 machines: shrinks from 6 to 3. Next: 2 machines leave (i-1, i-2: scaling down) in 40 s at the latest."},
		"cooldown":     {tick(2.5, 6, 6, 6, hold(api.DirectionDown, api.HoldCooldown, "down", "changed 20s ago, not lowered for 5m0s")), Facts{}, "Apps need 2.5 machines: stays 6, held: changed 20s ago, not lowered for 5m0s."},
		"cooldown ends": {tick(2.5, 6, 6, 6, hold(api.DirectionDown, api.HoldCooldown, "down", "changed 20s ago, not lowered for 5m0s"), func(s *api.Summary) { s.Holds[0].Until = now.Add(280 * time.Second) }), Facts{},
			"Apps need 2.5 machines: stays 6, held: changed 20s ago, not lowered for 5m0s. Next: the cooldown ends in 4 min, then it may shrink."},
		"ordered now":  {tick(5.2, 4, 6, 4, boot(4, now.Add(-time.Hour))), Facts{}, "Apps need 5.2 machines: grows from 4 to 6. 4 of 6 joined. Next: the missing machines join in 70 s (p50 of the boot times) to 90 s (p95)."},
		"launched":     {tick(5.2, 6, 6, 4, boot(6, now.Add(-75*time.Second))), Facts{}, "Apps need 5.2 machines: stays 6. 4 of 6 joined. Next: the missing machines join within 15 s (p95 of the boot times)."},
		"late":         {tick(5.2, 6, 6, 4, boot(6, now.Add(-5*time.Minute))), Facts{}, "Apps need 5.2 machines: stays 6. 4 of 6 joined. Next: the missing machines join late: 95 % of the earlier ones joined within 90 s."},
		"in a tick":    {tick(5.2, 6, 6, 4, boot(6, now.Add(-95*time.Second)), func(s *api.Summary) { s.Every = 10 * time.Second }), Facts{}, "Apps need 5.2 machines: stays 6. 4 of 6 joined. Next: the missing machines join within 5 s (p95 of the boot times)."},
		"fast":         {tick(5.2, 4, 6, 4, boot(4, now), func(s *api.Summary) { s.Boot = &api.BootTimes{} }), Facts{}, "Apps need 5.2 machines: grows from 4 to 6. 4 of 6 joined. Next: the missing machines join late: 95 % of the earlier ones joined within 1 s."},
		"never boots":  {tick(5.2, 6, 6, 4, boot(6, now), hold(api.DirectionUp, api.HoldBoot, "a", "3 machines never joined")), Facts{}, "Apps need 5.2 machines: stays 6. 4 of 6 joined."},
		"with places":  {tick(2.5, 6, 3, 6, leave, busy(3, true)), Facts{}, "Apps need 2.5 machines: shrinks from 6 to 3. Next: 3 machines leave (i-1, i-2, i-1: scaling down; their 3 instances have places) in 40 s at the latest."},
		"one place":    {tick(2.5, 6, 5, 6, busy(1, true)), Facts{}, "Apps need 2.5 machines: shrinks from 6 to 5. Next: 1 machine leaves (i-1: scaling down; its 1 instance has a place)."},
		"no place":     {tick(2.5, 6, 5, 6, busy(2, false)), Facts{}, "Apps need 2.5 machines: shrinks from 6 to 5. Next: 1 machine leaves (i-1: scaling down; 2 instances left)."},
		"some end":     {tick(3.38, 4, 4, 4, func(s *api.Summary) { s.NodeCounts["terminating"] = 2 }), Facts{}, "Apps need 3.38 machines: stays 4."},
		"weights":      {tick(8.5, 9, 9, 9, func(s *api.Summary) { s.NodeCounts = map[string]int{"running": 3}; s.Limits.Max = nil }), Facts{}, "Apps need a weight of 8.5: stays 9."},
		"pinned, held": {tick(5, 5, 5, 5, hold(api.DirectionDown, api.HoldInNodes, "nodes", "web/2 has no other place"), func(s *api.Summary) { s.Pinned = new(3.0) }), Facts{}, "Apps need 5 machines, an operator pinned 3: stays 5, held: web/2 has no other place."},
		"at minimum":   {tick(0.5, 2, 2, 2, hold(api.DirectionDown, api.HoldInNodes, "nodes", "web/2 has no other place")), Facts{}, "Apps need 0.5 machines, min_capacity keeps 2: stays 2."},
		"ending":       {tick(2.5, 3, 3, 6, leave, func(s *api.Summary) { s.Leaving = 3 }), Facts{}, "Apps need 2.5 machines: shrinks from 6 to 3. Next: 2 machines leave (i-1, i-2: scaling down) in 40 s at the latest."},
		"pinned":       {tick(3, 5, 5, 5, func(s *api.Summary) { s.Pinned = new(5.0) }), Facts{}, "Apps need 3 machines, an operator pinned 5: stays 5."},
		"pinned high": {tick(0, 6, 6, 6, hold(api.DirectionUp, api.HoldOrder, "pin", "an operator pinned 500 in place of 0"), func(s *api.Summary) { s.Pinned = new(500.0) }), Facts{},
			"Apps need 0 machines, an operator pinned 500, max_capacity allows 6: stays 6."},
		"paused":      {&api.Summary{At: now, Paused: &api.Note{By: "kim@ops", Why: "network work", Until: now.Add(time.Hour)}}, Facts{}, "Paused by kim@ops: network work; ends in 60 min. Nothing changes until then."},
		"silent":      {tick(3.38, 4, 4, 4, func(s *api.Summary) { s.At = now.Add(-21 * time.Minute) }), Facts{}, "No tick for 21 min: nothing controls the pool. At its last tick: Apps need 3.38 machines: stays 4."},
		"silent, out": {tick(5.2, 4, 6, 4, func(s *api.Summary) { s.At = now.Add(-21 * time.Minute) }), waits, "No tick for 21 min: nothing controls the pool. 5 instances of api wait for 0.2 cpus each: no node has so much room now. At its last tick: Apps need 5.2 machines: grows from 4 to 6. 4 of 6 joined."},
		"failed":      {&api.Summary{At: now, Failed: "read groups: timeout"}, Facts{}, "The last tick ended without a decision: read groups: timeout. Targets stay as they are."},
		"never": {tick(3.38, 4, 4, 4), Facts{Apps: []Instances{{App: "web", Missing: 1, Expected: 2, Each: "8 cpus", Why: "no machine of the pool can hold a copy of web: it needs 8 cpus, the largest machine (group blue) has 1 cpus"}}},
			"Apps need 3.38 machines: stays 4. 1 instance of web fits on no machine of the pool: it needs 8 cpus, the largest machine (group blue) has 1 cpus."},
		"cut": {tick(3.38, 4, 4, 4), Facts{Apps: []Instances{{App: "web", Missing: 1, Expected: 2, Why: strings.Repeat("no room ", 20)}}},
			"Apps need 3.38 machines: stays 4. 1 instance of web waits: " + strings.Repeat("no room ", 12) + "no…"},
		"missing only": {tick(3.38, 4, 4, 4), Facts{Apps: []Instances{{App: "web", Missing: 1, Expected: 2}}}, "Apps need 3.38 machines: stays 4. 1 instance of web is missing."},
	} {
		if got := Sentence(now, test.s, test.f); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, test.want)
		}
	}
}

func TestDeploy(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	well := func() *api.Summary {
		return &api.Summary{At: now, Before: new(4.0), Target: new(4.0), Joined: 4, Disruption: new(2), DisruptionLimit: 3}
	}
	used, paused := well(), well()
	used.Disruption, paused.Paused = new(0), &api.Note{By: "kim"}
	free := &api.Summary{At: now, Before: new(4.0), Target: new(4.0), Joined: 4}
	for name, test := range map[string]struct {
		s    *api.Summary
		f    Facts
		safe bool
		want string
	}{
		"well":      {well(), Facts{}, true, "Safe to deploy: budget 2 of 3 free, no repair is under way, all signals answer."},
		"used up":   {used, Facts{}, false, "Not safe to deploy: budget 0 of 3 free."},
		"no budget": {free, Facts{}, true, "Safe to deploy: no disruption budget is set, no repair is under way, all signals answer."},
		"paused":    {paused, Facts{}, false, "Not safe to deploy: paused."},
		"two nodes": {well(), Facts{Nodes: []Unfit{{ID: "i-1", Word: "Repairing"}, {ID: "i-2", Word: "Repairing"}}}, false, "Not safe to deploy: repairing."},
		"repairing": {well(), Facts{Nodes: []Unfit{{ID: "i-1", Word: "Repairing"}}}, false, "Not safe to deploy: repairing."},
		"no tick":   {nil, Facts{}, false, "Not safe to deploy: no tick."},
	} {
		if safe, why := Deploy(now, test.s, test.f); safe != test.safe || why != test.want {
			t.Errorf("%s: Deploy = %v, %q, want %v, %q", name, safe, why, test.safe, test.want)
		}
	}
}
