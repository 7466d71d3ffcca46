package drain_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/memory"
)

var errCrash = errors.New("the process is dead")

// world is a pool of one group in memory, with a scheduler and a store of
// records. It outlives machines. All that a machine does goes through its call.
type world struct {
	t     *testing.T
	group *memory.Group
	now   time.Time

	stored   map[string][]byte // records, as JSON
	tasks    map[string]int
	cordoned map[string]bool
	facts    map[string]bool // nodes that tell of themselves; the others are orphans

	calls      []string         // "cordon i-1", in order, as far as they took effect
	crashAt    int              // number of the call that the process does not survive; 0 is none
	afterwards bool             // it dies after that call had its effect
	fail       map[string]error // by call
	begun      int
}

func newWorld(t *testing.T, nodes int) *world {
	w := &world{
		t: t, now: start,
		group:    memory.New(memory.Config{ID: "a", Target: nodes, Leave: 90 * time.Second}, start),
		stored:   map[string][]byte{},
		tasks:    map[string]int{},
		cordoned: map[string]bool{},
		facts:    map[string]bool{},
		fail:     map[string]error{},
	}
	for _, i := range w.snapshot().Instances {
		w.facts[i.ID] = true
	}
	return w
}

// call takes effect, unless the process dies of it or it is set to fail.
func (w *world) call(name string, effect func() error) error {
	w.begun++
	if err := w.fail[name]; err != nil {
		return err
	}
	crash := w.crashAt > 0 && w.begun >= w.crashAt
	if crash && !(w.afterwards && w.begun == w.crashAt) {
		return errCrash
	}
	if err := effect(); err != nil {
		return err
	}
	w.calls = append(w.calls, name)
	if crash {
		return errCrash
	}
	return nil
}

func (w *world) Load(context.Context) ([]drain.Record, error) {
	var records []drain.Record
	for _, node := range slices.Sorted(maps.Keys(w.stored)) {
		var r drain.Record
		if err := json.Unmarshal(w.stored[node], &r); err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}

func (w *world) Put(_ context.Context, r drain.Record) error {
	return w.call("put "+r.Node+" "+string(r.State), func() (err error) {
		w.stored[r.Node], err = json.Marshal(r)
		return err
	})
}

func (w *world) Delete(_ context.Context, node string) error {
	return w.call("delete "+node, func() error { delete(w.stored, node); return nil })
}

func (w *world) Cordon(_ context.Context, node string, on bool) error {
	name := "uncordon "
	if on {
		name = "cordon "
	}
	return w.call(name+node, func() error { w.cordoned[node] = on; return nil })
}

func (w *world) Terminate(ctx context.Context, group string, ids []string) error {
	if group != w.group.ID() || len(ids) != 1 {
		w.t.Errorf("Terminate(%s, %v)", group, ids)
	}
	return w.call("terminate "+ids[0], func() error { return w.group.Terminate(ctx, ids) })
}

func (w *world) snapshot() pools.GroupSnapshot {
	w.t.Helper()
	s, err := w.group.Snapshot(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// open starts the process anew: it survives from now on.
func (w *world) open(config drain.Config) *drain.Machine {
	w.t.Helper()
	w.crashAt = 0
	m, err := drain.Open(w.t.Context(), config, drain.Ports{Records: w, Scheduler: w, Groups: w})
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// views is what a tick sees of every node that the store knows.
func (w *world) views() map[string]drain.View {
	views := make(map[string]drain.View)
	for id := range w.stored {
		views[id] = drain.View{Instance: drain.Absent, At: w.now}
	}
	for _, i := range w.snapshot().Instances {
		v := drain.View{Instance: drain.Present, At: w.now, Protected: i.Protected, Node: pools.NodeOrphaned}
		if i.State == pools.InstanceTerminating {
			v.Instance = drain.Ending
		}
		if w.facts[i.ID] {
			v.Node, v.FactsAt, v.Cordoned, v.Tasks = pools.NodeIdle, w.now, w.cordoned[i.ID], w.tasks[i.ID]
			if v.Tasks > 0 {
				v.Node = pools.NodeRunning
			}
		}
		views[i.ID] = v
	}
	return views
}

// tick lets a minute pass, in which a cordoned node loses a task, and has the
// machine see the world as it is then.
func (w *world) tick(m *drain.Machine) ([]drain.Event, error) {
	w.now = w.now.Add(time.Minute)
	w.group.Advance(w.now)
	for id, n := range w.tasks {
		if w.cordoned[id] {
			w.tasks[id] = max(0, n-1)
		}
	}
	return m.Advance(w.t.Context(), w.now, w.views())
}

// count returns how often that call took effect.
func (w *world) count(call string) int {
	n := 0
	for _, c := range w.calls {
		if c == call {
			n++
		}
	}
	return n
}
