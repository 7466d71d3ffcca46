package schedulertest

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/resource"
)

// TestRunNodes runs the kit over a scheduler of nodes with behaviour: it places tasks, evicts those of cordoned nodes, and reports nothing
// while its cluster is away.
func TestRunNodes(t *testing.T) {
	RunNodes(t, func(t *testing.T) NodeSite {
		s := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
		f := &fakeScheduler{
			nc: bustest.Connect(t, s.ClientURL()), nodes: map[string]*fakeNode{"n1": {}, "n2": {}}, tasks: map[string]*fakeTask{}, dirty: make(chan struct{}, 1),
		}
		f.serve(t)
		return NodeSite{Site: Site{Conn: bustest.Connect(t, s.ClientURL()), Cluster: "c", Pool: "p"}, Start: f.start, Stop: f.stop, Where: f.where, Cordon: f.cordonByPerson, Away: f.setAway}
	})
}

// fakePeriod is short, so that the tests end soon.
const fakePeriod = 300 * time.Millisecond

var fakeSize = resource.Vector{2, 1000, 1000}

// fakeScheduler is a scheduler without rows, with its cluster in memory.
type fakeScheduler struct {
	nc    *nats.Conn
	dirty chan struct{} // holds a token if all is to be published now

	mu    sync.Mutex
	nodes map[string]*fakeNode
	tasks map[string]*fakeTask
	away  bool
}

type fakeNode struct {
	ours, person  bool // cordoned
	epoch, number uint64
}

type fakeTask struct {
	size  resource.Vector
	node  string // empty: it waits
	since time.Time
}

func (f *fakeScheduler) serve(t *testing.T) {
	t.Helper()
	bustest.Subscribe(t, f.nc, message.AnnounceSubject("c"), func(*nats.Msg) { f.change(func() {}) })
	bustest.Subscribe(t, f.nc, names.Subject("c", "agent", "p", "*", wire.OpCordon), func(m *nats.Msg) {
		_ = call.Respond(m, f.nc.MaxPayload(), nil, f.cordon(strings.Split(m.Subject, ".")[4], m))
	})
	bustest.Subscribe(t, f.nc, names.Subject("c", "placer", "p", "pending"), func(m *nats.Msg) {
		_ = call.Respond(m, f.nc.MaxPayload(), f.pending(), nil)
	})
	ended := make(chan struct{})
	var wg sync.WaitGroup
	t.Cleanup(func() { close(ended); wg.Wait() })
	wg.Go(func() {
		tick := time.NewTicker(fakePeriod)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			case <-f.dirty:
			}
			f.publish()
		}
	})
}

// change changes the cluster, places what waits, and publishes the result.
func (f *fakeScheduler) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	for _, task := range slices.Sorted(maps.Keys(f.tasks)) {
		f.placeLocked(f.tasks[task])
	}
	select {
	case f.dirty <- struct{}{}:
	default:
	}
}

// placeLocked evicts a task of a node that drains, and gives a task that waits a node with room.
func (f *fakeScheduler) placeLocked(task *fakeTask) {
	if n := f.nodes[task.node]; n != nil && n.ours {
		task.node, task.since = "", time.Now()
	}
	for _, id := range slices.Sorted(maps.Keys(f.nodes)) {
		if n := f.nodes[id]; task.node == "" && !n.ours && !n.person && task.size.Fits(fakeSize.Sub(f.usedLocked(id))) {
			task.node = id
		}
	}
}

func (f *fakeScheduler) usedLocked(node string) (used resource.Vector) {
	for _, task := range f.tasks {
		if task.node == node {
			used = used.Add(task.size)
		}
	}
	return used
}

func (f *fakeScheduler) start(task string, size resource.Vector) error {
	f.change(func() { f.tasks[task] = &fakeTask{size: size, since: time.Now()} })
	return nil
}

func (f *fakeScheduler) stop(task string) error {
	f.change(func() { delete(f.tasks, task) })
	return nil
}

func (f *fakeScheduler) where(task string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.tasks[task]; one != nil {
		return one.node
	}
	return ""
}

func (f *fakeScheduler) cordonByPerson(node string, on bool) error {
	f.change(func() { f.nodes[node].person = on })
	return nil
}

func (f *fakeScheduler) setAway(away bool) { f.change(func() { f.away = away }) }

// cordon answers a cordon of Weirkeeper.
func (f *fakeScheduler) cordon(node string, m *nats.Msg) (err error) {
	var r wire.CordonRequest
	if err := call.Decode(m.Data, wire.MaxRequest, &r); err != nil {
		return err
	}
	epoch, err1 := strconv.ParseUint(m.Header.Get(wire.HeaderEpoch), 10, 64)
	number, err2 := strconv.ParseUint(m.Header.Get(wire.HeaderNumber), 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return call.Invalid("%v", err)
	}
	f.change(func() {
		n := f.nodes[node]
		switch {
		case f.away:
			err = &call.Error{Code: wire.CodeBusy, Message: "the cluster is away"}
		case n == nil:
			err = call.Invalid("no such node")
		case epoch < n.epoch || epoch == n.epoch && number < n.number:
			err = &call.Error{Code: wire.CodeLate, Message: "a later request was accepted"}
		default:
			n.epoch, n.number, n.ours = epoch, number, r.On
		}
	})
	return err
}

func (f *fakeScheduler) stateLocked() api.SchedulerState {
	s := api.SchedulerState{Pool: "p", Kind: "fake", Fresh: !f.away, AsOf: time.Now().UTC(), Period: fakePeriod, Nodes: len(f.nodes), Accepts: []string{api.AcceptsReason, api.AcceptsDeadline}}
	if f.away {
		s.Why = "the cluster does not respond"
	}
	return s
}

func (f *fakeScheduler) pending() api.Pending {
	f.mu.Lock()
	defer f.mu.Unlock()
	state := f.stateLocked()
	p := api.Pending{Copies: []api.PendingCopy{}, State: &state}
	for name, task := range f.tasks {
		if task.node == "" {
			p.Total++
			p.Resources = p.Resources.Add(task.size)
			p.Copies = append(p.Copies, api.PendingCopy{App: name, Footprint: task.size, Since: task.since, Why: "no node has room"})
		}
	}
	return p
}

// publish publishes what the scheduler has: without its cluster only its state.
func (f *fakeScheduler) publish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	send := func(subject string, v any) {
		if data, err := json.Marshal(v); err == nil {
			_ = f.nc.Publish(subject, data) // fails only after the test
		}
	}
	for id, n := range f.nodes {
		if f.away {
			break
		}
		node := message.Node{Pool: "p", Name: id}
		facts := api.NodeFacts{
			ID: id, Pool: "p", BootID: "b", Resources: fakeSize, Allocated: f.usedLocked(id), Draining: n.ours || n.person, SafeToEvict: true, Heartbeat: fakePeriod, At: time.Now().UTC(),
		}
		if n.person && !n.ours {
			facts.CordonedBy = api.CordonedByOther
		}
		for _, task := range f.tasks {
			if task.node == id {
				facts.Tasks++
			}
		}
		send(message.FactsSubject("c", node), facts)
		send(message.HeartbeatSubject("c", node), api.Heartbeat{Node: id, Beats: []api.Beat{}})
	}
	send(message.StateSubject("c", "p"), f.stateLocked())
}
