package decide_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/resource"
)

// simulated is a pool that reaches each decided target at once. Each unit of weight is a machine
// with one cpu.
type simulated struct {
	in   api.DecisionInput // of the next tick
	pool float64           // its target and its machines
}

func newSimulated(pool float64, p api.DecisionPolicy) *simulated {
	if p.Setpoint == 0 {
		p.Setpoint = 1
	}
	return &simulated{pool: pool, in: api.DecisionInput{Now: noon, Policy: p}}
}

// asks sets the request of the app web; a negative number is a failure.
func (s *simulated) asks(cpus float64) {
	o := api.Opinion{Verdict: api.VerdictFailed}
	if cpus >= 0 {
		o = api.Opinion{Verdict: api.VerdictValue, Request: resource.Request{}.With(resource.CPUs, cpus), At: s.in.Now}
	}
	s.in.Apps = []api.AppInput{{Name: "web", Configured: true, Opinion: o}}
}

// tick decides and acts. The target is rounded up and reached, except stays, the part of a lowering
// that cannot be removed. It returns the decision.
func (s *simulated) tick(stays float64) decide.Decision {
	in := s.in
	in.Capacity = api.PoolCapacity{
		Target: s.pool - in.State.Offset, Joined: s.pool, Totals: resource.Vector{resource.CPUs: s.pool},
	}
	d := decide.Decide(in)
	want := max(0, math.Ceil(d.Target-1e-9))
	c := api.TargetChange{Up: max(0, want-s.pool), Down: max(0, s.pool-want-stays)}
	s.pool += c.Up - c.Down
	s.in.State = decide.AfterChange(d.State, c, 24*time.Hour)
	return d
}

// restart passes the state to another process.
func (s *simulated) restart(t *rapid.T) {
	var again api.DecisionState
	if err := json.Unmarshal([]byte(encode(t, s.in.State)), &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(encode(t, s.in.State), encode(t, again)); diff != "" {
		t.Fatalf("the state is read otherwise:\n%s", diff)
	}
	s.in.State = again
}

// Except for the part that the limits leave, a pool with an offset has the same target at every
// tick as a pool that never had one. After the offset both are the same. The pool always has a
// machine, because an empty pool is sized by another formula. A request of a part of a machine has no
// margin, because it is a share of the target, which only one of the pools may round up.
func TestOffsetLeavesNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := func(least, most int, name string) float64 {
			return float64(rapid.IntRange(least, most).Draw(t, name))
		}
		margin := rapid.SampledFrom([]float64{0, 0.1234567}).Draw(t, "margin")
		p := api.DecisionPolicy{MarginUp: margin, MarginDown: margin, Limits: api.TargetLimits{
			Min: whole(1, 20, "min"), Max: whole(40, 80, "max"), MaxAdd: whole(1, 30, "add"), MaxRemove: whole(1, 30, "remove"),
		}}
		began := whole(1, 100, "pool")
		with, without := newSimulated(began, p), newSimulated(began, p)
		step := func(cpus float64, scaleInBlocked string) {
			for _, s := range []*simulated{with, without} {
				s.in.Now = s.in.Now.Add(time.Minute)
				s.in.NoScaleIn = scaleInBlocked
				s.asks(cpus)
				s.tick(0)
			}
			if bare := with.pool - with.in.State.Offset; math.Ceil(bare-1e-6) != without.pool {
				t.Fatalf("at %v, of which %v is offset; without it %v", with.pool, with.in.State.Offset, without.pool)
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "ticks") {
			if rapid.IntRange(0, 3).Draw(t, "change") == 0 {
				with.in.Offset = whole(-30, 30, "offset")
			}
			cpus := whole(-20, 100, "asks")
			if margin == 0 {
				cpus += whole(0, 3, "quarters") / 4
			}
			step(cpus, rapid.SampledFrom([]string{"", "", "barred"}).Draw(t, "no_scale_in"))
		}
		with.in.Offset = 0
		for range 80 {
			step(-1, "")
		}
		if with.pool != without.pool || with.in.State.Offset != 0 {
			t.Fatalf("at %v, of which %v is offset; without it %v", with.pool, with.in.State.Offset, without.pool)
		}
	})
}

