package nodehealth

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// historyOf returns the history as lines: node, event, action, finding, operator, result.
func (m *term) historyOf(t *testing.T, nodes ...string) (lines []string) {
	t.Helper()
	s, err := m.loop.Status(t.Context(), api.HealthQuery{Nodes: nodes, History: true})
	if err != nil || len(s.Nodes) > 0 {
		t.Fatalf("history: %v, nodes %v", err, s.Nodes)
	}
	for _, e := range s.History {
		lines = append(lines, strings.Join(strings.Fields(fmt.Sprint(e.Node, " ", e.Event, " ", e.Action, " [", e.Why, "] ", e.By, " -> ", e.Result, " ", e.Replacement)), " "))
		if e.At.IsZero() || (e.Result != "") != e.Ended.After(e.At) {
			t.Errorf("from %v to %v: %+v", e.At, e.Ended, e)
		}
	}
	return lines
}

// The history of a node has each action, its reason, its operator and its result. A takeover
// preserves it, also of nodes that are gone.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		p := plain(judge.Action{Name: api.ActionRecreate})
		m := c.begin(t, p)
		pass(time.Minute)
		if got := m.historyOf(t); len(got) != 0 {
			t.Errorf("before anything was done: %q", got)
		}
		if _, err := m.loop.Order(t.Context(), api.RepairOrder{Op: api.OpRecover, Nodes: []string{"n2"}, By: "ann"}); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Minute)
		c.markUnhealthy("n4", "disk")
		pass(90 * time.Second) // its repair is in progress
		m.stop(t)
		m = c.begin(t, p)
		pass(20 * time.Minute)
		got := m.historyOf(t, "n2", "n4")
		want := []string{
			"n2 request.taken [ann requests its repair] ann ->",
			"n2 repair.started RECREATE [ann] ann -> repair.succeeded new1",
			"n4 repair.started RECREATE [NODE_STATUS_POLLING: disk; AGENT_HEARTBEAT: silent] -> repair.succeeded new2",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("history:\n%s\nwant:\n%s\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), c.log)
		}
		m.stop(t)
	})
}

// A history is bounded by node and by pool: the oldest entries go first.
func TestHistoryIsBounded(t *testing.T) {
	var h history
	now := time.Unix(0, 0)
	long := strings.Repeat("x", 10_000)
	for i := range 2 * historyNode {
		h.addFinding(now, api.HealthFinding{Event: api.HealthRepairStarted, Node: "n", Attempt: fmt.Sprint("n.", i), Why: long, By: long})
	}
	first := h.entriesOf([]string{"n"})
	if len(first) != historyNode || first[0].Attempt != fmt.Sprint("n.", historyNode) || len(first[0].Why)+len(first[0].By) > 2*historyText {
		t.Errorf("%d entries, the first of %s", len(first), first[0].Attempt)
	}
	for i := range 2 * historyPool {
		h.addFinding(now, api.HealthFinding{Event: api.HealthNodeQuarantined, Node: fmt.Sprint("m", i)})
	}
	if all := h.entriesOf(nil); len(all) != historyPool || all[0].Node != fmt.Sprint("m", historyPool) {
		t.Errorf("%d entries, the first of %s", len(all), all[0].Node)
	}
	var again history
	again.restore(now, append(h.entriesOf(nil), make([]api.HealthHistory, 3*historyPool)...))
	if len(again.entriesOf(nil)) > historyPool {
		t.Errorf("restored %d entries", len(again.entriesOf(nil)))
	}
}
