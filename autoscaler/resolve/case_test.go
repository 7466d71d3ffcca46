package resolve

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/resource"
)

// anyCase draws cases of every kind, as a file could have them. Hostile ones also have numbers that
// JSON cannot carry.
type anyCase struct{ hostile bool }

func (a anyCase) number(t *rapid.T, what string) float64 {
	x := rapid.OneOf(rapid.Float64Range(0, 50), rapid.Just(0.0), rapid.Just(1.0), rapid.Float64Range(-10, 1e9), rapid.Just(math.MaxFloat64)).Draw(t, what)
	if a.hostile {
		return rapid.OneOf(rapid.Just(x), rapid.Just(math.NaN()), rapid.Just(math.Inf(1)), rapid.Just(math.Inf(-1))).Draw(t, what)
	}
	return x
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)

func aTime(t *rapid.T, what string) time.Time {
	return rapid.OneOf(rapid.Just(time.Time{}), rapid.Map(rapid.Int64Range(-7200, 7200), func(s int64) time.Time {
		return noon.Add(time.Duration(s) * time.Second)
	})).Draw(t, what)
}

func (a anyCase) request(t *rapid.T) resource.Request {
	var r resource.Request
	for _, k := range resource.Kinds() {
		if rapid.Bool().Draw(t, "asks") {
			x := a.number(t, "request")
			if !a.hostile {
				x = math.Abs(x)
			}
			r = r.With(k, x)
		}
	}
	return r
}

func (a anyCase) opinion(t *rapid.T) api.Opinion {
	return api.Opinion{
		Verdict: rapid.SampledFrom([]api.Verdict{api.VerdictValue, api.VerdictValue, api.VerdictNoOpinion, api.VerdictStale, api.VerdictFailed, ""}).Draw(t, "verdict"),
		Request: a.request(t), Why: rapid.SampledFrom([]string{"", "why", "a\x00b"}).Draw(t, "why"), At: aTime(t, "given"),
	}
}

func (a anyCase) policy(t *rapid.T) api.DecisionPolicy {
	lo := rapid.Float64Range(0, 20).Draw(t, "min")
	p := api.DecisionPolicy{
		Setpoint: rapid.SampledFrom([]float64{0.7, 1, 0.5}).Draw(t, "setpoint"), MarginUp: 0.1, MarginDown: 0.1, Combine: api.CombineSum,
		Limits: api.TargetLimits{
			Min: lo, Max: lo + rapid.Float64Range(0, 200).Draw(t, "max"),
			MaxAdd: rapid.SampledFrom([]float64{1, 20, api.Unlimited}).Draw(t, "add"), MaxRemove: rapid.SampledFrom([]float64{0, 5, api.Unlimited}).Draw(t, "remove"),
		},
		Period: 10 * time.Minute, UnknownNeedMax: rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "ignorance"),
		Cooldown: api.Cooldown{Up: time.Minute, Down: 10 * time.Minute}, LossLimit: rapid.Bool().Draw(t, "brake"), LossThreshold: 1,
	}
	if rapid.Bool().Draw(t, "budgeted") {
		p.Budgets = []api.ChangeBudget{{Direction: api.DirectionDown, Within: time.Hour, Share: 0.2}, {Direction: api.DirectionUp, Within: time.Hour, Weight: 30}}
	}
	if a.hostile {
		p.Setpoint = a.number(t, "setpoint")
		p.Limits.Max = a.number(t, "max")
	}
	return p
}

func (a anyCase) state(t *rapid.T) api.PoolState {
	s := api.PoolState{
		DecisionState: api.DecisionState{
			Clock: aTime(t, "clock"), Wall: aTime(t, "wall"), Offset: rapid.Float64Range(-10, 10).Draw(t, "offset"),
			Raised: aTime(t, "raised"), Lowered: aTime(t, "lowered"),
		},
	}
	for range rapid.IntRange(0, 3).Draw(t, "held") {
		s.Held = append(s.Held, api.HeldRequest{App: "web", Kind: resource.CPUs, Value: math.Abs(a.number(t, "held")), At: aTime(t, "held at")})
	}
	for range rapid.IntRange(0, 4).Draw(t, "changes") {
		s.Changes = append(s.Changes, api.TargetChange{At: aTime(t, "changed"), Up: a.number(t, "up"), Down: a.number(t, "down"), Tasks: rapid.IntRange(-1, 9).Draw(t, "tasks")})
	}
	for _, group := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "z"}), rapid.ID[string]).Draw(t, "aside") {
		s.Backoffs = append(s.Backoffs, api.GroupBackoff{Group: group, Why: "short", Since: aTime(t, "since"), Until: aTime(t, "until"), Failures: rapid.IntRange(-1, 9).Draw(t, "failures")})
	}
	if rapid.Bool().Draw(t, "asked") {
		s.Groups = map[string]api.GroupState{"a": {LastTarget: new(3), ResultUnknown: rapid.Bool().Draw(t, "doubt")}, "b": {Surge: rapid.IntRange(-2, 5).Draw(t, "surge"), At: aTime(t, "at")}}
	}
	if rapid.Bool().Draw(t, "tells joined") {
		s.Joined = []string{"n0", "n1", "x"}
	}
	return s
}

