package apps

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// A node that reports the end of another node's copy, or a heartbeat of another node, changes nothing and makes a
// finding.
func TestNodeSpeaksForItselfOnly(t *testing.T) {
	m, now := NewMachine(steady()), start()
	web := api.Beat{App: "web", Version: "v1", Instance: "i0", State: api.CopyRunning}
	of := func(node string, ev Heartbeat) Heartbeat { ev.Node = node; return ev }
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
		node string
	}{
		{"end of another node's copy", Exit{Exited: exit, Node: "n2"}, "bad_instance", "n2"},
		{"end from the legacy subject", Exit{Exited: exit}, "bad_instance", ""},
		{"heartbeat of another node", of("n2", beat("n1")), "bad_dea", "n2"},
		{"heartbeat from the legacy subject", beat("n1"), "bad_dea", ""},
	} {
		nudges, found := m.Step(now, tt.ev)
		if len(nudges) > 0 || len(found) != 1 || found[0].Kind != api.AppFindingRefused || found[0].Why != tt.why || found[0].Node != tt.node {
			t.Errorf("%s: nudges %v, findings %+v; want refused %s of node %q", tt.name, nudges, found, tt.why, tt.node)
		}
	}
	if lines := m.View().Crashes("web"); len(lines) > 0 {
		t.Errorf("refused ends are crashes: %+v", lines)
	}
	if _, found := m.Step(now, Exit{Exited: exit, Node: "n1"}); len(found) == 0 || found[0].Kind != api.AppFindingCrashed {
		t.Errorf("findings %+v, want the crash that the copy's own node reports", found)
	}
}
