package schedulertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
	"github.com/weirkeeper/weirkeeper/resource"
)

// NodeSite is a running scheduler without rows, with at least two nodes of 2 cpus and 1000 MB. The functions act on the cluster behind
// it, as a user of that cluster does.
type NodeSite struct {
	Site
	// Start starts a task of that size, and does not wait until it runs. It runs elsewhere after an eviction.
	Start func(task string, size resource.Vector) error
	// Stop ends a task, also one that waits.
	Stop func(task string) error
	// Where returns the node of a task; empty: it does not run.
	Where func(task string) string
	// Cordon cordons a node as a person does, or ends that. nil: not tested.
	Cordon func(node string, on bool) error
	// Away makes the cluster unreachable for the scheduler, or ends that. nil: not tested.
	Away func(away bool)
}

// RunNodes runs all tests of the protocol for a scheduler without rows. open starts one with its nodes for one test. A drain may have a
// gap: such a scheduler evicts a task before it starts elsewhere.
func RunNodes(t *testing.T, open func(t *testing.T) NodeSite) {
	for _, test := range []struct {
		name string
		run  func(k *kit, s NodeSite)
	}{
		{"StateIsCurrent", stateIsCurrent},
		{"FactsCountTasks", factsCountTasks},
		{"AnnouncementIsAnswered", announcement},
		{"CordonEmptiesTheNode", cordonEmpties},
		{"CordonsAreInOrder", cordonsInOrder},
		{"OptionalKeysOfACordon", cordonKeys},
		{"CordonOfAPersonStays", cordonOfAPerson},
		{"TasksThatWait", tasksThatWait},
		{"RowsAndNudgesAreIgnored", rowsIgnored},
		{"UnreachableClusterIsNotFresh", unreachable},
		{"PlacesHold", nodePlaces},
		{"MalformedRequestsChangeNothing", malformedRequests},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			k := newKit(t, s.Site)
			test.run(k, s)
			k.mu.Lock()
			defer k.mu.Unlock()
			for _, bad := range k.bad {
				k.Errorf("message breaks the protocol: %s", bad)
			}
		})
	}
}

// awaitState waits for another state that ok accepts.
func (k *kit) awaitState(what string, ok func(api.SchedulerState) bool) (s api.SchedulerState) {
	k.Helper()
	k.mu.Lock()
	before := k.states
	k.mu.Unlock()
	k.until(what, func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		s = k.state
		return k.states > before && ok(s)
	})
	return s
}

// awaitFacts waits until the facts of a node satisfy ok.
func (k *kit) awaitFacts(what, node string, ok func(api.NodeFacts) bool) {
	k.Helper()
	k.until(what, func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return ok(k.facts[node])
	})
}

// runs starts a task, and waits until its node counts it.
func (k *kit) runs(s NodeSite, task string) (node string) {
	k.Helper()
	if err := s.Start(task, resource.Vector{1, 16}); err != nil {
		k.Fatal(err)
	}
	k.until("task "+task+" runs, and its node counts it", func() bool {
		node = s.Where(task)
		k.mu.Lock()
		defer k.mu.Unlock()
		f := k.facts[node]
		return node != "" && f.Tasks == 1 && f.Allocated[resource.CPUs] == 1 && f.Allocated[resource.Mem] == 16
	})
	return node
}

// stateIsCurrent: the scheduler reports in each period that it runs no rows, and is current.
func stateIsCurrent(k *kit, _ NodeSite) {
	for range 2 {
		s := k.awaitState("a state that is fresh", func(s api.SchedulerState) bool { return s.Fresh })
		if s.Rows || s.Nodes < 2 || s.AsOf.IsZero() {
			k.Errorf("state %+v, want no rows, at least 2 nodes, and a time", s)
		}
	}
}

// factsCountTasks: the facts have what the tasks of the node use. A heartbeat has no instances.
func factsCountTasks(k *kit, s NodeSite) {
	node := k.runs(s, "a")
	if err := s.Stop("a"); err != nil {
		k.Fatal(err)
	}
	k.awaitFacts("the node is empty", node, func(f api.NodeFacts) bool { return f.Tasks == 0 && f.Allocated[resource.CPUs] == 0 })
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, f := range k.facts {
		if f.BootID == "" || f.Resources[resource.CPUs] < 2 || f.Heartbeat <= 0 || f.At.IsZero() || f.Draining || len(k.beats[id]) > 0 {
			k.Errorf("node %s: facts %+v, %d instances: want a boot id, at least 2 cpus, a period, a time, no drain, and no instances", id, f, len(k.beats[id]))
		}
	}
}