func (a anyCase) node(t *rapid.T, i int) api.Candidate {
	return api.Candidate{
		ID: fmt.Sprint("n", i), Group: rapid.SampledFrom([]string{"a", "b", "c", "z"}).Draw(t, "group"), Weight: a.number(t, "weight"),
		Instance: rapid.SampledFrom([]api.InstanceState{api.InstanceRunning, api.InstanceRunning, api.InstancePending, api.InstanceTerminating, ""}).Draw(t, "instance"),
		Node:     rapid.SampledFrom([]api.NodeState{api.NodeIdle, api.NodeRunning, api.NodeOrphaned, api.NodeUnknown}).Draw(t, "node"),
		Tasks:    rapid.IntRange(-1, 9).Draw(t, "tasks"), Uptime: time.Duration(rapid.Int64Range(-5, 7200).Draw(t, "uptime")) * time.Second,
		Priority: a.number(t, "priority"), Safe: rapid.Bool().Draw(t, "safe"), Stale: rapid.Bool().Draw(t, "stale"), Held: rapid.Bool().Draw(t, "held"), Trial: rapid.Bool().Draw(t, "trial"), Draining: rapid.Bool().Draw(t, "draining"),
		Unhealthy: rapid.Bool().Draw(t, "unhealthy"), Repairing: rapid.Bool().Draw(t, "mending"),
	}
}

func (a anyCase) draw(t *rapid.T) api.Case {
	c := api.Case{
		Input: api.DecisionInput{
			Now: noon, Default: a.opinion(t), Policy: a.policy(t), Offset: a.number(t, "offset"), Lost: rapid.IntRange(-1, 5).Draw(t, "lost"),
			NoScaleIn: rapid.SampledFrom([]string{"", "", "silent"}).Draw(t, "no scale-in"),
			Barred:    rapid.SampledFrom([]string{"", "", "breaker"}).Draw(t, "barred"),
			Capacity:  api.PoolCapacity{Target: a.number(t, "target"), Joined: a.number(t, "joined"), Totals: resource.Vector{math.Abs(a.number(t, "total"))}},
			History:   api.PoolHistory{PerWeight: a.request(t)},
		},
		Joined: a.number(t, "joined"), State: a.state(t),
		Limits: api.PruneLimits{
			MaxWeight: rapid.SampledFrom([]float64{0, 5, api.Unlimited}).Draw(t, "max weight"),
			MaxTasks:  rapid.SampledFrom([]int{0, 5, api.Unbounded}).Draw(t, "max tasks"), MinUptime: time.Minute,
		},
		OrphansAfter: rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "orphans"),
		Refuse:       rapid.SampledFrom([]string{"", "", "silent"}).Draw(t, "refuse"),
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "apps") {
		c.Input.Apps = append(c.Input.Apps, api.AppInput{Name: fmt.Sprint("app", i), Configured: rapid.Bool().Draw(t, "configured"), Opinion: a.opinion(t), HoldFor: time.Hour})
	}
	if rapid.Bool().Draw(t, "pinned") {
		c.Input.Pinned = new(a.number(t, "pin"))
	}
	for _, id := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.ID[string]).Draw(t, "groups") {
		g := api.GroupTarget{ID: id, Target: rapid.IntRange(-1, 40).Draw(t, "target"), Min: rapid.IntRange(-1, 5).Draw(t, "min"), Stale: rapid.IntRange(0, 9).Draw(t, "stale") == 0}
		g.Max = rapid.OneOf(rapid.IntRange(0, 60), rapid.Just(api.Unbounded)).Draw(t, "max")
		c.Groups = append(c.Groups, g)
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "nodes") {
		c.Nodes = append(c.Nodes, a.node(t, i))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "leaving") {
		c.Leaving = append(c.Leaving, api.Leaver{ID: fmt.Sprint("l", i), Group: rapid.SampledFrom([]string{"a", "b", "z"}).Draw(t, "from"), Weight: a.number(t, "leaves")})
	}
	if rapid.Bool().Draw(t, "has") {
		c.Has, c.Stale = map[string]int{"a": rapid.IntRange(-1, 30).Draw(t, "a has")}, map[string]int{"b": rapid.IntRange(-1, 30).Draw(t, "stale")}
	}
	if rapid.Bool().Draw(t, "rotates") {
		c.Rotation = &api.Rotation{Rolls: c.Stale, End: rapid.SampledFrom([]*int{nil, new(0), new(2)}).Draw(t, "end"), Begin: rapid.SampledFrom([]*int{nil, new(0), new(1)}).Draw(t, "begin")}
	}
	if rapid.Bool().Draw(t, "answered") {
		c.Places = a.places(t)
		if rapid.Bool().Draw(t, "undone") {
			one := scaleInOf(c, decide.Decision{Target: a.number(t, "undone target")})
			one.Undone = noon
			c.State.ScaleIns = &api.ScaleIns{Held: heldOf(c.Places), Last: &one, Undone: []api.ScaleIn{one}}
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "is busy") == 0 {
		c.Busy = map[string]string{"a": "refresh"}
	}
	return c
}

