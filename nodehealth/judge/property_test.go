package judge

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
)

// chaos drives a Judge with random events, and checks the invariants.
type chaos struct {
	policy Policy
	j      *Judge
	now    time.Time
	nodes  []Node
	orders map[string]int // by attempt, without those resumed
	owed   []Order        // acts and fences without a reported outcome
	paused map[string]time.Time
	born   int
	bodies map[string]bool // nodes with a failing mode or a bad state in the list
}

func newChaos(t *rapid.T) *chaos {
	p := plain(Action{Name: api.ActionReboot}, Action{Name: api.ActionRecreate})
	p.Detection.Conditional = rapid.SampledFrom([]Conditional{AnyFailed, AllFailed, "AT_LEAST 2"}).Draw(t, "conditional")
	p.Safety.MaxInProgress = &Limit{Value: float64(rapid.IntRange(1, 3).Draw(t, "max_in_progress"))}
	p.Safety.Rate = Rate{PerHour: new(600), Burst: new(20)}
	p.Safety.MaxUnhealthy = &Limit{40, true}
	if rapid.Bool().Draw(t, "fencing") {
		p.Recovery.Fencing = []Level{FenceCompute}
	}
	c := &chaos{policy: p, j: New(p), now: start(), orders: map[string]int{}, paused: map[string]time.Time{}, bodies: map[string]bool{}}
	for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
		c.nodes = append(c.nodes, Node{ID: fmt.Sprintf("n%d", i), Zone: string(rune('a' + i%2)), Since: start().Add(-time.Hour)})
	}
	c.step(t, Nodes{List: slices.Clone(c.nodes)})
	return c
}

func (c *chaos) node(t *rapid.T) string { return rapid.SampledFrom(c.nodes).Draw(t, "node").ID }

func (c *chaos) step(t *rapid.T, ev Event) {
	open, _ := c.j.BreakerOpen()
	orders, found := c.j.Step(c.now, ev)
	stillOpen, _ := c.j.BreakerOpen()
	for _, o := range orders {
		if o.Kind != OrderAct && o.Kind != OrderFence {
			continue
		}
		if o.Resumed {
			continue
		}
		if c.orders[o.Attempt]++; c.orders[o.Attempt] > 1 {
			t.Fatalf("attempt %s was ordered twice", o.Attempt)
		}
		if c.now.Before(c.paused[o.Node]) || c.now.Before(c.paused[""]) {
			t.Fatalf("%s of %s, which is paused", o.Kind, o.Node)
		}
		if open && stillOpen {
			t.Fatalf("%s of %s while the breaker is open", o.Kind, o.Node)
		}
		if !c.bodies[o.Node] {
			t.Fatalf("%s of %s, of which nothing bad was ever told", o.Kind, o.Node)
		}
		c.owed = append(c.owed, o)
	}
	for _, f := range found {
		if f.Event == api.HealthRepairBlocked && (f.Gate == "" || f.Why == "") {
			t.Fatalf("%+v names no gate or no reason", f)
		}
	}
	c.check(t)
}

// check checks the repair slots and the counts after every step.
func (c *chaos) check(t *rapid.T) {
	most := int(c.policy.Safety.MaxInProgress.Value)
	if n := len(c.j.roster.active); n > most {
		t.Fatalf("%d repairs in progress, %d may be", n, most)
	}
	var want census
	for _, n := range c.j.roster.all {
		got := c.j.roster.tally(c.now, n)
		want.listed += one(n.counted.listed, 1)
		want.eligible += one(n.counted.eligible, 1)
		want.unhealthy += one(n.counted.unhealthy, 1)
		want.noData += one(n.counted.noData, 1)
		if got.unhealthy != n.counted.unhealthy && isUnfit(n.state) && got.eligible {
			t.Fatalf("%s is %s, and not counted so: %+v", n.ID, n.state, n.counted)
		}
		if (n.repair == nil) == (isInRepair(n.state) || n.state == api.StateFenceFailed) {
			t.Fatalf("%s is %s, its repair %+v", n.ID, n.state, n.repair)
		}
	}
	if c.j.safety.breakers.census != want {
		t.Fatalf("counted %+v, want %+v", c.j.safety.breakers.census, want)
	}
}

