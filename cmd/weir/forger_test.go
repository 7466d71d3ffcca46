package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent/forgertest"
	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Sizes of a forgerWorld.
const (
	forgerApps   = 40
	forgerRounds = 300                   // of wrong statements
	forgerPause  = 30 * time.Millisecond // after a round: several ticks pass meanwhile
	forgerFlood  = 60_000                // small messages at once
	// forgerGrowth bounds how much the largest resident size of a daemon grows, in KiB: by what can wait in its inbox.
	forgerGrowth = wire.MaxWaiting >> 10
)

// forgerWorld is a busWorld with 40 applications on two nodes. The third node, which joined later, belongs to the forger. The
// test has its key, beside its agent.
type forgerWorld struct {
	*busWorld
	node forgertest.Node
	nc   *nats.Conn // with the key of the node
}

// TestForgerBesideRunningDaemons sends every wrong statement, with the key of a node, to running daemons. No copy starts or ends,
// the target stays, no daemon grows beyond its bound, and status names the node first.
func TestForgerBesideRunningDaemons(t *testing.T) {
	t.Parallel()
	w := newForgerWorld(t)
	before, calls, sizes := w.instances(), len(w.cloud.Calls()), w.sizes()
	began := time.Now()
	r := rand.New(rand.NewPCG(1, 7))
	pace := time.NewTicker(forgerPause)
	defer pace.Stop()
	for range forgerRounds {
		w.send(w.node.Round(r, time.Now()))
		<-pace.C
	}
	w.outside(w.node.Round(r, time.Now()))
	w.flood()
	w.named(before, api.WhyNotPlaced, api.WhyExitOfOther, api.WhySendsTooMuch)
	w.nothingHappened("forger", before, calls)
	w.targetStayed(began)
	for name, size := range w.sizes() {
		t.Logf("%s: at most %d MiB resident, %d MiB more than before", name, size>>10, (size-sizes[name])>>10)
		if size-sizes[name] > forgerGrowth {
			t.Errorf("%s grew by %d KiB, want at most %d", name, size-sizes[name], forgerGrowth)
		}
	}
	w.setApp("last", 1, "0.1")
	eventually(t, "one more instance, and the others as before", func() error {
		now := w.instances()
		for pid := range before {
			if !now[pid] {
				return fmt.Errorf("the instance with process %s has ended", pid)
			}
		}
		if len(now) != w.running {
			return fmt.Errorf("%d instances have started, want %d", len(now), w.running)
		}
		return nil
	})
}

func newForgerWorld(t *testing.T) *forgerWorld {
	t.Helper()
	w := &forgerWorld{busWorld: startBusWorld(t, busNodes-1)}
	for i := range forgerApps {
		w.setApp(fmt.Sprint("app", i), 1, "0.15")
	}
	eventually(t, "all instances on two nodes", func() error {
		if n := len(w.instances()); n != w.running {
			return fmt.Errorf("%d instances have started, want %d", n, w.running)
		}
		return nil
	})
	nodes := w.nodes()
	w.startAgent(nodes[2])
	eventually(t, "a pool that matches its applications", w.joined)
	own := message.Node{Pool: busPool, Name: nodes[2]}
	w.nc = w.open(roles.User{Role: roles.Agent, Cluster: busCluster, Pool: own.Pool, Node: own.Name}, w.urls()...).Conn()
	w.node = forgertest.Node{
		Cluster: busCluster, Node: own, Others: nodes[:2], Copies: w.copies(nodes[:2]),
		// A smaller size than that of the machine, and an allocation within it, looks like an honest one: see docs/security.md.
		Resources: []resource.Vector{{4, 8192, 10000}, {1e12, 1e12, 10000}}, Allocated: []resource.Vector{{}},
	}
	return w
}

// joined reports whether the pool is settled, and each node has joined.
func (w *forgerWorld) joined() error {
	if err := w.settled(); err != nil {
		return err
	}
	out := w.run(w.viewer, "--timeout", "3s", "status").stdout
	if want := fmt.Sprintf("target %d, joined %[1]d,", busNodes); !strings.Contains(out, want) {
		return errors.New(out)
	}
	return nil
}

// copies returns the copies of the other nodes, as their heartbeats list them.
func (w *forgerWorld) copies(nodes []string) (all []api.Beat) {
	w.Helper()
	nc := w.open(roles.User{Role: roles.Harmonizer, Cluster: busCluster}, w.urls()...).Conn()
	in, err := bus.Receive(nc, bus.InboxConfig{
		Events: []string{message.HeartbeatSubject(busCluster, message.Node{Pool: busPool, Name: "*"})}, Messages: 100, Log: quiet(),
	})
	if err == nil {
		err = errors.Join(nc.Flush(), nc.Publish(message.AnnounceSubject(busCluster), nil))
	}
	if err != nil {
		w.Fatal(err)
	}
	defer in.Close()
	listed := map[string][]api.Beat{}
	for len(listed) < busNodes {
		var h api.Heartbeat
		if err := json.Unmarshal((<-in.Messages()).Data, &h); err != nil {
			w.Fatal(err)
		}
		listed[h.Node] = h.Beats
	}
	for _, node := range nodes {
		all = append(all, listed[node]...)
	}
	if len(all) != forgerApps {
		w.Fatalf("%d copies on nodes %v, want %d; all: %v", len(all), nodes, forgerApps, listed)
	}
	return all
}

