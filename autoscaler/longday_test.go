package autoscaler

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/resource"
)

// longDay is a day with all events that change the targets of groups without a decision.
type longDay struct {
	*day
	lag    int              // readings that show a group as before a change
	large  bool             // some machines have a weight above 1
	wanted float64          // wanted weight after the tick before
	floors []float64        // the minimum of the pool by the last known needs, without an offset
	human  map[string][]cut // what readings may not show yet, by group
}

// cut is a target that another party lowered.
type cut struct {
	by    float64
	reads int // of the group, with a known need, that may not show it
}

// newLongDay draws the kind of day.
func newLongDay(t *rapid.T) *longDay {
	d := &longDay{day: newDay(t), human: map[string][]cut{}}
	offers := rapid.SampledFrom([][]float64{{1}, {1}, {2}, {0.5}, {1, 2}, {2.5, 1}}).Draw(t, "weights")
	lag := rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "lag")
	d.lag, d.large = lag, slices.Max(offers) > 1
	d.config.Drift = rapid.SampledFrom([]Drift{Obey, Correct}).Draw(t, "drift")
	d.config.Drain.EndSpot = rapid.Bool().Draw(t, "end spot")
	d.groups, d.nodes.groups = nil, nil
	for _, id := range []string{"a", "b", "c"} {
		c := cloud.Config{ID: id, Max: dayGroupMax, Target: 2, Join: 90 * time.Second, Leave: time.Minute, Boot: 90 * time.Second, Lag: lag, LagFor: resolve.ReadLag}
		c.Min = rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "min")
		for _, weight := range offers {
			c.Offers = append(c.Offers, cloud.Offer{Market: pools.Market{InstanceType: "m", Zone: "zone-a"}, Weight: weight})
		}
		g := cloud.New(c, d.now)
		d.groups = append(d.groups, g)
		d.nodes.groups = append(d.nodes.groups, &group{Group: g.Other()})
	}
	d.nodes.perWeight = true
	d.loop.Close()
	d.born(-1)
	return d
}