func (c *chaos) Tick(t *rapid.T) {
	c.now = c.now.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "seconds")) * time.Second)
	c.step(t, Tick{})
}

func (c *chaos) Round(t *rapid.T) { // all nodes but some are healthy
	bad := rapid.SliceOfN(rapid.SampledFrom(c.nodes), 0, 2).Draw(t, "bad")
	for _, n := range c.nodes {
		v := api.CheckOK
		if slices.ContainsFunc(bad, func(b Node) bool { return b.ID == n.ID }) {
			v = api.CheckFail
			c.bodies[n.ID] = true
		}
		for _, m := range c.policy.Detection.Modes {
			c.step(t, Observation{Node: n.ID, Mode: m.Type, Verdict: v, Reason: "round"})
		}
	}
	c.now = c.now.Add(time.Second)
	c.step(t, Tick{})
}

func (c *chaos) Observation(t *rapid.T) {
	o := Observation{
		Node: c.node(t), Mode: rapid.SampledFrom([]api.DetectionType{api.DetectNodeStatus, api.DetectAgentHeartbeat, api.DetectPollURL}).Draw(t, "mode"),
		Verdict: rapid.SampledFrom([]api.HealthVerdict{api.CheckOK, api.CheckFail, api.CheckUnknown, "x"}).Draw(t, "verdict"),
		Reason:  rapid.SampledFrom([]string{"", reasonSilent, reasonSpot, "disk_full"}).Draw(t, "reason"),
	}
	if o.Verdict == api.CheckFail {
		c.bodies[o.Node] = true
	}
	c.step(t, o)
}

func (c *chaos) Nodes(t *rapid.T) {
	i := rapid.IntRange(0, len(c.nodes)-1).Draw(t, "which")
	state := rapid.SampledFrom([]Provided{Running, Stopped, Terminated, Spot, Leaving}).Draw(t, "state")
	c.nodes[i].State = state
	c.bodies[c.nodes[i].ID] = true
	c.step(t, Nodes{List: slices.Clone(c.nodes)})
}

func (c *chaos) Silence(t *rapid.T) { // of all but one node: each may be reported as silent
	for _, n := range c.nodes {
		c.bodies[n.ID] = true
	}
	c.step(t, PathProof{Down: rapid.Bool().Draw(t, "down")})
}

func (c *chaos) Outcome(t *rapid.T) {
	if len(c.owed) == 0 {
		return
	}
	i := rapid.IntRange(0, len(c.owed)-1).Draw(t, "order")
	o := c.owed[i]
	c.owed = slices.Delete(c.owed, i, i+1)
	out := Outcome{Node: o.Node, Attempt: o.Attempt, OK: rapid.Bool().Draw(t, "ok"), Action: o.Action.Name}
	if o.Kind == OrderFence {
		out.Step = StepFence
	} else {
		out.Step = rapid.SampledFrom([]Step{"", StepDone, StepVerified, StepUndone}).Draw(t, "step")
	}
	if o.Action.Name == api.ActionRecreate && rapid.Bool().Draw(t, "named") {
		c.born++
		out.Replacement = fmt.Sprintf("r%d", c.born)
		c.bodies[out.Replacement] = true
		c.nodes = append(c.nodes, Node{ID: out.Replacement, Zone: "a", Since: c.now})
	}
	c.step(t, out)
}

func (c *chaos) Pause(t *rapid.T) {
	id := rapid.SampledFrom([]string{"", c.node(t)}).Draw(t, "paused")
	ttl := time.Duration(rapid.IntRange(1, 600).Draw(t, "ttl")) * time.Second
	c.born++
	c.step(t, Pause{Node: id, Owner: fmt.Sprint(c.born), TTL: ttl})
	c.paused[id] = latest(c.paused[id], c.now.Add(ttl))
}

