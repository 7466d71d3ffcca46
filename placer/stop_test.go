package placer

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
)

// stop sends a nudge, and compares the rejected stops as "INSTANCE: why".
func (w *world) stop(what string, instances []string, refused ...string) {
	w.t.Helper()
	m := api.Stop{App: "web", Instances: map[string]string{}}
	for _, instance := range instances {
		m.Instances[instance] = "v1"
	}
	var got []string
	for _, r := range w.c.stop(w.now, m) {
		got = append(got, r.instance+": "+r.why)
	}
	if diff := cmp.Diff(refused, got); diff != "" {
		w.t.Errorf("%s: refused, -want +got:\n%s", what, diff)
	}
}

func TestStop(t *testing.T) {
	for _, test := range []struct {
		name    string
		row     func(*api.App) // nil: the app was deleted
		nodes   map[string][]string
		drained string // a draining node
		stop    []string
		refused []string
		want    []string
	}{
		{
			name: "of a deleted app", nodes: map[string][]string{"a": {"0/x=RUNNING"}},
			stop: []string{"x", "nobody"}, want: []string{"stop x on a"},
		},
		{
			name: "of a stopped app", row: func(r *api.App) { r.State = api.AppStopped },
			nodes: map[string][]string{"a": {"0/x=RUNNING"}}, stop: []string{"x"}, want: []string{"stop x on a"},
		},
		{
			name: "beyond the instances", row: func(*api.App) {},
			nodes: map[string][]string{"a": {"0/x=RUNNING", "1/y=RUNNING"}}, stop: []string{"y"}, want: []string{"stop y on a"},
		},
		{
			name: "of the last copy", row: func(*api.App) {},
			nodes: map[string][]string{"a": {"0/x=RUNNING"}}, stop: []string{"x"}, refused: []string{"x: " + whyLast},
		},
		{
			name: "of the last copy, which starts", row: func(*api.App) {},
			nodes: map[string][]string{"a": {"0/x=STARTING"}}, stop: []string{"x"}, refused: []string{"x: " + whyLast},
		},
		{
			name: "of the last copy, of an app that cannot be started", row: func(r *api.App) { r.Package = api.PackageFailed },
			nodes: map[string][]string{"a": {"0/x=RUNNING"}}, stop: []string{"x"}, refused: []string{"x: " + whyLast},
		},
		{
			name: "of one of two", row: func(*api.App) {},
			nodes: map[string][]string{"a": {"0/x=RUNNING"}, "b": {"0/y=RUNNING"}}, stop: []string{"y"}, want: []string{"stop y on b"},
		},
		{
			name: "of both of two", row: func(*api.App) {},
			nodes: map[string][]string{"a": {"0/x=RUNNING"}, "b": {"0/y=RUNNING"}}, stop: []string{"x", "y"},
			refused: []string{"y: " + whyLast}, want: []string{"stop x on a"},
		},
		{
			name: "of the one that is up, of two", row: func(*api.App) {},
			nodes: map[string][]string{"a": {"0/x=RUNNING", "0/y=STARTING"}}, stop: []string{"x"}, refused: []string{"x: " + whyLast},
		},
		{
			name: "of the one that starts, of two", row: func(*api.App) {},
			nodes: map[string][]string{"a": {"0/x=RUNNING", "0/y=STARTING"}}, stop: []string{"y"}, want: []string{"stop y on a"},
		},
		{
			name: "of the one that stays", row: func(*api.App) {}, drained: "b",
			nodes: map[string][]string{"a": {"0/x=RUNNING"}, "b": {"0/y=EVACUATING"}}, stop: []string{"x"}, refused: []string{"x: " + whyLast},
			want: []string{"stop y on b"}, // the stop of the drain
		},
		{
			name: "of an evacuating one, another starts", row: func(*api.App) {}, drained: "b",
			nodes: map[string][]string{"a": {"0/x=STARTING"}, "b": {"0/y=EVACUATING"}}, stop: []string{"y"}, refused: []string{"y: " + whyLast},
		},
		{
			name: "of an evacuating one, another runs", row: func(*api.App) {}, drained: "b",
			nodes: map[string][]string{"a": {"0/x=RUNNING"}, "b": {"0/y=EVACUATING"}}, stop: []string{"y"}, want: []string{"stop y on b"},
		},
		{
			name: "of an earlier version, which serves", row: func(r *api.App) { r.Version = "v2" },
			nodes: map[string][]string{"a": {"0/x=RUNNING", "0/y@v2=STARTING"}}, stop: []string{"x"}, refused: []string{"x: " + whyNotReplaced},
		},
		{
			name: "of an earlier version, which is replaced", row: func(r *api.App) { r.Version = "v2" },
			nodes: map[string][]string{"a": {"0/x=RUNNING", "0/y@v2=RUNNING"}}, stop: []string{"x"}, want: []string{"stop x on a"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			if w.c.appGone("web"); test.row != nil {
				w.row(test.row)
			}
			for id, copies := range test.nodes {
				if id == test.drained { // it ran them before
					var before []string
					for _, c := range copies {
						before = append(before, c[:len(c)-len("=EVACUATING")]+"=RUNNING")
					}
					w.node(id, false, before...)
				}
				w.node(id, id == test.drained, copies...)
			}
			w.stop("stop", test.stop, test.refused...)
			w.expect("stopped", test.want...)
		})
	}
}

