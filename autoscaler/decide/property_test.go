package decide_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/resource"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// request draws any subset of the kinds; the amounts are often round, so that
// zeros and equal values are common.
func request(amounts *rapid.Generator[float64]) *rapid.Generator[resource.Request] {
	return rapid.Custom(func(t *rapid.T) resource.Request {
		var r resource.Request
		for _, k := range resource.Kinds() {
			if rapid.Bool().Draw(t, "named") {
				r = r.With(k, amounts.Draw(t, k.String()))
			}
		}
		return r
	})
}

func opinion(amounts *rapid.Generator[float64]) *rapid.Generator[api.Opinion] {
	verdicts := []api.Verdict{api.VerdictValue, api.VerdictValue, api.VerdictNoOpinion, api.VerdictStale, api.VerdictFailed, api.VerdictNotRequested, "odd"}
	return rapid.Custom(func(t *rapid.T) api.Opinion {
		return api.Opinion{
			Verdict: rapid.SampledFrom(verdicts).Draw(t, "verdict"),
			Request: request(amounts).Draw(t, "request"),
			Why:     rapid.StringN(0, 8, 300).Draw(t, "why"),
			At:      noon.Add(-time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "age"))),
		}
	})
}

// input draws a pool whose every number comes from amounts.
func input(amounts *rapid.Generator[float64]) *rapid.Generator[api.DecisionInput] {
	return rapid.Custom(func(t *rapid.T) api.DecisionInput {
		number := func(name string) float64 { return amounts.Draw(t, name) }
		in := api.DecisionInput{
			Now:      noon,
			Capacity: api.PoolCapacity{Target: number("target"), Joined: number("joined")},
			History:  api.PoolHistory{PerWeight: request(amounts).Draw(t, "history")},
			Default:  opinion(amounts).Draw(t, "default"),
			Policy: api.DecisionPolicy{
				MarginUp: number("margin_up") / 100, MarginDown: number("margin_down") / 100,
				Setpoint: rapid.Float64Range(0.01, 1).Draw(t, "setpoint"),
				Excluded: rapid.SliceOfN(rapid.SampledFrom(allKinds()), 0, 3).Draw(t, "excluded"),
				Combine:  rapid.SampledFrom([]api.Combine{"", api.CombineSum, api.CombineMax}).Draw(t, "combine"),
				Limits: api.TargetLimits{
					Min: number("min"), Max: number("max"), MaxAdd: number("add"), MaxRemove: number("remove"),
				},
			},
			NoScaleIn: rapid.SampledFrom([]string{"", "", "a node is silent"}).Draw(t, "no_scale_in"),
			Barred:    rapid.SampledFrom([]string{"", "", "breaker"}).Draw(t, "barred"),
			Lost:      rapid.IntRange(-1, 3).Draw(t, "lost"),
		}
		overTime(t, &in, number)
		for k := range in.Capacity.Totals {
			in.Capacity.Totals[k] = number("total")
		}
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 0, 5, rapid.ID).Draw(t, "names")
		for _, name := range names {
			in.Apps = append(in.Apps, api.AppInput{
				Name:       name,
				Configured: rapid.Bool().Draw(t, "configured"),
				Opinion:    opinion(amounts).Draw(t, "opinion"),
				HoldFor:    time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "hold_for")),
			})
			in.State.Held = append(in.State.Held, api.HeldRequest{
				App: name, Kind: rapid.SampledFrom(allKinds()).Draw(t, "kind"), Value: number("held"),
				At: noon.Add(-time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "held_age"))),
			})
		}
		return in
	})
}

