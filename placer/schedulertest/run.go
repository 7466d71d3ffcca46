package schedulertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Run runs all tests of the protocol. open starts a scheduler with its nodes for one test.
func Run(t *testing.T, open func(t *testing.T) Site) {
	for _, test := range []struct {
		name string
		run  func(k *kit)
	}{
		{"FactsOfEachNode", facts},
		{"StartIsConfirmedAndRuns", start},
		{"RepeatedStartChangesNothing", repeatedStart},
		{"LastCopyIsNotStopped", lastCopy},
		{"StopOfAnUndesiredCopy", stop},
		{"NudgesOfAnotherPoolAreIgnored", anotherPool},
		{"PlacedCopies", placed},
		{"PendingResources", pending},
		{"PlacesHold", places},
		{"DrainMovesCopiesWithoutAGap", drain},
		{"UnknownFieldsAreIgnored", unknownFields},
		{"MalformedMessagesChangeNothing", malformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, open(t))
			test.run(k)
			k.mu.Lock()
			defer k.mu.Unlock()
			for _, bad := range k.bad {
				k.Errorf("message breaks the protocol: %s", bad)
			}
		})
	}
}

// facts: each node publishes its facts and its period, and what its copies use.
func facts(k *kit) {
	k.start(k.app("web", 1))
	nodes, _ := k.running("web", 0)
	k.until("the facts have the copy", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		f := k.facts[nodes[0]]
		return f.Tasks == 1 && f.Allocated[resource.CPUs] == 1 && f.Allocated[resource.Mem] == 16
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, f := range k.facts {
		if f.BootID == "" || f.Resources[resource.CPUs] < 2 || f.Heartbeat <= 0 || f.At.IsZero() || f.Draining {
			k.Errorf("facts of node %s: %+v, want a boot id, at least 2 cpus, a period, a time, and no drain", id, f)
		}
	}
}

// start: the scheduler confirms a start, and a node lists a running copy in the version and index of the nudge.
func start(k *kit) { k.start(k.app("web", 2)) }

// repeatedStart: an index with a copy gets no second one.
func repeatedStart(k *kit) {
	k.start(k.app("web", 1))
	_, before := k.running("web", 0)
	for range 3 {
		k.awaitConfirmation(k.nudge(message.SubjectStart, api.Start{App: "web", Version: "v1", Indices: []int{0}}))
	}
	k.awaitConfirmation(k.nudge(cloudfoundry.RequestsSubject(message.Partition), api.Start{App: "web", Version: "v1", Indices: []int{0}}.Request()))
	k.start(k.app("later", 1)) // what was requested before has begun
	k.nextHeartbeats()
	if _, after := k.running("web", 0); fmt.Sprint(after) != fmt.Sprint(before) {
		k.Errorf("copies %v, want %v", after, before)
	}
}

// lastCopy: a stop of the only copy of a desired index is confirmed, and refused.
func lastCopy(k *kit) {
	k.start(k.app("web", 1))
	_, before := k.running("web", 0)
	k.awaitConfirmation(k.nudge(message.SubjectStop, api.Stop{App: "web", Version: "v1", Instances: map[string]string{before[0]: "v1"}}))
	k.start(k.app("later", 1))
	k.nextHeartbeats()
	if _, after := k.running("web", 0); fmt.Sprint(after) != fmt.Sprint(before) {
		k.Errorf("copies %v, want %v", after, before)
	}
}

// stop: a copy beyond the instances of the row stops, and its node reports the end.
func stop(k *kit) {
	k.start(k.app("web", 2))
	_, gone := k.running("web", 1)
	k.write(k.app("web", 1))
	k.awaitConfirmation(k.nudge(message.SubjectStop, api.Stop{App: "web", Version: "v1", Instances: map[string]string{gone[0]: "v1"}}))
	k.until("the end of web/1 is reported", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.exits) > 0
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.exits[0]; len(k.exits) != 1 || e.Instance != gone[0] || e.Index != 1 || e.Reason != api.ExitStopped {
		k.Errorf("ends %+v, want that of %s with reason %s", k.exits, gone[0], api.ExitStopped)
	}
}

// anotherPool: the scheduler neither starts nor confirms what belongs to another pool.
func anotherPool(k *kit) {
	row := k.app("other", 1)
	row.Pool = k.Pool + "-other"
	k.write(row)
	id := k.nudge(message.SubjectStart, api.Start{App: "other", Version: "v1", Indices: []int{0}})
	k.start(k.app("web", 1))
	k.nextHeartbeats()
	if nodes, _ := k.running("other", 0); nodes != nil || k.confirmations(id) != 0 {
		k.Errorf("copies on %v, %d confirmations, want none", nodes, k.confirmations(id))
	}
}

// placed: the scheduler answers which copies it put on the nodes that list them, also after their end.
func placed(k *kit) {
	k.start(k.app("web", 2))
	nodes, instances := k.running("web", 1)
	ask := func(instance, node string, index int) string {
		var a api.PlacedAnswer
		q := api.PlacedQuery{Copies: []api.PlacedCopy{{Instance: instance, Node: node, App: "web", Version: "v1", Index: index}}}
		if err := call.Request(k.Context(), k.Conn, message.PlacedSubject(k.Cluster, k.Pool), q, &a); err != nil {
			k.Fatal(err)
		}
		return fmt.Sprint(a.Placed, a.NotPlaced)
	}
	there := fmt.Sprint([]string{instances[0]}, []string{})
	if got := ask(instances[0], nodes[0], 1); got != there {
		k.Errorf("a copy that runs: %s, want %s", got, there)
	}
	for _, tt := range []struct {
		instance, node string
		index          int
	}{{instances[0], "other-node", 1}, {instances[0], nodes[0], 0}} {
		if got, want := ask(tt.instance, tt.node, tt.index), fmt.Sprint([]string{}, []string{tt.instance}); got != want {
			k.Errorf("%v: %s, want %s", tt, got, want)
		}
	}
	k.write(k.app("web", 1))
	k.awaitConfirmation(k.nudge(message.SubjectStop, api.Stop{App: "web", Version: "v1", Instances: map[string]string{instances[0]: "v1"}}))
	k.until("the end of web/1 is reported", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.exits) > 0
	})
	if got := ask(instances[0], nodes[0], 1); got != there {
		k.Errorf("a copy that has ended: %s, want %s", got, there)
	}
}

