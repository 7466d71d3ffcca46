package local

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/jsonfault"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

// threeMachines is a group with the machines n0, n1 and n2.
type threeMachines struct{ pools.Group }

func (threeMachines) ID() string { return "g" }

func (g threeMachines) Groups(context.Context) (pools.Listing, error) {
	return pools.Listing{Groups: []pools.Group{g}}, nil
}

func (threeMachines) Snapshot(context.Context) (pools.GroupSnapshot, error) {
	s := pools.GroupSnapshot{ID: "g", Target: 3}
	for _, id := range []string{"n0", "n1", "n2"} {
		s.Instances = append(s.Instances, pools.Instance{ID: id, Group: "g", Weight: 1, State: api.InstanceRunning})
	}
	return s, nil
}

func factsOf(id string) string {
	return fmt.Sprintf(`{"id":%q,"pool":"p","group":"g","boot_id":"b","zone":"z","resources":{"cpus":4,"mem":8192,"disk":1000,"gpus":1},`+
		`"allocated":{"cpus":3,"mem":4096,"disk":100,"gpus":1},"tasks":3,"batch_tasks":1,"unready":1,"draining":false,"cordoned_by":"other","safe_to_evict":true,"priority":2.5,`+
		`"blocked":[{"task":"t","why":"w","since":"2026-03-01T12:00:00Z"}],"slots":{"all":10,"used":3},"overhead":{"cpus":1,"mem":2,"disk":3,"gpus":4},`+
		`"conditions":[{"type":"DiskFull","failed":false,"unknown":false,"why":"a"},{"type":"KernelDeadlock","failed":true,"unknown":false,"why":"hung"},`+
		`{"type":"Clock","failed":true,"unknown":false,"why":"c"}],"heartbeat":10000000000,"rival":"r","at":"2026-03-01T12:00:00Z","clock_ahead":0}`, id)
}

const blockedText = "a list for people decides nothing"

// nodeRules are the rules of node facts.
func nodeRules() jsonfault.Rules {
	return jsonfault.Rules{
		Optional: "group zone resources.gpus allocated.gpus batch_tasks unready draining cordoned_by safe_to_evict priority blocked slots slots.all slots.used overhead overhead.cpus overhead.mem overhead.disk overhead.gpus conditions heartbeat rival at clock_ahead",
		Except: []jsonfault.Except{
			{Field: "priority", Faults: []jsonfault.Fault{jsonfault.Huge}, Values: "99999999999999999999 1e300 9000000000000000000", Usable: true, Why: "an order of the nodes only"},
			{Field: "heartbeat", Faults: []jsonfault.Fault{jsonfault.Huge}, Values: "9000000000000000000", Usable: true, Why: "package liveness bounds it"},
			{Field: "blocked", Faults: []jsonfault.Fault{jsonfault.Type}, Usable: true, Why: blockedText},
			{Field: "blocked[0]", Usable: true, Why: blockedText},
			{Field: "blocked[0].task", Usable: true, Why: blockedText},
			{Field: "blocked[0].why", Usable: true, Why: blockedText},
			{Field: "blocked[0].since", Usable: true, Why: blockedText},
			{Field: "clock_ahead", Faults: []jsonfault.Fault{jsonfault.Negative, jsonfault.Huge}, Values: "-1 9000000000000000000", Usable: true, Why: "what a node sends is replaced"},
		},
	}
}

// conditionRules are the rules of one condition.
func conditionRules() jsonfault.Rules {
	return jsonfault.Rules{Optional: "unknown why", Free: "why", Except: []jsonfault.Except{
		{Field: "why", Faults: []jsonfault.Fault{jsonfault.Type}, Usable: true, Why: "a text for people decides nothing"},
	}}
}