// overTime draws operators' orders, the rules over time, and their state. Half of the pools have
// none of these.
func overTime(t *rapid.T, in *api.DecisionInput, number func(string) float64) {
	if rapid.Bool().Draw(t, "no past") {
		return
	}
	span := func(name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 4).Draw(t, name)) * 10 * time.Minute
	}
	ago := func(name string) time.Time { return noon.Add(10*time.Minute - span(name)) }
	if rapid.Bool().Draw(t, "pin") {
		in.Pinned = new(number("pinned"))
	}
	in.Offset = number("offset") - number("less")
	p, s := &in.Policy, &in.State
	p.Period, p.UnknownNeedMax = span("period"), span("ignorance_max")
	p.Cooldown = api.Cooldown{Up: span("cooldown up"), Down: span("cooldown down")}
	p.LossLimit, p.LossThreshold = rapid.Bool().Draw(t, "brake"), rapid.IntRange(0, 3).Draw(t, "threshold")
	for range rapid.IntRange(0, 2).Draw(t, "budgets") {
		p.Budgets = append(p.Budgets, api.ChangeBudget{
			Direction: rapid.SampledFrom([]api.Direction{api.DirectionUp, api.DirectionDown}).Draw(t, "direction"),
			Within:    span("within") + 1, Weight: number("budget"), Share: rapid.Float64Range(0.01, 1).Draw(t, "share"),
		})
	}
	s.Clock, s.Wall = ago("clock"), ago("wall")
	s.Offset, s.Raised, s.Lowered = number("applied"), ago("raised"), ago("lowered")
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		s.Changes = append(s.Changes, api.TargetChange{At: ago("changed"), Up: number("up"), Down: number("down"), Tasks: rapid.Int().Draw(t, "tasks")})
		s.Losses = append(s.Losses, api.NodeLoss{At: ago("lost at"), Nodes: rapid.Int().Draw(t, "nodes")})
		s.UnknownNeed = append(s.UnknownNeed, api.UnknownNeed{App: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "blind"), Since: ago("since")})
	}
}

func allKinds() []resource.Kind {
	kinds := resource.Kinds()
	return kinds[:]
}

// plain draws typical numbers of pools, often zero.
func plain() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Just(0.0), rapid.Map(rapid.IntRange(0, 50), func(n int) float64 { return float64(n) }), rapid.Float64Range(0, 500))
}

// legal draws an input whose policy validates.
func legal() *rapid.Generator[api.DecisionInput] {
	return rapid.Map(input(plain()), func(in api.DecisionInput) api.DecisionInput {
		l := &in.Policy.Limits
		l.Min, l.Max = min(l.Min, l.Max), max(l.Min, l.Max)
		l.MaxAdd++
		return in
	})
}

const noise = 1e-9 // of a rounding of the last bits

func TestTargetIsWithinLimitsOrOneStepNearer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := legal().Draw(t, "in")
		l, before := in.Policy.Limits, in.Capacity.Target+in.State.Offset
		after := decide.Decide(in).Target
		up, down := l.MaxAdd, l.MaxRemove
		if in.NoScaleIn != "" || in.Barred != "" || in.Policy.LossLimit && in.Lost > in.Policy.LossThreshold {
			down = 0
		}
		if after > before+up+noise || after < before-down-noise {
			t.Fatalf("from %v to %v is more than a step of +%v or -%v", before, after, up, down)
		}
		if len(in.State.Changes) > 0 || len(in.Policy.Budgets) > 0 { // they may leave less of the step
			up, down = max(0, min(after-before, up)), max(0, min(before-after, down))
		}
		switch {
		case l.Min <= after && after <= l.Max:
		case after < l.Min && math.Abs(after-(before+up)) <= noise:
		case after > l.Max && math.Abs(after-(before-down)) <= noise:
		default:
			t.Fatalf("from %v to %v: neither within [%v, %v] nor one step nearer", before, after, l.Min, l.Max)
		}
	})
}

func TestNeverShrinksOnUnknownNeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := legal().Draw(t, "in")
		in.Pinned, in.Policy.UnknownNeedMax = nil, 0 // the two intended exceptions
		d := decide.Decide(in)
		unknownNeed := slices.ContainsFunc(in.Apps, func(a api.AppInput) bool {
			v := a.Opinion.Verdict
			return a.Configured && v != api.VerdictValue && v != api.VerdictNoOpinion
		}) || slices.ContainsFunc(d.Apps, func(r api.ResolvedRequest) bool { return r.Source == api.FromNone })
		floor := min(in.Capacity.Target+min(in.State.Offset, in.Offset), in.Policy.Limits.Max)
		if unknownNeed && d.Target < floor-noise {
			t.Fatalf("target %v is below %v: %+v", d.Target, floor, d.Steps)
		}
		if len(in.Apps) == 0 && in.Default.Verdict != api.VerdictValue && d.Steps[2].After != in.Capacity.Target {
			t.Fatalf("nobody spoke, and the target step is %+v", d.Steps[2])
		}
	})
}

func TestUnchangedTargetHasAReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := legal().Draw(t, "in")
		d := decide.Decide(in)
		lastResponses := slices.ContainsFunc(d.Steps, func(s api.Step) bool { return strings.Contains(s.Why, "kept") })
		if d.Target == in.Capacity.Target+in.State.Offset && !lastResponses {
			t.Fatalf("kept at %v, and no step says so: %+v", d.Target, d.Steps)
		}
		at := in.Capacity.Target
		for _, s := range d.Steps {
			if s.Before != at || s.Why == "" {
				t.Fatalf("step %+v follows %v", s, at)
			}
			at = s.After
		}
		if at != d.Target {
			t.Fatalf("the steps end at %v, the target is %v", at, d.Target)
		}
	})
}

func TestOrderOfAppsChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := legal().Draw(t, "in")
		want := encode(t, decide.Decide(in))
		in.Apps = rapid.Permutation(in.Apps).Draw(t, "apps")
		in.State.Held = rapid.Permutation(in.State.Held).Draw(t, "held")
		in.State.UnknownNeed = rapid.Permutation(in.State.UnknownNeed).Draw(t, "blind")
		given := encode(t, in)
		if diff := cmp.Diff(want, encode(t, decide.Decide(in))); diff != "" {
			t.Fatalf("another order, another decision:\n%s", diff)
		}
		if diff := cmp.Diff(given, encode(t, in)); diff != "" {
			t.Fatalf("Decide changed its input:\n%s", diff)
		}
	})
}

func TestExplanationsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := legal().Draw(t, "in")
		want := encode(t, decide.Decide(in))
		in.Default.Explanation = "of the default signal"
		for i := range in.Apps {
			in.Apps[i].Opinion.Explanation = rapid.String().Draw(t, "explanation")
		}
		if diff := cmp.Diff(want, encode(t, decide.Decide(in))); diff != "" {
			t.Fatalf("other explanations, another decision:\n%s", diff)
		}
	})
}

// An input that can be written to the ledger can be decided again, and its decision can be written
// too, also for huge numbers and an invalid policy.
func TestLedgerRoundTrip(t *testing.T) {
	numbers := rapid.OneOf(plain(), rapid.Float64Range(0, math.MaxFloat64), rapid.Just(math.SmallestNonzeroFloat64))
	rapid.Check(t, func(t *rapid.T) {
		in := input(numbers).Draw(t, "in")
		in.Now = in.Now.In(time.FixedZone("", 3600))
		var again api.DecisionInput
		if err := json.Unmarshal([]byte(encode(t, in)), &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(encode(t, decide.Decide(in)), encode(t, decide.Decide(again))); diff != "" {
			t.Fatalf("read again, another decision:\n%s", diff)
		}
	})
}

func TestMonotonicClockDoesNotCount(t *testing.T) {
	in := api.DecisionInput{
		Now: time.Now(),
		Apps: []api.AppInput{{
			Name: "web", Configured: true, HoldFor: time.Hour,
			Opinion: api.Opinion{Verdict: api.VerdictValue, Request: resource.Request{}.With(resource.CPUs, 1), At: time.Now()},
		}},
	}
	var again api.DecisionInput
	if err := json.Unmarshal([]byte(encode(t, in)), &again); err != nil {
		t.Fatal(err)
	}
	if got, want := decide.Decide(in).State.Held[0].At, decide.Decide(again).State.Held[0].At; !got.Equal(want) || got.String() != got.Round(0).String() {
		t.Errorf("At = %v, want %v", got, want)
	}
}

func TestNoPanicOnAnyNumber(t *testing.T) {
	odd := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, math.Copysign(0, -1), math.MaxFloat64, -math.MaxFloat64})
	numbers := rapid.OneOf(odd, plain(), rapid.Float64())
	rapid.Check(t, func(t *rapid.T) {
		in := input(numbers).Draw(t, "in")
		in.Policy.Setpoint = numbers.Draw(t, "setpoint")
		in.Policy.Excluded = append(in.Policy.Excluded, resource.Kind(rapid.Uint8().Draw(t, "excluded")))
		in.State.Held = append(in.State.Held, api.HeldRequest{App: "a", Kind: resource.Kind(rapid.Uint8().Draw(t, "kind")), Value: 1, At: noon})
		d := decide.Decide(in)
		if last := d.Steps[len(d.Steps)-1]; last.Rule != api.RuleInput && math.IsNaN(d.Target) {
			t.Fatalf("the target became NaN: %+v", d.Steps)
		}
		if err := d.Request.Validate(); err != nil {
			t.Fatalf("a hostile number got through: %v", err)
		}
		for _, h := range d.State.Held {
			if err := (resource.Request{}).With(h.Kind, h.Value).Validate(); err != nil {
				t.Fatalf("a hostile number is remembered: %v", err)
			}
		}
	})
}

func encode(t interface{ Fatal(...any) }, v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