// pending: a copy that no node can hold is confirmed, and waits with its resources and a reason.
func pending(k *kit) {
	row := k.app("large", 1)
	row.CPUs = 1e6
	k.write(row)
	k.awaitConfirmation(k.nudge(message.SubjectStart, api.Start{App: "large", Version: "v1", Indices: []int{0}}))
	get := func() api.Pending {
		p, err := placerbus.GetPending(k.Context(), k.Conn, k.Cluster, k.Pool)
		if err != nil {
			k.Fatal(err)
		}
		return p
	}
	k.until("large/0 waits", func() bool { return get().Total == 1 })
	p := get()
	if len(p.Copies) != 1 || p.Copies[0].App != "large" || p.Copies[0].Why == "" || p.Resources[resource.CPUs] != 1e6 || p.Copies[0].Since.IsZero() {
		k.Errorf("pending: %+v, want large/0 with 1e6 cpus, a time and a reason", p)
	}
	k.delete("large")
	k.until("nothing waits", func() bool { return get().Total == 0 })
}

// drain: a cordoned node reports that it drains, and its copies run elsewhere before they stop there.
func drain(k *kit) {
	k.start(k.app("web", 1))
	from, old := k.running("web", 0)
	k.mu.Lock()
	k.watched = "web/0"
	k.mu.Unlock()
	draining := func(want bool) func() bool {
		return func() bool {
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.facts[from[0]].Draining == want
		}
	}
	if err := k.agents.Cordon(k.Context(), from[0], true, pools.Sequence{Epoch: 1, Number: 1}); err != nil {
		k.Fatal(err)
	}
	k.until("the node drains", draining(true))
	k.until("web/0 runs on another node only", func() bool {
		nodes, _ := k.running("web", 0)
		return len(nodes) == 1 && nodes[0] != from[0]
	})
	k.until("the end of the old copy is reported", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.exits) == 1 && k.exits[0].Instance == old[0]
	})
	if err := k.agents.Cordon(k.Context(), from[0], false, pools.Sequence{Epoch: 1, Number: 2}); err != nil {
		k.Fatal(err)
	}
	k.until("the node accepts copies", draining(false))
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gaps["web/0"] {
		k.Error("web/0 had no copy meanwhile")
	}
}

