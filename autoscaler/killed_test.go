package autoscaler

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// sick is the node that is repaired.
const sick = "a-1"

// repairedDay is a day in which one node is repaired. The first process dies before its nth call.
// run reports whether it survived.
type repairedDay struct {
	*day
	asked bool // a process received that the repair is saved
}

// TestRepairKilledAnywhere kills the process before each of its calls, from the repair request on.
// The node is never terminated twice. In the end it has exactly one replacement, or was repaired in
// place once and is in service.
func TestRepairKilledAnywhere(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "autoscaler") {
		return
	}
	for _, silent := range []bool{false, true} {
		for _, hold := range []bool{false, true} {
			for _, kind := range []api.RepairKind{"", api.RepairReboot} {
				if hold && kind != "" {
					continue
				}
				t.Run(fmt.Sprintf("silent %t, hold %t, mend %q", silent, hold, kind), func(t *testing.T) {
					t.Parallel()
					fuse := 0
					for ; ; fuse++ {
						d := repairedDay{day: newDay(t)}
						if !d.run(fuse, silent, hold, kind) {
							break
						}
						d.wantRepaired(fuse, kind)
						if t.Failed() {
							return
						}
					}
					if fuse < 20 {
						t.Errorf("the process made only %d calls", fuse)
					}
				})
			}
		}
	}
}

// run runs the day, and reports whether the process died before everything was done, or in the tick
// after that.
func (d *repairedDay) run(fuse int, silent, hold bool, kind api.RepairKind) (died bool) {
	for range 4 {
		d.tick()
	}
	d.nodes.change(func(n *nodes) { n.mute[sick], n.tasks[sick] = silent, 1 })
	d.health.set(snapshot.Condition{Unhealthy: map[string]string{sick: "it is sick"}})
	r := pools.RepairRequest{Node: sick, Attempt: "attempt-1", Hold: hold, Deadline: d.now.Add(30 * time.Minute), Why: "it is sick"}
	if kind != "" {
		r.RepairInPlace = &pools.InPlaceRepair{Kind: kind}
	}
	d.tick()
	d.loop.Close()
	d.born(fuse)
	done := false
	for left := 25; left > 0; left-- {
		d.now = d.now.Add(time.Second)
		if !d.asked {
			d.asked = d.repair(r) == nil
		}
		if d.groups[0].Boot(sick) == sick+"-boot-2" {
			d.nodes.change(func(n *nodes) { n.mute[sick] = false }) // the restart succeeded
			d.health.set(snapshot.Condition{})
		}
		over := d.health.last("attempt-1").Action == drain.DeleteRecord
		died = d.tick() == nil && !done || died
		if over && !done {
			done, left = true, min(left, 6) // for the rest of the pool
		}
		d.check()
	}
	d.loop.Close()
	return died
}

// wantRepaired checks the pool at the end, and the provider's calls.
func (d *repairedDay) wantRepaired(fuse int, kind api.RepairKind) {
	t := d.t
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("killed before call %d: "+format, append([]any{fuse}, args...)...)
	}
	ended, begun, launched, running := 0, 0, 0, []string{}
	for _, g := range d.groups {
		for _, w := range g.Log() {
			ended += len(w.Ended)
			if w.Began {
				begun++
			}
		}
		s, err := g.Snapshot(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range s.Instances {
			if i.Launched.After(noon) {
				launched++
			}
		}
		running = append(running, d.running(g)...)
	}
	there := slices.Contains(running, sick)
	switch {
	case len(running) != 6:
		fail("%d nodes run, want 6: %q", len(running), running)
	case kind == "" && (ended != 1 || launched != 1 || begun != 0 || there):
		fail("%d terminations, %d launches, %d repairs in place, there %t: want it replaced once", ended, launched, begun, there)
	case kind != "" && (ended != 0 || launched != 0 || begun != 1 || !there || d.nodes.cordoned[sick]):
		fail("%d terminations, %d launches, %d repairs in place, there %t, cordoned %t: want it mended once",
			ended, launched, begun, there, d.nodes.cordoned[sick])
	}
	if left := d.records.stored; len(left) > 0 {
		fail("records %s are left", left)
	}
	if a := d.loop.account(); a.PendingIncrease() != 0 || a.Surplus() != 0 {
		fail("owed %v, surplus %v: want none", a.PendingIncrease(), a.Surplus())
	}
	if e := d.health.last("attempt-1"); e.Action != drain.DeleteRecord && e.To != api.DrainGone && e.To != api.DrainReturned || e.Failed != "" {
		fail("the last that was told is %+v", e)
	}
}

// A machine whose termination succeeded, but whose response was lost, lowers its group's target
// once. It does not make a raise count as granted that a dead process did not request, also while
// the need is unknown.
func TestRaiseIsRequestedAgainAfterALostTermination(t *testing.T) {
	t.Parallel()
	d := newDay(t)
	defer func() { d.loop.Close() }()
	for range 4 {
		d.tick()
	}
	d.nodes.change(func(n *nodes) { n.mute[sick] = true })
	d.health.set(snapshot.Condition{Unhealthy: map[string]string{sick: "it is sick"}})
	d.groups[0].Drop(cloud.Terminate, 1)
	d.cutOff = true // the next process finds an intent, and no metrics
	if err := d.repair(pools.RepairRequest{Node: sick, Attempt: "attempt-1", Deadline: d.now.Add(30 * time.Minute), Why: "it is sick"}); err != nil {
		t.Fatal(err)
	}
	if r := d.tick(); r != nil {
		t.Fatalf("the process survived: %+v", r.Actions)
	}
	for range 5 {
		d.tick()
	}
	sum := 0
	for _, g := range d.groups {
		sum += len(d.running(g))
	}
	if !d.unknownNeed || sum != 6 {
		t.Errorf("%d nodes run, want 6; the need is unknown: %t", sum, d.unknownNeed)
	}
}
