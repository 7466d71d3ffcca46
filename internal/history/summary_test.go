package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/resource"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func cpus(n float64) resource.Request { return resource.Request{}.With(resource.CPUs, n) }

// list is a request of CPUs in a summary.
func list(n float64) *api.RequestSummary { return &api.RequestSummary{resource.CPUs: &n} }

func value(n float64) api.Opinion {
	return api.Opinion{Signal: "shop/rps", Version: "v1", Verdict: api.VerdictValue, Request: cpus(n), At: noon}
}

// steady returns the case of six nodes in two groups. The app web needs all of them. 0.7 requested CPUs need one node.
func steady(need float64) api.Case {
	c := api.Case{
		Input: api.DecisionInput{
			Now:      noon,
			Capacity: api.PoolCapacity{Target: 6, Joined: 6, Totals: resource.Vector{resource.CPUs: 6}},
			Apps:     []api.AppInput{{Name: "web", Configured: true, Opinion: value(need)}},
			Default:  value(need),
			Policy: api.DecisionPolicy{Setpoint: 0.7, MarginUp: 0.1, MarginDown: 0.1, Combine: api.CombineSum, Period: 10 * time.Minute,
				Limits: api.TargetLimits{Min: 1, Max: 100, MaxAdd: 200, MaxRemove: 100}},
		},
		Groups: []api.GroupTarget{{ID: "blue", Target: 3, Max: 50}, {ID: "green", Target: 3, Max: 50}},
		Has:    map[string]int{"blue": 3, "green": 3},
		Joined: 6,
		Limits: api.PruneLimits{MaxWeight: 100, MaxTasks: 100},
		State:  api.PoolState{Wanted: new(6.0), Groups: map[string]api.GroupState{"blue": {LastTarget: new(3)}, "green": {LastTarget: new(3)}}},
	}
	c.State.Clock, c.State.Wall = noon, noon
	for i := range 6 {
		c.Nodes = append(c.Nodes, api.Candidate{
			ID: fmt.Sprintf("i-%d", i), Group: c.Groups[i/3].ID, Weight: 1, Instance: api.InstanceRunning, Node: api.NodeRunning, Safe: true, Tasks: 1,
		})
	}
	return c
}

// record resolves a case as a tick does.
func record(c api.Case) api.TickRecord {
	o := resolve.Resolve(c)
	result := o.Result()
	return api.TickRecord{
		Schema: resolve.Schema, At: noon, Took: 80 * time.Millisecond, Every: 10 * time.Second, Cluster: "here", Pool: "web", Epoch: 7,
		Snapshot: api.Snapshot{Target: 6, Fulfilled: 6, Joined: 6, Groups: []api.GroupSnapshot{{ID: "blue", Target: 3, Fulfilled: 3}, {ID: "green", Target: 3, Fulfilled: 3}}},
		Case:     &c, Result: &result, State: o.State,
		Detail: &api.TickDetail{
			Request: o.Decision.Request, Apps: o.Decision.Apps, Distribution: o.Distribution, Excess: o.Pruned.Excess, Kept: o.Pruned.Kept, Refused: o.Refused,
		},
	}
}

// The target of a record is that of its summary: the machines that leave are in neither, though the provider still has them.
func TestTargetIsOneNumber(t *testing.T) {
	for _, need := range []float64{2.1, 4.2, 7} {
		c := steady(need)
		r := record(c)
		s := SummaryOf(r)
		_, want, ok := s.Ordered()
		if got := explain.Target(r); !ok || got != want {
			t.Errorf("need %v: Target() = %v, want %v as in the summary", need, got, want)
		}
		for i, g := range r.Snapshot.Groups {
			if got := explain.GroupTarget(r, g); got != s.Groups[i].Target {
				t.Errorf("need %v: group %s has the target %d, want %d as in the summary", need, g.ID, got, s.Groups[i].Target)
			}
		}
	}
	if r := record(steady(2.1)); explain.Target(r) >= r.Snapshot.Target {
		t.Error("no machine leaves, so the test shows nothing")
	}
	dry := record(steady(7))
	if dry.DryRun = true; explain.Target(dry) != 6 || explain.GroupTarget(dry, dry.Snapshot.Groups[0]) != 3 {
		t.Errorf("a dry run has the target %v, want 6: it orders nothing", explain.Target(dry))
	}
}

