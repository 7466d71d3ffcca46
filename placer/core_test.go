package placer

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// world is a core with its events. Every node has four cpus, and every copy uses one.
type world struct {
	t   *testing.T
	c   *core
	now time.Time
	did []action // of the latest act
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, c: newCore(Config{Cluster: "c", Pool: "p"}.WithDefaults(), "seed"), now: time.Unix(1_000_000, 0)}
	w.c.loaded()
	return w
}

func (w *world) app(instances int, version string) {
	w.c.app(api.App{Name: "web", Pool: "p", Instances: instances, Version: version, Command: "run", CPUs: 1})
}

// row sets the row of one instance of v1, after change.
func (w *world) row(change func(*api.App)) {
	row := api.App{Name: "web", Pool: "p", Instances: 1, Version: "v1", Command: "run", CPUs: 1}
	change(&row)
	w.c.app(row)
}

// node publishes facts and a heartbeat. Copies are "INDEX/INSTANCE=STATE" of version v1, or
// "INDEX/INSTANCE@VERSION=STATE". A state that ends with "!" is that of a copy that is not ready.
func (w *world) node(id string, draining bool, copies ...string) {
	h := api.Heartbeat{Node: id}
	for _, s := range copies {
		what, state, _ := strings.Cut(s, "=")
		index, who, _ := strings.Cut(what, "/")
		instance, version, ok := strings.Cut(who, "@")
		if !ok {
			version = "v1"
		}
		n, err := strconv.Atoi(index)
		if err != nil {
			w.t.Fatal(err)
		}
		state, unready := strings.CutSuffix(state, "!")
		h.Beats = append(h.Beats, api.Beat{App: "web", Version: version, Index: n, Instance: instance, State: api.CopyState(state), Unready: unready})
		if w.c.places.byInstance[instance] == nil { // an earlier placer put it there
			w.c.places.add(w.now, slot{"web", version, n}, instance, id, resource.Vector{})
		}
	}
	w.c.nodeFacts(w.now, api.NodeFacts{
		ID: id, Pool: "p", BootID: "boot", Resources: resource.Vector{4}, Draining: draining,
		Allocated: resource.Vector{float64(len(copies))}, Tasks: len(copies),
	})
	w.c.heartbeat(w.now, Heartbeat{Heartbeat: h})
}

func (w *world) start(version string, indices ...int) {
	w.c.start(w.now, api.Start{App: "web", Version: version, Indices: indices})
}