func (a anyCase) needs(t *rapid.T, what string) (needs []api.PlacesNeed) {
	for _, group := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "z"}), 0, 2, rapid.ID[string]).Draw(t, what) {
		needs = append(needs, api.PlacesNeed{Group: group, Nodes: rapid.IntRange(-1, 5).Draw(t, "machines"), Weight: a.number(t, "needed"), Copies: 1, First: "web/0"})
	}
	return needs
}

func (a anyCase) places(t *rapid.T) *api.CasePlaces {
	ids := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"n0", "n1", "n2", "n3", "n4", "x"}), rapid.ID[string])
	p := &api.CasePlaces{
		Places: api.Places{
			Nodes: 5, Waiting: rapid.IntRange(0, 2).Draw(t, "waiting"), Leave: ids.Draw(t, "leave"), Back: []string{"l1"},
			Coming: a.needs(t, "coming"), New: a.needs(t, "new"), Probe: a.needs(t, "probe"),
		},
		Offered: resource.Vector{a.number(t, "offered")}, PerWeight: map[string]resource.Vector{"a": {a.number(t, "per weight")}, "b": {1, 1}},
	}
	if rapid.Bool().Draw(t, "never") {
		p.Never, p.NeverCopies = []api.PlacesApp{{App: "large", Copies: 1, Why: "why"}}, 1
		p.Unplaceable, p.Held = resource.Vector{a.number(t, "unplaceable")}, resource.Vector{a.number(t, "held")}
	}
	if !a.hostile {
		for _, v := range []*float64{&p.Offered[0], &p.Unplaceable[0], &p.Held[0]} {
			*v = math.Abs(*v)
		}
		p.PerWeight["a"] = resource.Vector{math.Abs(p.PerWeight["a"][0])}
	}
	return p
}

// A case from the ledger resolves to the same answer as before, byte for byte, and Resolve does not
// change it.
func TestCaseComesOutAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := anyCase{}.draw(t)
		before, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(Resolve(c).Result())
		if err != nil {
			t.Fatal(err)
		}
		after, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(before), string(after)); diff != "" {
			t.Errorf("the case was changed (-before +after):\n%s", diff)
		}
		var again api.Case
		if err := json.Unmarshal(before, &again); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(Resolve(again).Result())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("the answer (-before +after the ledger):\n%s", diff)
		}
	})
}

// Every case is resolved, and busy groups are not changed.
func TestResolveIsTotal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := anyCase{hostile: true}.draw(t)
		o := Resolve(c)
		a := o.Result()
		for group := range c.Busy {
			if len(a.Terminate[group]) > 0 {
				t.Errorf("%v of the busy group %s are let go", a.Terminate[group], group)
			}
		}
		if barred := o.Decision.NoScaleIn; barred != "" && o.Refused == "" {
			t.Errorf("nothing is refused though %s", barred)
		}
		wantOnlyStale(t, c, o)
		wantProved(t, c, o)
	})
}

// wantProved checks that a prune or a roll chooses only nodes whose copies have another place, or that have nothing to lose.
func wantProved(t interface{ Errorf(string, ...any) }, c api.Case, o Outcome) {
	if c.Places == nil {
		return
	}
	for _, one := range slices.Concat(o.Pruned.Choices, o.Rolled) {
		n := c.Nodes[slices.IndexFunc(c.Nodes, func(n api.Candidate) bool { return n.ID == one.ID })]
		if !slices.Contains(c.Places.Leave, n.ID) && n.Node.Joined() && !n.Draining {
			t.Errorf("%s is let go, and its copies have no other place", n.ID)
		}
		if one.ByProof() && slices.Contains(o.Pruned.Choices, one) && !repeated(c, o.Decision).Undone.IsZero() {
			t.Errorf("%s is let go, as in a scale-in that was undone", n.ID)
		}
	}
}

func TestSurvived(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                      string
		before, wanted, gap, want float64
	}{
		{"all of it", 0, 5, 0, 5},
		{"a part", 0, 5, 2, 3},
		{"nothing", 0, 5, 9, 0},
		{"more of it", 3, 5, 1, 4},
		{"less than nothing new", 3, 5, 9, 3},
		{"unchanged", 5, 5, 3, 5},
		{"taken away", 5, 0, 0, 0},
		{"taken away in part", 5, 0, -2, 2},
		{"downward, in part", 0, -5, -3, -2},
		{"ended", -5, 0, 2, -2},
		{"it missed the other way", 0, 5, -3, 5},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := survived(test.before, test.wanted, test.gap); got != test.want {
				t.Errorf("survived = %v, want %v", got, test.want)
			}
		})
	}
}

// wantOnlyStale checks that only stale nodes are removed while the pool must not shrink.
func wantOnlyStale(t interface{ Errorf(string, ...any) }, c api.Case, o Outcome) {
	stale := StaleNodes(c)
	for group, ids := range o.Result().Terminate {
		for _, id := range ids {
			if c.Refuse != "" || o.Refused != "" && !stale[id] {
				t.Errorf("%s of group %s is let go though %s", id, group, o.Refused)
			}
		}
	}
}
