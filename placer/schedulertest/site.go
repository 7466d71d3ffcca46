package schedulertest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
)

// limit bounds each wait of a test.
const limit = 30 * time.Second

// Site is a running scheduler with its nodes.
type Site struct {
	Conn    *nats.Conn // may publish and receive everything
	Cluster string
	Pool    string
}

// kit is the other side of a scheduler.
type kit struct {
	*testing.T
	Site
	apps   *kvbucket.Bucket
	agents *wire.Client
	nudges int // sent ones

	mu        sync.Mutex
	changed   chan struct{} // closed at the next message
	facts     map[string]api.NodeFacts
	beats     map[string][]api.Beat // by node
	exits     []api.Exited
	confirmed map[string]int // nudge -> confirmations
	bad       []string       // messages that break the protocol
	never     []api.PlacesApp
	state     api.SchedulerState // the latest one of states
	states    int
	gaps      map[string]bool
	watched   string // an index that must have a copy all the time; empty: none
}

func newKit(t *testing.T, s Site) *kit {
	t.Helper()
	k := &kit{
		T: t, Site: s, agents: wire.NewClient(s.Conn, s.Cluster, s.Pool), changed: make(chan struct{}),
		facts: map[string]api.NodeFacts{}, beats: map[string][]api.Beat{}, confirmed: map[string]int{}, gaps: map[string]bool{},
	}
	js, err := bus.JetStream(s.Conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := streams.Create(t.Context(), js, streams.Cluster{Name: s.Cluster}.Specs()); err != nil {
		t.Fatal(err)
	}
	k.apps = kvbucket.New(js, message.AppsBucket(s.Cluster))
	nodes := message.Node{Pool: s.Pool, Name: "*"}
	in, err := bus.Receive(s.Conn, bus.InboxConfig{
		Events: []string{
			message.FactsSubject(s.Cluster, nodes), message.HeartbeatSubject(s.Cluster, nodes), message.ExitedSubject(s.Cluster, nodes),
			message.ConfirmedSubject(s.Cluster, s.Pool), message.NeverSubject(s.Cluster, s.Pool),
			message.StateSubject(s.Cluster, s.Pool),
		},
		Messages: 100_000, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var wg sync.WaitGroup
	t.Cleanup(func() { close(ended); wg.Wait(); in.Close() })
	wg.Go(func() {
		for {
			select {
			case <-ended:
				return
			case m := <-in.Messages():
				k.receive(m)
			}
		}
	})
	k.publish(message.AnnounceSubject(s.Cluster), nil, nil)
	k.until("two nodes report facts and heartbeats", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.facts) >= 2 && len(k.beats) >= 2
	})
	k.until("the scheduler receives messages", func() bool {
		_, err := placerbus.GetPending(k.Context(), k.Conn, k.Cluster, k.Pool)
		return err == nil
	})
	return k
}

// receive stores a message of a node or of the scheduler.
func (k *kit) receive(m *nats.Msg) {
	k.mu.Lock()
	defer k.mu.Unlock()
	node, subject := message.OfNode(m.Subject)
	var err error
	switch subject {
	case message.SubjectFacts:
		var f api.NodeFacts
		if f, err = wire.FactsOf(node, m.Data); err == nil {
			k.facts[node.Name] = f
		}
	case message.SubjectHeartbeat:
		var h api.Heartbeat
		if h, err = message.DecodeHeartbeat(m.Data); err == nil && h.Node != node.Name {
			err = fmt.Errorf("the heartbeat is of node %q", h.Node)
		}
		if err == nil {
			k.beats[node.Name] = h.Beats
			k.watchLocked()
		}
	case message.SubjectExited:
		var e api.Exited
		if e, err = message.DecodeExited(node, m.Data); err == nil {
			k.exits = append(k.exits, e)
		}
	case message.NeverSubject(k.Cluster, k.Pool):
		var n api.NeverPlaced
		if n, err = message.DecodeNever(m.Data); err == nil && n.Pool != k.Pool {
			err = fmt.Errorf("the list is of pool %q", n.Pool)
		}
		k.never = n.Apps
	case message.StateSubject(k.Cluster, k.Pool):
		var s api.SchedulerState
		if s, err = message.DecodeState(k.Pool, m.Data); err == nil {
			k.state, k.states = s, k.states+1
		}
	default:
		var c api.Confirmation
		if c, err = message.DecodeConfirmation(m.Data); err == nil && c.Pool != k.Pool {
			err = fmt.Errorf("the confirmation is of pool %q", c.Pool)
		}
		for _, id := range c.Nudges {
			k.confirmed[id]++
		}
	}
	if err != nil {
		k.bad = append(k.bad, m.Subject+": "+err.Error())
	}
	close(k.changed)
	k.changed = make(chan struct{})
}

// watchLocked notes when the watched index has no running copy.
func (k *kit) watchLocked() {
	if k.watched == "" {
		return
	}
	for _, beats := range k.beats {
		if slices.ContainsFunc(beats, func(b api.Beat) bool { return indexOf(b) == k.watched && b.State != api.CopyStarting }) {
			return
		}
	}
	k.gaps[k.watched] = true
}

func indexOf(b api.Beat) string { return fmt.Sprintf("%s/%d", b.App, b.Index) }

// until waits until ok returns true. It calls ok again after each message.
func (k *kit) until(what string, ok func() bool) {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), limit)
	defer cancel()
	for {
		k.mu.Lock()
		changed := k.changed
		k.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			k.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// publish sends a message; data is a value, or bytes as they are.
func (k *kit) publish(subject string, header nats.Header, data any) {
	k.Helper()
	raw, isRaw := data.([]byte)
	if !isRaw && data != nil {
		var err error
		if raw, err = json.Marshal(data); err != nil {
			k.Fatal(err)
		}
	}
	if err := k.Conn.PublishMsg(&nats.Msg{Subject: subject, Header: header, Data: raw}); err != nil {
		k.Fatal(err)
	}
}

// nudge sends a start or a stop with an id, and returns the id.
func (k *kit) nudge(subject string, data any) (id string) {
	k.Helper()
	k.nudges++
	id = fmt.Sprintf("n%d", k.nudges)
	k.publish(subject, nats.Header{message.HeaderNudge: {id}, message.HeaderKeepAlive: {"30"}}, data)
	return id
}

func (k *kit) awaitConfirmation(id string) {
	k.Helper()
	k.until("nudge "+id+" is confirmed", func() bool { return k.confirmations(id) > 0 })
}

func (k *kit) confirmations(id string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.confirmed[id]
}

// nodes returns the nodes that send heartbeats, in order.
func (k *kit) nodes() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.beats))
}