// Each cause that can hold a pool is named, with its direction and its reason. A pool that gets what it needs has no
// hold.
func TestEachHoldIsNamed(t *testing.T) {
	type edit func(c *api.Case)
	policy := func(f func(p *api.DecisionPolicy)) edit { return func(c *api.Case) { f(&c.Input.Policy) } }
	nodes := func(f func(n *api.Candidate)) edit {
		return func(c *api.Case) {
			for i := range c.Nodes {
				f(&c.Nodes[i])
			}
		}
	}
	answered := func(p api.Places) edit { return func(c *api.Case) { c.Places = &api.CasePlaces{Places: p} } }
	const enough, more, less = 4.2, 7, 2.1
	tests := []struct {
		name   string
		need   float64
		edit   edit
		tick   func(r *api.TickRecord)
		want   string // direction, kind and name of a hold; empty: there is no hold
		reason string // part of its reason
	}{
		{name: "needs what it has", need: enough},
		{name: "grows", need: more},
		{name: "shrinks", need: less},
		{name: "paused", tick: func(r *api.TickRecord) {
			*r = api.TickRecord{At: noon, Pool: "web", Paused: &api.Note{By: "ann", Why: "a test"}}
		}, want: "down order pause", reason: "by ann: a test"},
		{name: "failed tick", tick: func(r *api.TickRecord) {
			*r = api.TickRecord{At: noon, Pool: "web", Failed: "read groups: timeout"}
		}, want: "up ignorance tick", reason: "read groups: timeout"},
		{name: "after a change of the configuration", need: less, edit: func(c *api.Case) { c.Input.NoScaleIn = "app web left" }, tick: func(r *api.TickRecord) {
			r.ConfigurationHold = &api.ConfigurationHold{Why: "app web left"}
		}, want: "down rule configuration_grace", reason: "app web left"},
		{name: "dry run", need: more, tick: func(r *api.TickRecord) { r.DryRun = true }, want: "up rule dry run", reason: "no request"},
		{name: "pinned", need: more, edit: func(c *api.Case) { c.Input.Pinned = new(6.0) }, want: "up order pin", reason: "pinned 6"},
		{name: "negative offset", need: more, edit: func(c *api.Case) { c.Input.Offset = -2 }, want: "up order offset", reason: "adds -2"},
		{name: "positive offset", need: less, edit: func(c *api.Case) { c.Input.Offset = 2 }, want: "down order offset", reason: "adds 2"},
		{name: "signal failed", need: enough, edit: func(c *api.Case) {
			c.Input.Apps[0].Opinion = api.Opinion{Verdict: api.VerdictFailed, Why: "exit status 3"}
		}, want: "up ignorance web", reason: "its signal failed: exit status 3"},
		{name: "signal stale", need: less, edit: func(c *api.Case) {
			c.Input.Apps[0].Opinion = api.Opinion{Verdict: api.VerdictStale, Why: "cpu is 9m old"}
		}, want: "down ignorance never shrink on ignorance", reason: "the need of web is unknown"},
		{name: "gpus that no machine has", need: more, edit: func(c *api.Case) {
			c.Input.Apps[0].Opinion.Request = cpus(more).With(resource.GPUs, 2)
		}, want: "up group gpus", reason: "web requested 2 gpus, and no machine of the pool has gpus"},
		{name: "gpus that are excluded", need: enough, edit: func(c *api.Case) {
			c.Input.Apps[0].Opinion.Request, c.Input.Policy.Excluded = cpus(enough).With(resource.GPUs, 2), []resource.Kind{resource.GPUs}
		}},
		{name: "default signal silent", need: more, edit: func(c *api.Case) {
			c.Input.Apps, c.Input.Default = nil, api.Opinion{}
		}, want: "up ignorance default signal", reason: "has not answered yet"},
		{name: "unknown pool", need: less, edit: func(c *api.Case) { c.Input.NoScaleIn = "2 nodes exist but are silent" },
			want: "down ignorance pool", reason: "2 nodes exist but are silent"},
		{name: "unknown nodes", need: less, edit: func(c *api.Case) { c.Refuse = "some nodes are silent: no node is removed" },
			want: "down ignorance nodes", reason: "some nodes are silent"},
		{name: "losses", need: less, edit: func(c *api.Case) {
			c.Input.Policy.LossLimit, c.Input.Lost = true, 2
		}, want: "down ignorance prevent_scale_down_after_capacity_loss", reason: "2 nodes lost"},
		{name: "breaker", need: less, edit: func(c *api.Case) { c.Input.Barred = "node health: the breaker is open: 4 of 6 nodes" },
			want: "down breaker node health", reason: "the breaker is open"},
		{name: "maximum", need: more, edit: policy(func(p *api.DecisionPolicy) { p.Limits.Max = 6 }), want: "up limit max_capacity", reason: "max_capacity allows 6"},
		{name: "minimum", need: less, edit: policy(func(p *api.DecisionPolicy) { p.Limits.Min = 6 }), want: "down limit min_capacity", reason: "min_capacity keeps 6"},
		{name: "step up", need: more, edit: policy(func(p *api.DecisionPolicy) { p.Limits.MaxAdd = 1 }), want: "up limit max_weight_to_add", reason: "at most 1 to add"},
		{name: "step down", need: less, edit: policy(func(p *api.DecisionPolicy) { p.Limits.MaxRemove = 1 }), want: "down limit max_weight_to_remove", reason: "at most 1 to remove"},
		{name: "budget up", need: more, edit: policy(func(p *api.DecisionPolicy) {
			p.Budgets = []api.ChangeBudget{{Direction: api.DirectionUp, Within: time.Hour, Weight: 2}}
		}), want: "up budget budgets", reason: "at most 2 within 1h"},
		{name: "budget down", need: less, edit: policy(func(p *api.DecisionPolicy) {
			p.Budgets = []api.ChangeBudget{{Direction: api.DirectionDown, Within: time.Hour, Weight: 2}}
		}), want: "down budget budgets", reason: "lowered by at most 2"},
		{name: "cooldown up", need: more, edit: func(c *api.Case) {
			c.Input.Policy.Cooldown.Up, c.State.Lowered = time.Hour, noon.Add(-time.Minute)
		}, want: "up cooldown up", reason: "not raised for 1h"},
		{name: "cooldown down", need: less, edit: func(c *api.Case) {
			c.Input.Policy.Cooldown.Down, c.State.Raised = time.Hour, noon.Add(-time.Minute)
		}, want: "down cooldown down", reason: "not lowered for 1h"},
		{name: "invalid policy", need: more, edit: policy(func(p *api.DecisionPolicy) { p.Setpoint = 7 }), want: "up rule input", reason: "setpoint is 7"},
		{name: "busy group", need: more, edit: func(c *api.Case) { c.Busy = map[string]string{"blue": "another autoscaler changes it"} },
			want: "up group blue", reason: "another autoscaler"},
		{name: "a group is unknown", need: more, edit: func(c *api.Case) { c.Busy = map[string]string{"blue": "it could not be read: throttled"} },
			want: "up group blue", reason: "group blue is not changed: it could not be read: throttled"},
		{name: "a group is unknown while the need falls", need: less, edit: func(c *api.Case) { c.Input.NoScaleIn = "group blue could not be read: throttled" },
			want: "down ignorance pool", reason: "group blue could not be read: throttled"},
		{name: "group in backoff", need: more, edit: func(c *api.Case) {
			c.State.Backoffs = []api.GroupBackoff{{Group: "green", Why: "InsufficientInstanceCapacity", Since: noon, Until: noon.Add(5 * time.Minute), Failures: 1}}
		}, want: "up group green", reason: "in backoff until 2026-03-01T12:05:00Z: Insufficient"},
		{name: "machines that never join", need: more, edit: func(c *api.Case) {
			c.Groups[0].Max, c.Stuck = c.Groups[0].Target, map[string]string{"blue": "group blue does not grow"}
		}, want: "up boot blue", reason: "group blue does not grow"},
		{name: "a scale-in without a window", need: less, edit: func(c *api.Case) {
			c.Closed = map[api.Work]string{api.WorkScaleIn: "scale_in waits for window nights"}
		}, want: "down window scale_in", reason: "scale_in waits for window nights"},
		{name: "a roll without a window", need: enough, edit: func(c *api.Case) {
			c.Closed, c.Stale = map[api.Work]string{api.WorkRoll: "roll waits for window nights"}, map[string]int{"blue": 1}
			c.Nodes[0].Stale, c.Nodes[0].Held = true, true
			c.Rotation = &api.Rotation{Rules: []api.RotationRule{{Left: 1, Waits: "roll waits for window nights"}}}
		}, want: "up window roll", reason: "roll waits for window nights"},
		{name: "no room for headroom", need: enough, edit: answered(api.Places{Leave: []string{"i-0", "i-1", "i-2", "i-3", "i-4", "i-5"},
			Headroom: []api.PlacesHeadroom{{Name: "spare", Wanted: 3, Free: 1, Short: 2, Why: "group blue is at its maximum"}}}),
			want: "up headroom spare", reason: "headroom spare: 1 of 3 places free, no room for 2: group blue is at its maximum"},
		{name: "groups at maximum", need: more, edit: func(c *api.Case) { c.Groups[0].Max, c.Groups[1].Max = 3, 4 }, want: "up group green", reason: "at its max of 4"},
		{name: "groups at minimum", need: less, edit: func(c *api.Case) { c.Groups[0].Min, c.Groups[1].Min = 3, 2 }, want: "down group blue", reason: "at its min of 3"},
		{name: "no groups", need: more, edit: func(c *api.Case) { c.Groups = nil }, want: "up group groups", reason: "group"},
		{name: "disruption budget", need: less, edit: func(c *api.Case) { c.Disruption = new(1) }, want: "down budget disruption budget", reason: "over the disruption budget"},
		{name: "weight of removals", need: less, edit: func(c *api.Case) { c.Limits.MaxWeight = 1 }, want: "down limit max_weight_to_remove", reason: "nodes stay"},
		{name: "tasks", need: less, edit: func(c *api.Case) { c.Limits.MaxTasks = 2 }, want: "down limit max_tasks_to_kill", reason: "over max_tasks_to_kill"},
		{name: "tasks that must stay", need: less, edit: nodes(func(n *api.Candidate) { n.Safe = false }), want: "down nodes not safe to evict", reason: "6 nodes stay"},
		{name: "protected", need: less, edit: nodes(func(n *api.Candidate) { n.Protected = true }), want: "down nodes protected by the provider", reason: "6 nodes stay"},
		{name: "unknown node", need: less, edit: nodes(func(n *api.Candidate) { n.Node = api.NodeUnknown }), want: "down ignorance state of the node is unknown", reason: "6 nodes stay"},
		{name: "no other place", need: less, edit: answered(api.Places{Stays: 6, Stay: []api.PlacesStay{{Node: "i-0", Why: "web/3 (cpus=0.6) has no other place"}}}),
			want: "down nodes places", reason: "nodes of the weight 6 stay for their copies: 6 is not lowered to 3, kept"},
		{name: "no other place for a pin", need: less, edit: func(c *api.Case) {
			answered(api.Places{Stays: 6, Stay: []api.PlacesStay{{Node: "i-0", Why: "web/3 (cpus=0.6) has no other place"}}})(c)
			c.Input.Pinned = new(5.0)
		}, want: "down group blue", reason: "nodes of group blue stay for their copies: 3"},
		{name: "one node of three has no other place", need: 2.8, edit: answered(api.Places{Leave: []string{"i-3"}, Stays: 5, Stay: []api.PlacesStay{{Node: "i-0", Why: "web/3 (cpus=0.6) has no other place"}}}),
			want: "down nodes places", reason: "-> 5 in place of 4"},
		{name: "beyond the setpoint", need: less, edit: func(c *api.Case) {
			answered(api.Places{Leave: []string{"i-0", "i-1", "i-2", "i-3"}})(c)
			c.Places.Offered, c.Places.PerWeight = resource.Vector{resource.CPUs: 6}, map[string]resource.Vector{"blue": {resource.CPUs: 2}, "green": {resource.CPUs: 2}}
		}, want: "down nodes the rest would be used beyond the setpoint", reason: "(i-"},
		{name: "the same scale-in was undone", need: less, edit: func(c *api.Case) {
			answered(api.Places{Leave: []string{"i-0", "i-1", "i-2", "i-3"}})(c)
			before := api.ScaleIn{At: noon.Add(-2 * time.Hour), Target: 3, Nodes: map[string]float64{"blue": 3, "green": 3}, Offered: c.Places.Offered, Undone: noon.Add(-time.Hour)}
			c.State.ScaleIns = &api.ScaleIns{Undone: []api.ScaleIn{before}}
		}, want: "down nodes the same removal was undone", reason: "the same removal was undone at 2026-03-01T11:00:00Z, and nothing has changed since (i-"},
		{name: "copies without room", need: enough, edit: answered(api.Places{Waiting: 3, ShortCopies: 3, Leave: []string{"i-0", "i-1", "i-2", "i-3", "i-4", "i-5"},
			Short: []api.PlacesApp{{App: "mail", Copies: 3, Why: "group blue is at its maximum; group green is in backoff until 2026-03-01T12:05:00Z: no capacity"}}}),
			want: "up group mail", reason: "waiting copies: mail x3: group blue is at its maximum; group green is in backoff"},
		{name: "a copy that no machine can hold", need: enough, edit: answered(api.Places{NeverCopies: 1, Leave: []string{"i-0", "i-1", "i-2", "i-3", "i-4", "i-5"},
			Never: []api.PlacesApp{{App: "typo", Copies: 1, Why: "it needs 50 cpus, the largest machine (group blue) has 1 cpus"}}}),
			want: "up group typo", reason: "no machine of the pool can hold a copy of typo: it needs 50 cpus, the largest machine (group blue) has 1 cpus"},
		{name: "a silent scheduler", need: less, edit: func(c *api.Case) {
			c.NoPlaces = "the scheduler does not answer where copies would go: no machine is removed: " + strings.Repeat("x", 300)
			c.Input.NoScaleIn, c.Refuse = c.NoPlaces, c.NoPlaces
		}, want: "down ignorance pool", reason: "the scheduler does not answer"},
		{name: "copies without a place grow the pool", need: enough, edit: answered(api.Places{Waiting: 1, New: []api.PlacesNeed{{Group: "blue", Nodes: 1, Weight: 1, Copies: 1, First: "web/6"}}})},
		{name: "provider", need: more, tick: func(r *api.TickRecord) {
			r.Actions = []api.Action{{Op: api.OpSetTarget, Group: "blue", Target: 5, Error: "AccessDenied"}}
		}, want: "up provider blue", reason: "set target blue: AccessDenied"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := steady(test.need)
			if test.edit != nil {
				test.edit(&c)
			}
			r := record(c)
			if test.tick != nil {
				test.tick(&r)
			}
			var names []string
			for _, h := range holdsOf(r) {
				name := fmt.Sprintf("%s %s %s", h.Direction, h.Kind, h.Name)
				names = append(names, name)
				if name == test.want && !strings.Contains(h.Why, test.reason) {
					t.Errorf("%s: the reason is %q, want %q", name, h.Why, test.reason)
				}
			}
			if test.want == "" && names != nil || test.want != "" && !slices.Contains(names, test.want) {
				t.Errorf("holds are %q, want %q", names, test.want)
			}
		})
	}
}