// send publishes messages that the servers deliver. They close the connection of an agent that sends a larger one, and the client
// sends none.
func (w *forgerWorld) send(all []forgertest.Message) {
	w.Helper()
	for _, m := range all {
		if err := w.nc.Publish(m.Subject, m.Data); err != nil && !errors.Is(err, nats.ErrMaxPayload) {
			w.Fatal(err)
		}
	}
	if err := w.nc.Flush(); err != nil {
		w.Fatal(err)
	}
}

// outside publishes on every subject of the table, for other nodes and for another pool, what the servers must not deliver.
func (w *forgerWorld) outside(bodies []forgertest.Message) {
	w.Helper()
	for _, row := range roles.Rows() {
		for _, n := range []message.Node{{Pool: busPool, Name: w.node.Others[0]}, {Pool: busProbePool, Name: w.node.Name}} {
			subject := strings.NewReplacer("{cluster}", busCluster, "{pool}", n.Pool, "{node}", n.Name, "*", "probe", ">", "probe").Replace(row.Subject)
			for _, m := range bodies {
				w.send([]forgertest.Message{{Subject: subject, Data: m.Data}})
			}
		}
	}
}

// flood publishes small messages faster than any daemon processes them.
func (w *forgerWorld) flood() {
	w.Helper()
	var all []forgertest.Message
	for range forgerFlood / 3 {
		all = append(all,
			forgertest.Message{Subject: message.HeartbeatSubject(busCluster, w.node.Node), Data: fmt.Appendf(nil, `{"dea":%q,"droplets":[]}`, w.node.Name)},
			forgertest.Message{Subject: message.ExitedSubject(busCluster, w.node.Node), Data: []byte("{}")},
			forgertest.Message{Subject: message.FactsSubject(busCluster, w.node.Node), Data: fmt.Appendf(nil, `{"id":%q,"pool":%q}`, w.node.Name, busProbePool)},
		)
	}
	w.send(all)
}

// named waits until the harmonizer has found each kind of wrong statement, of the node only, and status names the node first.
// Meanwhile the instances stay as before.
func (w *forgerWorld) named(before map[string]bool, kinds ...api.AppReason) {
	w.Helper()
	eventually(w, "a status that names the node", func() error {
		if now := w.instances(); !maps.Equal(now, before) {
			w.Fatalf("instances by process, and whether they run: %v, before %v", now, before)
		}
		r := w.run(w.viewer, "--timeout", "3s", "app", "status", "--output", "json")
		var s api.HarmonizerStatus
		if err := json.Unmarshal([]byte(r.stdout), &s); err != nil {
			return fmt.Errorf("%w: %s", err, r.stderr)
		}
		var found []api.AppReason
		for _, one := range s.Wrong {
			if one.Node != w.node.Name || one.Pool != w.node.Pool {
				w.Fatalf("wrong sender %v, want %v only", one, w.node.Node)
			}
			found = append(found, one.Why)
		}
		for _, kind := range kinds {
			if !slices.Contains(found, kind) {
				return fmt.Errorf("found %v, want %s", found, kind)
			}
		}
		r = w.run(w.viewer, "--timeout", "3s", "status")
		if line, _, _ := strings.Cut(r.stdout+r.stderr, "\n"); !strings.Contains(line, w.node.Node.String()) {
			return errors.New(r.stdout + r.stderr)
		}
		return nil
	})
}

// targetStayed checks that each tick since then has the target of the healthy pool.
func (w *forgerWorld) targetStayed(since time.Time) {
	w.Helper()
	for _, r := range w.oneWriter("forger", busPool) {
		if r.Result == nil {
			continue // the tick ended before it decided
		}
		if r.At.After(since) && (math.Abs(r.Result.Target-busNodes) > 1e-6 || r.Snapshot.Target != busNodes) {
			w.Errorf("the tick at %v wants %v and has %v", r.At, r.Result.Target, r.Snapshot.Target)
		}
	}
}

// daemonProcesses returns the processes of the daemons.
func (w *forgerWorld) daemonProcesses() []process {
	return slices.DeleteFunc(processesWith(filepath.Dir(w.started)), func(p process) bool {
		return len(p.args) < 2 || !slices.Contains([]string{"placer", "harmonizer", "autoscaler", "bootstrap", "metrics", "agent"}, p.args[1])
	})
}

// sizes returns the largest resident size of each daemon so far, in KiB.
func (w *forgerWorld) sizes() map[string]int {
	w.Helper()
	sizes := map[string]int{}
	for _, p := range w.daemonProcesses() {
		text, err := os.ReadFile("/proc/" + p.id + "/status")
		if err != nil {
			w.Fatal(err)
		}
		_, peak, _ := strings.Cut(string(text), "VmHWM:")
		var size int
		if _, err := fmt.Sscan(peak, &size); err != nil {
			w.Fatalf("size of %v: %v", p.args, err)
		}
		sizes[p.args[1]+" "+p.id] = size
	}
	return sizes
}