// expect calls act, and compares the actions: "start web/0 on a", "stop INSTANCE on a".
func (w *world) expect(what string, want ...string) {
	w.t.Helper()
	w.did = w.c.act(w.now)
	var got []string
	for _, a := range w.did {
		if a.stop {
			got = append(got, "stop "+a.instance+" on "+a.node)
		} else {
			got = append(got, "start "+a.app+"/"+strconv.Itoa(a.index)+" on "+a.node)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s, -want +got:\n%s", what, diff)
	}
}

func (w *world) pending(what string, total int) {
	w.t.Helper()
	p := w.c.pending()
	if p.Total != total || p.Resources != (resource.Vector{float64(total)}) || len(p.Copies) != total {
		w.t.Errorf("%s: pending = %+v, want %d", what, p, total)
	}
}

func TestPlace(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"the one with the most room", func(w *world) {
			w.node("a", false, "7/x=RUNNING")
			w.node("b", false)
			w.app(3, "v1")
			w.start("v1", 0, 1, 2)
			w.expect("placed", "start web/0 on b", "start web/1 on a", "start web/2 on b")
		}},
		{"the one that ran it before", func(w *world) {
			w.app(1, "v1")
			w.node("a", false, "0/x=RUNNING", "7/y=RUNNING")
			w.node("b", false)
			w.c.exited(w.now, api.Exited{Instance: "x"})
			w.start("v1", 0)
			w.expect("placed", "start web/0 on a")
		}},
		{"a live copy", func(w *world) {
			w.app(1, "v1")
			w.node("a", false, "0/x=STARTING")
			w.start("v1", 0)
			w.expect("nothing to do")
		}},
		{"a copy on a node that may be lost", func(w *world) {
			w.app(1, "v1")
			w.node("a", false, "0/x=RUNNING")
			w.now = w.now.Add(20 * time.Second)
			w.node("b", false)
			w.start("v1", 0)
			w.expect("not certain yet")
			w.pending("it is no lack of room", 0)
			w.now = w.now.Add(6 * time.Second)
			w.expect("now", "start web/0 on b")
		}},
		{"a copy on a node that seemed lost", func(w *world) {
			w.app(1, "v1")
			w.node("a", false, "0/x=RUNNING")
			w.now = w.now.Add(20 * time.Second)
			w.node("b", false)
			w.start("v1", 0)
			w.node("a", false, "0/x=RUNNING")
			w.now = w.now.Add(10 * time.Second)
			w.expect("it is there")
			w.c.exited(w.now, api.Exited{Instance: "x"})
			w.expect("the nudge is dropped")
		}},
		{"already on its way", func(w *world) {
			w.app(1, "v1")
			w.node("a", false)
			w.start("v1", 0)
			w.expect("placed", "start web/0 on a")
			w.start("v1", 0)
			w.expect("not again")
		}},
		{"before the rows are known", func(w *world) {
			w.c.complete = false
			w.app(1, "v1")
			w.node("a", false)
			w.start("v1", 0)
			w.expect("nothing")
			w.c.loaded()
			w.expect("now", "start web/0 on a")
		}},
		{"the nudge overtakes the row", func(w *world) {
			w.app(1, "v1")
			w.node("a", false)
			w.start("v2", 1)
			w.expect("wrong version and index")
			w.pending("it is no lack of room", 0)
			w.app(2, "v2")
			w.expect("now", "start web/1 on a")
		}},
		{"an unconfirmed nudge is dropped", func(w *world) {
			w.app(1, "v1")
			w.node("a", false)
			w.start("v2", 0)
			w.now = w.now.Add(31 * time.Second)
			w.node("a", false)
			w.expect("too late")
			w.app(1, "v2")
			w.expect("forgotten")
		}},
		{"the row of another pool", func(w *world) {
			w.node("a", false)
			w.c.app(api.App{Name: "web", Pool: "q", Instances: 1, Version: "v1", Command: "run"})
			w.start("v1", 0)
			w.expect("nothing")
		}},
		{"a stopped app", func(w *world) {
			w.row(func(row *api.App) { row.State = api.AppStopped })
			w.node("a", false)
			w.start("v1", 0)
			w.expect("nothing")
			w.pending("it is no lack of room", 0)
			w.row(func(row *api.App) { row.State = api.AppStarted })
			w.expect("started within the nudge's time", "start web/0 on a")
		}},
		{"a package that is not staged", func(w *world) {
			w.node("a", false)
			for _, p := range []api.PackageState{api.PackagePending, api.PackageFailed} {
				w.row(func(row *api.App) { row.Package = p })
				w.start("v1", 0)
				w.expect("nothing: " + string(p))
			}
			w.row(func(row *api.App) { row.Package = api.PackageStaged })
			w.expect("staged", "start web/0 on a")
		}},
		{"a row without a command", func(w *world) {
			w.row(func(row *api.App) { row.Command = "" })
			w.node("a", false)
			w.start("v1", 0)
			w.expect("nothing")
		}},
		{"a deleted app", func(w *world) {
			w.app(1, "v1")
			w.node("a", false)
			w.start("v1", 0)
			w.c.appGone("web")
			w.expect("nothing")
		}},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newWorld(t)) })
	}
}

