package nodehealth

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// A pause withdraws a repair that has not reached the machine, and reports one that continues.
// No repair begins after the answer.
func TestPauseWithdrawsRepairsThatDidNotReachTheMachine(t *testing.T) {
	if testprograms.WithoutRace(t, "nodehealth") {
		return
	}
	reboot := judge.Action{Name: api.ActionReboot}
	for _, test := range []struct {
		name  string
		does  judge.Action
		state api.DrainState // of the record when the pause begins
		nodes []string
		acts  int
		why   string
	}{
		{"it drains", reboot, api.DrainChosen, []string{"n4"}, 0, "REBOOT is withdrawn"},
		{"it drains, and the pool is paused", reboot, api.DrainChosen, nil, 0, "REBOOT is withdrawn"},
		{"it is being rebooted", reboot, api.DrainRepairing, []string{"n4"}, 1, "REBOOT continues"},
		{"it drains for a workflow", workflow(), api.DrainChosen, []string{"n4"}, 0, "WORKFLOW is withdrawn"},
		{"its workflow runs", workflow(), api.DrainRepairing, []string{"n4"}, 1, "WORKFLOW continues"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCloud(ten()...)
				m := c.begin(t, plain(test.does))
				pass(time.Minute)
				c.markUnhealthy("n4", "disk")
				for range 600 {
					if pass(time.Second); slices.ContainsFunc(c.recorded(), func(r api.Drain) bool { return r.State == test.state }) {
						break
					}
				}
				a, err := m.loop.Order(t.Context(), api.RepairOrder{Op: api.OpPause, Nodes: test.nodes, By: "ann", For: time.Hour})
				if err != nil || !a.OK || len(a.Nodes) != 1 || !strings.Contains(a.Nodes[0].Why, test.why) {
					t.Errorf("answer %+v, %v, want one node and %q", a, err, test.why)
				}
				pass(30 * time.Minute)
				if got := c.acted["reboot n4"] + len(c.runs); got != test.acts {
					t.Errorf("%d reboots, want %d:\n%s", got, test.acts, m.dump())
				}
				if a, err = m.loop.Order(t.Context(), api.RepairOrder{Op: api.OpResume, Nodes: test.nodes, By: "ann"}); err != nil || !a.OK {
					t.Errorf("resume: %+v, %v", a, err)
				}
				pass(30 * time.Minute)
				m.stop(t)
				if c.acted["reboot n4"]+len(c.runs) != 1 {
					t.Errorf("did %v after the pause, want one reboot:\n%s", c.acted, m.dump())
				}
			})
		})
	}
}

// recorded returns the drain records.
func (c *cloud) recorded() (out []api.Drain) {
	c.with(func() {
		for _, r := range c.records {
			out = append(out, *r)
		}
	})
	return out
}