// A group whose machines never join is one hold, also if it is in backoff for that and at the maximum that it has meanwhile.
func TestOneHoldForMachinesThatNeverJoin(t *testing.T) {
	c := steady(7)
	why := "3 machines in a row never joined"
	for i, g := range c.Groups {
		c.Groups[i].Max = g.Target
	}
	c.Stuck = map[string]string{"blue": "group blue does not grow: " + why}
	c.State.Backoffs = []api.GroupBackoff{{Group: "blue", Why: why, Since: noon, Until: noon.Add(5 * time.Minute), Failures: 1}}
	var got []string
	for _, h := range holdsOf(record(c)) {
		got = append(got, fmt.Sprintf("%s %s", h.Kind, h.Name))
	}
	if want := []string{"boot blue", "group green"}; !slices.Equal(got, want) {
		t.Errorf("holds %q, want %q", got, want)
	}
}

// The summary of a record names the rule that set the target, and survives its encoding.
func TestSummary(t *testing.T) {
	c := steady(7)
	c.Input.Policy.Limits.Max = 8
	c.Disruption, c.DisruptionLimit = new(2), 3
	r := record(c)
	r.Actions = []api.Action{
		{Op: api.OpSetTarget, Group: "blue", Target: 4}, {Op: api.OpDrain, Group: "blue", Node: "i-1"},
		{Op: api.OpDrain, Group: "blue", Node: "i-2", Error: "throttled\x1b[2J"},
	}
	r.Case.Input.Apps[0].Opinion.Latency = 12*time.Millisecond + 3*time.Nanosecond
	r.Shadows = []api.ShadowRecord{{App: "web", Opinion: api.Opinion{Version: "v2", Verdict: api.VerdictValue, Request: cpus(9)}, Compared: true, Difference: "cpus 9 instead of 7"}}
	s := SummaryOf(r)
	want := api.Summary{
		Schema: SummarySchema, Pool: "web", At: noon, Took: 80 * time.Millisecond, Every: 10 * time.Second, Before: new(6.0), Target: new(8.0), Wanted: new(8.0), Unlimited: new(10.000000000000002),
		Joined: 6, Exists: 6, Limits: &api.LimitsSummary{Min: 1, Max: new(100.0)}, Rule: api.RuleLimits, Request: list(7),
		Offered: &api.RequestSummary{new(6.0), new(0.0), new(0.0), new(0.0)}, Setpoint: 0.7,
		Disruption: new(2), DisruptionLimit: 3,
		Why:    "10 needed, max_capacity allows 8, -> 8",
		Apps:   []api.AppSummaryTick{{Name: "web", Request: *list(7), Version: "v1", Latency: 12 * time.Millisecond, Shadow: &api.ShadowSummary{Version: "v2", Request: *list(9), Compared: true, Difference: "cpus 9 instead of 7"}}},
		Groups: []api.GroupSummary{{ID: "blue", Before: 3, Target: 4, Exists: 3}, {ID: "green", Before: 3, Target: 4, Exists: 3}},
		Actions: []api.ActionSummary{
			{Op: api.OpSetTarget, Group: "blue", Target: 4, Calls: 1}, {Op: api.OpDrain, Group: "blue", Calls: 2, Failed: 1, Error: "throttled [2J"},
		},
		Holds: []api.Hold{
			{Direction: api.DirectionUp, Kind: api.HoldLimit, Name: "max_capacity", Why: "10 needed, max_capacity allows 8"},
			{Direction: api.DirectionUp, Kind: api.HoldProvider, Name: "blue", Why: "drain blue i-2: throttled [2J"},
			{Direction: api.DirectionDown, Kind: api.HoldProvider, Name: "blue", Why: "drain blue i-2: throttled [2J"},
		},
	}
	want.Limits.Max = new(8.0)
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("SummaryOf (-want +got):\n%s", diff)
	}
	data, err := json.Marshal(s)
	if err != nil || len(data) > 1500 {
		t.Errorf("the summary has %d bytes, %v, want at most 1500", len(data), err)
	}
	read, err := readSummary(data)
	if diff := cmp.Diff(s, read); diff != "" || err != nil {
		t.Errorf("ReadSummary: %v (-want +got):\n%s", err, diff)
	}
}