// unknownFields: a reader of version 1 ignores fields of later versions.
func unknownFields(k *kit) {
	extend := func(v any) []byte {
		k.Helper()
		data, err := json.Marshal(v)
		if err != nil {
			k.Fatal(err)
		}
		return []byte(strings.TrimSuffix(string(data), "}") + `,"later":{"a":[1]}}`)
	}
	if _, err := k.apps.Put(k.Context(), "web", extend(k.app("web", 1))); err != nil {
		k.Fatal(err)
	}
	k.awaitConfirmation(k.nudge(message.SubjectStart, extend(api.Start{App: "web", Version: "v1", Indices: []int{0}})))
	k.until("web/0 runs", func() bool { nodes, _ := k.running("web", 0); return len(nodes) == 1 })
}

// malformed: unusable messages and rows are dropped, and the next good ones work.
func malformed(k *kit) {
	node := message.Node{Pool: k.Pool, Name: "n"}
	for _, data := range []string{"", "{", "[]", `{"droplet": 1}`, `{"droplet": "web", "indices": [-1]}`, strings.Repeat("x", 100_000)} {
		for _, subject := range []string{message.SubjectStart, message.SubjectStop, cloudfoundry.RequestsSubject(message.Partition),
			message.FactsSubject(k.Cluster, node), message.HeartbeatSubject(k.Cluster, node), message.ExitedSubject(k.Cluster, node)} {
			k.publish(subject, nil, []byte(data))
		}
		if _, err := k.apps.Put(k.Context(), "bad", []byte(data)); err != nil {
			k.Fatal(err)
		}
	}
	k.start(k.app("web", 1))
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bad = nil // they are ours
}

// places: the scheduler answers where copies fit. Without this optional part of the protocol it does not respond.
func places(k *kit) {
	if _, err := placerbus.GetPlaces(k.Context(), k.Conn, k.Cluster, k.Pool, api.PlacesQuestion{}); errors.Is(err, nats.ErrNoResponders) {
		k.Log("the scheduler does not answer where copies fit")
		return
	}
	k.start(k.app("web", 2))
	k.nextHeartbeats()
	nodes := k.nodes()
	size := resource.Vector{2, 1000}
	kind := api.PlacesKind{Group: "g", Resources: size, Weight: 1, Room: 10}
	asks := func(q api.PlacesQuestion) (p api.Places) {
		k.Helper()
		k.until("the scheduler answers where copies fit", func() bool {
			var err error
			p, err = placerbus.GetPlaces(k.Context(), k.Conn, k.Cluster, k.Pool, q)
			return err == nil
		})
		return p
	}
	// Copies of all nodes at once have no other place, and need machines.
	p := asks(api.PlacesQuestion{Kinds: []api.PlacesKind{kind}, Gone: nodes})
	if p.Nodes != len(nodes) || p.Waiting != 2 || len(p.New) != 1 || p.New[0].Nodes > 2 || p.New[0].Copies != 2 || len(p.Back) == 0 {
		k.Errorf("all nodes leave: %+v, want that 2 copies need machines of group g, and nodes back", p)
	}
	waitingCopies(k, asks, kind)
	emptied(k, asks(api.PlacesQuestion{Kinds: []api.PlacesKind{kind}, Leave: append(slices.Clone(nodes), "unknown"), Most: len(nodes) + 1}), nodes)

	var answer api.Places
	invalid := api.PlacesQuestion{Gone: []string{"n"}, Leave: []string{"n"}}
	if err := call.Request(k.Context(), k.Conn, message.PlacesSubject(k.Cluster, k.Pool), invalid, &answer); err == nil {
		k.Errorf("a node that is gone and a candidate: %+v, want an error", answer)
	}
}

