package placer

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/agent/forgertest"
	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/resource"
)

// cluster is a harmonizer's machine and a placer's core, with nodes that carry out what the placer requests.
type cluster struct {
	*testing.T
	m       *apps.Machine
	c       *core
	now     time.Time
	rows    []api.App
	nodes   map[string]map[string]api.Beat // node -> instance -> copy
	started int
	stopped int
}

const evil = "evil"

func newCluster(t *testing.T, appsOf, nodes int) *cluster {
	cfg := apps.Config{Places: true}.WithDefaults()
	cl := &cluster{
		T: t, m: apps.NewMachine(cfg), c: newCore(Config{Cluster: "c", Pool: "p"}.WithDefaults(), "seed"),
		now: time.Unix(1_800_000_000, 0), nodes: map[string]map[string]api.Beat{evil: {}},
	}
	for i := range nodes {
		cl.nodes[fmt.Sprintf("n%d", i)] = map[string]api.Beat{}
	}
	for i := range appsOf {
		row := api.App{Name: fmt.Sprintf("app%d", i), Pool: "p", Version: "v1", Instances: 3, Command: "run", CPUs: 0.1,
			State: api.AppStarted, Package: api.PackageStaged}
		cl.rows = append(cl.rows, row)
		cl.c.app(row)
	}
	cl.c.places.adopting = false
	cl.c.loaded()
	cl.step(apps.BusUp{})
	cl.step(apps.Lead{})
	cl.step(apps.ExpectedRows{Rows: cl.rows})
	cl.step(apps.ExpectedComplete{})
	return cl
}

// step passes an event to the harmonizer, and its nudges to the placer.
func (cl *cluster) step(ev apps.Event) {
	nudges, _ := cl.m.Step(cl.now, ev)
	for _, n := range nudges {
		if n.Start != nil {
			cl.c.start(cl.now, *n.Start)
		} else {
			cl.c.stop(cl.now, *n.Stop)
		}
	}
	for pool, copies := range cl.m.TakeUnplaced() {
		if pool != "p" {
			continue
		}
		a := cl.c.places.answer(copies)
		cl.step(apps.Placed{Pool: pool, Placed: a.Placed, NotPlaced: a.NotPlaced})
	}
}

// second lets a second pass: the nodes carry out the requests and report, and the forger sends a wrong statement.
func (cl *cluster) second(forge func()) {
	cl.now = cl.now.Add(time.Second)
	for _, a := range cl.c.act(cl.now) {
		if a.stop {
			cl.stopped++
			delete(cl.nodes[a.node], a.instance)
			cl.exit(a.node, api.Exited{App: a.app, Version: a.version, Instance: a.instance, Index: a.index, Reason: api.ExitStopped})
			continue
		}
		cl.started++
		cl.nodes[a.node][a.instance] = api.Beat{App: a.app, Version: a.version, Instance: a.instance, Index: a.index,
			State: api.CopyRunning, Since: float64(cl.now.Unix())}
		cl.c.started(cl.now, a.instance, Accepted, "")
	}
	if cl.now.Unix()%5 == 0 {
		for node, copies := range cl.nodes {
			if node == evil && forge != nil {
				continue
			}
			h := api.Heartbeat{Node: node, Beats: []api.Beat{}}
			for _, b := range copies {
				h.Beats = append(h.Beats, b)
			}
			slices.SortFunc(h.Beats, func(a, b api.Beat) int { return strings.Compare(a.Instance, b.Instance) })
			cl.facts(api.NodeFacts{ID: node, Pool: "p", BootID: "b", Resources: resource.Vector{8}, Draining: node == evil})
			cl.heartbeat(node, h)
		}
	}
	if forge != nil {
		forge()
	}
	cl.step(apps.Tick{})
}

func (cl *cluster) facts(f api.NodeFacts) {
	cl.c.nodeFacts(cl.now, f)
}

func (cl *cluster) heartbeat(node string, h api.Heartbeat) {
	h.Beats = append([]api.Beat{}, h.Beats...) // a node without copies sends a list
	data, err := json.Marshal(h)
	if err != nil {
		cl.Fatal(err)
	}
	cl.raw(node, data)
}

// raw delivers a heartbeat as it is, as the buses of the placer and the harmonizer do.
func (cl *cluster) raw(node string, data []byte) {
	cl.step(apps.Heartbeat{Node: message.Node{Pool: "p", Name: node}, Data: data})
	h, err := message.DecodeHeartbeat(data)
	if _, part := errors.AsType[*message.UnreadError](err); err != nil && !part {
		h = api.Heartbeat{Node: node}
	}
	if h.Node == node {
		cl.c.heartbeat(cl.now, Heartbeat{Heartbeat: h, Unread: err})
		cl.c.foreign = nil
	}
}

func (cl *cluster) exit(node string, e api.Exited) {
	cl.step(apps.Exit{Node: message.Node{Pool: "p", Name: node}, Exited: e})
	p := Placer{core: cl.c, cfg: cl.c.cfg, log: slog.New(slog.DiscardHandler)}
	Exit{Node: node, Exited: e}.apply(&p, cl.now)
}