// A summary lists the nodes that are not steady, worst first, and counts those beyond the first.
func TestSummaryListsNodesThatAreNotSteady(t *testing.T) {
	c := steady(4.2)
	c.Nodes[0].Node, c.Nodes[1].Node = api.NodeOrphaned, api.NodeUnknown
	c.Nodes[2].Uptime = time.Hour
	c.Nodes[2].Repairing, c.Nodes[3].Instance = true, api.InstanceTerminating
	r := record(c)
	r.Snapshot.Nodes = map[string]int{"idle": 2, "silent": 1}
	r.Snapshot.Quarantined = map[string]string{"q-1": "blue"}
	r.Snapshot.Silent = []string{"s-1"}
	r.Drains = []api.Drain{
		{Node: "d-1", Group: "green", State: api.DrainDraining, Reason: api.DrainScaleIn, Deadline: noon.Add(time.Minute)},
		{Node: "d-2", Group: "green", State: api.DrainDrained, Reason: api.DrainRepair},
		{Node: "d-3", Group: "green", State: api.DrainTerminating},
		{Node: "d-4", Group: "green", State: api.DrainReturned},
		{Node: "d-5", Group: "green", State: api.DrainChosen, Hold: true},
	}
	s := SummaryOf(r)
	id := func(i int) string { return c.Nodes[i].ID }
	want := []api.UnsteadyNode{
		{ID: "d-2", Group: "green", State: api.UnsteadyRepair, Why: "repair"}, {ID: id(2), Group: c.Nodes[2].Group, State: api.UnsteadyRepair, Launched: noon.Add(-time.Hour)},
		{ID: "q-1", Group: "blue", State: api.UnsteadyQuarantined},
		{ID: id(1), Group: c.Nodes[1].Group, State: api.UnsteadySilent}, {ID: "s-1", State: api.UnsteadySilent},
		{ID: "d-1", Group: "green", State: api.UnsteadyDraining, Why: "scaling down", Until: noon.Add(time.Minute)},
		{ID: id(0), Group: c.Nodes[0].Group, State: api.UnsteadyStarting},
		{ID: "d-3", Group: "green", State: api.UnsteadyEnded}, {ID: id(3), Group: c.Nodes[3].Group, State: api.UnsteadyEnded},
	}
	if diff := cmp.Diff(want, s.Nodes); diff != "" || s.NodesOmitted != 0 || s.NodeCounts["idle"] != 2 {
		t.Errorf("%d omitted, counts %v; nodes (-want +got):\n%s", s.NodesOmitted, s.NodeCounts, diff)
	}
	for i := range 100 {
		r.Drains = append(r.Drains, api.Drain{Node: fmt.Sprintf("many-%d", i), State: api.DrainDraining})
	}
	if s := SummaryOf(r); len(s.Nodes) != 40 || s.NodesOmitted != 69 || s.Omitted != 0 {
		t.Errorf("%d nodes, %d omitted, want 40 and 69", len(s.Nodes), s.NodesOmitted)
	}
}