func (c *chaos) Wish(t *rapid.T) {
	id := c.node(t)
	c.bodies[id] = true
	c.step(t, rapid.SampledFrom([]Event{Recover{Node: id, By: "ops"}, Recover{Node: id, By: "ops", For: 10 * time.Minute}, Hint{id, "why"}, Release{Node: id, By: "ops"}, Release{Requests: true, By: "ops"}, RepairOwner{}, Nodes{List: slices.Clone(c.nodes)}}).Draw(t, "event"))
}

func (c *chaos) WishForAll(t *rapid.T) {
	for _, n := range c.nodes {
		c.bodies[n.ID] = true
	}
	c.step(t, Recover{By: "ops", For: 10 * time.Minute})
}

// Restore continues from the durable state, as another process would.
func (c *chaos) Restore(t *rapid.T) {
	state := c.j.State()
	data, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	var read State
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(state, read, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("through JSON the state differs:\n%s", diff)
	}
	flight := map[string]bool{}
	for _, n := range c.j.roster.active {
		if n.state == api.StateFencing || n.state == api.StateRecovering && !n.repair.Waiting {
			flight[n.repair.Attempt] = true
		}
	}
	if c.j, err = Restore(c.now, c.policy, read); err != nil {
		t.Fatal(err)
	}
	orders, _ := c.j.Step(c.now, Tick{})
	for _, o := range orders {
		if o.Kind != OrderAct && o.Kind != OrderFence {
			continue
		}
		if o.Resumed != flight[o.Attempt] {
			t.Fatalf("%+v: resumed is wrong", o)
		}
		delete(flight, o.Attempt)
		if !o.Resumed && c.orders[o.Attempt] > 0 {
			t.Fatalf("attempt %s was ordered again", o.Attempt)
		}
		if !o.Resumed {
			c.orders[o.Attempt]++
			c.owed = append(c.owed, o)
		}
	}
	if len(flight) > 0 {
		t.Fatalf("%v was in flight, and was not resumed", flight)
	}
	c.check(t)
}

func TestAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newChaos(t)
		t.Repeat(map[string]func(*rapid.T){
			"tick": c.Tick, "round": c.Round, "observation": c.Observation, "nodes": c.Nodes, "silence": c.Silence,
			"outcome": c.Outcome, "pause": c.Pause, "wish": c.Wish, "restore": c.Restore,
		})
	})
}

// Unknown observations, at any time, change nothing.
func TestUnknownChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		with, without := New(plain(Action{Name: api.ActionReboot})), New(plain(Action{Name: api.ActionReboot}))
		nodes := Nodes{List: []Node{{ID: "n0"}, {ID: "n1"}, {ID: "n2"}, {ID: "n3"}, {ID: "n4"}}}
		now := start()
		both := func(ev Event) {
			a, f := with.Step(now, ev)
			b, g := without.Step(now, ev)
			if diff := cmp.Diff(a, b) + cmp.Diff(f, g); diff != "" {
				t.Fatalf("at %v, %+v: with unknown observations it differs:\n%s", now, ev, diff)
			}
		}
		both(nodes)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			o := Observation{
				Node: rapid.SampledFrom(nodes.List).Draw(t, "node").ID, Mode: rapid.SampledFrom([]api.DetectionType{api.DetectNodeStatus, api.DetectAgentHeartbeat}).Draw(t, "mode"),
				Verdict: rapid.SampledFrom([]api.HealthVerdict{api.CheckOK, api.CheckFail, api.CheckUnknown}).Draw(t, "verdict"),
			}
			if o.Verdict == api.CheckUnknown {
				if orders, found := with.Step(now, o); len(orders)+len(found) > 0 {
					t.Fatalf("an unknown observation: ordered %v, found %v", orders, found)
				}
			} else {
				both(o)
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second)
			both(Tick{})
		}
	})
}