// announcement: after an announcement, each node reports at once, and so does the scheduler.
func announcement(k *kit, _ NodeSite) {
	k.mu.Lock()
	before := k.states
	k.mu.Unlock()
	k.nextHeartbeats()
	k.until("a state", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.states > before
	})
}

// cordonEmpties: a cordoned node reports that it drains, and its task runs elsewhere. Afterwards it takes tasks again.
func cordonEmpties(k *kit, s NodeSite) {
	node := k.runs(s, "a")
	if err := k.agents.Cordon(k.Context(), node, true, pools.Sequence{Epoch: 1, Number: 1}); err != nil {
		k.Fatal(err)
	}
	k.awaitFacts("the node drains, by Weirkeeper, and is empty", node, func(f api.NodeFacts) bool { return f.Draining && f.CordonedBy == "" && f.Tasks == 0 })
	k.until("the task runs on another node", func() bool { at := s.Where("a"); return at != "" && at != node })
	if err := k.agents.Cordon(k.Context(), node, false, pools.Sequence{Epoch: 1, Number: 2}); err != nil {
		k.Fatal(err)
	}
	k.awaitFacts("the node takes tasks", node, func(f api.NodeFacts) bool { return !f.Draining })
}

// cordon sends a cordon with an epoch and a number, and returns the code of the refusal.
func (k *kit) cordon(node string, epoch, number uint64, request any) (code string) {
	k.Helper()
	header := nats.Header{wire.HeaderEpoch: {fmt.Sprint(epoch)}, wire.HeaderNumber: {fmt.Sprint(number)}}
	err := call.RequestWith(k.Context(), k.Conn, wire.Subject(k.Cluster, k.Pool, node, wire.OpCordon), header, request, nil)
	refusal, ok := errors.AsType[*call.Error](err)
	switch {
	case err == nil:
		return ""
	case !ok:
		k.Fatal(err)
	}
	return refusal.Code
}

// cordonsInOrder: a cordon that is older than an accepted one is refused, and changes nothing.
func cordonsInOrder(k *kit, _ NodeSite) {
	node := k.nodes()[0]
	for _, one := range []struct {
		epoch, number uint64
		on            bool
		want          string
	}{{2, 5, true, ""}, {2, 5, true, ""}, {2, 4, false, wire.CodeLate}, {1, 9, false, wire.CodeLate}, {3, 1, false, ""}, {2, 9, true, wire.CodeLate}} {
		if got := k.cordon(node, one.epoch, one.number, wire.CordonRequest{On: one.on}); got != one.want {
			k.Errorf("cordon %v in epoch %d, number %d: refused with %q, want %q", one.on, one.epoch, one.number, got, one.want)
		}
	}
	k.awaitFacts("the node takes tasks", node, func(f api.NodeFacts) bool { return !f.Draining })
}

// cordonKeys: the scheduler reads the optional keys that it accepts.
func cordonKeys(k *kit, _ NodeSite) {
	s, r := k.awaitState("a state", func(api.SchedulerState) bool { return true }), wire.CordonRequest{On: true}
	for _, key := range s.Accepts {
		switch key {
		case api.AcceptsReason:
			r.Reason = api.DrainSpot
		case api.AcceptsDeadline:
			r.Deadline = time.Now().Add(2 * time.Minute).UTC().Round(time.Second)
		}
	}
	node := k.nodes()[0]
	if got := k.cordon(node, 1, 1, r); got != "" {
		k.Errorf("cordon %+v is refused with %q", r, got)
	}
	k.awaitFacts("the node drains", node, func(f api.NodeFacts) bool { return f.Draining })
}

