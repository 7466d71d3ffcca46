package drain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

var (
	errCrash   = errors.New("the process is dead")
	errNoStore = errors.New("connection refused")
	errNoAgent = errors.New("no agent of that node")
)

// fault is an injected failure of a call.
type fault string

const (
	dies       fault = "dies before"      // the process dies before the effect of the call.
	diesAfter  fault = "dies after"       // the process dies before it receives the response.
	fails      fault = "fails"            // the call has no effect.
	answerLost fault = "loses its answer" // the call has its effect, and returns an error.
)

// world is a pool of one group in memory, with a scheduler and a store of records. It outlives
// machines. Each call of a machine goes through world.call.
type world struct {
	t     testing.TB
	group *cloud.Group
	now   time.Time
	wrong time.Duration // by how much the machine's clock is ahead

	mayLose map[string]bool // nodes that may be terminated with tasks
	nodes   int             // initial number
	ordered bool            // a replacement was requested

	mu       sync.Mutex
	stored   map[string][]byte // records, as JSON
	tasks    map[string]int
	cordoned map[string]bool
	facts    map[string]bool // nodes that have joined; the others are orphans
	silent   map[string]bool // nodes that have joined and send no facts

	repairedAt []pools.InPlaceRepair                            // of all calls of RepairInPlace
	repairFunc func(pools.InPlaceRepair) (done bool, err error) // nil: call the group

	calls  []string         // "cordon i-1", in order of effect
	unsafe []string         // nodes that were terminated with tasks, or without their record as terminating
	fail   map[string]error // by call
	faults map[int]fault    // by number of the call, from 1
	begun  int
	dead   bool // until the next open
}

func newWorld(t testing.TB, nodes int) *world { return newLagging(t, nodes, 0) }

// newLagging returns a world in which that many reads do not show changes of others.
func newLagging(t testing.TB, nodes, lag int) *world {
	w := &world{
		t: t, now: start, nodes: nodes,
		group:    cloud.New(cloud.Config{ID: "a", Target: nodes, Leave: 90 * time.Second, Lag: lag, Boot: 90 * time.Second}, start),
		stored:   map[string][]byte{},
		tasks:    map[string]int{},
		cordoned: map[string]bool{},
		facts:    map[string]bool{},
		silent:   map[string]bool{},
		mayLose:  map[string]bool{},
		fail:     map[string]error{},
		faults:   map[int]fault{},
	}
	for _, i := range w.snapshot().Instances {
		w.facts[i.ID] = true
	}
	return w
}

// call carries out effect, unless a fault is injected.
func (w *world) call(name string, effect func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return errCrash
	}
	w.begun++
	if err := w.fail[name]; err != nil {
		return err
	}
	switch w.faults[w.begun] {
	case dies:
		w.dead = true
		return errCrash
	case fails:
		return errNoStore
	}
	if err := effect(); err != nil {
		return err
	}
	w.calls = append(w.calls, name)
	switch w.faults[w.begun] {
	case diesAfter:
		w.dead = true
		return errCrash
	case answerLost:
		return context.DeadlineExceeded
	}
	return nil
}

func (w *world) Load(context.Context) ([]api.Drain, error) {
	var records []api.Drain
	for _, node := range slices.Sorted(maps.Keys(w.stored)) {
		var r api.Drain
		if err := json.Unmarshal(w.stored[node], &r); err != nil {
			r = api.Drain{Node: node, Why: err.Error()}
		}
		records = append(records, r)
	}
	return records, nil
}

func (w *world) Put(_ context.Context, r api.Drain) error {
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
	return w.call(name+node, func() error {
		if !w.facts[node] || w.silent[node] || w.group.Boot(node) == "" {
			return errNoAgent
		}
		w.cordoned[node] = on
		return nil
	})
}

func (w *world) Terminate(ctx context.Context, group string, ids []string) error {
	if group != w.group.ID() || len(ids) != 1 {
		w.t.Errorf("Terminate(%s, %v)", group, ids)
	}
	return w.call("terminate "+ids[0], func() error {
		if err := w.group.Terminate(ctx, ids); err != nil {
			return err
		}
		var stored api.Drain
		if err := json.Unmarshal(w.stored[ids[0]], &stored); err != nil || stored.State != api.DrainTerminating {
			w.unsafe = append(w.unsafe, fmt.Sprintf("%s with the record %q", ids[0], stored.State))
		}
		ended := w.group.Log()
		if len(ended[len(ended)-1].Ended) > 0 && w.facts[ids[0]] && !w.mayLose[ids[0]] && (w.tasks[ids[0]] > 0 || !w.cordoned[ids[0]]) {
			w.unsafe = append(w.unsafe, ids[0])
		}
		return nil
	})
}

func (w *world) RepairInPlace(ctx context.Context, group string, m pools.InPlaceRepair) (done bool, err error) {
	if group != w.group.ID() {
		w.t.Errorf("repair in place(%s, %+v)", group, m)
	}
	err = w.call("mend "+m.Instance, func() error {
		w.repairedAt = append(w.repairedAt, m)
		if w.repairFunc != nil {
			done, err = w.repairFunc(m)
			return err
		}
		done, err = w.group.RepairInPlace(ctx, m)
		return err
	})
	return done, err
}

