package agent_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent"
	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
	"github.com/weirkeeper/weirkeeper/resource"
)

// beatStore is what a harmonizer knows of a node. Its time advances by ten seconds with each heartbeat.
type beatStore struct {
	mu      sync.Mutex
	store   *known.Store
	now     time.Time
	longest int   // bytes of a heartbeat
	err     error // of the latest heartbeat
	lost    []string
}

// receive passes heartbeats of a node to a store, until the test ends.
func receive(t *testing.T, nc *nats.Conn, node message.Node) *beatStore {
	b := &beatStore{store: known.New(known.Config{DropletLost: 30 * time.Second}), now: time.Unix(1_000_000, 0)}
	bustest.Subscribe(t, nc, message.HeartbeatSubject("c", node), func(m *nats.Msg) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.now = b.now.Add(10 * time.Second)
		b.longest = max(b.longest, len(m.Data))
		b.err = b.store.Heartbeat(b.now, node, m.Data)
		b.store.Tick(b.now)
		for _, c := range b.store.Changes() {
			if c.Kind == known.Lost || c.Kind == known.NodeLost {
				b.lost = append(b.lost, c.Kind.String()+" "+c.Why.String())
			}
		}
	})
	return b
}

// counts returns the copies that the latest heartbeat lists, and those that are unknown. Neither is absent.
func (b *beatStore) counts(copies int) (listed, unknown int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range copies {
		c, ok := b.store.Find(fmt.Sprintf("%032d", i))
		if !ok {
			continue
		}
		if _, absent := c.Absent(); c.Unread() {
			unknown++
		} else if !absent {
			listed++
		}
	}
	return listed, unknown
}

// The server accepts shorter messages than before, and the heartbeat of a node is longer. The node stays, no copy is lost, and no
// further copy starts there. The facts name it. When the server accepts it again, all is known again.
func TestHeartbeatLongerThanTheServerAccepts(t *testing.T) {
	const copies, shorter = 20, 2048
	ns := bustest.Serve(t, server.Options{})
	url, port := ns.ClientURL(), ns.Addr().(*net.TCPAddr).Port
	direct, theirs := dial(t, url), dial(t, url)
	accept := func(payload int32) {
		ns.Shutdown()
		ns.WaitForShutdown()
		ns = bustest.Serve(t, server.Options{Port: port, MaxPayload: payload})
	}
	e, client, b := observe(t, direct), wire.NewClient(direct, "c", "p"), receive(t, direct, message.Node{Pool: "p", Name: "n1"})
	a, err := agent.New(agent.Config{
		Cluster: "c", Pool: "p", Group: "g", ID: "n1", Resources: resource.Vector{2, 1000, 1000, 0},
		Heartbeat: 100 * time.Millisecond, StopGrace: 200 * time.Millisecond, DataDir: t.TempDir(),
	}, theirs, localtest.NewLauncher(t), localtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	stop := localtest.Run(t, a.Run)
	localtest.Until(t, "first facts", func() bool { return e.lastFacts().ID == "n1" })
	start := func(i int) error {
		return client.Start(t.Context(), "n1", wire.StartRequest{App: "web", Version: "v1", Index: i, Instance: fmt.Sprintf("%032d", i), Command: "exec sleep 60"})
	}
	for i := range copies {
		if err := start(i); err != nil {
			t.Fatal(err)
		}
	}
	localtest.Until(t, "all copies are listed", func() bool { listed, _ := b.counts(copies); return listed == copies })
	if b.mu.Lock(); b.longest < 2*shorter*3/4 {
		t.Errorf("a heartbeat has %d bytes: want more than the %d of the test", b.longest, shorter)
	}
	b.mu.Unlock()

	accept(shorter)
	localtest.Until(t, "a heartbeat that omits copies", func() bool { _, unknown := b.counts(copies); return unknown > 0 })
	beats := b.beats()
	localtest.Until(t, "a minute and a half of heartbeats", func() bool { return b.beats() >= beats+9 })
	if listed, unknown := b.counts(copies); listed+unknown != copies || listed < 8 || !b.part() {
		t.Errorf("%d copies are listed and %d unknown of %d", listed, unknown, copies)
	}
	if err := start(copies); !errors.Is(err, wire.ErrNoRoom) {
		t.Errorf("a further copy: %v, want %v", err, wire.ErrNoRoom)
	}
	if listed, unknown := b.counts(copies + 1); listed+unknown != copies {
		t.Errorf("%d copies run, want %d", listed+unknown, copies)
	}
	facts := e.lastFacts()
	if c, ok := e.condition("InstancesNotListed"); !ok || !c.Unknown || c.Failed || facts.Tasks != copies {
		t.Errorf("condition %+v of %d tasks", c, facts.Tasks)
	}
	if lines := strings.Join(explain.Agents([]api.NodeFacts{facts}), "\n"); !strings.Contains(lines, "node n1: InstancesNotListed is unknown") || !strings.Contains(lines, "raise max_payload of the NATS servers") {
		t.Errorf("the status names %q", lines)
	}

	accept(1 << 20)
	localtest.Until(t, "all copies are known again", func() bool { listed, _ := b.counts(copies); return listed == copies && !b.part() })
	localtest.Until(t, "the condition ends", func() bool { _, there := e.condition("InstancesNotListed"); return !there })
	if b.mu.Lock(); len(b.lost) > 0 {
		t.Errorf("lost: %q", b.lost)
	}
	b.mu.Unlock()
	stop() // before the server ends
}

// A running server that gets a smaller limit closes the connections of longer messages. The agent ends with the cause, and the
// next one has the new limit.
func TestClosedConnectionNamesItsCause(t *testing.T) {
	ns := bustest.Serve(t, server.Options{})
	e := observe(t, dial(t, ns.ClientURL()))
	a, err := agent.New(agent.Config{Cluster: "c", Pool: "p", Group: "g", ID: "n1", Heartbeat: 50 * time.Millisecond, DataDir: t.TempDir(), Keep: true},
		dial(t, ns.ClientURL()), localtest.NewLauncher(t), localtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- a.Run(t.Context()) }()
	localtest.Until(t, "joined", func() bool { return e.lastFacts().ID == "n1" })
	less := server.Options{Host: "127.0.0.1", Port: ns.Addr().(*net.TCPAddr).Port, NoSigs: true, NoLog: true, JetStreamMaxStore: bustest.MaxStore, MaxPayload: 100}
	if err := ns.ReloadOptions(&less); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, nats.ErrConnectionClosed) || !strings.Contains(err.Error(), "Maximum Payload Violation") {
		t.Errorf("the agent ends with %v, want the cause", err)
	}
}

// beats returns the number of heartbeats so far.
func (b *beatStore) beats() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int(b.now.Unix()-1_000_000) / 10
}

// part reports whether a part of the latest heartbeat is unknown.
func (b *beatStore) part() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, part := errors.AsType[*message.UnreadError](b.err)
	return part
}