// cordonOfAPerson: a cordon that a person set is named, and stays after one of Weirkeeper ends.
func cordonOfAPerson(k *kit, s NodeSite) {
	if s.Cordon == nil {
		k.Log("cordons of a person are not tested")
		return
	}
	node := k.nodes()[0]
	other := func(f api.NodeFacts) bool { return f.Draining && f.CordonedBy == api.CordonedByOther }
	if err := s.Cordon(node, true); err != nil {
		k.Fatal(err)
	}
	k.awaitFacts("the node is cordoned by another party", node, other)
	if got := k.cordon(node, 1, 1, wire.CordonRequest{On: true}); got != "" {
		k.Fatalf("cordon is refused with %q", got)
	}
	k.awaitFacts("the node drains by Weirkeeper", node, func(f api.NodeFacts) bool { return f.Draining && f.CordonedBy == "" })
	if got := k.cordon(node, 1, 2, wire.CordonRequest{On: false}); got != "" {
		k.Fatalf("the end of the cordon is refused with %q", got)
	}
	k.awaitFacts("the node is cordoned by another party still", node, other)
	if err := s.Cordon(node, false); err != nil {
		k.Fatal(err)
	}
	k.awaitFacts("the node takes tasks", node, func(f api.NodeFacts) bool { return !f.Draining })
}

// tasksThatWait: a task that no node can hold waits with its size and a reason.
func tasksThatWait(k *kit, s NodeSite) {
	if err := s.Start("large", resource.Vector{1e6, 64}); err != nil {
		k.Fatal(err)
	}
	get := func() api.Pending {
		p, err := placerbus.GetPending(k.Context(), k.Conn, k.Cluster, k.Pool)
		if err != nil {
			k.Fatal(err)
		}
		return p
	}
	k.until("the task waits", func() bool { return get().Total == 1 })
	p := get()
	if len(p.Copies) != 1 || p.Copies[0].App == "" || p.Copies[0].Why == "" || p.Copies[0].Since.IsZero() || p.Resources[resource.CPUs] != 1e6 {
		k.Errorf("pending %+v, want a task with 1e6 cpus, a name, a time and a reason", p)
	}
	if p.State == nil || p.State.Rows {
		k.Errorf("the state in the answer is %+v, want one without rows", p.State)
	}
	if err := s.Stop("large"); err != nil {
		k.Fatal(err)
	}
	k.until("nothing waits", func() bool { return get().Total == 0 })
}

// rowsIgnored: a row of the pool and its nudge start nothing, and are not confirmed.
func rowsIgnored(k *kit, s NodeSite) {
	k.write(k.app("web", 1))
	id := k.nudge(message.SubjectStart, api.Start{App: "web", Version: "v1", Indices: []int{0}})
	k.runs(s, "a")
	k.nextHeartbeats()
	if nodes, _ := k.running("web", 0); nodes != nil || k.confirmations(id) != 0 {
		k.Errorf("instances on %v, %d confirmations, want none", nodes, k.confirmations(id))
	}
}

// unreachable: while the cluster is away, the scheduler is not fresh, its nodes report nothing, and cordons are refused as busy.
func unreachable(k *kit, s NodeSite) {
	if s.Away == nil {
		k.Log("an unreachable cluster is not tested")
		return
	}
	s.Away(true)
	if state := k.awaitState("the scheduler is not fresh", func(s api.SchedulerState) bool { return !s.Fresh }); state.Why == "" {
		k.Error("the scheduler does not report why it is not fresh")
	}
	k.mu.Lock()
	node := ""
	for id := range k.facts {
		node = id
	}
	clear(k.facts)
	clear(k.beats)
	k.mu.Unlock()
	if got := k.cordon(node, 1, 1, wire.CordonRequest{On: true}); got != wire.CodeBusy {
		k.Errorf("cordon: refused with %q, want %q", got, wire.CodeBusy)
	}
	k.publish(message.AnnounceSubject(k.Cluster), nil, nil)
	for range 2 {
		k.awaitState("a state", func(api.SchedulerState) bool { return true })
	}
	k.mu.Lock()
	if len(k.facts)+len(k.beats) > 0 {
		k.Errorf("%d facts and %d heartbeats of nodes whose state is unknown", len(k.facts), len(k.beats))
	}
	k.mu.Unlock()
	s.Away(false)
	k.awaitState("the scheduler is fresh", func(s api.SchedulerState) bool { return s.Fresh })
	k.awaitFacts("the node reports", node, func(f api.NodeFacts) bool { return f.ID == node && !f.Draining })
}