func TestStopBeforeTheRowsAreKnown(t *testing.T) {
	w := newWorld(t)
	w.c.complete = false
	w.node("a", false, "0/x=RUNNING")
	w.stop("too early", []string{"x"}, "x: "+whyIncomplete)
	w.expect("held")
	w.c.appGone("web")
	w.c.loaded()
	w.expect("it was deleted", "stop x on a")
	w.stop("again", []string{"x"})
	w.expect("already requested")
	w.now = w.now.Add(10 * time.Second)
	w.stop("a heartbeat later", []string{"x"})
	w.expect("it may have been lost", "stop x on a")
}

// While the row of an app is unknown, none of its copies is stopped: not by the harmonizer, not on a draining node, and none is
// started elsewhere. Its node cannot be emptied, and the reason is named.
func TestUnknownAppKeepsItsCopies(t *testing.T) {
	for _, test := range []struct {
		name string
		rows func(w *world)
		why  string
	}{
		{"no row", func(*world) {}, "the row of web is unknown: it was not received: set the application again, or delete it"},
		{"unreadable", func(w *world) { w.c.appUnreadable("web", "it is too long") },
			"the row of web is unknown: it is too long: set the application again, or delete it"},
		{"unreadable after its deletion", func(w *world) {
			w.c.appGone("web")
			w.c.appUnreadable("web", "it is too long")
		}, "the row of web is unknown: it is too long: set the application again, or delete it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			test.rows(w)
			w.node("a", false, "0/x=RUNNING")
			w.node("b", false)
			w.stop("stop", []string{"x"}, "x: "+test.why)
			w.start("v1", 0)
			w.expect("nothing")
			w.node("a", true, "0/x=EVACUATING")
			w.expect("it stays")
			if got := (packer{w.c}).view(w.c.nodes["a"]).Stays; got != test.why {
				t.Errorf("the node stays because %q, want %q", got, test.why)
			}
			w.app(1, "v1")
			w.expect("replaced", "start web/0 on b")
			w.c.appGone("web")
			w.expect("deleted", "stop x on a")
		})
	}
}

// A row that cannot be read does not replace an earlier one.
func TestUnreadableRowKeepsTheLastOne(t *testing.T) {
	w := newWorld(t)
	w.app(2, "v1")
	w.node("a", false, "0/x=RUNNING", "1/y=RUNNING", "2/z=RUNNING")
	w.c.appUnreadable("web", "it is too long")
	w.stop("stop", []string{"x", "y", "z"}, "x: "+whyLast, "y: "+whyLast)
	w.expect("beyond its instances", "stop z on a")
}

// After an update was halted, a copy of the new version is stopped if one of the earlier version serves its index, and a draining node
// moves the earlier version.
func TestHaltedUpdateKeepsTheEarlierVersion(t *testing.T) {
	w := newWorld(t)
	w.row(func(r *api.App) {
		r.Version, r.History = "v2", []api.AppVersion{{Version: "v1", Command: "old", CPUs: 1}}
	})
	w.node("a", false, "0/x=RUNNING!")
	w.node("b", false, "0/y@v2=RUNNING")
	w.stop("the earlier one is not ready", []string{"y"}, "y: "+whyLast)
	w.node("a", false, "0/x=RUNNING")
	w.node("b", false, "0/y@v2=RUNNING!")
	w.node("a", true, "0/x=EVACUATING")
	w.stop("the earlier one leaves", []string{"y"}, "y: "+whyLast)
	w.expect("it is replaced", "start web/0 on b")
	if w.did[0].version != "v1" {
		t.Errorf("replaced by version %s, want v1", w.did[0].version)
	}
	w.node("b", false, "0/y@v2=RUNNING!", "0/"+w.did[0].instance+"=RUNNING")
	w.stop("the earlier one serves", []string{"y"})
	w.expect("stopped", "stop x on a", "stop y on b")
}

// While an update is halted, copies of versions before the one that serves are stopped too.
func TestHaltedUpdateLeavesNoOldCopies(t *testing.T) {
	w := newWorld(t)
	w.row(func(r *api.App) {
		r.Version = "v3"
		r.History = []api.AppVersion{{Version: "v2", Command: "serves", CPUs: 1}, {Version: "v1", Command: "old", CPUs: 1}}
	})
	w.node("a", false, "0/x@v1=RUNNING")
	w.node("b", false, "0/y@v2=RUNNING!")
	w.stop("the one that serves is not ready", []string{"x"}, "x: "+whyNotReplaced)
	w.node("b", false, "0/y@v2=RUNNING")
	w.node("c", false, "0/z@v0=RUNNING")
	w.stop("the one that serves is ready", []string{"x", "z"})
	w.expect("stopped", "stop x on a", "stop z on c")
	w.stop("no other is left", []string{"y"}, "y: "+whyNotReplaced)
}

