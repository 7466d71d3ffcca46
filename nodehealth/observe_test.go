package nodehealth

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestProvided(t *testing.T) {
	tests := []struct {
		name     string
		instance api.InstanceState
		in       pools.Inspection
		want     judge.Provided
	}{
		{"runs", api.InstanceRunning, pools.Inspection{}, judge.Running},
		{"comes up", api.InstancePending, pools.Inspection{}, judge.Running},
		{"ends on purpose", api.InstanceTerminating, pools.Inspection{Ended: true}, judge.Leaving},
		{"is out of service", api.InstanceRunning, pools.Inspection{Leaving: true, Stopped: true}, judge.Leaving},
		{"has ended", api.InstanceRunning, pools.Inspection{Ended: true, Spot: true}, judge.Terminated},
		{"stopped", api.InstanceRunning, pools.Inspection{Stopped: true, Spot: true}, judge.Stopped},
		{"is taken back", api.InstanceRunning, pools.Inspection{Spot: true}, judge.Spot},
	}
	for _, test := range tests {
		if got := provided(pools.Instance{State: test.instance}, test.in); got != test.want {
			t.Errorf("%s: provided() = %q, want %q", test.name, got, test.want)
		}
	}
}

func TestObservations(t *testing.T) {
	fit, bad := pools.HealthCheck{Fitness: pools.Fit}, pools.HealthCheck{Fitness: pools.Unfit, Why: "x"}
	group := func(id string, nodes ...string) pools.GroupSnapshot {
		s := pools.GroupSnapshot{ID: id}
		for _, n := range nodes {
			s.Instances = append(s.Instances, pools.Instance{ID: n})
		}
		return s
	}
	modes := []api.DetectionType{api.DetectNodeStatus, api.DetectHypervisorStatus, api.DetectLBStatus}
	tests := []struct {
		name   string
		groups []pools.GroupSnapshot
		in     []pools.Inspection
		want   []string
	}{
		{"each mode", []pools.GroupSnapshot{group("g", "a", "b")},
			[]pools.Inspection{{ID: "a", Machine: bad, Host: fit, Traffic: bad}, {ID: "b", Machine: fit, Host: bad, Traffic: fit}},
			[]string{"a fail x", "a ok ", "a fail x", "b ok ", "b fail x", "b ok "}},
		{"stopped and ended", []pools.GroupSnapshot{group("g", "a", "b")},
			[]pools.Inspection{{ID: "a", Machine: fit, Stopped: true}, {ID: "b", Ended: true}},
			[]string{"a fail stopped", "a unknown ", "a unknown ", "b fail terminated", "b unknown ", "b unknown "}},
		{"all of a group", []pools.GroupSnapshot{group("g", "a", "b"), group("h", "c")},
			[]pools.Inspection{{ID: "a", Traffic: bad}, {ID: "b", Traffic: bad}, {ID: "c", Traffic: bad}},
			[]string{"a unknown ", "a unknown ", "a unknown all targets of the load balancer fail: the balancer is suspect",
				"b unknown ", "b unknown ", "b unknown all targets of the load balancer fail: the balancer is suspect",
				"c unknown ", "c unknown ", "c unknown all targets of the load balancer fail: the balancer is suspect"}},
		{"one of one, beside others", []pools.GroupSnapshot{group("g", "a"), group("h", "c")},
			[]pools.Inspection{{ID: "a", Traffic: bad}, {ID: "c", Traffic: fit}},
			[]string{"a unknown ", "a unknown ", "a fail x", "c unknown ", "c unknown ", "c ok "}},
	}
	for _, test := range tests {
		s := snapshot{groups: test.groups, inspections: map[string]pools.Inspection{}}
		for _, in := range test.in {
			s.inspections[in.ID] = in
		}
		all := s.observations(modes, nil)
		slices.SortStableFunc(all, func(a, b judge.Observation) int { return cmp.Compare(a.Node, b.Node) })
		var got []string
		for _, o := range all {
			got = append(got, fmt.Sprintf("%s %s %s", o.Node, o.Verdict, o.Reason))
		}
		if d := diff.Diff(test.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
		if some := s.observations(modes, map[string]bool{"a": true}); len(some) != 3 {
			t.Errorf("%s: of a alone: %v", test.name, some)
		}
	}
}

func TestBeat(t *testing.T) {
	tests := []struct {
		name       string
		conditions []api.NodeCondition
		want       judge.Observation
	}{
		{"nothing to tell", nil, judge.Observation{Verdict: api.CheckOK}},
		{"looked at, and well", []api.NodeCondition{{Type: "disk"}}, judge.Observation{Verdict: api.CheckOK}},
		{"two that failed", []api.NodeCondition{{Type: "disk", Failed: true, Why: "full"}, {Type: "kernel", Failed: true}},
			judge.Observation{Verdict: api.CheckFail, Reason: "disk: full; kernel"}},
		{"one without a result", []api.NodeCondition{{Type: "file", Unknown: true, Why: "unreadable"}, {Type: "kernel"}},
			judge.Observation{Verdict: api.CheckOK, Partly: "file: unreadable"}},
		{"one that failed and has no result now", []api.NodeCondition{{Type: "kernel", Failed: true, Unknown: true}, {Type: "file", Unknown: true}},
			judge.Observation{Verdict: api.CheckUnknown, Partly: "kernel; file"}},
		{"one without a result and one that fails", []api.NodeCondition{{Type: "kernel", Failed: true, Unknown: true}, {Type: "disk", Failed: true}},
			judge.Observation{Verdict: api.CheckFail, Partly: "kernel", Reason: "disk"}},
	}
	for _, test := range tests {
		test.want.Mode, test.want.Node = api.DetectAgentHeartbeat, "a"
		// A reboot and a drain are not failures.
		got := beat(api.NodeFacts{ID: "a", BootID: "other", Draining: true, Conditions: test.conditions})
		if got != test.want {
			t.Errorf("%s: beat() = %+v, want %+v", test.name, got, test.want)
		}
	}
}

// Rounds are periodic, begin at most a tenth of an interval late, and not all at once.
func TestDue(t *testing.T) {
	r := round{name: "pool", every: 30 * time.Second}
	offsets := map[time.Duration]bool{}
	for k := range uint64(100) {
		late := r.due("p", k) - time.Duration(k)*r.every
		if late < 0 || late > r.every/10 {
			t.Errorf("round %d is %v late", k, late)
		}
		offsets[late] = true
	}
	if r.due("p", 0) != 0 || r.due("p", 1) == r.due("q", 1) || len(offsets) < 50 {
		t.Errorf("the jitter is no jitter: %d offsets", len(offsets))
	}
}

// Reports of agents are limited in size.
func TestHostileFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		huge := strings.Repeat("\xff", 64<<10)
		for id := range c.boxes {
			for range 100 {
				c.boxes[id].conditions = append(c.boxes[id].conditions, api.NodeCondition{Type: huge, Failed: true, Why: huge})
			}
			c.boxes[id].sick = huge
		}
		m := c.begin(t, plain(judge.Action{Name: api.ActionReboot}), func(w *World) {
			facts := w.Facts
			w.Facts = func(now time.Time) []api.NodeFacts {
				return append(facts(now), api.NodeFacts{ID: "stranger", At: now}, api.NodeFacts{At: now}, api.NodeFacts{ID: "n1", At: now.Add(time.Hour)})
			}
		})
		pass(time.Minute)
		s, _ := m.loop.Status(t.Context(), api.HealthQuery{})
		m.stop(t)
		for _, f := range m.published {
			if len(f.Why) > api.MaxWhy || !strings.Contains(f.Pool, "p") {
				t.Errorf("told %d bytes", len(f.Why))
			}
		}
		if len(c.memory) > 100_000 || len(fmt.Sprintf("%+v", s)) > 100_000 {
			t.Errorf("durable are %d bytes, the status has %d", len(c.memory), len(fmt.Sprintf("%+v", s)))
		}
	})
}