// forge delivers wrong statements of the forger, as the buses of the placer and the harmonizer do.
func (cl *cluster) forge(r *rand.Rand) {
	n := forgertest.Node{
		Cluster: "c", Node: message.Node{Pool: "p", Name: evil},
		Resources: []resource.Vector{{}, {8, 1e12}, {1e12, 1e12}}, Allocated: []resource.Vector{{}, {1e12}},
	}
	for _, node := range slices.Sorted(maps.Keys(cl.nodes)) {
		if node == evil {
			continue
		}
		n.Others = append(n.Others, node)
		for _, instance := range slices.Sorted(maps.Keys(cl.nodes[node])) {
			n.Copies = append(n.Copies, cl.nodes[node][instance])
		}
	}
	for _, m := range n.Round(r, cl.now) {
		if len(m.Data) > message.MaxNodeMessage {
			continue // the inbox drops it
		}
		switch node, subject := message.OfNode(m.Subject); subject {
		case message.SubjectHeartbeat:
			cl.raw(node.Name, m.Data)
		case message.SubjectExited:
			if e, err := message.DecodeExited(node, m.Data); err == nil {
				cl.exit(node.Name, e)
			}
		case message.SubjectFacts:
			if f, err := wire.FactsOf(node, m.Data); err == nil {
				cl.facts(f)
			}
		}
	}
}

// An agent with a key of its own sends every wrong statement beside a healthy cluster of 40 apps. No copy of another node is started
// or stopped, each index stays served, memory stays within a bound, and the status names the node first.
func TestForgerChangesNothing(t *testing.T) {
	if testprograms.WithoutRace(t, "placer") {
		return
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 7))
			cl := newCluster(t, 40, 8)
			for range 120 {
				cl.second(nil)
			}
			if cl.started != 120 || cl.stopped != 0 {
				t.Fatalf("%d starts and %d stops, want 120 and none", cl.started, cl.stopped)
			}
			before := memory()
			for range 900 {
				cl.second(func() { cl.forge(r) })
				if cl.started != 120 || cl.stopped != 0 {
					t.Fatalf("%v: %d starts and %d stops of copies, want none", cl.now, cl.started-120, cl.stopped)
				}
			}
			counts := cl.m.View().Counts(cl.now, "p")
			for _, row := range cl.rows {
				if a := counts.Apps[row.Name]; a.Running != 3 || a.Missing+a.Crashed+a.Flapping+a.Extra != 0 {
					t.Errorf("app %s: %+v, want 3 running", row.Name, a)
				}
			}
			if !counts.Complete {
				t.Errorf("the counts are incomplete: %s", counts.Why)
			}
			wrong := cl.m.View().WrongSenders()
			if len(wrong) == 0 || slices.ContainsFunc(wrong, func(w api.WrongSender) bool { return w.Node != evil }) {
				t.Errorf("wrong senders %v, want %s only", wrong, evil)
			}
			if grown := memory() - before; grown > 64<<20 {
				t.Errorf("memory grew by %d MiB, want at most 64", grown>>20)
			}
			runtime.KeepAlive(cl)
		})
	}
}

// memory returns the bytes that are in use.
func memory() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// An agent states any allocation within the size of its machine. It gets no more copies than the machine holds, also from the next
// placer, and it keeps no copy from the other nodes.
func TestLiarGetsNoMoreThanItsMachineHolds(t *testing.T) {
	const size, wanted = 4, 20
	for seed := range uint64(20) {
		r, w := rand.New(rand.NewPCG(seed, 3)), newWorld(t)
		on := map[string]map[string]api.Beat{evil: {}, "good": {}}
		var saved []Assignments
		report := func() {
			for _, node := range slices.Sorted(maps.Keys(on)) {
				h := api.Heartbeat{Node: node, Beats: slices.Collect(maps.Values(on[node]))}
				f := api.NodeFacts{ID: node, Pool: "p", BootID: "b", Resources: resource.Vector{size}, Tasks: len(h.Beats), Allocated: resource.Vector{float64(len(h.Beats))}}
				if node == evil {
					f.Allocated, f.Tasks = resource.Vector{float64(r.IntN(2*size)) / 2}, r.IntN(size)
				}
				w.c.nodeFacts(w.now, f)
				w.c.heartbeat(w.now, Heartbeat{Heartbeat: h})
			}
		}
		w.app(wanted, "v1")
		report()
		for i := range wanted {
			w.start("v1", i)
		}
		for range 60 {
			w.now = w.now.Add(time.Second)
			for _, a := range w.c.act(w.now) {
				on[a.node][a.instance] = api.Beat{App: a.app, Version: a.version, Index: a.index, Instance: a.instance, State: api.CopyRunning}
				w.c.started(w.now, a.instance, Accepted, "")
			}
			if len(on[evil]) > size || len(on["good"]) > size {
				t.Fatalf("seed %d: %d copies on the liar, %d on the other node, want at most %d", seed, len(on[evil]), len(on["good"]), size)
			}
			report()
			switch r.IntN(6) {
			case 0: // a copy of it ends, and is wanted again
				for instance, b := range on[evil] {
					delete(on[evil], instance)
					w.c.exited(w.now, api.Exited{App: b.App, Version: b.Version, Index: b.Index, Instance: instance, Reason: api.ExitCrashed})
					w.start("v1", b.Index)
					break
				}
			case 1:
				if changed := (durable{w.c}).takeChanged(); changed != nil {
					saved = changed
				}
				w.takeOver(saved...)
				w.app(wanted, "v1")
				w.c.loaded()
				report()
			}
		}
		if len(on["good"]) != size {
			t.Errorf("seed %d: %d copies on the other node, want %d", seed, len(on["good"]), size)
		}
	}
}
