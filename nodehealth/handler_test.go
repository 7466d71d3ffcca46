package nodehealth

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

func TestOrdersAreDecided(t *testing.T) {
	now := time.Unix(1_000_000, 0).UTC()
	tests := []struct {
		name   string
		before []judge.Event
		order  api.RepairOrder
		node   string
		ok     bool
		why    string // part of it
		events int
	}{
		{"pause a node", nil, api.RepairOrder{Op: api.OpPause, By: "ann", For: time.Hour}, "n1", true, "paused until 1970-01-12T14:46:40Z", 1},
		{"pause the pool", nil, api.RepairOrder{Op: api.OpPause}, "", true, "paused until", 1},
		{"resume without a pause", nil, api.RepairOrder{Op: api.OpResume, By: "ann"}, "n1", false, "no pause of operator ann", 0},
		{"resume one of two", []judge.Event{judge.Pause{Node: "n1", Owner: "operator ann"}, judge.Pause{Node: "n1", Owner: "operator bob"}},
			api.RepairOrder{Op: api.OpResume, By: "ann"}, "n1", true, "resumed; operator bob pauses it until", 1},
		{"release a healthy node", nil, api.RepairOrder{Op: api.OpRelease}, "n1", false, "it is not held", 0},
		{"release a requested repair", []judge.Event{judge.Recover{Node: "n1", By: "ann"}}, api.RepairOrder{Op: api.OpRelease}, "n1", true, "the request of ann", 1},
		{"release a closed breaker", nil, api.RepairOrder{Op: api.OpRelease}, "", false, "the breaker is closed", 1},
		{"recover", nil, api.RepairOrder{Op: api.OpRecover, By: "ann"}, "n1", true, "", 1},
		{"recover twice", []judge.Event{judge.Recover{Node: "n1", By: "ann"}, judge.Tick{}}, api.RepairOrder{Op: api.OpRecover}, "n1", true, "its repair is already in progress", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			j := judge.New(plain(judge.Action{Name: api.ActionReboot}).WithDefaults())
			j.Step(now, judge.Nodes{List: []judge.Node{{ID: "n1", Since: now.Add(-24 * time.Hour)}}})
			for _, ev := range test.before {
				j.Step(now, ev)
			}
			got := decide(now, j, test.order, test.node)
			if got.ok != test.ok || !strings.Contains(got.why, test.why) || len(got.events) != test.events {
				t.Errorf("decide() = %+v, want %v, %q, %d events", got, test.ok, test.why, test.events)
			}
		})
	}
}