// real returns a group from the provider itself, independent of handles.
func (d *longDay) real(g *cloud.Group) pools.GroupSnapshot {
	s, err := g.Other().Snapshot(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

// another makes random changes that no decision causes.
func (d *longDay) another(t *rapid.T) {
	g := d.groups[rapid.IntRange(0, len(d.groups)-1).Draw(t, "of group")]
	id, ids := g.ID(), d.running(g)
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0:
		g.Drop(cloud.SetTarget, 1)
	case 1:
		d.book.change(func(o *api.Orders) {
			marks := slices.DeleteFunc(slices.Clone(o.Stale), func(m api.StaleMark) bool { return m.Group == id })
			o.Stale = append(marks, api.StaleMark{Note: api.Note{By: "me", At: d.now}, Group: id})
		})
	case 2:
		weight := float64(rapid.IntRange(-3, 4).Draw(t, "offset"))
		d.book.change(func(o *api.Orders) {
			if o.Offset = nil; weight != 0 {
				o.Offset = &api.Offset{Note: api.Note{By: "me"}, Weight: weight}
			}
		})
	case 3:
		g.Quota(rapid.SampledFrom([]float64{2, 5, dayGroupMax + 3}).Draw(t, "quota"))
	case 4:
		if len(ids) > 0 {
			one := rapid.SampledFrom(ids).Draw(t, "interrupted")
			g.Interrupt(one, d.now.Add(2*time.Minute))
			if err := d.loop.Notice(context.Background(), pools.Notice{Instance: one, Kind: pools.Interruption, At: d.now.Add(2 * time.Minute)}); err != nil {
				t.Fatal(err)
			}
		}
	case 5, 6:
		before := d.real(g).Target
		target := rapid.IntRange(d.real(g).Min, dayGroupMax).Draw(t, "by a human")
		_ = g.Other().SetTarget(context.Background(), target) // it may be refused, or its response may be lost
		if by := before - d.real(g).Target; by > 0 {
			d.human[id] = append(d.human[id], cut{float64(by), d.lag})
		}
	case 7:
		d.stale[id] = !d.stale[id]
	case 8:
		d.hidden[id] = !d.hidden[id]
	case 9:
		d.loop.Close()
		d.born(rapid.IntRange(0, 30).Draw(t, "dies after"))
	}
}

// trace prints a tick of a day that fails.
func (d *longDay) trace(r *api.TickRecord) {
	if r == nil {
		d.t.Logf("%s: the process died", d.now.Format(time.TimeOnly))
		return
	}
	real := map[string]int{}
	for _, g := range d.groups {
		real[g.ID()] = d.real(g).Target
	}
	if r.Case == nil {
		d.t.Logf("%s: %s, paused %v, targets %v", d.now.Format(time.TimeOnly), r.Failed, r.Paused, real)
		return
	}
	d.t.Logf("%s: blind %t, demand %d, target %v, targets %v, joined %v, drift %v, %q, account %v, refused %q, kept %v, problems %q",
		d.now.Format(time.TimeOnly), d.unknownNeed, d.demand, r.Result.Target, real, r.Snapshot.Joined, r.Drift, ops(*r), r.Account, r.Detail.Refused, r.Detail.Kept, r.Problems)
}

// checkAccount checks the account of a tick against the provider's own numbers.
func (d *longDay) checkAccount(r *api.TickRecord) {
	t := d.t
	sums := map[string]float64{}
	for _, e := range r.Account {
		sums[e.Group] += e.Weight
		if e.Weight < 0 && e.Kind != api.EntryOffset && e.Kind != api.EntryWanted {
			t.Fatalf("the account has %+v", e)
		}
	}
	sum := func(kind api.EntryKind) float64 { return r.Account.Sum(kind) }
	share, stale := 0.0, map[string]bool{} // as read: it is unknown of a group that cannot be read
	for _, g := range r.Snapshot.Groups {
		stale[g.ID] = g.Stale
	}
	for _, g := range d.groups {
		if d.hidden[g.ID()] {
			continue
		}
		// With lag the account has a late reading, changed by the autoscaler's own writes since.
		if real := d.real(g); d.lag == 0 && !d.unread[g.ID()] && !r.State.Groups[g.ID()].ResultUnknown && sums[g.ID()] < float64(real.Target)-resource.Slack {
			t.Fatalf("group %s has the target %d, and its account sums up to %v: %v", g.ID(), real.Target, sums[g.ID()], r.Account)
		}
		for _, e := range r.Account {
			if e.Group == g.ID() && e.Kind == api.EntryShare && !stale[e.Group] {
				share += e.Weight
			}
		}
	}
	left := sum(api.EntryWanted) + sum(api.EntryOffset) - share - sum(api.EntryPendingIncrease) + sum(api.EntrySurplus)
	if math.Abs(left) > resource.Slack || sum(api.EntryPendingIncrease)*sum(api.EntrySurplus) != 0 {
		t.Fatalf("the account misses %v: %v", left, r.Account)
	}
}

// checkWanted checks that the wanted weight falls only by a decision with a known need, or when
// another party lowers a target.
func (d *longDay) checkWanted(r *api.TickRecord) {
	wanted := *r.State.Wanted
	if r.Case.Input.Pinned != nil {
		d.wanted = wanted
		return
	}
	lowered := 0.0
	if d.config.Drift != Correct {
		for _, one := range r.Drift {
			lowered += float64(max(0, one.LastTarget-one.Found))
		}
	}
	if d.unknownNeed && wanted < d.wanted-lowered-resource.Slack {
		d.t.Fatalf("%v is wanted, was %v, and the need is unknown: drift %+v, account %v", wanted, d.wanted, r.Drift, r.Account)
	}
	d.wanted = wanted
}

// checkFloor updates the minimum of the pool, and checks the decision.
func (d *longDay) checkFloor(r *api.TickRecord) {
	base := *r.State.Wanted
	if r.Case.Input.Pinned != nil {
		d.floors = nil
		return
	}
	if d.unknownNeed {
		if base < d.lowest()-resource.Slack {
			d.t.Fatalf("%v is wanted, and was %v when the need was known; lowered by others: %v", base, d.floors, d.human)
		}
		return
	}
	have := r.Account.Sum(api.EntryShare) + r.Account.Sum(api.EntryPendingIncrease) - max(0, r.State.Offset)
	for group := range d.human {
		if !d.unread[group] && !d.hidden[group] {
			d.read(group)
		}
	}
	one := 0.0
	failed := slices.ContainsFunc(r.Actions, func(a api.Action) bool { return a.Error != "" })
	if len(r.State.Backoffs) == 0 && !failed {
		one = min(base, have, float64(d.demand))
	}
	d.floors = last(d.lag+1, append(d.floors, one))
}

// died drops what a tick without a record may have changed. Its process obeyed a pin perhaps, or a known need.
func (d *longDay) died() {
	d.wanted = 0
	if orders, _ := d.book.Read(context.Background(), d.now); orders.Pin != nil {
		d.floors = nil
	} else if !d.unknownNeed {
		d.floors = last(d.lag+1, append(d.floors, 0))
	}
}

// last returns the last n values.
func last[T any](n int, all []T) []T { return all[max(0, len(all)-n):] }

// read counts a reading of the group, and drops what it must show.
func (d *longDay) read(group string) {
	d.human[group] = slices.DeleteFunc(d.human[group], func(c cut) bool { return c.reads == 0 })
	for i := range d.human[group] {
		d.human[group][i].reads--
	}
}

// lowest returns the least of the floors, less the reductions by other parties that the autoscaler may read only later. Without a
// floor nothing is expected: with an offset, what is wanted may be negative.
func (d *longDay) lowest() float64 {
	if len(d.floors) == 0 {
		return math.Inf(-1)
	}
	least := slices.Min(d.floors)
	if d.config.Drift == Correct {
		return least
	}
	for _, cuts := range d.human {
		for _, c := range cuts {
			least -= c.by
		}
	}
	return least
}

// wait ends all trouble except the unknown need. Then the pool has its minimum, machine by machine.
func (d *longDay) wait() {
	d.well()
	d.unknownNeed, d.cutOff = true, false
	d.pass(20)
	weight := 0.0
	for _, g := range d.groups {
		for _, i := range d.real(g).Instances {
			if i.State == api.InstanceRunning {
				weight += i.Weight
			}
		}
	}
	if weight < d.lowest()-resource.Slack {
		d.t.Fatalf("machines of the weight %v run, and %v were needed when that was known; lowered by others: %v; %+v", weight, d.floors, d.human, d.loop.state())
	}
}

// pass runs ticks, with so much time between them that 20 outlast any backoff.
func (d *longDay) pass(ticks int) {
	for range ticks {
		d.now = d.now.Add(3 * time.Minute)
		d.trace(d.tick())
	}
}

// well ends the changes of other parties to the groups.
func (d *longDay) well() {
	clear(d.stale)
	clear(d.hidden)
	clear(d.unread)
	d.silent = false
	d.book.change(func(o *api.Orders) { o.Offset, o.Stale = nil, nil })
	d.nodes.change(func(n *nodes) { clear(n.mute) })
	d.unpin()
	d.leave()
	d.health.set(snapshot.Condition{})
	for _, g := range d.groups {
		g.Stock(dayGroupMax * 3)
		g.Quota(math.Inf(1))
		g.Refuse(cloud.SetTarget, nil)
		g.Refuse(cloud.Terminate, nil)
		g.Drop(cloud.SetTarget, 0)
		g.Drop(cloud.Terminate, 0)
	}
}

// A day with lost responses, marks, offsets, quotas, interruptions, drift, new, stale and removed
// groups, weights and late readings. The account is correct after each tick. The wanted weight
// falls only with a known need. No machine is lost, and the need is met in the end.
func TestLongDay(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "autoscaler") {
		return
	}
	rapid.Check(t, func(t *rapid.T) {
		d := newLongDay(t)
		d.limits(t)
		defer func() { d.loop.Close() }()
		for range rapid.IntRange(10, 40).Draw(t, "ticks") {
			if rapid.Bool().Draw(t, "by another") {
				d.another(t)
			} else {
				d.events(t)
			}
			r := d.tick()
			d.trace(r)
			if r != nil && r.Case != nil {
				d.checkProofs(r)
				d.checkAccount(r)
				d.checkWanted(r)
				d.checkFloor(r)
			} else if r == nil {
				d.died()
			}
			d.check()
		}
		d.wait()
		d.well()
		d.unknownNeed = false
		d.pass(40)
		d.check()
		target, weight := 0, 0.0
		for _, g := range d.groups {
			s := d.real(g)
			target += s.Target
			for _, i := range s.Instances {
				weight += i.Weight
			}
		}
		// A group cannot lose a part of a machine, so a pool of large ones may stay larger.
		if !d.large && target > max(d.demand, d.least()) || weight < float64(d.demand) {
			t.Fatalf("the targets are %d, %v run, the need is %d: %+v", target, weight, d.demand, d.loop.state())
		}
	})
}

// least is the sum of the groups' minima.
func (d *longDay) least() int {
	sum := 0
	for _, g := range d.groups {
		sum += d.real(g).Min
	}
	return sum
}
