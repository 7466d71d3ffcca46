package apps

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// TestExplainIsBounded: for an app with very many indices, Explain returns those in trouble,
// and other ones up to the limit.
func TestExplainIsBounded(t *testing.T) {
	const n = 3 * perExplanation
	for _, test := range []struct {
		name        string
		missing     int // of the last indices
		beyond      int
		first, last int // that are explained
		troubled    int // of those
	}{
		{"some are missing", 5, 0, 0, n - 1, 5},
		{"more than there is room for", 2 * perExplanation, 0, perExplanation, 2*perExplanation - 1, perExplanation},
		{"some are not desired", 5, 3, 0, n + 2, 8},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, now := NewMachine(steady()), start()
			m.Step(now, BusUp{})
			m.Step(now, ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1", Instances: n}}})
			m.Step(now, ExpectedComplete{})
			var beats []api.Beat
			for i := range n + test.beyond {
				if i < n-test.missing || i >= n {
					beats = append(beats, api.Beat{App: "web", Version: "v1", Instance: fmt.Sprint("i", i), Index: i, State: api.CopyRunning})
				}
			}
			m.Step(now, beat("n1", beats...))
			now = now.Add(12 * time.Second)
			for m.Step(now, Tick{}); m.Busy(); m.Step(now, Tick{}) {
			}
			e, _ := m.View().Explain(now, "web")
			if len(e.Indices) != perExplanation || e.Omitted != n+test.beyond-perExplanation {
				t.Fatalf("%d indices, %d omitted", len(e.Indices), e.Omitted)
			}
			troubled := 0
			for i, st := range e.Indices {
				troubled += count(st.Rule != "" || !st.Desired)
				if i > 0 && st.Index <= e.Indices[i-1].Index {
					t.Fatalf("index %d after %d", st.Index, e.Indices[i-1].Index)
				}
			}
			if first, last := e.Indices[0].Index, e.Indices[perExplanation-1].Index; first != test.first || last != test.last || troubled != test.troubled {
				t.Errorf("explained %d to %d, %d of them in trouble; want %d to %d, %d", first, last, troubled, test.first, test.last, test.troubled)
			}
			if got, want := m.View().Healthy("web", "v1"), n-test.missing; got != want || m.View().Healthy("web", "v2") != 0 || m.View().Healthy("db", "v1") != 0 {
				t.Errorf("%d are healthy, want %d", got, want)
			}
		})
	}
}

// TestRepairingWhileIncomplete: a machine that lost its expected state still repairs. Without
// its known state it does not.
func TestRepairingWhileIncomplete(t *testing.T) {
	m, now := NewMachine(steady()), start()
	check := func(step string, complete, repairing bool) {
		t.Helper()
		if got, why := m.View().Complete(); got != complete || m.View().Repairing() != repairing {
			t.Errorf("%s: complete %t (%s), repairing %t, want %t, %t", step, got, why, m.View().Repairing(), complete, repairing)
		}
	}
	m.Step(now, BusUp{})
	m.Step(now, beat("n1"))
	now = now.Add(12 * time.Second)
	m.Step(now, Tick{})
	check("no rows yet", false, false)
	m.Step(now, ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1", Instances: 1}}})
	m.Step(now, ExpectedComplete{})
	check("both are complete", true, true)
	m.Step(now, ExpectedLost{"the source is down"})
	check("the source is down", false, true)
	m.Step(now, BusDown{})
	check("the bus is down too", false, false)
}

// TestSilentNodeIsReported: a node is silent after two missing heartbeats, before its copies
// are lost.
func TestSilentNodeIsReported(t *testing.T) {
	c := steady()
	m, now := NewMachine(c), start()
	m.Step(now, BusUp{})
	m.Step(now, ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1", Instances: 1}}})
	m.Step(now, ExpectedComplete{})
	m.Step(now, beat("n1", api.Beat{App: "web", Version: "v1", Instance: "i0", State: api.CopyRunning}))
	after := func(d time.Duration) ([]api.SilentNode, api.AppInstance) {
		t.Helper()
		at := now.Add(d)
		m.Step(at, Tick{})
		e, _ := m.View().Explain(at, "web")
		if len(e.Indices) != 1 || len(e.Indices[0].Instances) != 1 {
			t.Fatalf("after %v there is %+v", d, e.Indices)
		}
		return m.View().Silent(), e.Indices[0].Instances[0]
	}
	if silent, in := after(c.HeartbeatPeriod * 5 / 2); silent != nil || !in.Silent.IsZero() {
		t.Errorf("after 2.5 periods: %+v, its copy %+v, want it not silent", silent, in)
	}
	silent, in := after(c.HeartbeatPeriod*5/2 + time.Millisecond)
	want := api.SilentNode{Node: "n1", Copies: 1, Since: now, LostAt: now.Add(c.DropletLost)}
	if len(silent) != 1 || silent[0] != want || !in.Silent.Equal(now) {
		t.Errorf("beyond 2.5 periods: %+v, its copy silent since %v, want %+v", silent, in.Silent, want)
	}
	lostAt := now.Add(c.DropletLost + time.Second)
	m.Step(lostAt, Tick{})
	if silent, want := m.View().Silent(), (api.SilentNode{Node: "n1", Since: lostAt.Add(-c.DropletLost), LostAt: lostAt}); len(silent) != 1 || silent[0] != want {
		t.Errorf("a lost node: %+v, want %+v", silent, want)
	}
	m.Step(lostAt, beat("n1"))
	if silent := m.View().Silent(); silent != nil {
		t.Errorf("a node that is back: %+v, want it not silent", silent)
	}
	m.Step(lostAt.Add(26*time.Second), Tick{})
	m.Step(lostAt.Add(26*time.Second), BusDown{})
	if silent := m.View().Silent(); silent != nil {
		t.Errorf("while the bus is down: %+v, want nothing: silence means nothing then", silent)
	}
}

// TestDropletLostFollowsTheHeartbeat: the default of droplet_lost depends on the heartbeat
// period.
func TestDropletLostFollowsTheHeartbeat(t *testing.T) {
	for _, c := range []struct {
		name     string
		of       Config
		lost     time.Duration
		overdues time.Duration
	}{
		{"default", Config{}, 30 * time.Second, 20 * time.Second},
		{"short heartbeats", Config{HeartbeatPeriod: time.Second}, 3 * time.Second, 2 * time.Second},
		{"given", Config{HeartbeatPeriod: time.Second, DropletLost: 20 * time.Second}, 20 * time.Second, 19 * time.Second},
	} {
		if got := c.of.WithDefaults(); got.DropletLost != c.lost || got.overdue() != c.overdues {
			t.Errorf("%s: lost after %v, overdue after %v: want %v, %v", c.name, got.DropletLost, got.overdue(), c.lost, c.overdues)
		}
	}
}