func TestPending(t *testing.T) {
	w := newWorld(t)
	w.app(6, "v1")
	w.start("v1", 0, 1, 2, 3, 4, 5)
	w.expect("no node")
	w.pending("all of it", 6)
	w.node("a", false)
	w.expect("a node", "start web/0 on a", "start web/1 on a", "start web/2 on a", "start web/3 on a")
	w.pending("the rest", 2)
	w.node("a", false)
	w.expect("its facts do not count the bookings yet")
	w.node("b", true)
	w.expect("a draining node")
	w.app(5, "v1")
	w.expect("one is not wanted any more")
	w.pending("one less", 1)
	w.node("b", false)
	w.expect("taken back", "start web/4 on b")
	w.pending("nothing", 0)
}

func TestAnswers(t *testing.T) {
	begin := func(t *testing.T) (*world, string) {
		w := newWorld(t)
		w.app(1, "v1")
		w.node("a", false)
		w.node("b", false, "7/x=RUNNING")
		w.start("v1", 0)
		w.expect("placed", "start web/0 on a")
		return w, w.did[0].instance
	}
	t.Run("full", func(t *testing.T) {
		w, id := begin(t)
		w.c.started(w.now, id, Full, "")
		w.expect("the next one", "start web/0 on b")
		w.c.started(w.now, w.did[0].instance, Full, "")
		w.expect("no other")
		w.pending("it waits", 1)
		w.node("b", false)
		w.expect("a node publishes new facts", "start web/0 on b")
	})
	t.Run("unknown", func(t *testing.T) {
		w, id := begin(t)
		w.c.started(w.now, id, Unknown, "")
		w.expect("what may have begun is ended", "start web/0 on b", "stop "+id+" on a")
	})
	t.Run("rejected", func(t *testing.T) {
		w, id := begin(t)
		w.c.started(w.now, id, Rejected, "")
		w.expect("no other node will do better")
		w.now = w.now.Add(10 * time.Second)
		w.node("a", false)
		w.expect("later", "start web/0 on a")
	})
	t.Run("stopped before it is seen", func(t *testing.T) {
		w, id := begin(t)
		w.app(0, "v1")
		w.stop("not wanted any more", []string{id})
		w.expect("not yet")
		w.c.started(w.now, id, Accepted, "")
		w.expect("now", "stop "+id+" on a")
	})
	t.Run("wanted, and stopped before it is seen", func(t *testing.T) {
		w, id := begin(t)
		w.stop("there is no other", []string{id}, id+": "+whyLast)
		w.c.started(w.now, id, Accepted, "")
		w.expect("it stays")
	})
	t.Run("never seen", func(t *testing.T) {
		w, id := begin(t)
		w.c.started(w.now, id, Accepted, "")
		for range 3 {
			w.now = w.now.Add(10 * time.Second)
			w.node("a", false)
			w.node("b", false, "7/x=RUNNING")
		}
		w.expect("again", "start web/0 on a")
	})
	t.Run("its node is lost", func(t *testing.T) {
		w, id := begin(t)
		w.c.started(w.now, id, Accepted, "")
		w.now = w.now.Add(20 * time.Second)
		w.node("b", false, "7/x=RUNNING")
		w.now = w.now.Add(6 * time.Second)
		w.expect("elsewhere", "start web/0 on b")
	})
}

func TestDrain(t *testing.T) {
	w := newWorld(t)
	w.app(2, "v1")
	w.node("a", true, "0/x=EVACUATING", "1/y=EVACUATING", "2/z=EVACUATING")
	w.expect("no room elsewhere: only copies that are not desired stop", "stop z on a")
	w.pending("the others wait", 2)
	w.node("b", false)
	w.expect("replaced", "start web/0 on b", "start web/1 on b")
	x2, y2 := w.did[0].instance, w.did[1].instance
	w.node("b", false, "0/"+x2+"=STARTING", "1/"+y2+"=RUNNING")
	w.expect("only what is replaced stops", "stop y on a")
	w.node("a", true, "0/x=EVACUATING", "1/y=EVACUATING")
	w.expect("already requested")

	w.c.exited(w.now, api.Exited{Instance: x2})
	w.expect("the replacement died: not again at once")
	w.now = w.now.Add(2 * time.Second)
	w.expect("after a while", "start web/0 on b")
	x3 := w.did[0].instance
	w.node("a", false, "0/x=RUNNING")
	w.node("b", false, "0/"+x3+"=RUNNING", "1/"+y2+"=RUNNING")
	w.expect("taken back: nothing stops")
	w.node("a", true, "0/x=EVACUATING")
	w.expect("and drained again", "stop x on a")
}

