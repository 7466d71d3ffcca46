package placer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

func withPort(port api.PortNumber, instances int) func(*api.App) {
	return func(row *api.App) { row.Instances, row.Ports = instances, []api.Port{{Name: "http", Port: port}} }
}

func (w *world) why(t *testing.T) string {
	t.Helper()
	var all []string
	for _, c := range w.c.pending().Copies {
		all = append(all, fmt.Sprintf("%s/%d %s", c.App, c.Index, c.Why))
	}
	return strings.Join(all, "; ")
}

func TestOneCopyWithAFixedPortOnEachNode(t *testing.T) {
	w := newWorld(t)
	w.node("a", false)
	w.node("b", false)
	w.row(withPort(8080, 3))
	w.row(func(row *api.App) { withPort(8080, 1)(row); row.Name = "other" })
	w.row(func(row *api.App) { withPort(api.AutoPort, 1)(row); row.Name = "auto" })
	w.start("v1", 0, 1, 2)
	w.c.start(w.now, api.Start{App: "other", Version: "v1", Indices: []int{0}})
	w.c.start(w.now, api.Start{App: "auto", Version: "v1", Indices: []int{0}})
	w.expect("one on each", "start auto/0 on a", "start other/0 on b", "start web/0 on a")
	want := "web/1 port 8080 is in use on each node with room, and an update of such an application needs one node more"
	if got := w.why(t); !strings.HasPrefix(got, want) {
		t.Errorf("waits for %q, want %q", got, want)
	}
	kind := api.PlacesKind{Group: "g", Resources: resource.Vector{4}, Weight: 1, Room: 5}
	if a := w.places(api.PlacesQuestion{Kinds: []api.PlacesKind{kind}}); len(a.New) != 1 || a.New[0].Nodes != 2 {
		t.Errorf("places %+v, want 2 machines for web/1 and web/2", a)
	}
}

// An update needs another node, because the earlier copy has the port until the new one is ready.
func TestUpdateWithAFixedPortNeedsAnotherNode(t *testing.T) {
	w := newWorld(t)
	w.node("a", false, "0/x=RUNNING")
	second := func(row *api.App) {
		withPort(8080, 1)(row)
		old := row.Live()
		row.Version = "v2"
		row.History = []api.AppVersion{old}
	}
	w.row(second)
	w.start("v2", 0)
	w.expect("no other node")
	w.node("b", false)
	w.expect("on the other node", "start web/0 on b")
}

// A node that refused a port gets no copy with it for a while, and copies without it as before.
func TestNodeWhosePortAnotherProcessHasIsAvoided(t *testing.T) {
	w := newWorld(t)
	w.node("a", false)
	w.row(withPort(8080, 1))
	w.start("v1", 0)
	w.expect("placed", "start web/0 on a")
	w.c.started(w.now, w.did[0].instance, PortInUse, "port 8080 of node a is in use by another process")
	w.expect("not there again")
	taken := w.c.pending().Taken
	if len(taken) != 1 || taken[0] != (api.TakenPort{Node: "a", Port: 8080, App: "web", Until: w.now.Add(refusedFor).UTC()}) {
		t.Errorf("taken ports %+v, want 8080 of a", taken)
	}
	kind := api.PlacesKind{Group: "g", Resources: resource.Vector{4}, Weight: 1, Room: 5}
	if a := w.places(api.PlacesQuestion{Kinds: []api.PlacesKind{kind}}); len(a.New) != 1 {
		t.Errorf("places %+v, want a machine", a)
	}
	w.row(func(row *api.App) { row.Name = "other" })
	w.c.start(w.now, api.Start{App: "other", Version: "v1", Indices: []int{0}})
	w.expect("a copy without the port", "start other/0 on a")
	w.node("b", false)
	w.expect("elsewhere", "start web/0 on b")
	w.c.forgetNode(w.now, w.c.nodes["b"])
	w.expect("too early")
	w.now = w.now.Add(avoidFor)
	w.node("a", false)
	w.expect("the only node, again, and what no heartbeat listed", "start other/0 on a", "start web/0 on a")
	if taken := w.c.pending().Taken; len(taken) > 0 {
		t.Errorf("taken ports %+v after another start", taken)
	}
}

// A copy whose version has no row may have the port, and its end frees it.
func TestPortOfAnEndedCopyIsFree(t *testing.T) {
	w := newWorld(t)
	w.node("a", false, "0/x@v0=RUNNING")
	w.row(withPort(8080, 1))
	w.row(func(row *api.App) { withPort(8080, 1)(row); row.Name = "other" })
	w.c.start(w.now, api.Start{App: "other", Version: "v1", Indices: []int{0}})
	w.expect("placed", "start other/0 on a")
	w.c.started(w.now, w.did[0].instance, PortInUse, "port 8080 of node a is in use by another app instance")
	w.expect("avoided")
	w.c.exited(w.now, api.Exited{Instance: "x", App: "web", Version: "v0"})
	w.node("a", false)
	w.expect("free", "start other/0 on a")
}

// While a node refuses a port, it is not taken away in place of the machine that its copy needs. After three nodes, no further machine is
// ordered, also after their end.
func TestPortThatEachMachineRefuses(t *testing.T) {
	w := newWorld(t)
	w.row(withPort(22, 1))
	w.start("v1", 0)
	kind := api.PlacesKind{Group: "g", Resources: resource.Vector{4}, Weight: 1, Room: 5}
	for i, id := range []string{"a", "b", "c"} {
		w.node(id, false)
		w.expect("placed", "start web/0 on "+id)
		w.c.started(w.now, w.did[0].instance, PortInUse, "in use")
		w.c.act(w.now)
		a := w.places(api.PlacesQuestion{Kinds: []api.PlacesKind{kind}, Leave: []string{id}, Most: 1})
		if i < maxRefused-1 && (len(a.New) != 1 || len(a.Leave) != 0 || !strings.Contains(a.Stay[0].Why, "port 22 is in use here")) {
			t.Errorf("%d nodes refuse: new %+v, leave %v, stay %+v; want a machine besides", i+1, a.New, a.Leave, a.Stay)
		}
		if i == maxRefused-1 && (len(a.New) != 0 || len(a.Leave) != 1) {
			t.Errorf("all refuse: new %+v, leave %v, want no machine, and the last one leaves", a.New, a.Leave)
		}
	}
	p := w.c.pending()
	if len(p.Copies) != 0 || len(p.Rejected) != 1 || !strings.HasPrefix(p.Rejected[0].Why, "3 nodes refused port 22") {
		t.Errorf("pending %+v, want the copy as rejected", p)
	}
	w.c.forgetNode(w.now, w.c.nodes["c"])
	if a := w.places(api.PlacesQuestion{Kinds: []api.PlacesKind{kind}}); len(a.New) != 0 {
		t.Errorf("after the end of a node: new %+v, want none", a.New)
	}
	w.now = w.now.Add(refusedFor)
	w.node("a", false)
	w.c.act(w.now)
	if len(w.c.refused) != 0 {
		t.Errorf("refused ports %v after %v", w.c.refused, time.Duration(refusedFor))
	}
}
