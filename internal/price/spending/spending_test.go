package spending_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/internal/price/spending"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// machinesOf returns running machines of group g that have joined: id "n0" has the most tasks.
func machinesOf(n int) []pools.Node {
	out := make([]pools.Node, n)
	for i := range out {
		id := fmt.Sprint("n", i)
		out[i] = pools.Node{
			Instance: pools.Instance{ID: id, Group: "g", Weight: 1, State: api.InstanceRunning, Launched: noon, Market: pools.Market{InstanceType: "m5", Zone: "a"}},
			State:    api.NodeRunning, Facts: api.NodeFacts{ID: id, Tasks: n - i},
		}
	}
	return out
}

// decided returns the record of a tick with these steps after the target.
func decided(steps ...api.Step) *api.TickRecord {
	target := steps[len(steps)-1].After
	return &api.TickRecord{
		At: noon, Case: &api.Case{}, Result: &api.CaseResult{Target: target, Steps: steps}, Detail: &api.TickDetail{},
	}
}

func step(rule api.Rule, before, after float64) api.Step {
	return api.Step{Rule: rule, Before: before, After: after}
}

// Each cost was computed by hand: a machine of type m5 costs 1, a spot one 0.25, and other types have no price.
func TestCosts(t *testing.T) {
	served := func(n float64) api.Step { return step(api.RuleTarget, 0, n) }
	none := func([]pools.Node, *api.TickRecord) {}
	limited := api.DecisionInput{
		Now: noon, Capacity: api.PoolCapacity{Target: 5}, NoScaleIn: "usage is unknown", Policy: api.DecisionPolicy{Limits: api.TargetLimits{Min: 4, Max: 80, MaxAdd: 9, MaxRemove: 9}},
	}
	tests := []struct {
		name     string
		machines int
		steps    []api.Step
		change   func([]pools.Node, *api.TickRecord)
		want     string
	}{
		{"all serve", 3, []api.Step{served(3)}, none, "serving 3: 3"},
		{"whole machines", 3, []api.Step{served(2.2)}, none, "serving 3: 3"},
		{"a rule that rounds up", 1, []api.Step{served(0.6), step(api.RuleUnknownNeed, 0.6, 0.6), step(api.RulePlaces, 0.6, 1)}, none, "serving 1: 1"},
		{"an offset", 5, []api.Step{served(3), step(api.RuleOffset, 3, 5)}, none, "held by offset 2: 2; serving 3: 3"},
		{"a limit takes back what was added last", 4, []api.Step{served(3), step(api.RuleOffset, 3, 6), step(api.RuleLimits, 6, 4)}, none, "held by offset 1: 1; serving 3: 3"},
		{"a limit below the need", 2, []api.Step{served(9), step(api.RuleLimits, 9, 2)}, none, "serving 2: 2"},
		{"the need is served first", 3, []api.Step{served(3), step(api.RulePinned, 3, 9)}, none, "serving 3: 3"},
		{"nothing is requested", 2, []api.Step{served(0), step(api.RuleUnknownNeed, 0, 2)}, none, "held by never shrink on ignorance 2: 2"},
		{"no input", 2, []api.Step{step(api.RuleInput, 2, 2)}, none, "held by input 2: 2"},
		{"the minima of groups", 3, []api.Step{served(1)}, func(_ []pools.Node, r *api.TickRecord) {
			r.Detail.Distribution = api.Distribution{Want: 1, Sum: 3, Shortfall: -2, Shares: []api.GroupShare{{Group: "g", After: 3, Bound: api.ShareAtMin}}}
		}, "held by minimum of a group 2: 2; serving 1: 1"},
		{"each limit that raises the target", 5, []api.Step{served(1), step(api.RuleLimits, 1, 5)}, func(_ []pools.Node, r *api.TickRecord) {
			r.Case.Input = limited
		}, "held by min_capacity 3: 3; held by scale-in is barred 1: 1; serving 1: 1"},
		{"limits of another version", 5, []api.Step{served(1), step(api.RuleLimits, 1, 4)}, func(_ []pools.Node, r *api.TickRecord) {
			r.Case.Input = limited
		}, "held by group is at its target capacity 1: 1; held by limits 3: 3; serving 1: 1"},
		{"free places fill one machine of two", 4, []api.Step{served(2), step(api.RulePlaces, 2, 4)}, func(_ []pools.Node, r *api.TickRecord) {
			r.Case.Input.Capacity = api.PoolCapacity{Joined: 4, Totals: resource.Vector{16, 64000}}
			r.Case.Places = &api.CasePlaces{Places: api.Places{Headroom: []api.PlacesHeadroom{{Resources: resource.Vector{2, 1000}, Wanted: 2, Free: 1, Ordered: 1}}}}
		}, "headroom 1: 1; held by places 1: 1; serving 2: 2"},
		{"a part of a machine for free places", 3, []api.Step{served(2), step(api.RulePlaces, 2, 3), step(api.RuleOffset, 3, 4)}, func(_ []pools.Node, r *api.TickRecord) {
			r.Case.Input.Capacity = api.PoolCapacity{Joined: 3, Totals: resource.Vector{12}}
			r.Case.Places = &api.CasePlaces{Places: api.Places{Headroom: []api.PlacesHeadroom{{Resources: resource.Vector{1}, Wanted: 1, Free: 1}}}}
		}, "headroom 1: 1; serving 2: 2"},
		{"free places in what the requests need", 3, []api.Step{served(3), step(api.RulePlaces, 3, 3)}, func(_ []pools.Node, r *api.TickRecord) {
			r.Case.Input.Capacity = api.PoolCapacity{Joined: 3, Totals: resource.Vector{12}}
			r.Case.Places = &api.CasePlaces{Places: api.Places{Headroom: []api.PlacesHeadroom{{Resources: resource.Vector{1}, Wanted: 3, Free: 3}}}}
		}, "serving 3: 3"},
		{"kept nodes", 5, []api.Step{served(1)}, func(_ []pools.Node, r *api.TickRecord) {
			r.Detail.Kept = []api.KeptNode{{Why: api.KeptGroupAtTarget, Nodes: 9}, {Why: api.KeptOverBudget, Nodes: 1}, {Why: api.KeptNotSafe, Nodes: 3}}
		}, "held by disruption budget 1: 1; held by not safe to evict 3: 3; serving 1: 1"},
		{"no scale-in", 2, []api.Step{served(1)}, func(_ []pools.Node, r *api.TickRecord) { r.Detail.Refused = "a node is silent" }, "held by scale-in is barred 1: 1; serving 1: 1"},
		{"a machine is divided", 1, []api.Step{served(3), step(api.RuleOffset, 3, 4)}, func(n []pools.Node, _ *api.TickRecord) { n[0].Instance.Weight = 4 }, "held by offset 0.25: 0.25; serving 0.75: 0.75"},
		{"pending, terminating, and accepted", 4, []api.Step{served(1)}, func(n []pools.Node, r *api.TickRecord) {
			n[1].Instance.State, n[2].Instance.State = api.InstancePending, api.InstanceTerminating
			r.Drains = []api.Drain{{Node: "n3", State: api.DrainTerminating, EndAccepted: noon}}
		}, "serving 1: 1"},
		{"drains and repairs", 7, []api.Step{served(1)}, func(n []pools.Node, r *api.TickRecord) {
			n[6].State = api.NodeOrphaned
			r.Drains = []api.Drain{
				{Node: "n1", State: api.DrainDraining, Reason: api.DrainScaleIn}, {Node: "n2", State: api.DrainChosen, Reason: api.DrainRolling},
				{Node: "n3", State: api.DrainCordoned, Reason: api.DrainRepair}, {Node: "n4", State: api.DrainRepairing, RepairInPlace: api.RepairReboot},
				{Node: "n0", State: api.DrainReturned, Reason: api.DrainScaleIn},
			}
		}, "draining 1: 1; repair 3: 3; roll 1: 1; serving 1: 1; waiting to join 1: 1"},
		{"marked machines beside their replacements", 3, []api.Step{served(2)}, func(_ []pools.Node, r *api.TickRecord) {
			r.Case.Nodes = []api.Candidate{{ID: "n0", Stale: true}, {ID: "n1", Stale: true}, {ID: "n2"}}
			r.Account = api.Account{{Kind: api.EntrySurge, Group: "g", Weight: 2}}
			r.Detail.Distribution = api.Distribution{Want: 2, Sum: 2, Shares: []api.GroupShare{{Group: "g", After: 2}}}
		}, "roll 1: 1; serving 2: 2"},
		{"spot, and a type without a price", 3, []api.Step{served(3)}, func(n []pools.Node, _ *api.TickRecord) {
			n[0].Instance.Market.Spot, n[1].Instance.Market.InstanceType = true, "c5"
		}, "serving 1: unknown (on-demand c5 in a); serving 1: 1; serving 1: 0.25"},
	}
	prices := &price.Prices{Currency: "USD"}
	if err := prices.AddTable("prices.csv", []byte("type,spot,price\nm5,false,1\nm5,true,0.25\n")); err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			nodes, r := machinesOf(test.machines), decided(test.steps...)
			test.change(nodes, r)
			c := spending.Of(prices, nodes, func(id string) bool { return id == "n5" }, r)
			var parts []string
			sum := 0.0
			for _, p := range c.Parts {
				hour := "unknown (" + p.Market + ")"
				if p.PerHour != nil {
					hour, sum = fmt.Sprint(*p.PerHour), sum+*p.PerHour
				}
				parts = append(parts, fmt.Sprintf("%s %v: %s", p.CauseText(), p.Machines, hour))
			}
			if got := strings.Join(parts, "; "); got != test.want || sum != c.PerHour || c.Currency != "USD" {
				t.Errorf("Of = %s, total %v %s\nwant %s", got, c.PerHour, c.Currency, test.want)
			}
			if lacks := strings.Contains(test.want, "unknown"); (len(c.Files) == 1 && c.Files[0] == "prices.csv") != lacks {
				t.Errorf("the files without a price are %q", c.Files)
			}
		})
	}
}

// A machine of three parts costs its price, however the parts are rounded.
func TestDividedMachineCostsItsPrice(t *testing.T) {
	prices := &price.Prices{}
	if err := prices.Set(price.Market{}, time.Time{}, 0.000000001); err != nil {
		t.Fatal(err)
	}
	nodes := machinesOf(1)
	nodes[0].Instance.Weight = 3
	r := decided(step(api.RuleTarget, 0, 1), step(api.RuleOffset, 1, 2), step(api.RuleLimits, 2, 3))
	c := spending.Of(prices, nodes, func(string) bool { return false }, r)
	if len(c.Parts) != 3 || c.PerHour != 0.000000001 {
		t.Errorf("Of = %+v, want three parts for a billionth", c)
	}
}