// app returns the row of an app whose copies run until they are stopped.
func (k *kit) app(name string, instances int) api.App {
	return api.App{Name: name, Pool: k.Pool, Instances: instances, Version: "v1", Command: "exec sleep 100000", CPUs: 1, Mem: 16}
}

// write writes a row.
func (k *kit) write(row api.App) {
	k.Helper()
	data, err := json.Marshal(row)
	if err == nil {
		_, err = k.apps.Put(k.Context(), row.Name, data)
	}
	if err != nil {
		k.Fatal(err)
	}
}

// delete removes the row of an app.
func (k *kit) delete(name string) {
	k.Helper()
	row, err := k.apps.Get(k.Context(), name)
	if err == nil {
		_, err = k.apps.Delete(k.Context(), name, row.Revision)
	}
	if err != nil {
		k.Fatal(err)
	}
}

// running returns the nodes with a running copy of an index, with the instances.
func (k *kit) running(app string, index int) (nodes, instances []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for node, beats := range k.beats {
		for _, b := range beats {
			if b.App == app && b.Index == index && b.State == api.CopyRunning {
				nodes, instances = append(nodes, node), append(instances, b.Instance)
			}
		}
	}
	return nodes, instances
}

// start writes a row, sends a start of all its indices, and waits until each has one running copy.
func (k *kit) start(row api.App) {
	k.Helper()
	k.write(row)
	var indices []int
	for i := range row.Instances {
		indices = append(indices, i)
	}
	k.awaitConfirmation(k.nudge(message.SubjectStart, api.Start{App: row.Name, Version: row.Version, Indices: indices}))
	for _, i := range indices {
		k.until(fmt.Sprintf("one copy of %s/%d runs", row.Name, i), func() bool { nodes, _ := k.running(row.Name, i); return len(nodes) == 1 })
	}
}

// nextHeartbeats waits for a heartbeat of each node that was requested now.
func (k *kit) nextHeartbeats() {
	k.Helper()
	k.mu.Lock()
	known := len(k.beats)
	clear(k.beats)
	k.mu.Unlock()
	k.publish(message.AnnounceSubject(k.Cluster), nil, nil)
	k.until("a heartbeat of each node", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.beats) == known
	})
}