// A summary stays small whatever a record has, and states how much it omits.
// A summary has what the first sentence needs for what happens next: the end of a cooldown, boot times, and the places of instances.
func TestSummaryOfWhatIsNext(t *testing.T) {
	c := steady(2.1)
	c.Input.Policy.Cooldown.Down, c.State.Raised = time.Hour, noon.Add(-time.Minute)
	held := SummaryOf(record(c))
	if i := slices.IndexFunc(held.Holds, func(h api.Hold) bool { return h.Kind == api.HoldCooldown }); i < 0 || !held.Holds[i].Until.Equal(noon.Add(59*time.Minute)) {
		t.Errorf("the holds are %+v, want a cooldown until 59 minutes from now", held.Holds)
	}

	c = steady(7)
	if s := SummaryOf(record(c)); s.Boot != nil {
		t.Errorf("the boot times are %+v, want none: no machine has joined yet", s.Boot)
	}
	c.State.Groups["blue"] = api.GroupState{LastTarget: new(3), Boots: api.Boots{Times: map[string][]float64{"m5 a": {60, 90}, "m5 b": {70}}}}
	if s := SummaryOf(record(c)); s.Boot == nil || *s.Boot != (api.BootTimes{P50: 70 * time.Second, P95: 90 * time.Second}) {
		t.Errorf("the boot times are %+v, want 70 s and 90 s", s.Boot)
	}

	c = steady(4.2)
	c.Places = &api.CasePlaces{Places: api.Places{Back: []string{"i-1"}}}
	r := record(c)
	for _, node := range []string{"i-0", "i-1"} {
		r.Drains = append(r.Drains, api.Drain{Node: node, Group: "blue", State: api.DrainDraining, Reason: api.DrainScaleIn})
	}
	if n := SummaryOf(r).Nodes; len(n) != 2 || n[0].Tasks != 1 || !n[0].Placed || n[1].Placed {
		t.Errorf("the nodes that leave are %+v, want one task each, and a place for that of i-0", n)
	}
}