// An offset is added once to a pool that must not shrink to a request of a part of a machine.
func TestOffsetIsAddedOnce(t *testing.T) {
	for _, c := range []struct {
		name           string
		offset, maxAdd float64
		barred         string
		asks           float64
		ticks          []float64 // targets
	}{
		{"scale-in is barred", 1, 10, "barred", 2.75, []float64{4, 4, 4}},
		{"one step per tick", 1, 0.5, "", 3, []float64{4, 4, 4}},
		{"in several steps", 2, 1, "", 2.75, []float64{4, 5, 5, 5}},
		{"fewer machines", -1, 10, "", 2.75, []float64{2, 2, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSimulated(3, api.DecisionPolicy{Limits: api.TargetLimits{Max: 20, MaxAdd: c.maxAdd, MaxRemove: 10}})
			s.in.Offset, s.in.NoScaleIn = c.offset, c.barred
			s.asks(c.asks)
			for i, want := range c.ticks {
				s.in.Now = s.in.Now.Add(time.Minute)
				if s.tick(0); s.pool != want {
					t.Errorf("tick %d: target %v, want %v", i, s.pool, want)
				}
				s.asks(-1) // the need is unknown from the second tick on
			}
		})
	}
}

// Ten times faster ticks do not change more per hour.
func TestFasterTicksDoNotChangeFaster(t *testing.T) {
	const period, hour = 10 * time.Minute, time.Hour
	rapid.Check(t, func(t *rapid.T) {
		limits := api.TargetLimits{
			Max: 1e6, MaxAdd: float64(rapid.IntRange(1, 50).Draw(t, "add")), MaxRemove: float64(rapid.IntRange(0, 50).Draw(t, "remove")),
		}
		share := float64(rapid.IntRange(1, 20).Draw(t, "budget"))
		demand := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 900, 1000, 1100, 1e5}), 60, 60).Draw(t, "demand")
		most := func(direction api.Direction, n float64) float64 { // per hour
			if direction == api.DirectionUp {
				return min(n*limits.MaxAdd, 2*share)
			}
			return n * limits.MaxRemove
		}
		for _, every := range []time.Duration{period, period / 10} {
			s := newSimulated(1000, api.DecisionPolicy{Limits: limits, Period: period, Budgets: []api.ChangeBudget{
				{Direction: api.DirectionUp, Within: hour / 2, Weight: share},
			}})
			var up, down float64
			for at := time.Duration(0); at < hour; at += every {
				s.in.Now = noon.Add(at)
				s.asks(demand[at/time.Minute])
				was := s.pool
				s.tick(0)
				up, down = up+max(0, s.pool-was), down+max(0, was-s.pool)
			}
			if n := float64(hour / period); up > most(api.DirectionUp, n) || down > most(api.DirectionDown, n) {
				t.Fatalf("every %v: %v up and %v down in an hour, limits %+v, budget %v", every, up, down, limits, share)
			}
		}
	})
}

// interleaved is a pool with all kinds of events, and its expected state, by its own clock.
type interleaved struct {
	simulated
	clock       time.Duration
	changes     []change
	lost        []change
	unknownNeed time.Duration // since when; negative: its need is known
}

type change struct {
	at       time.Duration
	up, down float64
}

func (p *interleaved) sum(of []change, window time.Duration) (up, down float64) {
	for _, c := range of {
		if p.clock-c.at < window-window/1000 {
			up, down = up+c.up, down+c.down
		}
	}
	return up, down
}

// happen draws the events between two ticks.
func (p *interleaved) happen(t *rapid.T) {
	whole := func(least, most int, name string) float64 {
		return float64(rapid.IntRange(least, most).Draw(t, name))
	}
	p.in.Lost = 0
	switch rapid.IntRange(0, 11).Draw(t, "event") {
	case 0:
		p.in.Offset = whole(-30, 30, "offset")
	case 1:
		p.in.Offset = 0
	case 2:
		p.in.Pinned = new(whole(0, 120, "pinned"))
	case 3:
		p.in.Pinned = nil
	case 4:
		p.in.Policy.Limits.Min, p.in.Policy.Limits.Max = whole(0, 50, "min"), whole(50, 100, "max")
	case 5:
		p.in.Lost = rapid.IntRange(1, 5).Draw(t, "lost")
	case 6:
		p.restart(t)
	case 7:
		p.in.Now = p.in.Now.Add(-time.Duration(rapid.IntRange(1, 3000).Draw(t, "back")) * time.Second)
		p.asks(whole(-40, 120, "asks"))
		return
	}
	passed := time.Duration(rapid.IntRange(0, 300).Draw(t, "passed")) * time.Second
	p.in.Now, p.clock = p.in.Now.Add(passed), p.clock+passed
	p.asks(whole(-40, 120, "asks"))
}

