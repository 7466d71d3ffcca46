package placer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

func TestWhyNotNamesWhatIsMissing(t *testing.T) {
	nodes := func(all ...resource.Vector) capacity {
		c := capacity{nodes: all}
		for _, n := range all {
			for k, x := range n {
				c.largest[k] = max(c.largest[k], x)
			}
		}
		return c
	}
	busy := func(closed int, rooms ...resource.Vector) capacity {
		c := nodes(slices.Repeat([]resource.Vector{{4, 1000}}, len(rooms)+closed)...)
		c.rooms, c.closed = rooms, closed
		return c
	}
	for _, tt := range []struct {
		name string
		all  capacity
		need resource.Vector
		want string
	}{
		{"no node", nodes(), resource.Vector{1}, "no node of the pool reports"},
		{"busy", busy(0, resource.Vector{1 - 0.9, 100}, resource.Vector{0.0625, 200}), resource.Vector{0.6, 100}, "no node has room: not enough cpus on 2 of 2 nodes (it needs 0.6 cpus, at most 0.1 cpus are free)"},
		{"one takes no more", busy(1, resource.Vector{4, 10}, resource.Vector{0, 70}), resource.Vector{1, 64},
			"no node has room: not enough cpus on 1 of 3 nodes (it needs 1 cpus, at most 4 cpus are free), not enough mem on 1 of 3 nodes (it needs 64 MB of memory, at most 70 MB of memory are free), no more instances on 1 of 3 nodes, which drain or rejected a start"},
		{"room since then", busy(0, resource.Vector{4, 100}), resource.Vector{1, 64}, "no node had room at the last attempt"},
		{"cpus", nodes(resource.Vector{4, 100}), resource.Vector{8, 100}, "no node can hold it: it needs 8 cpus, the largest has 4 cpus"},
		{"two kinds", nodes(resource.Vector{4, 100}), resource.Vector{8, 200}, "no node can hold it: it needs 8 cpus, the largest has 4 cpus, and 200 MB of memory, the largest has 100 MB of memory"},
		{"none has all", nodes(resource.Vector{4, 100}, resource.Vector{1, 500}), resource.Vector{4, 500}, "no node can hold it: no node has all of cpus=4 mem=500"},
	} {
		if got := tt.all.whyNot(tt.need); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestRejectedStartHasItsReason(t *testing.T) {
	w := newWorld(t)
	w.app(1, "v1")
	w.node("a", false)
	w.start("v1", 0)
	w.expect("placed", "start web/0 on a")
	w.c.started(w.now, w.did[0].instance, Rejected, "no space left on device")
	p := w.c.pending()
	if p.Total != 0 || len(p.Rejected) != 1 || !strings.HasSuffix(p.Rejected[0].Why, "no space left on device") {
		t.Errorf("pending: %+v, want one rejected copy", p)
	}
}

func TestWaitingStartsAreThoseThatThePlacerTriesAgain(t *testing.T) {
	waits := func(indices ...int) []api.WaitingStart {
		return []api.WaitingStart{{App: "web", Version: "v1", Indices: indices}}
	}
	for _, tt := range []struct {
		name string
		run  func(w *world)
		want []api.WaitingStart
	}{
		{"no room", func(*world) {}, waits(4, 5)},
		{"rejected by a node", func(w *world) {
			for _, a := range w.did {
				if a.index == 2 {
					w.c.started(w.now, a.instance, Rejected, "no space left on device")
				}
			}
			w.now = w.now.Add(time.Second)
		}, waits(2, 4, 5)},
		{"a package that is not staged", func(w *world) {
			w.row(func(row *api.App) { row.Instances, row.Package = 6, api.PackagePending })
		}, nil},
		{"another version", func(w *world) { w.app(6, "v2") }, nil},
		{"fewer instances", func(w *world) { w.app(5, "v1") }, waits(4)},
		{"an index beyond the instances", func(w *world) { w.start("v1", 9) }, waits(4, 5)},
		{"a node with room", func(w *world) { w.node("b", false) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.app(6, "v1")
			w.node("a", false)
			w.start("v1", 0, 1, 2, 3, 4, 5)
			w.did = w.c.act(w.now)
			tt.run(w)
			w.c.act(w.now)
			if diff := cmp.Diff(tt.want, waitingStarts(w.c)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A start that waited for long without a nudge is held as long as one with a nudge, when its row does not want it for a moment.
func TestWaitingStartOutlastsAMomentOfItsRow(t *testing.T) {
	w := newWorld(t)
	staged := func(state api.PackageState) {
		w.row(func(row *api.App) { row.Package = state })
		w.c.act(w.now)
	}
	staged(api.PackageStaged)
	w.start("v1", 0)
	for range 20 {
		w.c.act(w.now)
		w.now = w.now.Add(10 * time.Second)
	}
	staged(api.PackagePending)
	w.now = w.now.Add(15 * time.Second)
	staged(api.PackagePending)
	staged(api.PackageStaged)
	if got := waitingStarts(w.c); len(got) != 1 {
		t.Errorf("waiting: %+v, want the start", got)
	}
}
