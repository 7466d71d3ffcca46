package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent"
	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
	"github.com/weirkeeper/weirkeeper/resource"
)

// TestSecondAgentOfANodeIsRefused starts an agent with the id of another one, on another folder as on another machine.
// The second one ends before it does anything. The first one runs on, keeps its instance, and names the second.
func TestSecondAgentOfANodeIsRefused(t *testing.T) {
	url := "nats://" + newServer(t)
	direct := dial(t, url)
	r := rig{observer: observe(t, direct), Client: wire.NewClient(direct, "c", "p"), dir: t.TempDir()}
	localtest.Run(t, newAgent(t, url, r.dir).Run)
	localtest.Until(t, "first facts", func() bool { return r.lastFacts().ID == "n1" })
	r.start(t, "a", "echo $$; exec sleep 1000")
	r.until(t, "a=RUNNING")
	boot := r.lastFacts().BootID
	for range 2 {
		if err := newAgent(t, url, t.TempDir()).Run(t.Context()); !errors.Is(err, agent.ErrRival) || !strings.Contains(err.Error(), "agent n1: another agent of this node runs: process ") || !strings.Contains(err.Error(), "--id") {
			t.Fatalf("Run() = %v, want that it is refused", err)
		}
	}
	localtest.Until(t, "the first one names the second", func() bool { return strings.HasPrefix(r.lastFacts().Rival, "process ") })
	if got := r.lines(t, wire.LogsRequest{App: "web"}); len(got) != 1 || r.states() != "a=RUNNING" {
		t.Errorf("output %q, heartbeat %q: want that the instance runs on", got, r.states())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.facts {
		if f.BootID != boot {
			t.Errorf("facts of another agent: %+v", f)
		}
	}
}

// TestOneOfTwoAgentsKeepsTheNode starts two agents of one node at the same time: one of them is refused.
func TestOneOfTwoAgentsKeepsTheNode(t *testing.T) {
	url := "nats://" + newServer(t)
	e := observe(t, dial(t, url))
	ended := make(chan error, 2)
	for range 2 {
		a := newAgent(t, url, t.TempDir())
		localtest.Run(t, func(ctx context.Context) error { // the refusal of one is no failure
			ended <- a.Run(ctx)
			return nil
		})
	}
	if err := <-ended; !errors.Is(err, agent.ErrRival) {
		t.Fatalf("Run() = %v, want that one of two is refused", err)
	}
	localtest.Until(t, "facts of the other", func() bool { return e.lastFacts().ID == "n1" })
	select {
	case err := <-ended:
		t.Errorf("the other one ended too: %v", err)
	default:
	}
}

// TestNextAgentIsNoRival kills an agent and starts the next one at once.
func TestNextAgentIsNoRival(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		w.run(t, true)(syscall.SIGKILL)
	}
	w.run(t, true)
	if f := w.lastFacts(); f.Rival != "" {
		t.Errorf("facts name another agent: %q", f.Rival)
	}
}

// newAgent returns an agent of node n1 with a connection of its own.
func newAgent(t *testing.T, url, dir string) *agent.Agent {
	t.Helper()
	a, err := agent.New(agent.Config{
		Cluster: "c", Pool: "p", Group: "g", ID: "n1", Resources: resource.Vector{4, 1000, 1000, 0}, Heartbeat: 200 * time.Millisecond, DataDir: dir,
	}, dial(t, url), localtest.NewLauncher(t), localtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAgentWithTheKeyOfAnotherNodeEnds runs agents with the generated permissions. With the key of another node an agent
// ends before it does anything, and its error has the id, the file of the key and the remedy. With its own key it runs.
func TestAgentWithTheKeyOfAnotherNodeEnds(t *testing.T) {
	cluster := bustest.ServeCluster(t, false, natsconf.Cluster{Name: "c", Pools: []natsconf.Pool{{Name: "p", Nodes: []string{"n1", "n2"}}}})
	user := roles.User{Role: roles.Agent, Cluster: "c", Pool: "p", Node: "n2"}
	seed, err := cluster.Seed(t, user.Name()).Seed()
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "agent.nk")
	if err := os.WriteFile(key, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := bus.Open(t.Context(), bus.Config{
		NATS: bus.NATS{Servers: []string{cluster.URL(0)}, NKeyFile: key, TLS: bus.TLS{CAFile: cluster.CAFile()}},
		Name: t.Name(), InboxPrefix: user.InboxPrefix(), Log: localtest.Log(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	for node, wrong := range map[string]bool{"n1": true, "n2": false} {
		ctx, cancel := context.WithCancel(t.Context())
		one, err := agent.New(agent.Config{Cluster: "c", Pool: "p", Group: "g", ID: node, DataDir: t.TempDir()}, b.Conn(), localtest.NewLauncher(t), localtest.Log(t))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- one.Run(ctx) }()
		if !wrong {
			if err := one.Alive(t.Context()); err != nil {
				t.Error(err)
			}
			cancel()
		}
		err = <-ended
		cancel()
		if wrong != errors.Is(err, nats.ErrPermissionViolation) {
			t.Fatalf("agent %s with the key of n2: Run() = %v, want a violation: %v", node, err, wrong)
		}
		for _, want := range []string{"agent n1: ", key, "--id"} {
			if wrong && !strings.Contains(err.Error(), want) {
				t.Errorf("error %q, want %q", err, want)
			}
		}
	}
}
