package nodehealth

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Where a scheduler speaks for all nodes, all of them fall silent while it, or the API server behind it, is away. The bus works, so the
// loopback probes return. The path of the heartbeats is down then, and no machine is repaired, also after a restart. Afterwards a node
// that stays silent is repaired.
func TestSilenceOfAllNodesWhileTheSchedulerIsAway(t *testing.T) {
	if testprograms.WithoutRace(t, "nodehealth") {
		return
	}
	for name, why := range map[string]string{
		"silent": "the scheduler (kubernetes) is silent since 12:00:00", "not fresh": "the scheduler (kubernetes) has no current state of its nodes",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCloud(ten()...)
				policy := plain(judge.Action{Name: api.ActionRecreate})
				policy.Detection.Conditional = judge.AnyFailed
				ids := slices.Sorted(maps.Keys(c.boxes))
				scheduler := pools.NodeScheduler{Kind: "kubernetes", Period: 10 * time.Second}
				speaks := func(w *World) {
					w.Scheduler = func(time.Time) (s pools.NodeScheduler) { c.with(func() { s = scheduler }); return s }
				}
				ended := func() (all []string) {
					c.with(func() {
						for _, id := range ids {
							if c.boxes[id] == nil || c.boxes[id].ended {
								all = append(all, id)
							}
						}
					})
					return all
				}
				c.begin(t, policy, speaks).stop(t)
				m := c.begin(t, policy, speaks)
				pass(time.Minute)
				// The heartbeats end in the order in which the scheduler spreads them over its period, and its state ages for two periods.
				for _, id := range ids {
					c.with(func() { c.boxes[id].silent = true })
					pass(scheduler.Period / time.Duration(len(ids)))
				}
				pass(scheduler.Period)
				c.with(func() { scheduler.Why = why })
				pass(time.Hour)
				if m.saw("node.suspect n0") {
					t.Errorf("the silence of the nodes counts while the scheduler is away:\n%s", m.dump())
				}
				m.stop(t)
				m = c.begin(t, policy, speaks)
				pass(time.Hour)
				if got := ended(); len(got) > 0 || len(c.recorded()) != 0 {
					t.Fatalf("machines %v were replaced while the scheduler was away, %+v\n%s", got, c.recorded(), m.dump())
				}
				status, err := m.loop.Status(t.Context(), api.HealthQuery{})
				if err != nil || len(status.Alarms) != 1 || !strings.Contains(status.Alarms[0].Why, why) {
					t.Errorf("alarms %+v, error %v, want one with the cause %q", status.Alarms, err, why)
				}
				c.with(func() {
					for _, id := range ids {
						c.boxes[id].silent = id == "n1"
					}
					scheduler.Why = ""
				})
				pass(10 * time.Minute)
				if got := ended(); !slices.Equal(got, []string{"n1"}) {
					t.Errorf("machines %v were replaced, want n1, which stays silent\n%s", got, m.dump())
				}
				m.stop(t)
			})
		})
	}
}