// Offset, pin, unknown need, clamp, cooldown, budgets, loss, restart and a clock that goes back, in
// any order: the invariants are true after each tick.
func TestInterleaved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := func(name string) time.Duration {
			return time.Duration(rapid.IntRange(0, 20).Draw(t, name)) * time.Minute
		}
		p := &interleaved{unknownNeed: -1, simulated: *newSimulated(float64(rapid.IntRange(1, 120).Draw(t, "pool")), api.DecisionPolicy{
			Limits: api.TargetLimits{Min: 10, Max: 80, MaxAdd: 20, MaxRemove: 10},
			Period: span("period"), UnknownNeedMax: span("ignorance_max"),
			Cooldown: api.Cooldown{Up: span("cooldown up"), Down: span("cooldown down")},
			Budgets: []api.ChangeBudget{
				{Direction: api.DirectionUp, Within: span("up within") + 1, Weight: 30},
				{Direction: api.DirectionDown, Within: span("down within") + 1, Weight: 15},
			},
			LossLimit: true, LossThreshold: 3,
		})}
		p.in.State.Clock, p.in.State.Wall = noon, noon
		for range rapid.IntRange(1, 60).Draw(t, "ticks") {
			p.happen(t)
			before := p.simulated
			var stays float64
			if p.in.Offset == 0 && p.in.State.Offset == 0 {
				stays = float64(rapid.IntRange(0, 5).Draw(t, "stays"))
			}
			d := p.tick(stays)
			p.check(t, before, d)
		}
	})
}

// check compares a tick with the pool before it.
func (p *interleaved) check(t *rapid.T, before simulated, d decide.Decision) {
	in, policy, l := before.in, before.in.Policy, before.in.Policy.Limits
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf(format+"\nfrom %v to %v: %s", append(args, before.pool, p.pool, encode(t, d))...)
	}
	up, down := max(0, p.pool-before.pool), max(0, before.pool-p.pool)
	if p.pool < l.Min && down > 0 || p.pool > l.Max && up > 0 {
		fail("away from [%v, %v]", l.Min, l.Max)
	}
	if !d.State.Clock.Equal(noon.Add(p.clock)) {
		fail("the clock is at %v, want %v", d.State.Clock, noon.Add(p.clock))
	}

	heard := in.Apps[0].Opinion.Verdict == api.VerdictValue
	if heard {
		p.unknownNeed = -1
	} else if p.unknownNeed < 0 {
		p.unknownNeed = p.clock
	}
	tired := policy.UnknownNeedMax > 0 && p.clock-p.unknownNeed >= policy.UnknownNeedMax
	floor := min(before.pool-in.State.Offset+min(in.State.Offset, in.Offset), l.Max)
	if !heard && !tired && in.Pinned == nil && p.pool < floor-noise {
		fail("nobody is heard since %v, and it is below %v", p.unknownNeed, floor)
	}

	if in.Lost > 0 {
		p.lost = append(p.lost, change{at: p.clock, down: float64(in.Lost)})
	}
	if _, lost := p.sum(p.lost, policy.Period); max(lost, float64(in.Lost)) > float64(policy.LossThreshold) && down > 0 {
		fail("lowered after %v nodes were lost", lost)
	}
	p.checkPace(fail, before, up, down)
	if applied := d.State.Offset; applied < min(0, in.State.Offset, in.Offset) || applied > max(0, in.State.Offset, in.Offset) ||
		in.Pinned != nil && applied != 0 {
		fail("an offset of %v is said to be there, it was %v and is to be %v", applied, in.State.Offset, in.Offset)
	}
}

// checkPace checks cooldowns and windows, and stores the change.
func (p *interleaved) checkPace(fail func(string, ...any), before simulated, up, down float64) {
	policy, l := before.in.Policy, before.in.Policy.Limits
	if n := len(p.changes); n > 0 {
		quiet := p.clock - p.changes[n-1].at
		if up > 0 && quiet < policy.Cooldown.Up && p.pool > l.Min || down > 0 && quiet < policy.Cooldown.Down && p.pool < l.Max {
			fail("changed after %v, cooldowns %+v", quiet, policy.Cooldown)
		}
	}
	if up > 0 || down > 0 {
		p.changes = append(p.changes, change{p.clock, up, down})
	}
	windows := append([]api.ChangeBudget{
		{Direction: api.DirectionUp, Within: policy.Period, Weight: l.MaxAdd},
		{Direction: api.DirectionDown, Within: policy.Period, Weight: l.MaxRemove},
	}, policy.Budgets...)
	for _, w := range windows {
		ups, downs := p.sum(p.changes, w.Within)
		used := map[api.Direction]float64{api.DirectionUp: max(ups, up), api.DirectionDown: max(downs, down)}[w.Direction]
		if used > w.Weight {
			fail("%v %s within %v, at most %v may be", used, w.Direction, w.Within, w.Weight)
		}
	}
}