func TestSummaryIsBounded(t *testing.T) {
	c := steady(7)
	for i := range 500 {
		c.Input.Apps = append(c.Input.Apps, api.AppInput{Name: fmt.Sprintf("app-%d", i), Configured: true, Opinion: api.Opinion{Verdict: api.VerdictFailed, Why: strings.Repeat("x", 5000)}})
	}
	r := record(c)
	for i := range 500 {
		r.Problems = append(r.Problems, strings.Repeat("\n", 9000))
		r.Actions = append(r.Actions, api.Action{Op: api.OpDrain, Group: fmt.Sprint(i), Error: strings.Repeat("e", 5000)})
	}
	s := SummaryOf(r)
	data, err := json.Marshal(s)
	if err != nil || s.Omitted < 1500 {
		t.Errorf("SummaryOf omits %d entries, %v, want at least 1500", s.Omitted, err)
	}
	if _, err := readSummary(data); err != nil {
		t.Errorf("ReadSummary of %d bytes = %v", len(data), err)
	}
	for _, bad := range []string{"", "{", `{"schema":2}`, `{"schema":1,"at":"yesterday"}`, strings.Repeat(" ", 300_000)} {
		if _, err := readSummary([]byte(bad)); err == nil {
			t.Errorf("ReadSummary(%.20q) succeeds, want an error", bad)
		}
	}
}

