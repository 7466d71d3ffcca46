package nodehealth

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric/metrictest"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

func TestOrderValidate(t *testing.T) {
	many := make([]string, api.MaxOrderNodes+1)
	for i := range many {
		many[i] = strings.Repeat("n", i+1)
	}
	tests := []struct {
		name  string
		order api.RepairOrder
		valid bool
	}{
		{"pause of the pool", api.RepairOrder{Op: api.OpPause, By: "ann", For: time.Hour}, true},
		{"check of all", api.RepairOrder{Op: api.OpCheck}, true},
		{"unknown", api.RepairOrder{Op: "explode"}, false},
		{"nothing", api.RepairOrder{}, false},
		{"recover of nothing", api.RepairOrder{Op: api.OpRecover}, false},
		{"recover of the pool", api.RepairOrder{Op: api.OpRecover, All: true, For: time.Hour}, true},
		{"recover of the pool without an end", api.RepairOrder{Op: api.OpRecover, All: true}, false},
		{"recover of the pool and of a node", api.RepairOrder{Op: api.OpRecover, All: true, Nodes: []string{"a"}, For: time.Hour}, false},
		{"withdrawal of all requests", api.RepairOrder{Op: api.OpRelease, All: true}, true},
		{"check of all by another key", api.RepairOrder{Op: api.OpCheck, All: true}, false},
		{"a duration that nobody takes", api.RepairOrder{Op: api.OpCheck, For: time.Hour}, false},
		{"a pause that began", api.RepairOrder{Op: api.OpPause, For: -1}, false},
		{"a pause for ever", api.RepairOrder{Op: api.OpPause, For: 1 << 62}, false},
		{"a long name", api.RepairOrder{Op: api.OpPause, By: strings.Repeat("x", api.MaxBy+1)}, false},
		{"a long reason", api.RepairOrder{Op: api.OpPause, Why: strings.Repeat("x", api.MaxWhy+1)}, false},
		{"a node without a name", api.RepairOrder{Op: api.OpCheck, Nodes: []string{""}}, false},
		{"a node twice", api.RepairOrder{Op: api.OpCheck, Nodes: []string{"a", "a"}}, false},
		{"a long node", api.RepairOrder{Op: api.OpCheck, Nodes: []string{strings.Repeat("n", api.MaxNodeID+1)}}, false},
		{"many nodes", api.RepairOrder{Op: api.OpCheck, Nodes: many}, false},
	}
	for _, test := range tests {
		if err := api.ValidateOrder(test.order); (err == nil) != test.valid || err != nil && !errors.Is(err, api.ErrOrder) {
			t.Errorf("%s: Validate() = %v, want valid: %v", test.name, err, test.valid)
		}
	}
}

func TestOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := c.begin(t, plain(judge.Action{Name: api.ActionReboot}))
		pass(time.Minute)
		order := func(o api.RepairOrder) api.RepairOrderResponse {
			t.Helper()
			a, err := m.loop.Order(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		nodes := []string{"n4"}

		a := order(api.RepairOrder{Op: api.OpCheck, Nodes: []string{"n4", "n99"}})
		if len(a.Nodes) != 2 || !a.Nodes[0].OK || len(a.Nodes[0].Status.Modes) != 2 || a.Nodes[1].OK || a.OK {
			t.Errorf("check: %+v", a)
		}
		if a := order(api.RepairOrder{Op: api.OpCheck}); !a.OK || len(a.Nodes) != 10 {
			t.Errorf("check of all: %+v", a)
		}
		if a := order(api.RepairOrder{Op: api.OpPause, Nodes: nodes, By: "ann", For: time.Hour, Why: "I look into it"}); !a.OK {
			t.Errorf("pause: %+v", a)
		}
		if !strings.Contains(string(c.memory), "operator ann") {
			t.Errorf("answered, and durable is %s", c.memory)
		}
		a = order(api.RepairOrder{Op: api.OpRecover, Nodes: nodes, By: "bob"})
		if a.OK || a.Nodes[0].Status.Requester != "" || !strings.Contains(a.Nodes[0].Why, "refused by pause: paused by operator ann") {
			t.Errorf("recover of what is paused: %+v", a)
		}
		if a := order(api.RepairOrder{Op: api.OpResume, Nodes: nodes, By: "bob"}); a.OK || !strings.Contains(a.Nodes[0].Why, "operator ann") {
			t.Errorf("resume of another's pause: %+v", a)
		}
		if a := order(api.RepairOrder{Op: api.OpResume, Nodes: nodes, By: "ann"}); !a.OK {
			t.Errorf("resume: %+v", a)
		}
		pass(3 * time.Second)
		a = order(api.RepairOrder{Op: api.OpRecover, Nodes: nodes, By: "bob"})
		if !a.OK || a.Nodes[0].Status.Attempt == "" {
			t.Errorf("recover: %+v", a)
		}
		if a := order(api.RepairOrder{Op: api.OpRelease, Nodes: []string{"n5"}, By: "bob"}); a.OK {
			t.Errorf("release of what is not held: %+v", a)
		}
		pass(10 * time.Minute)
		if c.acted["reboot n4"] != 1 || !m.saw("repair.succeeded n4") {
			t.Errorf("did %v:\n%s", c.acted, m.dump())
		}
		if a := order(api.RepairOrder{Op: api.OpPause, By: "ann"}); !a.OK || m.loop.Barred() != "" {
			t.Errorf("pause of the pool: %+v", a)
		}
		m.stop(t)
		if _, err := m.loop.Order(t.Context(), api.RepairOrder{Op: api.OpPause}); !errors.Is(err, ErrNotRunning) {
			t.Errorf("asked of what does not run: %v", err)
		}
		if _, err := m.loop.Status(t.Context(), api.HealthQuery{}); !errors.Is(err, ErrNotRunning) {
			t.Errorf("status of what does not run: %v", err)
		}
	})
}