// waitingCopies: a copy that waits needs a machine of a kind that holds it, or a probe of an unknown kind. Nothing is ordered
// for a copy that no kind can hold.
func waitingCopies(k *kit, asks func(api.PlacesQuestion) api.Places, small api.PlacesKind) {
	row := k.app("large", 1)
	row.CPUs = 1e6
	k.write(row)
	k.awaitConfirmation(k.nudge(message.SubjectStart, api.Start{App: "large", Version: "v1", Indices: []int{0}}))
	large := api.PlacesKind{Group: "large", Resources: resource.Vector{2e6, 1e6}, Weight: 8, Room: 1}
	full, unknown := large, api.PlacesKind{Group: "new", Unknown: true, Weight: 1, Room: 1}
	full.Room, full.Why = 0, "is at its maximum"
	var p api.Places
	k.until("large/0 waits for a machine", func() bool {
		p = asks(api.PlacesQuestion{Kinds: []api.PlacesKind{small, large}})
		return p.Waiting == 1
	})
	if len(p.New) != 1 || p.New[0].Group != "large" || p.New[0].Nodes != 1 {
		k.Errorf("new %+v, want one machine of group large", p.New)
	}
	if p = asks(api.PlacesQuestion{Kinds: []api.PlacesKind{small, full}}); p.ShortCopies != 1 || len(p.New) != 0 || p.Short[0].App != "large" || p.Short[0].Why == "" {
		k.Errorf("without room in its group: %+v, want that large is short, and why", p)
	}
	if p = asks(api.PlacesQuestion{Kinds: []api.PlacesKind{small, unknown}}); len(p.Probe) != 1 || len(p.New) != 0 || p.NeverCopies != 0 {
		k.Errorf("with a kind of unknown size: %+v, want a probe of it", p)
	}
	p = asks(api.PlacesQuestion{Kinds: []api.PlacesKind{small}})
	if p.NeverCopies != 1 || p.Waiting != 0 || len(p.New) != 0 || p.Never[0].App != "large" || p.Never[0].Why == "" || p.Unplaceable[resource.CPUs] != 1e6 {
		k.Errorf("without a kind that holds it: %+v, want that large never has a place, and why", p)
	}
	listed := func(copies int) func() bool {
		return func() bool {
			k.mu.Lock()
			defer k.mu.Unlock()
			return len(k.never) == copies && (copies == 0 || k.never[0].App == "large" && k.never[0].Copies == 1)
		}
	}
	k.until("the scheduler lists large as an app that no machine can hold", listed(1))
	k.delete("large")
	k.until("the list is empty", listed(0))
}

// emptied: all nodes that the scheduler names can be emptied at the same time, and each copy that runs elsewhere stays.
func emptied(k *kit, p api.Places, nodes []string) {
	if len(p.Leave) == 0 || len(p.Leave) == len(nodes) || slices.Contains(p.Leave, "unknown") {
		k.Fatalf("leave %v of %v, want some of the nodes", p.Leave, nodes)
	}
	for i, id := range p.Leave {
		if err := k.agents.Cordon(k.Context(), id, true, pools.Sequence{Epoch: 1, Number: uint64(i + 1)}); err != nil {
			k.Fatal(err)
		}
	}
	k.until(fmt.Sprintf("nodes %v are empty, and the copies run elsewhere", p.Leave), func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		running := map[string]int{}
		for node, beats := range k.beats {
			for _, b := range beats {
				if slices.Contains(p.Leave, node) {
					return false
				}
				if b.State == api.CopyRunning {
					running[indexOf(b)]++
				}
			}
		}
		return running["web/0"] == 1 && running["web/1"] == 1
	})
}
