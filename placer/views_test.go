package placer

import (
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/resource"
)

// checkViews compares the kept views and the kept answer with new ones.
func (s *sim) checkViews() {
	q := api.PlacesQuestion{Most: 5, Kinds: []api.PlacesKind{{Group: "g", Resources: offer(), Weight: 1, Room: 3}}}
	if ids := slices.Sorted(maps.Keys(s.c.nodes)); len(ids) > 0 {
		q.Gone, q.Leave = ids[:1], ids[1:]
	}
	p, text := packer{s.c}, fmt.Sprint(q)
	kept := p.places(s.now, q, text)
	views := map[string]view{}
	for id, n := range s.c.nodes {
		p.view(n)
		views[id], n.view = n.view, view{}
	}
	s.c.last = answered{}
	if fresh := p.places(s.now, q, text); !reflect.DeepEqual(kept, fresh) {
		s.t.Fatalf("kept answer %+v, want %+v", kept, fresh)
	}
	for id, n := range s.c.nodes {
		p.view(n)
		if kept := views[id]; fmt.Sprint(kept.Node) != fmt.Sprint(n.view.Node) {
			s.t.Fatalf("kept view %+v, want %+v", kept.Node, n.view.Node)
		}
	}
}

// places returns the answer to a question.
func (w *world) places(q api.PlacesQuestion) api.Places {
	w.t.Helper()
	a := packer{w.c}.places(w.now, q, fmt.Sprint(q))
	if err := a.Validate(q); err != nil {
		w.t.Error(err)
	}
	return a
}