func (w *world) snapshot() pools.GroupSnapshot {
	w.t.Helper()
	s, err := w.group.Snapshot(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// open starts a new process with the stored records.
func (w *world) open(config drain.Config) *drain.Machine {
	w.t.Helper()
	w.dead = false
	w.group = w.group.Other()
	m, err := drain.Open(context.Background(), config, drain.Ports{Records: w, Scheduler: w, Groups: w, Repairers: w})
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// clock returns the time of the machine's clock.
func (w *world) clock() time.Time { return w.now.Add(w.wrong) }

// snapshots returns the snapshots of a tick for all nodes in the store.
func (w *world) snapshots() map[string]drain.NodeSnapshot {
	snapshots := make(map[string]drain.NodeSnapshot)
	for id := range w.stored {
		snapshots[id] = drain.NodeSnapshot{Instance: drain.Absent, At: w.clock()}
	}
	s := w.snapshot()
	for _, i := range s.Instances {
		v := drain.NodeSnapshot{
			Instance: drain.Present, At: w.clock(), Protected: i.Protected, Busy: s.Busy, Node: api.NodeOrphaned,
			Replaced: w.ordered && len(s.Instances) > w.nodes,
		}
		if i.State == api.InstanceTerminating {
			v.Instance = drain.Ending
		}
		switch {
		case w.silent[i.ID], w.group.Boot(i.ID) == "":
			v.Node = api.NodeUnknown
		case w.facts[i.ID]:
			v.Node, v.FactsAt, v.Cordoned, v.Tasks = api.NodeIdle, w.clock(), w.cordoned[i.ID], w.tasks[i.ID]
			v.BootID = w.group.Boot(i.ID)
			if v.Tasks > 0 {
				v.Node = api.NodeRunning
			}
		}
		snapshots[i.ID] = v
	}
	return snapshots
}

// pass advances the time by a minute, in which each cordoned node loses a task.
func (w *world) pass() {
	w.now = w.now.Add(time.Minute)
	w.group.Advance(w.now)
	for id, n := range w.tasks {
		if w.cordoned[id] {
			w.tasks[id] = max(0, n-1)
		}
	}
}

// tick advances the time by a minute, and then the machine.
func (w *world) tick(m *drain.Machine) ([]drain.Event, error) {
	w.pass()
	return w.advance(m)
}

// advance advances the machine, and checks that an idle one calls no port.
func (w *world) advance(m *drain.Machine) ([]drain.Event, error) {
	w.t.Helper()
	snapshots, begun := w.snapshots(), w.begun
	idle := m.Idle(w.clock(), snapshots)
	if w.begun != begun {
		w.t.Errorf("Idle called %d ports", w.begun-begun)
	}
	events, err := m.Advance(context.Background(), w.clock(), snapshots)
	if idle && (w.begun != begun || len(events) > 0) {
		w.t.Errorf("the machine was idle, and Advance called %d ports: %v, %v", w.begun-begun, events, err)
	}
	return events, err
}

// order requests a replacement in addition to the existing nodes.
func (w *world) order() {
	if err := w.group.SetTarget(context.Background(), w.nodes+1); err != nil {
		w.t.Fatal(err)
	}
	w.ordered = true
	for _, i := range w.snapshot().Instances {
		w.facts[i.ID] = true
	}
}

// repairs returns the number of repairs in place that the provider has begun.
func (w *world) repairs() (n int) {
	for _, write := range w.group.Log() {
		if write.Began {
			n++
		}
	}
	return n
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

// audit returns the mistakes in the provider's log and in the final pool: an instance that was
// terminated twice, a target that was lowered by too much, a node that is neither gone nor in
// service.
func (w *world) audit() []string {
	var wrong []string
	ended, lowered := map[string]int{}, 0
	for _, write := range w.group.Log() {
		if write.Op != cloud.Terminate {
			continue
		}
		lowered += write.Before - write.After
		for _, id := range write.Ended {
			ended[id]++
		}
	}
	for id, n := range ended {
		if n > 1 {
			wrong = append(wrong, fmt.Sprintf("%s was ended %d times", id, n))
		}
	}
	if lowered != len(ended) {
		wrong = append(wrong, fmt.Sprintf("the target was lowered by %d for %d of weight 1", lowered, len(ended)))
	}
	for node, data := range w.stored {
		wrong = append(wrong, fmt.Sprintf("%s has a record left: %s", node, data))
	}
	s := w.group.Other()
	now, err := s.Snapshot(context.Background())
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	for _, i := range now.Instances {
		if i.State != api.InstanceRunning || w.cordoned[i.ID] {
			wrong = append(wrong, fmt.Sprintf("%s is %s, cordoned %t", i.ID, i.State, w.cordoned[i.ID]))
		}
	}
	if now.Fulfilled() != float64(now.Target) {
		wrong = append(wrong, fmt.Sprintf("weight %v for a target of %d", now.Fulfilled(), now.Target))
	}
	return wrong
}