// A copy is replaced by a ready one only. A copy that is not ready itself is replaced by one that is up.
func TestOnlyAReadyCopyReplaces(t *testing.T) {
	for _, test := range []struct {
		name     string
		old, new string // states
		stopped  bool
	}{
		{"ready, by one that starts", "RUNNING", "STARTING!", false},
		{"ready, by one that is up", "RUNNING", "RUNNING!", false},
		{"ready, by a ready one", "RUNNING", "RUNNING", true},
		{"up, by one that starts", "RUNNING!", "STARTING!", false},
		{"up, by one that is up", "RUNNING!", "RUNNING!", true},
		{"up, by a ready one", "RUNNING!", "RUNNING", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := func(instance, why string) (refused, stops []string) {
				if test.stopped {
					return nil, []string{"stop " + instance + " on a"}
				}
				return []string{instance + ": " + why}, nil
			}
			w := newWorld(t)
			w.app(1, "v1")
			w.node("a", false, "0/x="+test.old)
			w.node("b", false, "0/y="+test.new)
			refused, stops := want("x", whyLast)
			w.stop("of two copies of a version", []string{"x"}, refused...)
			w.expect("duplicates", stops...)

			w = newWorld(t)
			w.app(1, "v2")
			w.node("a", false, "0/x="+test.old)
			w.node("b", false, "0/y@v2="+test.new)
			refused, stops = want("x", whyNotReplaced)
			w.stop("of the earlier version", []string{"x"}, refused...)
			w.expect("versions", stops...)

			w = newWorld(t)
			w.app(1, "v1")
			w.node("a", false, "0/x="+test.old)
			w.node("b", false, "0/y="+test.new)
			state, unready := strings.CutSuffix(test.old, "!")
			state = strings.Replace(state, "RUNNING", "EVACUATING", 1)
			if unready {
				state += "!"
			}
			w.node("a", true, "0/x="+state)
			w.expect("drained", stops...)
		})
	}
}

func TestStopRejectedWhileOtherNodeSilent(t *testing.T) {
	w := newWorld(t)
	w.app(1, "v1")
	w.node("a", false, "0/x=RUNNING")
	w.now = w.now.Add(16 * time.Second)
	w.node("b", false, "0/y=RUNNING")
	w.stop("the other one may be lost", []string{"y"}, "y: "+whyLast)
	w.node("a", false, "0/x=RUNNING")
	w.stop("it is not", []string{"y"})
	w.expect("stopped", "stop y on b")
}

// A nudge can arrive before its row.
func TestStopIsHeldForTheRow(t *testing.T) {
	w := newWorld(t)
	w.app(2, "v1")
	w.node("a", false, "0/x=RUNNING", "1/y=RUNNING")
	w.stop("the row wants it", []string{"y"}, "y: "+whyLast)
	w.expect("nothing")
	w.node("b", false, "1/z=RUNNING")
	w.expect("that another one has come is not what was meant")
	w.app(1, "v1")
	w.expect("the row has come", "stop y on a")

	w.stop("the row wants this one, too", []string{"x"}, "x: "+whyLast)
	w.now = w.now.Add(31 * time.Second)
	w.node("a", false, "0/x=RUNNING", "1/y=RUNNING")
	w.expect("nothing")
	w.c.appGone("web")
	w.expect("forgotten")
	if len(w.c.held) != 0 {
		t.Errorf("held are %v, want none", w.c.held)
	}
}

// An evacuating copy is replaced once and stopped once, independent of the number of requests.
func TestEvacuationIsNudgedAsWell(t *testing.T) {
	for _, first := range []string{"the placer", "the harmonizer"} {
		t.Run(first+" first", func(t *testing.T) {
			w := newWorld(t)
			w.app(1, "v1")
			w.node("a", false, "0/x=RUNNING")
			w.node("b", false)
			w.node("a", true, "0/x=EVACUATING")
			if first == "the harmonizer" {
				w.start("v1", 0)
			}
			w.expect("replaced", "start web/0 on b")
			y := w.did[0].instance
			w.start("v1", 0)
			w.stop("not yet", []string{"x"}, "x: "+whyLast)
			w.expect("on its way")
			w.node("b", false, "0/"+y+"=STARTING")
			w.start("v1", 0)
			w.expect("it starts")
			w.node("b", false, "0/"+y+"=RUNNING")
			if first == "the harmonizer" {
				w.stop("it runs", []string{"x"})
			}
			w.expect("up", "stop x on a")
			w.stop("nudged as well", []string{"x"})
			w.start("v1", 0)
			w.expect("nothing more")
			w.c.exited(w.now, api.Exited{Instance: "x"})
			w.node("a", true)
			w.expect("done")
			if n := len(w.c.bySlot[slot{"web", "v1", 0}]); n != 1 {
				t.Errorf("%d copies, want 1", n)
			}
		})
	}
}