func TestPlacesOfThePool(t *testing.T) {
	kind := api.PlacesKind{Group: "g", Resources: resource.Vector{4}, Weight: 1, Room: 9}
	for _, tt := range []struct {
		name string
		run  func(w *world)
		q    api.PlacesQuestion
		want string // waiting, new nodes, leave, stay, back
	}{
		{"nothing", func(*world) {}, api.PlacesQuestion{}, "0 0 [] [] []"},
		{"copies wait", func(w *world) {
			w.app(5, "v1")
			w.node("a", false, "0/x0=RUNNING", "1/x1=RUNNING", "2/x2=RUNNING", "3/x3=RUNNING")
			w.start("v1", 4)
			w.expect("no room")
		}, api.PlacesQuestion{}, "1 1 [] [] []"},
		{"a booked copy does not wait", func(w *world) {
			w.app(1, "v1")
			w.node("a", false)
			w.start("v1", 0)
			w.expect("placed", "start web/0 on a")
		}, api.PlacesQuestion{Leave: []string{"a"}, Most: 1}, "0 0 [] [{a web/0 (cpus=1) has no other place}] []"},
		{"a nudge without a row waits for nothing", func(w *world) {
			w.start("v1", 0)
			w.expect("no row")
		}, api.PlacesQuestion{}, "0 0 [] [] []"},
		{"copies of a node that leaves", func(w *world) {
			w.app(2, "v1")
			w.node("a", false, "0/x=RUNNING", "1/y=RUNNING")
		}, api.PlacesQuestion{Gone: []string{"a"}}, "2 1 [] [] [a]"},
		{"a copy on a draining node counts once", func(w *world) {
			w.app(1, "v1")
			w.node("a", true, "0/x=RUNNING")
			w.expect("no room")
			if len(w.c.wants) != 1 {
				w.t.Errorf("wants %v, want one", w.c.wants)
			}
		}, api.PlacesQuestion{Gone: []string{"a"}}, "1 1 [] [] [a]"},
		{"a draining node that the question does not name", func(w *world) {
			w.app(1, "v1")
			w.node("a", true, "0/x=RUNNING")
		}, api.PlacesQuestion{}, "1 1 [] [] []"},
		{"a replaced copy needs no place", func(w *world) {
			w.app(1, "v1")
			w.node("a", true, "0/x=RUNNING")
			w.node("b", false, "0/y=STARTING")
		}, api.PlacesQuestion{Gone: []string{"a"}}, "0 0 [] [] []"},
		{"undesired copies need no place", func(w *world) {
			w.app(1, "v1")
			w.node("a", false, "1/x=RUNNING")
		}, api.PlacesQuestion{Leave: []string{"a"}, Most: 1}, "0 0 [a] [] []"},
		{"another node has room", func(w *world) {
			w.app(2, "v1")
			w.node("a", false, "0/x=RUNNING")
			w.node("b", false, "1/y=RUNNING")
		}, api.PlacesQuestion{Leave: []string{"a", "b"}, Most: 2}, "0 0 [a] [{b web/1 (cpus=1) has no other place}] []"},
		{"a copy that cannot be started elsewhere", func(w *world) {
			w.row(func(row *api.App) { row.Package = api.PackageFailed })
			w.node("a", false, "0/x=RUNNING")
			w.node("b", false)
		}, api.PlacesQuestion{Leave: []string{"a", "b"}, Most: 2}, "0 0 [b] [{a the expected state of web/0 does not allow to start it elsewhere}] []"},
		{"late nodes stay, and take copies", func(w *world) {
			w.app(1, "v1")
			w.node("a", false)
			w.now = w.now.Add(16 * time.Second)
			w.node("b", false, "0/x=RUNNING")
		}, api.PlacesQuestion{Leave: []string{"a", "b"}, Most: 2}, "0 0 [b] [{a its latest heartbeat is late}] []"},
		{"a node with tasks that no heartbeat lists", func(w *world) {
			w.node("a", false)
			w.node("b", false)
			f := w.c.nodes["b"].facts
			f.Tasks, f.BatchTasks = 2, 1
			w.c.nodeFacts(w.now, f)
		}, api.PlacesQuestion{Leave: []string{"a", "b"}, Most: 2},
			"0 0 [a] [{b it runs tasks that the scheduler has not received or not placed}] []"},
		{"silent nodes take no copy", func(w *world) {
			w.app(1, "v1")
			w.node("a", false)
			w.now = w.now.Add(26 * time.Second)
			w.node("b", false, "0/x=RUNNING")
		}, api.PlacesQuestion{Leave: []string{"b"}, Most: 2}, "0 0 [] [{b web/0 (cpus=1) has no other place}] []"},
		{"a node with a longer period is not late", func(w *world) {
			w.node("a", false)
			f := w.c.nodes["a"].facts
			f.Heartbeat = 30 * time.Second
			w.c.nodeFacts(w.now, f)
			w.now = w.now.Add(40 * time.Second)
		}, api.PlacesQuestion{Leave: []string{"a"}, Most: 2}, "0 0 [a] [] []"},
		{"a node that refused a start takes no copy", func(w *world) {
			w.app(2, "v1")
			w.node("a", false, "1/y=RUNNING")
			w.node("b", false)
			w.start("v1", 0)
			w.expect("placed", "start web/0 on b")
			w.c.started(w.now, w.did[0].instance, Full, "full")
		}, api.PlacesQuestion{Leave: []string{"a"}, Most: 1}, "0 0 [] [{a web/1 (cpus=1) has no other place}] []"},
		{"unknown nodes", func(*world) {}, api.PlacesQuestion{Leave: []string{"a"}, Most: 1, Gone: []string{"b"}},
			"0 0 [] [{a the scheduler has no facts of it}] []"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			tt.run(w)
			tt.q.Kinds = []api.PlacesKind{kind}
			a := w.places(tt.q)
			nodes := 0
			for _, n := range a.New {
				nodes += n.Nodes
			}
			if got := fmt.Sprint(a.Waiting, nodes, a.Leave, a.Stay, a.Back); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// Copies that only a full node can hold, of an earlier and larger size, count in no sum that orders machines: none of these would hold
// them.
func TestCopiesThatOnlyFullNodesHold(t *testing.T) {
	w := newWorld(t)
	w.node("a", false)
	w.row(func(row *api.App) { row.CPUs, row.Instances = 3, 2 })
	w.start("v1", 0, 1)
	w.expect("one has room", "start web/0 on a")
	for _, tt := range []struct {
		size, waits float64
		why         string
	}{{8, 3, ""}, {2, 0, "; no machine that may be added can hold it"}} {
		w.places(api.PlacesQuestion{Kinds: []api.PlacesKind{{Group: "g", Resources: resource.Vector{tt.size}, Weight: 1, Room: 1}}})
		p := w.c.pending()
		cpus := pendingSamples(p, w.now, "c", "p")[0]
		if want := "no node has room: not enough cpus on 1 of 1 nodes (it needs 3 cpus, at most 1 cpus are free)" + tt.why; cpus.Value != tt.waits || p.Total != 1 || p.Copies[0].Never || p.Copies[0].Why != want {
			t.Errorf("machines of %v cpus: %s is %v, pending %+v: want %v, and why %q", tt.size, cpus.Name, cpus.Value, p, tt.waits, want)
		}
	}
}

// Copies that no machine can hold are named, and count in no sum of what waits.
func TestCopiesThatNothingCanHold(t *testing.T) {
	w := newWorld(t)
	w.node("a", false)
	w.row(func(row *api.App) { row.Name, row.CPUs = "typo", 50 })
	w.row(func(row *api.App) { row.CPUs, row.Instances = 3, 2 })
	w.c.start(w.now, api.Start{App: "typo", Version: "v1", Indices: []int{0}})
	w.start("v1", 0, 1)
	w.expect("one has room", "start web/0 on a")
	waits := func() float64 {
		for _, s := range pendingSamples(w.c.pending(), w.now, "c", "p") {
			if s.Type == metrics.System && s.Name == "cpus_pending" {
				return s.Value
			}
		}
		return -1
	}
	if got := waits(); got != 53 || w.c.pending().Sizes != nil {
		t.Errorf("cpus_pending is %v before a question, sizes %v, want 53 and no sizes", got, w.c.pending().Sizes)
	}
	a := w.places(api.PlacesQuestion{Kinds: []api.PlacesKind{{Group: "g", Resources: resource.Vector{8}, Weight: 1, Room: 1}}})
	if a.NeverCopies != 1 || a.Unplaceable != (resource.Vector{50}) || a.Held != (resource.Vector{6}) || a.Waiting != 1 || len(a.New) != 1 {
		t.Errorf("places %+v, want typo never, 6 cpus held, and 1 machine for web/1", a)
	}
	p := w.c.pending()
	if got := waits(); got != 3 || p.Total != 2 || p.Never != (resource.Vector{50}) {
		t.Errorf("cpus_pending is %v, pending %+v, want 3, and 50 that no machine can hold", got, p)
	}
	for _, one := range p.Copies {
		if want := map[string]string{"typo": "it needs 50 cpus, the largest machine (group g) has 8 cpus", "web": "no node has room: not enough cpus on 1 of 1 nodes (it needs 3 cpus, at most 1 cpus are free)"}[one.App]; one.Why != want || one.Never != (one.App == "typo") {
			t.Errorf("%s: never %v, %q, want %q", one.App, one.Never, one.Why, want)
		}
	}
	if want := []api.MachineSize{{Where: "group g", Resources: resource.Vector{8}}, {Where: "node a", Resources: w.c.nodes["a"].facts.Resources}}; !slices.Equal(p.Sizes, want) {
		t.Errorf("sizes %+v, want %+v", p.Sizes, want)
	}
	if got := (packer{w.c}).neverPlaced(w.now); len(got) != 1 || got[0].App != "typo" || got[0].Copies != 1 || got[0].Footprint != (resource.Vector{50}) {
		t.Errorf("no machine can hold %+v, want one copy of typo", got)
	}
	w.places(api.PlacesQuestion{Kinds: []api.PlacesKind{{Group: "g", Resources: resource.Vector{64}, Weight: 1}}})
	if got := w.c.pending(); !got.Never.IsZero() || !strings.Contains(got.Copies[0].Why+got.Copies[1].Why, "a further machine may") {
		t.Errorf("pending %+v, want that a larger machine may hold it", got)
	}
	if got := (packer{w.c}).neverPlaced(w.now); len(got) != 0 {
		t.Errorf("no machine can hold %+v, want none", got)
	}
}

// An answer is made again only after a change.
func TestUnchangedPoolKeepsItsAnswer(t *testing.T) {
	w := newWorld(t)
	w.app(1, "v1")
	w.node("a", false, "0/x=RUNNING")
	w.node("b", false)
	q := api.PlacesQuestion{Leave: []string{"a"}, Most: 1}
	w.places(q)
	made := w.c.last.revision
	w.node("a", false, "0/x=RUNNING")
	w.node("b", false)
	w.app(1, "v1")
	w.expect("nothing to do")
	if w.places(q); w.c.last.revision != made {
		t.Errorf("the answer is of revision %d after equal heartbeats, want %d", w.c.last.revision, made)
	}
	w.c.exited(w.now, api.Exited{Instance: "x"})
	if w.places(q); w.c.last.revision == made {
		t.Error("the answer is kept after a copy has ended")
	}
}

// BenchmarkPlaces answers for a pool of 2000 nodes and 20 000 copies of 1000 apps. The limits are 2 ms without a change, and
// 30 ms after a change of all nodes. A busy machine shows more ms, and about the same cpu_ms.
func BenchmarkPlaces(b *testing.B) {
	for _, bench := range []struct {
		name  string
		limit time.Duration
		most  int
		touch bool
	}{
		{"unchanged", 2 * time.Millisecond, 5, false},
		{"all changed, 5 leave", 30 * time.Millisecond, 5, true},
		{"all changed, 200 leave", 30 * time.Millisecond, 200, true},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c, now, q := poolOf(2000, 10, 1000)
			q.Most = bench.most
			text, before := fmt.Sprint(q), heap()
			packer{c}.places(now, q, text)
			kept := heap() - before
			b.ReportAllocs()
			used := processor()
			for b.Loop() {
				if bench.touch {
					for _, n := range c.nodes {
						n.touch()
					}
					c.rows.revision++
				}
				if a := (packer{c}).places(now, q, text); len(a.Leave) != bench.most {
					b.Fatalf("%d can leave, want %d", len(a.Leave), bench.most)
				}
			}
			took := b.Elapsed() / time.Duration(b.N)
			b.ReportMetric(took.Seconds()*1e3, "ms")
			b.ReportMetric((processor()-used).Seconds()*1e3/float64(b.N), "cpu_ms")
			b.ReportMetric(float64(took)/float64(bench.limit), "x_limit")
			b.ReportMetric(float64(kept)/1e6, "MB_kept")
		})
	}
}

// heap returns the bytes of all living objects.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// poolOf returns a pool whose nodes are half full, and a question with all nodes as candidates.
func poolOf(nodes, copies, apps int) (*core, time.Time, api.PlacesQuestion) {
	now, c := time.Unix(1_000_000, 0), newCore(Config{Cluster: "c", Pool: "p"}.WithDefaults(), "seed")
	q := api.PlacesQuestion{Kinds: []api.PlacesKind{{Group: "g", Resources: resource.Vector{16, 65536}, Weight: 1, Room: 100}}}
	for i := range apps {
		weight := 0.5 + float64(i%97)/97
		c.app(api.App{Name: fmt.Sprint("app", i), Pool: "p", Instances: nodes * copies / apps, Version: "v1", Command: "run", CPUs: weight * 0.8, Mem: weight * 3250})
	}
	c.loaded()
	for i := range nodes {
		id := fmt.Sprintf("i-%017x", i)
		h := api.Heartbeat{Node: id}
		var used resource.Vector
		for j := range copies {
			of := i*copies + j
			one := api.Beat{App: fmt.Sprint("app", of%apps), Version: "v1", Index: of / apps, Instance: fmt.Sprintf("%032x", of), State: api.CopyRunning}
			h.Beats = append(h.Beats, one)
			row := c.rows.apps[one.App]
			used = used.Add(row.Footprint())
		}
		c.nodeFacts(now, api.NodeFacts{ID: id, Pool: "p", BootID: "b", Resources: resource.Vector{16, 65536}, Allocated: used, Tasks: copies})
		c.heartbeat(now, Heartbeat{Heartbeat: h})
		q.Leave = append(q.Leave, id)
	}
	return c, now, q
}