func TestDrainOfAnEarlierVersion(t *testing.T) {
	w := newWorld(t)
	w.app(2, "v1")
	w.node("a", true, "0/x=EVACUATING", "1/y=EVACUATING")
	w.expect("nowhere to go")
	w.now = w.now.Add(2 * time.Second)
	w.app(1, "v2")
	w.expect("what serves stays, what is beyond the app stops", "stop y on a")
	w.pending("the new version waits in place of the old", 1)
	w.start("v2", 0)
	w.node("b", false)
	w.expect("nudged as well, started once", "start web/0 on b")
	z := w.did[0].instance
	w.now = w.now.Add(2 * time.Second)
	w.start("v2", 0)
	w.expect("on its way")
	w.node("b", false, "0/"+z+"@v2=STARTING")
	w.expect("not up yet")
	w.node("b", false, "0/"+z+"@v2=RUNNING")
	w.expect("up", "stop x on a")
}

func TestDrainOfAnEarlierVersionBesideAnother(t *testing.T) {
	w := newWorld(t)
	w.app(1, "v2")
	w.node("a", true, "0/x=EVACUATING")
	w.node("b", false, "0/y=RUNNING")
	w.expect("a copy of an earlier version is no replacement", "start web/0 on b")
	w.c.appGone("web")
	w.expect("it is no longer desired", "stop x on a")
}

func TestDrainCancelled(t *testing.T) {
	w := newWorld(t)
	w.app(1, "v1")
	w.node("a", true, "0/x=EVACUATING")
	w.expect("nowhere to go")
	w.pending("it waits", 1)
	w.node("a", false, "0/x=RUNNING")
	w.expect("taken back")
	w.pending("nothing", 0)
	w.node("b", false)
	w.expect("it stays")
}

func TestNodeRestarted(t *testing.T) {
	w := newWorld(t)
	w.app(1, "v1")
	w.node("a", false, "0/x=RUNNING")
	w.c.nodeFacts(w.now, api.NodeFacts{ID: "a", Pool: "p", BootID: "other", Resources: resource.Vector{4}})
	w.start("v1", 0)
	w.expect("what ran before is gone", "start web/0 on a")
}

func TestReplaceDelay(t *testing.T) {
	for tries, want := range map[int]time.Duration{0: time.Second, 3: 8 * time.Second, 6: time.Minute, 1000: time.Minute} {
		if got := replaceDelay(tries); got != want {
			t.Errorf("replaceDelay(%d) = %v, want %v", tries, got, want)
		}
	}
}

// The harmonizer may request an earlier version of the row: while an update is halted, the new one is not started.
func TestEarlierVersionOfTheRowIsStarted(t *testing.T) {
	w := newWorld(t)
	old := api.AppVersion{Version: "v1", Command: "old", CPUs: 2, Env: map[string]string{"A": "1"}}
	w.row(func(r *api.App) { r.Version, r.History = "v2", []api.AppVersion{old} })
	w.node("a", false)
	w.start("v0", 0)
	w.expect("an unknown version")
	w.start("v1", 0)
	w.expect("started", "start web/0 on a")
	if a := w.did[0]; a.version != "v1" || a.command != "old" || a.footprint != old.Footprint() || a.env["A"] != "1" {
		t.Errorf("started %+v, want that of %+v", a, old)
	}
}