// A fault in the facts of a node makes that node unknown: it counts as silent, with its last facts, so that the pool does not
// shrink. A fault in a condition makes that condition unknown, with its last result. The other nodes and conditions count.
func TestFaultsOfFacts(t *testing.T) {
	if testprograms.WithoutRace(t, "pools/local") {
		return
	}
	if lacks := jsonfault.Lacks[api.NodeFacts](factsOf("n1")); lacks != nil {
		t.Errorf("the facts lack %q", lacks)
	}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	read := func(texts ...string) (*snapshot.Snapshot, api.NodeFacts) {
		nodes := NewNodes(nil, "c", "p", time.Minute, slog.New(slog.DiscardHandler))
		reader := snapshot.NewReader(snapshot.Ports{Provider: threeMachines{}, Scheduler: nodes})
		for i, text := range texts {
			now := start.Add(time.Duration(i) * 10 * time.Second)
			for id, text := range map[string]string{"n0": factsOf("n0"), "n1": text, "n2": factsOf("n2")} {
				_ = nodes.takeFacts(now, &nats.Msg{Subject: message.FactsSubject("c", message.Node{Pool: "p", Name: id}), Data: []byte(text)})
			}
			s, err := reader.Read(t.Context(), now, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			reader.Adopt(s)
			if i == len(texts)-1 {
				return s, nodes.Received(now)[1]
			}
		}
		panic("unreachable")
	}
	good, goodFacts := read(factsOf("n1"), factsOf("n1"))
	node := func(s *snapshot.Snapshot, id string) pools.Node {
		i := slices.IndexFunc(s.Nodes, func(n pools.Node) bool { return n.Instance.ID == id })
		n := s.Nodes[i]
		n.Facts.At, n.Facts.ClockAhead = time.Time{}, 0
		return n
	}
	cases := jsonfault.Cases(factsOf("n1"))
	n := 0
	for _, c := range cases {
		if strings.HasPrefix(c.Path, "conditions[0]") || strings.HasPrefix(c.Path, "conditions[2]") {
			continue
		}
		n++
		usable, condition := nodeRules().Usable("", c), strings.HasPrefix(c.Path, "conditions[1]") && c.Fault != jsonfault.NotJSON
		s, facts := read(factsOf("n1"), c.Text, c.Text)
		if first, _ := read(c.Text, c.Text, c.Text, c.Text, c.Text); !usable && !condition && node(first, "n1").State != api.NodeUnknown {
			t.Errorf("%v: the node without earlier facts is %q", c, node(first, "n1").State)
		}
		for _, id := range []string{"n0", "n2"} {
			if got, want := node(s, id), node(good, id); !reflect.DeepEqual(got, want) {
				t.Errorf("%v: node %s is %+v, want %+v", c, id, got, want)
			}
		}
		if got := slices.Contains(s.Silent, "n1"); got == (usable || condition) {
			t.Errorf("%v: silent %v, want usable %v", c, s.Silent, usable)
		}
		if state := node(s, "n1").State; state != api.NodeRunning && (usable || condition) || state == api.NodeIdle {
			t.Errorf("%v: the node is %q", c, state)
		}
		if facts.Tasks != 3 || facts.Resources[resource.CPUs] != 4 || facts.Allocated[resource.Mem] != 4096 || facts.BootID != "b" {
			t.Errorf("%v: the last facts did not stay: %+v", c, facts)
		}
		unread := func(typ string) bool {
			return slices.ContainsFunc(facts.Conditions, func(c api.NodeCondition) bool { return c.Type == typ && c.Unknown && c.Why != "" })
		}
		if !usable && !condition {
			if !facts.Outdated || !unread("UnreadableFacts") {
				t.Errorf("%v: no cause: %+v", c, facts)
			}
			continue
		}
		if c.Path == "conditions" {
			continue // none is reported
		}
		checkConditions(t, c, condition && !conditionRules().Usable("conditions[1]", c), facts.Conditions, goodFacts.Conditions)
	}
	t.Logf("%d faulty facts", n)
}

// checkConditions checks that the conditions are as without the fault, but for KernelDeadlock if it is unknown.
func checkConditions(t *testing.T, c jsonfault.Case, unknown bool, got, want []api.NodeCondition) {
	t.Helper()
	for _, w := range want {
		i := slices.IndexFunc(got, func(c api.NodeCondition) bool { return c.Type == w.Type })
		switch {
		case i < 0:
			t.Errorf("%v: condition %s is gone", c, w.Type)
		case w.Type == "KernelDeadlock" && (got[i].Unknown != unknown || !got[i].Failed || unknown && got[i].Why == ""):
			t.Errorf("%v: condition %+v, want unknown %v with its last result", c, got[i], unknown)
		case w.Type != "KernelDeadlock" && got[i] != w:
			t.Errorf("%v: condition %+v, want %+v", c, got[i], w)
		}
	}
	if len(got) > len(want) && !unknown {
		text, _ := json.Marshal(got)
		t.Errorf("%v: further conditions: %s", c, text)
	}
}