// Two ticks differ in what an operator searches for; equal ticks at different times do not.
func TestDifferences(t *testing.T) {
	calm, grown := SummaryOf(record(steady(4.2))), SummaryOf(record(steady(7)))
	later := calm
	later.At, later.Took = calm.At.Add(time.Minute), time.Second
	changes := func(all ...api.Summary) (last []api.Change) {
		var q sequence
		for i, s := range all {
			s.At = noon.Add(time.Duration(i) * time.Minute)
			last = q.next(s).Changes
		}
		return last
	}
	if got := changes(calm, later); got != nil || len(DiffSummaries(calm, later)) > 0 {
		t.Errorf("equal ticks differ: %v", got)
	}
	if changes(grown) != nil || later.Acted() || !grown.Acted() {
		t.Error("the first tick of a search has acted if it moved the target, and has changed nothing")
	}
	text := fmt.Sprint(DiffSummaries(calm, grown))
	for _, want := range []string{"target 6 -> 10", "group blue 3 -> 5", "request of app web cpus=4.2 -> cpus=7", "reason "} {
		if !strings.Contains(text, want) {
			t.Errorf("DiffSummaries misses %q: %s", want, text)
		}
	}
	paused := SummaryOf(api.TickRecord{At: noon, Pool: "web", Paused: &api.Note{By: "ann"}})
	if got := fmt.Sprint(changes(calm, paused)); !strings.Contains(got, "pause none -> by ann") || strings.Contains(got, "target") {
		t.Errorf("a paused tick after a calm one: %s", got)
	}
	offset := calm
	offset.Offset = 2
	offset.Orders = api.Orders{
		Offset:   &api.Offset{Note: api.Note{By: "ann", Why: "a campaign"}},
		Removals: []api.Removal{{Note: api.Note{By: "bob", Why: "a bad disk"}, Node: "i-1"}},
		Stale:    []api.StaleMark{{Note: api.Note{By: "ann"}, Group: "blue"}},
	}.List()
	got := fmt.Sprint(changes(calm, paused, offset))
	for _, want := range []string{"pause by ann -> none", "offset none -> 2 by ann: a campaign", "removal of i-1 none -> by bob: a bad disk", "roll of blue none -> by ann"} {
		if !strings.Contains(got, want) {
			t.Errorf("after a pause: %s, want %q", got, want)
		}
	}
	fraction := calm
	fraction.Target = new(5.38)
	if got := changes(calm, fraction); got != nil || fraction.Acted() {
		t.Errorf("a need with another fraction, and the same machines ordered, is a change: %v", got)
	}
	dry := grown
	dry.DryRun = true
	if got := changes(calm, dry, later); got != nil {
		t.Errorf("a tick differs from a dry run before it: %v", got)
	}
}

func FuzzReadSummary(f *testing.F) {
	data, err := json.Marshal(SummaryOf(record(steady(7))))
	f.Add(data)
	f.Add([]byte("{}"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := readSummary(data)
		if err != nil {
			return
		}
		if got := DiffSummaries(s, s); got != nil {
			t.Errorf("a summary differs from itself: %v", got)
		}
	})
}
