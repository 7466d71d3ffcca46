package placer

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/resource"
)

// takeOver replaces the core by one with the given assignments.
func (w *world) takeOver(saved ...Assignments) {
	w.c = newCore(w.c.cfg, "another seed")
	durable{w.c}.restore(w.now, saved)
}

// A placer that takes over sends the starts of its predecessor again, with the same instances, and places what waited.
func TestTakeoverContinuesBookingsAndWants(t *testing.T) {
	w := newWorld(t)
	w.app(6, "v1")
	w.node("a", false)
	w.start("v1", 0, 1, 2, 3, 4)
	w.expect("four have room", "start web/0 on a", "start web/1 on a", "start web/2 on a", "start web/3 on a")
	saved := (durable{w.c}).takeChanged()
	var instance string
	for _, a := range w.did {
		if a.index == 2 {
			instance = a.instance
		}
	}

	w.takeOver(saved...)
	w.app(6, "v1")
	w.c.loaded()
	w.expect("the node is unknown yet")
	w.node("a", false, "0/"+w.did0(saved, 0)+"=RUNNING")
	w.expect("the rest again", "start web/1 on a", "start web/2 on a", "start web/3 on a")
	for _, a := range w.did {
		if a.index == 2 && a.instance != instance {
			t.Errorf("index 2 starts as %s, want %s again", a.instance, instance)
		}
	}
	w.pending("the fifth", 1)
	w.expect("once")
}

// did0 returns the instance of a saved booking.
func (w *world) did0(saved []Assignments, index int) string {
	w.t.Helper()
	for _, a := range saved {
		for _, b := range a.Bookings {
			if b.Index == index {
				return b.Instance
			}
		}
	}
	w.t.Fatalf("no booking of index %d in %+v", index, saved)
	return ""
}

func TestTakeoverRemembersNodes(t *testing.T) {
	w := newWorld(t)
	w.app(1, "v1")
	w.node("a", false, "0/x=RUNNING", "7/y=RUNNING")
	w.expect("nothing")
	w.takeOver((durable{w.c}).takeChanged()...)
	w.app(1, "v1")
	w.c.loaded()
	w.node("a", false, "7/y=RUNNING")
	w.node("b", false)
	w.start("v1", 0)
	w.expect("on the node that ran it", "start web/0 on a")
}

func TestTakeoverStopsBookingsThatAreNoLongerDesired(t *testing.T) {
	w := newWorld(t)
	w.app(1, "v1")
	w.node("a", false)
	w.start("v1", 0)
	w.expect("placed", "start web/0 on a")
	saved := (durable{w.c}).takeChanged()
	w.takeOver(saved...)
	w.c.appGone("web")
	w.c.loaded()
	w.node("a", false)
	w.expect("stopped", "stop "+w.did0(saved, 0)+" on a")
}

// A restored booking of an app whose row cannot be read neither starts again nor stops, until the row arrives.
func TestTakeoverKeepsBookingsOfUnknownApps(t *testing.T) {
	w := newWorld(t)
	w.app(1, "v1")
	w.node("a", false)
	w.start("v1", 0)
	w.expect("placed", "start web/0 on a")
	saved := (durable{w.c}).takeChanged()
	w.takeOver(saved...)
	w.c.appUnreadable("web", "it is too long")
	w.c.loaded()
	w.node("a", false)
	w.expect("nothing")
	w.app(1, "v1")
	w.expect("sent again", "start web/0 on a")
}

// Of two copies of an index, a new placer does not stop the one that its predecessor left.
func TestTakeoverRemembersStops(t *testing.T) {
	w := newWorld(t)
	w.app(1, "v1")
	w.node("a", false, "0/x=RUNNING")
	w.node("b", false, "0/y=RUNNING")
	w.stop("one of two", []string{"x"})
	w.expect("stopped", "stop x on a")
	saved := (durable{w.c}).takeChanged()

	w.takeOver(saved...)
	w.app(1, "v1")
	w.c.loaded()
	w.node("a", false, "0/x=RUNNING")
	w.node("b", false, "0/y=RUNNING")
	w.stop("the other", []string{"y"}, "y: "+whyLast)
	w.expect("nothing")
}

// A stop of a copy that ended while the pool had no placer is forgotten.
func TestOldStopsAreForgotten(t *testing.T) {
	w := newWorld(t)
	w.takeOver(Assignments{App: "web", Stops: []Stop{{"x", w.now}}})
	w.c.loaded()
	w.now = w.now.Add(time.Hour)
	w.expect("nothing")
	if diff := cmp.Diff([]Assignments{{App: "web"}}, (durable{w.c}).takeChanged()); diff != "" {
		t.Errorf("changed, -want +got:\n%s", diff)
	}
}