// A request for the whole pool repairs one node after the other. The status has one line for the
// waiting nodes, and the autoscaler counts them as healthy.
func TestRecoverOfThePool(t *testing.T) {
	if testprograms.WithoutRace(t, "nodehealth") {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := c.begin(t, plain(judge.Action{Name: api.ActionReboot}))
		pass(time.Minute)
		order := func(o api.RepairOrder) api.RepairOrderResponse {
			t.Helper()
			o.By = "ann"
			a, err := m.loop.Order(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		if a := order(api.RepairOrder{Op: api.OpPause, Nodes: []string{"n9"}, For: 2 * time.Hour}); !a.OK {
			t.Fatalf("pause: %+v", a)
		}
		if a := order(api.RepairOrder{Op: api.OpRelease, All: true}); a.OK || a.Error != "no request to repair a node waits" {
			t.Errorf("withdrawn before there are any: %+v", a)
		}
		a := order(api.RepairOrder{Op: api.OpRecover, All: true, For: 90 * time.Minute})
		if !a.OK || a.Pool.Nodes != 10 || a.Pool.Begun != 1 || a.Pool.Waiting != 9 || len(a.Nodes) != 0 {
			t.Errorf("recover of the pool: %+v, %+v", a, a.Pool)
		}
		if !strings.Contains(string(c.memory), "requested_for_pool") {
			t.Errorf("answered, and durable is %s", c.memory)
		}
		if a := order(api.RepairOrder{Op: api.OpRecover, All: true, For: time.Hour}); a.OK || len(a.Nodes) != 10 {
			t.Errorf("once more: %+v", a)
		}
		s, _ := m.loop.Status(t.Context(), api.HealthQuery{})
		if len(s.Nodes) != 1 || len(s.Requests) != 1 || s.Requests[0].Waiting != 9 || s.Requests[0].By != "ann" || len(m.loop.Unhealthy()) != 1 {
			t.Errorf("not fit %+v, requests %+v, sick %v", s.Nodes, s.Requests, m.loop.Unhealthy())
		}
		pass(100 * time.Minute)
		if reboots := len(c.acted) / 2; reboots != 9 || c.acted["reboot n9"] != 0 {
			t.Errorf("did %v, want all but n9, which is paused", c.acted)
		}
		if s, _ := m.loop.Status(t.Context(), api.HealthQuery{}); len(s.Nodes)+len(s.Requests) != 0 {
			t.Errorf("not fit %+v, requests %+v", s.Nodes, s.Requests)
		}
		m.stop(t)
	})
}

// A hint causes an observation of its node before the next round. A flood of hints does not delay
// it.
func TestHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		hints := make(chan judge.Hint)
		p := plain(judge.Action{Name: api.ActionReboot})
		p.Detection.Interval = new(judge.Duration(10 * time.Minute))
		m := c.begin(t, p, func(w *World) { w.Hints = hints })
		pass(time.Minute)
		c.with(func() { c.boxes["n4"].stopped, c.boxes["n4"].silent = true, true })
		huge := strings.Repeat("x", 1<<20)
		for range 10_000 {
			m.loop.Hint(judge.Hint{Node: "n4", Why: "flood"})
			m.loop.Hint(judge.Hint{Node: huge})
		}
		hints <- judge.Hint{Node: "n4", Why: "stopped"}
		pass(5 * time.Second)
		s, _ := m.loop.Status(t.Context(), api.HealthQuery{Nodes: []string{"n4"}})
		m.stop(t)
		if len(s.Nodes) != 1 || s.Nodes[0].Verdict != api.CheckFail || s.Lost["hints"] == 0 {
			t.Errorf("5 s after the hint: %+v, lost %v", s.Nodes, s.Lost)
		}
	})
}

func TestStatusPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud()
		for _, a := range "abcdefghij" {
			for _, b := range "abcdefghijklmnopqrstuvwxyz" {
				for _, d := range "ab" {
					c.boxes[string([]rune{a, b, d})] = &box{group: "g", launched: time.Now().Add(-time.Hour)}
				}
			}
		}
		m := c.begin(t, plain(judge.Action{Name: api.ActionReboot}))
		pass(time.Minute)
		seen, pages, last := 0, 0, ""
		for q := (api.HealthQuery{All: true}); pages == 0 || q.After != ""; pages++ {
			s, err := m.loop.Status(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range s.Nodes {
				if n.Node <= last {
					t.Errorf("%s after %s", n.Node, last)
				}
				last = n.Node
			}
			seen += len(s.Nodes)
			q.After = s.Next
		}
		s, _ := m.loop.Status(t.Context(), api.HealthQuery{})
		m.stop(t)
		if seen != len(c.boxes) || pages != 6 || len(s.Nodes) != 0 {
			t.Errorf("%d nodes in %d pages, %d are not fit", seen, pages, len(s.Nodes))
		}
	})
}

func TestCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := c.begin(t, plain(judge.Action{Name: api.ActionReboot}))
		pass(time.Minute)
		c.markUnhealthy("n4", "hung")
		pass(10 * time.Minute)
		got := metrictest.Series(t, m.loop.Collector())
		m.stop(t)
		// Nothing was refused or lost, and no alarm was raised.
		metrictest.Complete(t, metric.Health(), got, "weir_health_refusals_total", "weir_health_alarms", "weir_health_lost_total")
		for name, want := range map[string]float64{
			"weir_health_nodes{ok}": 10, "weir_health_nodes_unknown_ratio{}": 0, "weir_health_repairs_total{REBOOT,succeeded}": 1,
			"weir_health_breaker_open{}": 0, "weir_health_findings_total{repair.started}": 1, "weir_health_rounds_missed_total{pool}": 0,
		} {
			if value, there := got[name]; !there || value != want {
				t.Errorf("%s is %v, want %v, of %v", name, value, want, got)
			}
		}
	})
}

func TestDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		p := plain(judge.Action{Name: api.ActionReboot})
		p.Enabled = new(false)
		m := c.begin(t, p)
		c.markUnhealthy("n4", "hung")
		pass(10 * time.Minute)
		s, err := m.loop.Status(t.Context(), api.HealthQuery{All: true})
		a, _ := m.loop.Order(t.Context(), api.RepairOrder{Op: api.OpPause})
		m.stop(t)
		if err != nil || s.Enabled || len(s.Nodes) > 0 || len(c.acted) > 0 || a.OK {
			t.Errorf("%v, %+v, %+v, did %v", err, s, a, c.acted)
		}
	})
}

// In mode observe the answer reports that nothing is carried out.
func TestRecoverObserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		p := plain(judge.Action{Name: api.ActionReboot})
		p.Mode = api.ModeObserve
		m := c.begin(t, p)
		pass(time.Minute)
		a, err := m.loop.Order(t.Context(), api.RepairOrder{Op: api.OpRecover, Nodes: []string{"n4"}, By: "ann"})
		pass(time.Minute)
		m.stop(t)
		if err != nil || !a.OK || !strings.Contains(a.Nodes[0].Why, "mode is observe") || a.Nodes[0].Status.State != api.StateHealthy || len(c.acted) != 0 || !m.saw("repair.started n4") {
			t.Errorf("%v, %+v, did %v:\n%s", err, a, c.acted, m.dump())
		}
	})
}

func TestRunRefuses(t *testing.T) {
	l := New(Config{Pool: "p"}, World{}, quiet())
	if err := l.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "detection_modes") || !strings.Contains(err.Error(), "cluster") {
		t.Errorf("Run() = %v", err)
	}
}
