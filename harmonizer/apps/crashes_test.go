package apps

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// TestExitReasonIsReported: the crash table and the explanation of the index have the node's
// description of the exit, such as lack of memory.
func TestExitReasonIsReported(t *testing.T) {
	const words = "out of memory (killed by SIGKILL)"
	m, now := NewMachine(steady()), start()
	m.Step(now, BusUp{})
	m.Step(now, Lead{})
	m.Step(now, ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1", Instances: 1}}})
	m.Step(now, ExpectedComplete{})
	m.Step(now, beat("n1", api.Beat{App: "web", Version: "v1", Instance: "i0", State: api.CopyRunning}))
	now = now.Add(12 * time.Second)
	m.Step(now, Tick{})
	_, found := m.Step(now, Exit{Exited: api.Exited{App: "web", Version: "v1", Instance: "i0", Reason: api.ExitCrashed,
		Status: new(137), Description: words}})
	if len(found) == 0 || found[0].Kind != api.AppFindingCrashed || found[0].Detail != words {
		t.Errorf("found %v, want the crash with the words of its node", found)
	}
	m.Step(now, beat("n1", api.Beat{App: "web", Version: "v1", Instance: "i1", State: api.CopyRunning}))
	m.Step(now, Exit{Exited: api.Exited{App: "web", Version: "v1", Instance: "i1", Reason: api.ExitCrashed, Description: words}})
	lines := m.View().Crashes("web")
	if len(lines) != 2 || lines[0].Description != words || *lines[0].Status != 137 || lines[0].Node != "n1" || lines[1].Description != words {
		t.Errorf("Crashes = %+v, want two with the words of their node", lines)
	}
	e, _ := m.View().Explain(now, "web")
	if last := e.Indices[0].Last; last == nil || last.Kind != api.AppFindingNotNudged || last.Rule != api.AppRuleFlapping || !strings.Contains(last.String(), words) {
		t.Errorf("Explain = %+v, the last finding is %v", e.Indices[0], last)
	}
}

// TestCrashBeforeFirstHeartbeatHasNode: an instance that its node never listed has the node of
// its exit in the crash table.
func TestCrashBeforeFirstHeartbeatHasNode(t *testing.T) {
	m, now := NewMachine(steady()), start()
	m.Step(now, BusUp{})
	m.Step(now, Lead{})
	m.Step(now, ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1", Instances: 1}}})
	m.Step(now, ExpectedComplete{})
	m.Step(now, Exit{Node: message.Node{Name: "n1"}, Exited: api.Exited{App: "web", Version: "v1", Instance: "i0", Reason: api.ExitCrashed}})
	if lines := m.View().Crashes("web"); len(lines) != 1 || lines[0].Node != "n1" {
		t.Errorf("Crashes = %+v, want one on n1", lines)
	}
}