// Nothing stays stored of a deleted app whose nodes are gone. While the rows are incomplete, all of it stays.
func TestAssignmentsOfAGoneAppEnd(t *testing.T) {
	w := newWorld(t)
	saved := Assignments{
		App: "web", Ran: map[int]string{0: "x"}, Bookings: []Booking{{Version: "v1", Instance: "i", Node: "x", Footprint: resource.Vector{1}}},
		Wants: []Want{{Version: "v1", Index: 1, Since: w.now}}, Stops: []Stop{{"s", w.now}}, Placed: []Placed{{Version: "v1", Index: 2, Instance: "p", Node: "x"}},
	}
	w.takeOver(saved)
	w.now = w.now.Add(time.Hour)
	w.expect("nothing before the rows")
	if got := (durable{w.c}).assignments("web"); len(got.Ran) != 1 || len(got.Wants) != 2 || len(got.Placed) != 2 {
		t.Errorf("%+v before the rows, want the copies that were saved, the booked one as a want", got)
	}
	w.c.appGone("web")
	w.c.loaded()
	for range 4 {
		w.now = w.now.Add(keepSilent/2 + time.Minute)
		w.expect("nothing")
	}
	if got := (durable{w.c}).assignments("web"); !got.Empty() {
		t.Errorf("%+v of an app that is gone, want nothing", got)
	}
	if diff := cmp.Diff([]Assignments{{App: "web"}}, (durable{w.c}).takeChanged()); diff != "" {
		t.Errorf("changed, -want +got:\n%s", diff)
	}
}

func TestOnlyChangedAppsAreSaved(t *testing.T) {
	w := newWorld(t)
	w.app(1, "v1")
	w.c.app(api.App{Name: "db", Pool: "p", Instances: 1, Version: "v1", Command: "run", CPUs: 1})
	w.node("a", false)
	w.start("v1", 0)
	w.expect("placed", "start web/0 on a")
	b := w.c.bookings.byInstance[w.did[0].instance]
	want := []Assignments{{
		App: "web", Ran: map[int]string{0: "a"},
		Bookings: []Booking{{Version: "v1", Instance: b.instance, Node: "a", Footprint: resource.Vector{1}}},
	}}
	if diff := cmp.Diff(want, (durable{w.c}).takeChanged()); diff != "" {
		t.Errorf("changed, -want +got:\n%s", diff)
	}
	w.node("a", false, "0/"+b.instance+"=RUNNING")
	w.expect("nothing")
	want[0].Bookings, want[0].Placed = nil, []Placed{{Version: "v1", Instance: b.instance, Node: "a", Footprint: resource.Vector{1}}}
	if diff := cmp.Diff(want, (durable{w.c}).takeChanged()); diff != "" {
		t.Errorf("after the heartbeat, -want +got:\n%s", diff)
	}
	w.node("a", false, "0/"+b.instance+"=RUNNING")
	w.expect("nothing")
	if changed := (durable{w.c}).takeChanged(); changed != nil {
		t.Errorf("after the next heartbeat %+v changed", changed)
	}
}

func TestInvalidAssignments(t *testing.T) {
	for name, a := range map[string]Assignments{
		"no app":          {},
		"index":           {App: "a", Ran: map[int]string{-1: "n"}},
		"node":            {App: "a", Ran: map[int]string{0: "n.x"}},
		"instance":        {App: "a", Bookings: []Booking{{Node: "n", Instance: "*"}}},
		"footprint":       {App: "a", Bookings: []Booking{{Node: "n", Instance: "i", Footprint: resource.Vector{-1}}}},
		"version":         {App: "a", Wants: []Want{{Version: strings.Repeat("v", message.MaxID+1)}}},
		"index of a want": {App: "a", Wants: []Want{{Index: message.MaxInstances}}},
		"empty stop":      {App: "a", Stops: []Stop{{}}},
	} {
		if a.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ok := Assignments{
		App: "a", Ran: map[int]string{0: "n"}, Bookings: []Booking{{Node: "n", Instance: "i"}},
		Wants: []Want{{Version: "v"}}, Stops: []Stop{{Instance: "i"}},
	}
	if err := ok.Validate(); err != nil {
		t.Error(err)
	}
}
