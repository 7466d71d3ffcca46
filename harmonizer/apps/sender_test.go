package apps

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// A node that reports the end of another node's copy, or a heartbeat of another node, changes nothing and makes a
// finding.
func TestNodeSpeaksForItselfOnly(t *testing.T) {
	m, now := NewMachine(steady()), start()
	web := api.Beat{App: "web", Version: "v1", Instance: "i0", State: api.CopyRunning}
	of := func(node string, ev Heartbeat) Heartbeat { ev.Node = message.Node{Pool: "p", Name: node}; return ev }
	exit := api.Exited{App: "web", Version: "v1", Instance: "i0", Reason: api.ExitCrashed}
	for _, ev := range []Event{
		BusUp{}, Lead{}, ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1", Instances: 1}}}, ExpectedComplete{},
		of("n1", beat("n1", web)), of("n2", beat("n2")),
	} {
		m.Step(now, ev)
	}
	now = now.Add(12 * time.Second)
	m.Step(now, Tick{})
	for _, tt := range []struct {
		name string
		ev   Event
		why  api.AppReason
		node message.Node
	}{
		{"end of another node's copy", Exit{Exited: exit, Node: message.Node{Pool: "p", Name: "n2"}}, "bad_instance", message.Node{Pool: "p", Name: "n2"}},
		{"end from a node of that name in another pool", Exit{Exited: exit, Node: message.Node{Pool: "q", Name: "n1"}}, "bad_instance", message.Node{Pool: "q", Name: "n1"}},
		{"end from the legacy subject", Exit{Exited: exit}, "bad_instance", message.Node{}},
		{"heartbeat of another node", of("n2", beat("n1")), "bad_dea", message.Node{Pool: "p", Name: "n2"}},
	} {
		nudges, found := m.Step(now, tt.ev)
		if len(nudges) > 0 || len(found) != 1+count(tt.node.Name != "") || found[0].Kind != api.AppFindingRefused || found[0].Why != tt.why || found[0].Pool != tt.node.Pool || found[0].Node != tt.node.Name {
			t.Errorf("%s: nudges %v, findings %+v; want refused %s of node %v", tt.name, nudges, found, tt.why, tt.node)
		}
	}
	if lines := m.View().Crashes("web"); len(lines) > 0 {
		t.Errorf("refused ends are crashes: %+v", lines)
	}
	if _, found := m.Step(now, Exit{Exited: exit, Node: message.Node{Pool: "p", Name: "n1"}}); len(found) == 0 || found[0].Kind != api.AppFindingCrashed {
		t.Errorf("findings %+v, want the crash that the copy's own node reports", found)
	}
}

// Two pools may have a node of one name, and a legacy DEA may have it too: they are three nodes, and the silence of one
// loses its own copies only.
func TestNodesOfOneNameNeverMix(t *testing.T) {
	m, now := NewMachine(steady()), start()
	for _, ev := range []Event{
		BusUp{}, Lead{}, ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1", Instances: 3}}}, ExpectedComplete{},
	} {
		m.Step(now, ev)
	}
	nodes := []message.Node{{Pool: "p", Name: "n"}, {Pool: "q", Name: "n"}, {Name: "n"}}
	send := func(nodes ...message.Node) {
		for _, n := range nodes {
			ev := beat("n", api.Beat{App: "web", Version: "v1", Instance: "i-" + n.Pool, Index: len(n.Pool) + len(n.String())%2, State: api.CopyRunning})
			ev.Node = n
			m.Step(now, ev)
		}
	}
	send(nodes...)
	send(nodes...)
	if all := m.View().Nodes(); len(all) != 3 || all[nodes[0]] != 1 || all[nodes[1]] != 1 || all[nodes[2]] != 1 {
		t.Fatalf("nodes %v, want three with a copy each", all)
	}
	now = now.Add(25 * time.Second)
	send(nodes[0], nodes[2])
	now = now.Add(20 * time.Second)
	_, found := m.Step(now, Tick{})
	if all := m.View().Nodes(); len(all) != 2 || all[nodes[1]] != 0 {
		t.Errorf("nodes %v, want all but %v", all, nodes[1])
	}
	if len(found) == 0 || found[0].Kind != api.AppFindingNodeLost || found[0].Pool != "q" || found[0].Node != "n" {
		t.Errorf("findings %v, want the loss of %v first", found, nodes[1])
	}
}