// nodePlaces: the scheduler answers where the tasks fit. Without this optional part it does not respond.
func nodePlaces(k *kit, s NodeSite) {
	small := api.PlacesKind{Group: "g", Resources: resource.Vector{2, 1000}, Weight: 1, Room: 10}
	if _, err := placerbus.GetPlaces(k.Context(), k.Conn, k.Cluster, k.Pool, api.PlacesQuestion{}); errors.Is(err, nats.ErrNoResponders) {
		k.Log("the scheduler does not answer where tasks fit")
		return
	}
	// place returns the first answer that ok accepts.
	place := func(what string, q api.PlacesQuestion, ok func(api.Places) bool) (p api.Places) {
		k.Helper()
		k.until(what, func() bool {
			var err error
			p, err = placerbus.GetPlaces(k.Context(), k.Conn, k.Cluster, k.Pool, q)
			return err == nil && ok(p)
		})
		return p
	}
	k.runs(s, "a")
	nodes := k.nodes()
	place("without any node the task needs a machine, or a node back", api.PlacesQuestion{Kinds: []api.PlacesKind{small}, Gone: nodes}, func(p api.Places) bool {
		return p.Nodes == len(nodes) && p.Waiting == 1 && len(p.New) == 1 && p.New[0].Nodes == 1 && len(p.Back) == 1
	})
	if err := s.Start("large", resource.Vector{1e6, 64}); err != nil {
		k.Fatal(err)
	}
	large := api.PlacesKind{Group: "large", Resources: resource.Vector{2e6, 1e6}, Weight: 8, Room: 1}
	place("the large task needs a machine that can hold it", api.PlacesQuestion{Kinds: []api.PlacesKind{small, large}}, func(p api.Places) bool {
		return p.Waiting == 1 && len(p.New) == 1 && p.New[0].Group == "large"
	})
	large.Room, large.Why = 0, "is at its maximum"
	place("the large task is short of a machine", api.PlacesQuestion{Kinds: []api.PlacesKind{small, large}}, func(p api.Places) bool {
		return p.ShortCopies == 1 && len(p.New) == 0 && p.Short[0].Why != ""
	})
	place("no kind can ever hold the large task", api.PlacesQuestion{Kinds: []api.PlacesKind{small}}, func(p api.Places) bool {
		return p.NeverCopies == 1 && p.Waiting == 0 && len(p.New) == 0 && p.Never[0].Why != "" && p.Unplaceable[resource.CPUs] == 1e6
	})
	if err := s.Stop("large"); err != nil {
		k.Fatal(err)
	}
	p := place("a node can be emptied", api.PlacesQuestion{Leave: append(slices.Clone(nodes), "unknown"), Most: len(nodes) + 1}, func(p api.Places) bool { return len(p.Leave) > 0 })
	if len(p.Leave) == len(nodes) || slices.Contains(p.Leave, "unknown") {
		k.Fatalf("leave %v of %v, want some of the nodes", p.Leave, nodes)
	}
	for i, id := range p.Leave {
		if got := k.cordon(id, 1, uint64(i+1), wire.CordonRequest{On: true}); got != "" {
			k.Fatalf("cordon of %s is refused with %q", id, got)
		}
	}
	k.until(fmt.Sprintf("nodes %v are empty, and the task runs", p.Leave), func() bool {
		at := s.Where("a")
		k.mu.Lock()
		defer k.mu.Unlock()
		return at != "" && !slices.Contains(p.Leave, at) && !slices.ContainsFunc(p.Leave, func(id string) bool { return k.facts[id].Tasks > 0 })
	})
	if err := call.Request(k.Context(), k.Conn, message.PlacesSubject(k.Cluster, k.Pool), api.PlacesQuestion{Gone: []string{"n"}, Leave: []string{"n"}}, nil); err == nil {
		k.Error("a node that is gone and a candidate is no error")
	}
}

// malformedRequests: unusable requests are refused as invalid, and the next good one works.
func malformedRequests(k *kit, s NodeSite) {
	node := k.nodes()[0]
	for _, bad := range []any{7, []int{1}, map[string]any{"on": "yes"}, map[string]any{"on": true, "later": 1}, strings.Repeat("x", 1000)} {
		if got := k.cordon(node, 1, 1, bad); got != call.CodeInvalid {
			k.Errorf("cordon %.80v: refused with %q, want %q", bad, got, call.CodeInvalid)
		}
	}
	k.publish(message.GoneSubject(k.Cluster, message.Node{Pool: k.Pool, Name: "unknown"}), nil, []byte("not json"))
	cordonEmpties(k, s)
}
